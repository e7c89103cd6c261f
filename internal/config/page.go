package config

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Redacted returns the effective configuration as YAML without its secrets. Except for these it can be
// loaded again, from the working folder, and gives the same configuration.
func (c *Config) Redacted() ([]byte, error) {
	s := sections{Global: &c.Global, SLOs: c.SLOs}
	for _, w := range c.Workloads {
		s.Workloads = append(s.Workloads, *w)
	}
	for _, t := range c.Targets {
		s.Targets = append(s.Targets, t.section(c.Global))
	}
	for _, g := range c.Groups {
		s.Groups = append(s.Groups, targetGroup{
			Name: g.Name, targetKeys: g.Template.section(c.Global).targetKeys, Limit: g.Limit, sdSections: g.sd, Relabel: g.Relabel,
		})
	}
	return newSchema(false).page(s)
}

// section returns target t as it would have to be written. What its plans do not agree on comes from their
// workloads and is written there.
func (t *Target) section(g Global) target {
	out := target{
		Name: t.Name, URL: t.URL.String(),
		targetKeys: targetKeys{
			APIPath: t.APIPath, Host: t.Host, Model: t.Model, Global: g,
			MetricsURL: written(t.MetricsNamed, t.MetricsURL), HealthURL: written(t.HealthNamed, t.HealthURL),
			Engine: t.Engine, Labels: t.Labels, IPFamily: t.IPFamily, Client: t.HTTPClientConfig,
		},
	}
	out.Warmup, out.RelayInterval, out.Histograms = t.Warmup, t.RelayInterval, t.Histograms
	for i, p := range t.Plans {
		out.Workloads = append(out.Workloads, p.Workload.Name)
		if i == 0 {
			out.Interval, out.Timeout, out.StallTimeout, out.Arrival, out.MaxInFlight = p.Interval, p.Timeout, p.StallTimeout, p.Arrival, p.MaxInFlight
		}
		if p.Arrival != out.Arrival {
			out.Arrival = ""
		}
		if p.MaxInFlight != out.MaxInFlight {
			out.MaxInFlight = 0
		}
	}
	return out
}

// written is a value that means something else where it is not written, though it is the same.
func written(named bool, value string) *string {
	if !named {
		return nil
	}
	return &value
}

// YAML returns the plan as a file that says the same, from whatever folder it is run: names of files are absolute.
// It holds no secrets: a plan has none, and those of a target that came from a configuration file are left out.
func (p *Experiment) YAML() ([]byte, error) {
	s := planSections{Experiment: *p}
	if p.Target != nil {
		here, err := filepath.Abs(".")
		if err != nil {
			return nil, fmt.Errorf("finding the working folder: %w", err)
		}
		p.Target.HTTPClientConfig.SetDirectory(here)
		t := p.Target.section(Global{})
		s.Target = &t
	}
	return newSchema(true).page(s)
}

// page writes the sections of a file, without secrets.
func (s *schema) page(sections any) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(s.write(reflect.ValueOf(sections), &field{})); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return out.Bytes(), nil
}

// write returns the value v of a key as it would have to be written, without secrets.
func (s *schema) write(v reflect.Value, f *field) *yaml.Node {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case f.kind == "" && v.Kind() == reflect.Struct:
		return s.writeSection(v)
	case f.kind == "" && v.Kind() == reflect.Slice:
		list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		for i := range v.Len() {
			item := s.write(v.Index(i), &field{})
			if f.flow {
				item.Style = yaml.FlowStyle
			}
			list.Content = append(list.Content, item)
		}
		return list
	}
	value := v.Interface()
	switch x := value.(type) {
	case time.Duration:
		value = model.Duration(x)
	case float64:
		if f.kind == "percent" {
			value = shift(x, 2)
		}
	}
	n := &yaml.Node{}
	if err := n.Encode(value); err != nil {
		n.SetString(err.Error()) // of a type that cannot be written: a test writes all
	}
	if n.Kind == yaml.SequenceNode && !slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return c.Kind != yaml.ScalarNode }) {
		n.Style = yaml.FlowStyle
	}
	if hide := s.kinds[f.kind].hide; hide != nil {
		hide(n)
	}
	return n
}

func (s *schema) writeSection(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	shape := s.shape(v.Type())
	for i := range shape.fields {
		f := &shape.fields[i]
		value := v.FieldByIndex(f.index)
		empty := value.IsZero() || slices.Contains([]reflect.Kind{reflect.Slice, reflect.Map}, value.Kind()) && value.Len() == 0
		if !f.omitEmpty || !empty {
			set(n, f.key, s.write(value, f))
		}
	}
	return n
}
