package config

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// The sections of a file are structs whose tags say all about a key:
//
//	yaml      its name, and whether it is shown when empty, as the YAML library reads them
//	kind      what its value may be: a row of the table of kinds; without it the Go type decides
//	doc       how the reference writes its value, where no kind does
//	default   what a left out key means, in words, where it is not the value of the default section
//	required  whether it may be left out
//	plan      "-": the daemon has it, a plan does not
type (
	sections struct {
		Global    *Global    `yaml:"global" doc:"<global>"`
		Workloads []Workload `yaml:"workloads" doc:"[<workload>, ...]" default:"one workload, chat-512-128"`
		Targets   []target   `yaml:"targets" doc:"[<target>, ...]" required:"true"`
		SLOs      []SLO      `yaml:"slos" doc:"[<slo>, ...]" default:"ttft 2s at 99, success at 99"`
	}
	// target is a [Target] as it is written.
	target struct {
		Name        string   `yaml:"name" kind:"name" default:"host:port of url" plan:"-"`
		URL         string   `yaml:"url" kind:"url" required:"true"`
		APIPath     string   `yaml:"api_path" kind:"path" default:"/v1, or what url ends in"`
		Host        string   `yaml:"host,omitempty" kind:"host" default:"host of url"`
		Model       string   `yaml:"model,omitempty" kind:"name" default:"the first that the server lists"`
		Workloads   []string `yaml:"workloads" kind:"names" default:"all" plan:"-"`
		Global      `yaml:",inline" default:"as in global" plan:"-"`
		Arrival     string                      `yaml:"arrival,omitempty" kind:"arrival" default:"as in the workload" plan:"-"`
		MaxInFlight int                         `yaml:"max_in_flight,omitempty" kind:"in_flight" default:"as in the workload" plan:"-"`
		MetricsURL  *string                     `yaml:"metrics_url,omitempty" kind:"url" default:"url with /metrics"`
		HealthURL   *string                     `yaml:"health_url,omitempty" kind:"url" default:"url with /health" plan:"-"`
		Engine      string                      `yaml:"engine" kind:"engine"`
		Labels      map[string]string           `yaml:"labels,omitempty" kind:"labels" plan:"-"`
		IPFamily    string                      `yaml:"ip_family" kind:"ip_family"`
		Client      promconfig.HTTPClientConfig `yaml:"http_client_config,omitempty" kind:"http_client_config"`
	}
	// planSections is an [Experiment] as it is written.
	planSections struct {
		Name         string            `yaml:"name" kind:"folder"`
		Target       *target           `yaml:"target,omitempty" doc:"<target>" required:"true"`
		Workload     Workload          `yaml:"workload" doc:"<workload>" default:"chat-512-128"`
		Warmup       int               `yaml:"warmup" kind:"warmup"`
		Timeout      time.Duration     `yaml:"timeout" kind:"plan_timeout"`
		StallTimeout time.Duration     `yaml:"stall_timeout" kind:"plan_timeout"`
		Settle       time.Duration     `yaml:"settle" kind:"settle"`
		Seed         int64             `yaml:"seed" kind:"plan_seed"`
		SLOs         []string          `yaml:"slos,omitempty" kind:"objectives"`
		Levels       []ExperimentLevel `yaml:"levels,flow" doc:"[<level>, ...]" required:"true"`
	}
)

// presetter is a section that inherits: preset fills it in before its keys are read.
type presetter interface{ preset(v *DefaultValues) }

// What global sets is inherited by the sections that are read after it.
func (s *sections) preset(v *DefaultValues) { s.Global = &v.Global }

func (w *Workload) preset(v *DefaultValues) { *w = v.Workload }

func (t *target) preset(v *DefaultValues) {
	t.Global, t.Engine, t.IPFamily = v.Global, v.Engine, v.IPFamily
}

