package config

import (
	"fmt"
	"math"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// The raw sections hold what was written and where; resolve makes the effective values of them.
type (
	rawConfig struct {
		global    rawPace
		workloads value[[]entry[rawWorkload]]
		targets   value[[]entry[rawTarget]]
		slos      value[[]entry[rawSLO]]
	}
	// rawPace is what both the section global and a target may set.
	rawPace struct {
		interval, timeout, stallTimeout, relayInterval value[time.Duration]
		warmup                                         value[int]
	}
	rawWorkload struct {
		name, api, arrival, maxTokensField      value[string]
		promptTokens, outputTokens, maxInFlight value[int]
		seed                                    value[int64]
		temperature                             value[float64]
		dropFields                              value[[]value[string]]
		extraBody                               value[map[string]any]
	}
	rawTarget struct {
		name, url, apiPath, host, model, metricsURL, healthURL, engine, ipFamily, arrival value[string]
		workloads                                                                         value[[]value[string]]
		pace                                                                              rawPace
		maxInFlight                                                                       value[int]
		labels                                                                            value[map[string]string]
		client                                                                            value[promconfig.HTTPClientConfig]
	}
	rawSLO struct {
		name, indicator    value[string]
		threshold          value[time.Duration]
		objective          value[float64]
		targets, workloads value[[]value[string]]
	}
)

// What the longest durations have to do with.
const (
	lastBound = "the last bound of the latency histograms"
	gapBound  = "the last bound of the inter-token latency histogram"
)

func configFields() []field[rawConfig] {
	return []field[rawConfig]{
		{key: "global", kind: "<global>", read: func(d *decoder, key string, n *yaml.Node, c *rawConfig) {
			if n.ShortTag() != "!!null" {
				walk(d, key, n, globalFields(), &c.global)
			}
		}},
		{key: "workloads", kind: "[<workload>, ...]", def: fmt.Sprintf("one workload, %s", defaultWorkload()), read: into(entries(workloadFields), func(c *rawConfig) *value[[]entry[rawWorkload]] { return &c.workloads })},
		{key: "targets", kind: "[<target>, ...]", required: true, read: into(entries(targetFields), func(c *rawConfig) *value[[]entry[rawTarget]] { return &c.targets })},
		{key: "slos", kind: "[<slo>, ...]", def: "ttft 2s at 99, success at 99", read: into(entries(sloFields), func(c *rawConfig) *value[[]entry[rawSLO]] { return &c.slos })},
	}
}

// paceFields are the keys that global and a target have in common; def says what each is when left out.
func paceFields[T any](pace func(*T) *rawPace, def func(string) string) []field[T] {
	long := func(least time.Duration, most time.Duration, place func(*rawPace) *value[time.Duration]) func(*decoder, string, *yaml.Node, *T) {
		return into(duration(least, most, lastBound), func(t *T) *value[time.Duration] { return place(pace(t)) })
	}
	v := Defaults()
	return []field[T]{
		{key: "interval", kind: "<duration>", def: def(short(v.Interval)), read: long(MinInterval, 0, func(p *rawPace) *value[time.Duration] { return &p.interval })},
		{key: "timeout", kind: "<duration>", def: def(short(v.Timeout)), read: long(time.Millisecond, MaxTimeout, func(p *rawPace) *value[time.Duration] { return &p.timeout })},
		{key: "stall_timeout", kind: "<duration>", def: def(short(v.StallTimeout)), read: long(time.Millisecond, MaxTimeout, func(p *rawPace) *value[time.Duration] { return &p.stallTimeout })},
		{key: "warmup", kind: "<int>", def: def(fmt.Sprint(v.Warmup)), read: into(integer(0, maxWarmup), func(t *T) *value[int] { return &pace(t).warmup })},
		{key: "relay_interval", kind: "<duration>", def: def(short(v.RelayInterval)), read: long(MinInterval, 0, func(p *rawPace) *value[time.Duration] { return &p.relayInterval })},
	}
}

func globalFields() []field[rawPace] {
	return paceFields(func(p *rawPace) *rawPace { return p }, func(def string) string { return def })
}

func workloadFields() []field[rawWorkload] {
	v := Defaults()
	return []field[rawWorkload]{
		{key: "name", kind: "<string>", def: "api-prompt_tokens-output_tokens", read: into(name, func(w *rawWorkload) *value[string] { return &w.name })},
		{key: "api", kind: "<api>", def: v.API, read: into(enum("chat", "completions"), func(w *rawWorkload) *value[string] { return &w.api })},
		{key: "prompt_tokens", kind: "<int>", def: fmt.Sprint(v.PromptTokens), read: into(integer(1, maxTokens), func(w *rawWorkload) *value[int] { return &w.promptTokens })},
		{key: "output_tokens", kind: "<int>", def: fmt.Sprint(v.OutputTokens), read: into(integer(1, maxTokens), func(w *rawWorkload) *value[int] { return &w.outputTokens })},
		{key: "arrival", kind: "<arrival>", def: v.Arrival, read: into(arrival, func(w *rawWorkload) *value[string] { return &w.arrival })},
		{key: "max_in_flight", kind: "<int>", def: "ceil(timeout/interval)+1, at most 64", read: into(integer(1, MaxInFlightCap), func(w *rawWorkload) *value[int] { return &w.maxInFlight })},
		{key: "seed", kind: "<int>", def: fmt.Sprint(v.Seed), read: into(integer[int64](math.MinInt64, math.MaxInt64), func(w *rawWorkload) *value[int64] { return &w.seed })},
		{key: "temperature", kind: "<float>", def: fmt.Sprint(v.Temperature), read: into(number(0, 2), func(w *rawWorkload) *value[float64] { return &w.temperature })},
		{key: "max_tokens_field", kind: "<string>", def: v.MaxTokensField, read: into(enum("max_tokens", "max_completion_tokens"), func(w *rawWorkload) *value[string] { return &w.maxTokensField })},
		{key: "drop_fields", kind: "[<string>, ...]", read: into(names(enum(DroppableFields()...)), func(w *rawWorkload) *value[[]value[string]] { return &w.dropFields })},
		{key: "extra_body", kind: "<json>", def: "{chat_template_kwargs: {enable_thinking: false}} for chat", read: into(body, func(w *rawWorkload) *value[map[string]any] { return &w.extraBody })},
	}
}

func targetFields() []field[rawTarget] {
	v := Defaults()
	inherited := func(string) string { return "as in global" }
	before := []field[rawTarget]{
		{key: "name", kind: "<string>", def: "host:port of url", read: into(name, func(t *rawTarget) *value[string] { return &t.name })},
		{key: "url", kind: "<url>", required: true, read: into(scalar, func(t *rawTarget) *value[string] { return &t.url })},
		{key: "api_path", kind: "<path>", def: "/v1, or what url ends in", read: into(apiPath, func(t *rawTarget) *value[string] { return &t.apiPath })},
		{key: "host", kind: "<string>", def: "host of url", read: into(host, func(t *rawTarget) *value[string] { return &t.host })},
		{key: "model", kind: "<string>", def: "the first that the server lists", read: into(name, func(t *rawTarget) *value[string] { return &t.model })},
		{key: "workloads", kind: "[<string>, ...]", def: "all", read: into(names(name), func(t *rawTarget) *value[[]value[string]] { return &t.workloads })},
	}
	after := []field[rawTarget]{
		{key: "arrival", kind: "<arrival>", def: "as in the workload", read: into(arrival, func(t *rawTarget) *value[string] { return &t.arrival })},
		{key: "max_in_flight", kind: "<int>", def: "as in the workload", read: into(integer(1, MaxInFlightCap), func(t *rawTarget) *value[int] { return &t.maxInFlight })},
		{key: "metrics_url", kind: "<url>", def: "url with /metrics", read: into(scalar, func(t *rawTarget) *value[string] { return &t.metricsURL })},
		{key: "health_url", kind: "<url>", def: "url with /health", read: into(scalar, func(t *rawTarget) *value[string] { return &t.healthURL })},
		{key: "engine", kind: "<engine>", def: v.Engine, read: into(enum(Engines()...), func(t *rawTarget) *value[string] { return &t.engine })},
		{key: "labels", kind: "<labels>", read: into(labels, func(t *rawTarget) *value[map[string]string] { return &t.labels })},
		{key: "ip_family", kind: "<ip_family>", def: v.IPFamily, read: into(enum("any", "ipv4", "ipv6"), func(t *rawTarget) *value[string] { return &t.ipFamily })},
		{key: "http_client_config", kind: "<http_client_config>", read: into(httpClient, func(t *rawTarget) *value[promconfig.HTTPClientConfig] { return &t.client })},
	}
	pace := paceFields(func(t *rawTarget) *rawPace { return &t.pace }, inherited)
	return append(append(before, pace...), after...)
}

func sloFields() []field[rawSLO] {
	return []field[rawSLO]{
		{key: "name", kind: "<string>", required: true, read: into(name, func(s *rawSLO) *value[string] { return &s.name })},
		{key: "indicator", kind: "<indicator>", required: true, read: into(enum("ttft", "itl_p95", "itl_max", "duration", "success"), func(s *rawSLO) *value[string] { return &s.indicator })},
		{key: "threshold", kind: "<duration>", read: into(duration(time.Millisecond, MaxTimeout, lastBound), func(s *rawSLO) *value[time.Duration] { return &s.threshold })},
		{key: "objective", kind: "<percent>", required: true, read: into(percent, func(s *rawSLO) *value[float64] { return &s.objective })},
		{key: "targets", kind: "[<string>, ...]", def: "all", read: into(names(name), func(s *rawSLO) *value[[]value[string]] { return &s.targets })},
		{key: "workloads", kind: "[<string>, ...]", def: "all", read: into(names(name), func(s *rawSLO) *value[[]value[string]] { return &s.workloads })},
	}
}

func arrival(d *decoder, key string, n *yaml.Node) (string, bool) {
	return enum("constant", "poisson")(d, key, n)
}

// short writes a duration as Prometheus does.
func short(d time.Duration) string { return model.Duration(d).String() }

// keyDoc is what the reference says of one key.
type keyDoc struct {
	key, kind, def string
	required       bool
}

// section is one table of fields, for hints and for the test of the reference.
type section struct {
	name string
	keys []keyDoc
}

// sections returns every table of fields.
func sections() []section {
	return []section{
		{"the top level", docsOf(configFields())},
		{"global", docsOf(globalFields())},
		{"workloads", docsOf(workloadFields())},
		{"targets", docsOf(targetFields())},
		{"slos", docsOf(sloFields())},
		{"http_client_config", docsOfClient()},
	}
}

func docsOf[T any](fields []field[T]) []keyDoc {
	out := make([]keyDoc, len(fields))
	for i, f := range fields {
		out[i] = keyDoc{f.key, f.kind, f.def, f.required}
	}
	return out
}
