package config

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/dns"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/relabel"
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
		Global    *Global       `yaml:"global" doc:"<global>"`
		Workloads []Workload    `yaml:"workloads" doc:"[<workload>, ...]" default:"one workload, chat-512-128"`
		Targets   []target      `yaml:"targets" doc:"[<target>, ...]" required:"true"`
		Groups    []targetGroup `yaml:"target_groups,omitempty" doc:"[<target_group>, ...]"`
		SLOs      []SLO         `yaml:"slos" doc:"[<slo>, ...]" default:"ttft 2s at 99, success at 99"`
	}
	// target is a [Target] as it is written.
	target struct {
		Name       string `yaml:"name" kind:"name" default:"host:port of url" plan:"-"`
		URL        string `yaml:"url" kind:"url" required:"true"`
		targetKeys `yaml:",inline"`
	}
	// targetKeys is all of a target but who it is.
	targetKeys struct {
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
	// targetGroup is a [TargetGroup] as it is written.
	targetGroup struct {
		Name       string `yaml:"name" kind:"name" required:"true"`
		targetKeys `yaml:",inline"`
		Limit      int `yaml:"target_limit" kind:"target_limit"`
		sdSections `yaml:",inline"`
		Relabel    []*relabel.Config `yaml:"relabel_configs,omitempty" kind:"relabel_configs"`
	}
	// sdSections are what finds the members of a group.
	sdSections struct {
		Static     []*targetgroup.Group   `yaml:"static_configs,omitempty" kind:"static_configs"`
		File       []*file.SDConfig       `yaml:"file_sd_configs,omitempty" kind:"file_sd_configs"`
		HTTP       []*http.SDConfig       `yaml:"http_sd_configs,omitempty" kind:"http_sd_configs"`
		DNS        []*dns.SDConfig        `yaml:"dns_sd_configs,omitempty" kind:"dns_sd_configs"`
		Kubernetes []*kubernetes.SDConfig `yaml:"kubernetes_sd_configs,omitempty" kind:"kubernetes_sd_configs"`
	}
	// planSections is an [Experiment] as it is written.
	planSections struct {
		Experiment `yaml:",inline"`
		Target     *target `yaml:"target,omitempty" doc:"<target>" required:"true"`
	}
)

// defaulter is a section that inherits: setDefaults fills it in before its keys are read.
type defaulter interface{ setDefaults(v *DefaultValues) }

// What global sets is inherited by the sections that are read after it.
func (s *sections) setDefaults(v *DefaultValues) { s.Global = &v.Global }

func (w *Workload) setDefaults(v *DefaultValues) { *w = v.Workload }

func (t *targetKeys) setDefaults(v *DefaultValues) {
	t.Global, t.Engine, t.IPFamily = v.Global, v.Engine, v.IPFamily
}

func (g *targetGroup) setDefaults(v *DefaultValues) {
	g.targetKeys.setDefaults(v)
	g.Limit = v.TargetLimit
}

func (p *planSections) setDefaults(v *DefaultValues) {
	w := v.Workload
	p.Experiment, p.Workload = DefaultExperiment().Experiment, &w
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
	fields     []field
	index      map[string]int // of fields, by key
	rest       reflect.Type   // of all other keys; nil: there are no others
	unmarshals bool           // the type has a way of its own of being read, as most of those of Prometheus do
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

// add adds a key. As in Go, a field hides that of the same name in a struct inside.
func (s *shape) add(f field) {
	if i, hidden := s.index[f.key]; hidden {
		s.fields[i] = f
		return
	}
	s.index[f.key] = len(s.fields)
	s.fields = append(s.fields, f)
}

// shape returns what a value of type t may hold, a type of this package or another.
func (s *schema) shape(t reflect.Type) *shape {
	if known := s.shapes[t]; known != nil {
		return known
	}
	p := reflect.PointerTo(t)
	out := &shape{
		index: make(map[string]int),
		unmarshals: p.Implements(reflect.TypeFor[yaml.Unmarshaler]()) ||
			p.Implements(reflect.TypeFor[interface{ UnmarshalYAML(func(any) error) error }]()),
	}
	s.shapes[t] = out
	switch t.Kind() {
	case reflect.Map:
		out.rest = t.Elem()
		return out
	case reflect.Struct:
	default:
		return out
	}
	for f := range t.Fields() {
		tag := f.Tag.Get
		key, options, _ := strings.Cut(tag("yaml"), ",")
		switch {
		case !f.IsExported() && !f.Anonymous, f.Anonymous && tag("yaml") == "", key == "-", s.plan && tag("plan") == "-":
		case options == "inline":
			inner := s.shape(f.Type)
			for _, g := range inner.fields {
				g.index = append(slices.Clone(f.Index), g.index...)
				g.def = cmp.Or(tag("default"), g.def)
				out.add(g)
			}
			out.rest = cmp.Or(out.rest, inner.rest)
		default:
			out.add(field{
				key: cmp.Or(key, strings.ToLower(f.Name)), index: f.Index, kind: tag("kind"), doc: tag("doc"), def: tag("default"),
				required: tag("required") != "", omitEmpty: strings.Contains(options, "omitempty"), flow: strings.Contains(options, "flow"),
			})
		}
	}
	return out
}

// keysOf returns the keys of a section.
func (s *schema) keysOf(sec section) []string { return s.shape(reflect.TypeOf(sec.typ).Elem()).keys() }

// section is a section of a file, and its name in messages.
type section struct {
	name string
	typ  any // a pointer to its struct
}

// sections returns every section of a file, the whole first.
func (s *schema) sections() []section {
	client := section{"http_client_config", &promconfig.HTTPClientConfig{}}
	if s.plan {
		return []section{{"the top level", &planSections{}}, {"target", &target{}}, {"workload", &Workload{}}, {"levels", &ExperimentLevel{}}, client}
	}
	return []section{{"the top level", &sections{}}, {"global", &Global{}}, {"workloads", &Workload{}}, {"targets", &target{}}, {"target_groups", &targetGroup{}}, {"slos", &SLO{}}, client}
}

// short writes a duration as Prometheus does.
func short(d time.Duration) string { return model.Duration(d).String() }
