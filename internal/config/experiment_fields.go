package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The raw sections of a plan; see rawConfig.
type (
	rawPlan struct {
		name                          value[string]
		target                        value[rawTarget]
		workload                      value[rawWorkload]
		warmup                        value[int]
		timeout, stallTimeout, settle value[time.Duration]
		seed                          value[int64]
		slos                          value[[]value[string]]
		levels                        value[[]entry[rawLevel]]
	}
	rawLevel struct {
		concurrency, maxInFlight, promptTokens, outputTokens, requests value[int]
		rate                                                           value[float64]
		arrival                                                        value[string]
		duration                                                       value[time.Duration]
	}
)

// typo is why the longest values of a plan are not allowed.
const typo = "this is probably a typing error"

func planFields(rules ExperimentRules) []field[rawPlan] {
	v := DefaultExperiment()
	long := duration(time.Millisecond, maxPlanTimeout, typo)
	return []field[rawPlan]{
		{key: "name", kind: "<string>", def: v.Name, read: into(fileName, func(p *rawPlan) *value[string] { return &p.name })},
		{key: "target", kind: "<target>", required: !rules.Virtual && rules.From == nil, read: into(section1(func() []field[rawTarget] { return planTargetFields(rules) }), func(p *rawPlan) *value[rawTarget] { return &p.target })},
		{key: "workload", kind: "<workload>", def: defaultWorkload(), read: into(section1(planWorkloadFields), func(p *rawPlan) *value[rawWorkload] { return &p.workload })},
		{key: "warmup", kind: "<int>", def: fmt.Sprint(v.Warmup), read: into(integer(0, maxWarmup), func(p *rawPlan) *value[int] { return &p.warmup })},
		{key: "timeout", kind: "<duration>", def: short(v.Timeout), read: into(long, func(p *rawPlan) *value[time.Duration] { return &p.timeout })},
		{key: "stall_timeout", kind: "<duration>", def: short(v.StallTimeout), read: into(long, func(p *rawPlan) *value[time.Duration] { return &p.stallTimeout })},
		{key: "settle", kind: "<duration>", def: short(v.Settle), read: into(duration(0, maxPlanTimeout, typo), func(p *rawPlan) *value[time.Duration] { return &p.settle })},
		{key: "seed", kind: "<int>", def: fmt.Sprint(v.Seed), read: into(integer[int64](0, math.MaxInt64), func(p *rawPlan) *value[int64] { return &p.seed })},
		{key: "slos", kind: "[<objective>, ...]", read: into(names(objective), func(p *rawPlan) *value[[]value[string]] { return &p.slos })},
		{key: "levels", kind: "[<level>, ...]", required: true, read: into(entries(levelFields), func(p *rawPlan) *value[[]entry[rawLevel]] { return &p.levels })},
	}
}

func levelFields() []field[rawLevel] {
	v := DefaultExperiment()
	const workload = "as in workload"
	return []field[rawLevel]{
		{key: "concurrency", kind: "<int>", read: into(integer(1, maxConcurrency), func(l *rawLevel) *value[int] { return &l.concurrency })},
		{key: "rate", kind: "<float>", read: into(rate, func(l *rawLevel) *value[float64] { return &l.rate })},
		{key: "arrival", kind: "<arrival>", def: v.Arrival, read: into(arrival, func(l *rawLevel) *value[string] { return &l.arrival })},
		{key: "max_in_flight", kind: "<int>", def: "no bound", read: into(integer(1, maxConcurrency), func(l *rawLevel) *value[int] { return &l.maxInFlight })},
		{key: "prompt_tokens", kind: "<int>", def: workload, read: into(integer(1, maxTokens), func(l *rawLevel) *value[int] { return &l.promptTokens })},
		{key: "output_tokens", kind: "<int>", def: workload, read: into(integer(1, maxTokens), func(l *rawLevel) *value[int] { return &l.outputTokens })},
		{key: "requests", kind: "<int>", def: "no limit", read: into(integer(1, maxRequests), func(l *rawLevel) *value[int] { return &l.requests })},
		{key: "duration", kind: "<duration>", def: "no limit", read: into(duration(time.Millisecond, maxPlanTimeout, typo), func(l *rawLevel) *value[time.Duration] { return &l.duration })},
	}
}

// planTargetFields are the keys of a target that a plan has: those that say how the server is reached.
func planTargetFields(rules ExperimentRules) []field[rawTarget] {
	fields := only(targetFields(), "url", "api_path", "host", "model", "metrics_url", "engine", "ip_family", "http_client_config")
	for i := range fields {
		fields[i].required = fields[i].required && rules.From == nil
	}
	return fields
}

// planWorkloadFields are the keys of a workload that a plan has: those of one request.
func planWorkloadFields() []field[rawWorkload] {
	return only(workloadFields(), "api", "prompt_tokens", "output_tokens", "seed", "temperature", "max_tokens_field", "drop_fields", "extra_body")
}

func only[T any](fields []field[T], keys ...string) []field[T] {
	return slices.DeleteFunc(fields, func(f field[T]) bool { return !slices.Contains(keys, f.key) })
}

// section1 reads one section.
func section1[T any](fields func() []field[T]) reader[T] {
	return func(d *decoder, key string, n *yaml.Node) (t T, ok bool) {
		before := len(d.problems)
		walk(d, key, n, fields(), &t)
		return t, len(d.problems) == before
	}
}

// fileNames are safe on every file system and need no quotes.
var fileNames = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$`)

const fileNameRule = "becomes the name of a folder: at most 100 letters, digits, dots, dashes and underscores, not beginning with a dot or dash"

// fileName reads a name that becomes part of the name of a folder.
func fileName(d *decoder, key string, n *yaml.Node) (string, bool) {
	s, ok := scalar(d, key, n)
	if ok && !fileNames.MatchString(s) {
		d.problem(n, key, "%s", fileNameRule)
		return "", false
	}
	return s, ok
}

func rate(d *decoder, key string, n *yaml.Node) (float64, bool) {
	v, ok := number(0, maxRate)(d, key, n)
	if ok && v == 0 {
		d.problem(n, key, "must be above 0")
		return 0, false
	}
	return v, ok
}

// objective reads a bound on a latency; those who run the plan say which there are.
func objective(d *decoder, key string, n *yaml.Node) (string, bool) {
	s, ok := scalar(d, key, n)
	if !ok || d.rules.Objective == nil {
		return s, ok
	}
	if err := d.rules.Objective(s); err != nil {
		d.problem(n, key, "%s", err)
		return "", false
	}
	return s, true
}

// planHint helps with an unknown key of a plan.
func planHint(key string, allowed []string) string {
	if hint := nearHint(key, allowed); hint != "" {
		return hint
	}
	var homes []string
	for _, s := range planSections() {
		if slices.ContainsFunc(s.keys, func(k keyDoc) bool { return k.key == key }) {
			homes = append(homes, s.name)
		}
	}
	if homes != nil {
		return "it belongs to " + strings.Join(homes, " or ")
	}
	for _, s := range sections() {
		if slices.ContainsFunc(s.keys, func(k keyDoc) bool { return k.key == key }) {
			return "a plan has no use for it"
		}
	}
	return foreignKeys()[key]
}

// planSections returns every table of a plan's fields.
func planSections() []section {
	return []section{
		{"the top level", docsOf(planFields(ExperimentRules{}))},
		{"target", docsOf(planTargetFields(ExperimentRules{}))},
		{"workload", docsOf(planWorkloadFields())},
		{"levels", docsOf(levelFields())},
		{"http_client_config", docsOfClient()},
	}
}