func (p *planSections) preset(v *DefaultValues) {
	e := DefaultExperiment()
	p.Name, p.Warmup, p.Timeout, p.StallTimeout, p.Settle, p.Seed = e.Name, e.Warmup, e.Timeout, e.StallTimeout, e.Settle, e.Seed
	p.Workload.preset(v)
}

// reader makes the value of node n of key. It returns false after reporting what is wrong.
type reader func(d *decoder, key string, n *yaml.Node) (any, bool)

// of makes a reader of a function that returns a V.
func of[V any](read func(*decoder, string, *yaml.Node) (V, bool)) reader {
	return func(d *decoder, key string, n *yaml.Node) (any, bool) { return read(d, key, n) }
}

// kind is what a value may be.
type kind struct {
	doc  string // how the reference writes it
	read reader
	hide func(*yaml.Node) // replaces secrets; nil: there are none
}

// What the longest durations have to do with.
const (
	lastBound = "the last bound of the latency histograms"
	gapBound  = "the last bound of the inter-token latency histogram"
	typo      = "this is probably a typing error"
)

// kinds returns every kind of value by the name that tags use.
func kinds() map[string]kind {
	const ms = time.Millisecond
	return map[string]kind{
		"name":               {doc: "<string>", read: of(name)},
		"names":              {doc: "[<string>, ...]", read: names(name)},
		"interval":           {doc: "<duration>", read: duration(MinInterval, 0, "")},
		"timeout":            {doc: "<duration>", read: duration(ms, MaxTimeout, lastBound)},
		"warmup":             {doc: "<int>", read: integer(0, maxWarmup)},
		"api":                {doc: "<api>", read: of(enum("chat", "completions"))},
		"tokens":             {doc: "<int>", read: integer(1, maxTokens)},
		"arrival":            {doc: "<arrival>", read: of(enum("constant", "poisson"))},
		"in_flight":          {doc: "<int>", read: integer(1, MaxInFlightCap)},
		"seed":               {doc: "<int>", read: integer(math.MinInt64, math.MaxInt64)},
		"temperature":        {doc: "<float>", read: of(number(0, 2))},
		"max_tokens_field":   {doc: "<string>", read: of(enum("max_tokens", "max_completion_tokens"))},
		"drop_fields":        {doc: "[<string>, ...]", read: names(enum(DroppableFields()...))},
		"extra_body":         {doc: "<json>", read: of(body), hide: redact},
		"url":                {doc: "<url>", read: of(scalar), hide: redactURL},
		"path":               {doc: "<path>", read: of(apiPath)},
		"host":               {doc: "<string>", read: of(host)},
		"engine":             {doc: "<engine>", read: of(enum(Engines()...))},
		"labels":             {doc: "<labels>", read: of(labels)},
		"ip_family":          {doc: "<ip_family>", read: of(enum("any", "ipv4", "ipv6"))},
		"http_client_config": {doc: "<http_client_config>", read: of(httpClient), hide: redactClient},
		"indicator":          {doc: "<indicator>", read: of(enum("ttft", "itl_p95", "itl_max", "duration", "success"))},
		"percent":            {doc: "<percent>", read: of(percent)},
		"folder":             {doc: "<string>", read: of(fileName)},
		"plan_timeout":       {doc: "<duration>", read: duration(ms, maxPlanTimeout, typo)},
		"settle":             {doc: "<duration>", read: duration(0, maxPlanTimeout, typo)},
		"plan_seed":          {doc: "<int>", read: integer(0, math.MaxInt64)},
		"objectives":         {doc: "[<objective>, ...]", read: names(objective)},
		"streams":            {doc: "<int>", read: integer(1, maxConcurrency)},
		"rate":               {doc: "<float>", read: of(rate)},
		"requests":           {doc: "<int>", read: integer(1, maxRequests)},
	}
}

// schema is what the tags of sections mean.
type schema struct {
	plan   bool // of a plan, not of the daemon
	kinds  map[string]kind
	shapes map[reflect.Type]*shape
}

