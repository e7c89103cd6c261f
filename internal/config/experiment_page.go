package config

import (
	"bytes"
	"fmt"
	"reflect"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// The page types give a plan its keys and order; a test holds them against the tables of fields.
type (
	pagePlan struct {
		Name         string           `yaml:"name"`
		Target       *pagePlanTarget  `yaml:"target,omitempty"`
		Workload     pagePlanWorkload `yaml:"workload"`
		Warmup       int              `yaml:"warmup"`
		Timeout      model.Duration   `yaml:"timeout"`
		StallTimeout model.Duration   `yaml:"stall_timeout"`
		Settle       model.Duration   `yaml:"settle"`
		Seed         int64            `yaml:"seed"`
		SLOs         []string         `yaml:"slos,omitempty,flow"`
		Levels       []pageLevel      `yaml:"levels"`
	}
	pagePlanTarget struct {
		URL        string                       `yaml:"url"`
		APIPath    string                       `yaml:"api_path"`
		Host       string                       `yaml:"host,omitempty"`
		Model      string                       `yaml:"model,omitempty"`
		MetricsURL *string                      `yaml:"metrics_url,omitempty"`
		Engine     string                       `yaml:"engine"`
		IPFamily   string                       `yaml:"ip_family"`
		Client     *promconfig.HTTPClientConfig `yaml:"http_client_config,omitempty"`
	}
	pagePlanWorkload struct {
		API            string         `yaml:"api"`
		PromptTokens   int            `yaml:"prompt_tokens"`
		OutputTokens   int            `yaml:"output_tokens"`
		Seed           int64          `yaml:"seed"`
		Temperature    float64        `yaml:"temperature"`
		MaxTokensField string         `yaml:"max_tokens_field"`
		DropFields     []string       `yaml:"drop_fields,omitempty,flow"`
		ExtraBody      map[string]any `yaml:"extra_body,omitempty"`
	}
	pageLevel struct {
		Concurrency  int            `yaml:"concurrency,omitempty"`
		Rate         float64        `yaml:"rate,omitempty"`
		Arrival      string         `yaml:"arrival,omitempty"`
		MaxInFlight  int            `yaml:"max_in_flight,omitempty"`
		PromptTokens int            `yaml:"prompt_tokens"`
		OutputTokens int            `yaml:"output_tokens"`
		Requests     int            `yaml:"requests,omitempty"`
		Duration     model.Duration `yaml:"duration,omitempty"`
	}
)

// YAML returns the plan as a file that says the same, from whatever folder it is run: names of files are absolute.
// It holds no secrets: a plan has none, and those of a target that came from a configuration file are left out.
func (p *Experiment) YAML() ([]byte, error) {
	if err := p.absolute(); err != nil {
		return nil, err
	}
	w := p.Workload
	page := pagePlan{
		Name:     p.Name,
		Workload: pagePlanWorkload{w.API, w.PromptTokens, w.OutputTokens, w.Seed, w.Temperature, w.MaxTokensField, w.DropFields, w.ExtraBody},
		Warmup:   p.Warmup, Timeout: model.Duration(p.Timeout), StallTimeout: model.Duration(p.StallTimeout),
		Settle: model.Duration(p.Settle), Seed: p.Seed, SLOs: p.SLOs,
	}
	if t := p.Target; t != nil {
		page.Target = &pagePlanTarget{URL: t.URL.String(), APIPath: t.APIPath, Host: t.Host, Model: t.Model, MetricsURL: written(t.MetricsNamed, t.MetricsURL), Engine: t.Engine, IPFamily: t.IPFamily}
		if !reflect.DeepEqual(t.HTTPClientConfig, promconfig.HTTPClientConfig{}) {
			page.Target.Client = &t.HTTPClientConfig
		}
	}
	for _, l := range p.Levels {
		page.Levels = append(page.Levels, pageLevel{
			l.Concurrency, l.Rate, l.Arrival, l.MaxInFlight, l.PromptTokens, l.OutputTokens, l.Requests, model.Duration(l.Duration),
		})
	}
	return encode(page)
}

// encode writes a page with its levels on a line each.
func encode(page pagePlan) ([]byte, error) {
	var root yaml.Node
	if err := root.Encode(page); err != nil {
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	redact(child(child(&root, "workload"), "extra_body"))
	redactClient(child(child(&root, "target"), "http_client_config"))
	redactURL(child(child(&root, "target"), "metrics_url"))
	for _, l := range child(&root, "levels").Content {
		l.Style = yaml.FlowStyle
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&root); err != nil {
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	return out.Bytes(), nil
}