func newSchema(plan bool) *schema {
	return &schema{plan: plan, kinds: kinds(), shapes: make(map[reflect.Type]*shape)}
}

// shape is what a mapping may hold.
type shape struct {
	fields []field
	rest   reflect.Type // of all other keys; nil: there are no others
}

// field is one key of a section.
type field struct {
	key                       string
	index                     []int // of the field of the Go struct
	kind, doc, def            string
	required, omitEmpty, flow bool
}

func (s *shape) keys() []string {
	keys := make([]string, len(s.fields))
	for i, f := range s.fields {
		keys[i] = f.key
	}
	return keys
}

// shape returns the keys of struct or map t, of this package or another.
func (s *schema) shape(t reflect.Type) *shape {
	if known := s.shapes[t]; known != nil {
		return known
	}
	out := &shape{}
	s.shapes[t] = out
	if t.Kind() == reflect.Map {
		out.rest = t.Elem()
		return out
	}
	for f := range t.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous, key == "-", s.plan && f.Tag.Get("plan") == "-":
		case options == "inline":
			inner := s.shape(f.Type)
			for _, g := range inner.fields {
				g.index = append(slices.Clone(f.Index), g.index...)
				g.def = f.Tag.Get("default")
				out.fields = append(out.fields, g)
			}
			if inner.rest != nil {
				out.rest = inner.rest
			}
		default:
			if key == "" {
				key = strings.ToLower(f.Name)
			}
			out.fields = append(out.fields, field{
				key: key, index: f.Index, kind: f.Tag.Get("kind"), doc: f.Tag.Get("doc"), def: f.Tag.Get("default"),
				required: f.Tag.Get("required") != "", omitEmpty: strings.Contains(options, "omitempty"), flow: strings.Contains(options, "flow"),
			})
		}
	}
	return out
}

// top returns the keys of a whole file.
func (s *schema) top() *shape {
	if s.plan {
		return s.shape(reflect.TypeFor[planSections]())
	}
	return s.shape(reflect.TypeFor[sections]())
}

// keyDoc is what the reference says of one key.
type keyDoc struct {
	key, kind, def string
	required       bool
}

// section is what the reference says of one section, for hints and for the test of the reference.
type section struct {
	name string
	keys []keyDoc
}

// sections returns what the reference says of every section.
func (s *schema) sections() []section {
	client := section{"http_client_config", s.docs(&promconfig.HTTPClientConfig{})}
	if s.plan {
		return []section{
			{"the top level", s.docs(&planSections{})},
			{"target", s.docs(&target{})},
			{"workload", s.docs(&Workload{})},
			{"levels", s.docs(&ExperimentLevel{})},
			client,
		}
	}
	return []section{
		{"the top level", s.docs(&sections{})},
		{"global", s.docs(&Global{})},
		{"workloads", s.docs(&Workload{})},
		{"targets", s.docs(&target{})},
		{"slos", s.docs(&SLO{})},
		client,
	}
}

// docs returns what the reference says of each key of a section.
func (s *schema) docs(section any) (out []keyDoc) {
	v := Defaults()
	switch p := section.(type) {
	case *Global:
		*p = v.Global
	case presetter:
		p.preset(&v)
	}
	value := reflect.ValueOf(section).Elem()
	for _, f := range s.shape(value.Type()).fields {
		k := keyDoc{f.key, f.doc, f.def, f.required}
		if f.kind != "" {
			k.kind = s.kinds[f.kind].doc
			if n := s.write(value.FieldByIndex(f.index), f); f.def == "" && !f.required && !f.omitEmpty && n.Kind == yaml.ScalarNode {
				k.def = n.Value
			}
		}
		out = append(out, k)
	}
	return out
}

// short writes a duration as Prometheus does.
func short(d time.Duration) string { return model.Duration(d).String() }
