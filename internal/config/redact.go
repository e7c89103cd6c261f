package config

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// secret stands for every value that nobody may see.
const secret = "<secret>"

// Redacted returns the effective configuration as YAML without its secrets. Except for these it can be
// loaded again, from the working folder, and gives the same configuration.
func (c *Config) Redacted() ([]byte, error) {
	p := page{
		Global: pagePace{model.Duration(c.Global.Interval), model.Duration(c.Global.Timeout), model.Duration(c.Global.StallTimeout), c.Global.Warmup, model.Duration(c.Global.RelayInterval)},
		SLOs:   []pageSLO{}, Targets: []pageTarget{},
	}
	for _, w := range c.Workloads {
		p.Workloads = append(p.Workloads, pageWorkload{
			w.Name, w.API, w.PromptTokens, w.OutputTokens, w.Arrival, w.MaxInFlight, w.Seed, w.Temperature,
			w.MaxTokensField, w.DropFields, w.ExtraBody,
		})
	}
	for _, t := range c.Targets {
		p.Targets = append(p.Targets, pageOf(t, c.Global))
	}
	for _, s := range c.SLOs {
		p.SLOs = append(p.SLOs, pageSLO{s.Name, s.Indicator, model.Duration(s.Threshold), shift(s.Objective, 2), s.Targets, s.Workloads})
	}
	return p.encode()
}

// The page types give the sections their keys and order; a test holds them against the tables of fields.
type (
	page struct {
		Global    pagePace       `yaml:"global"`
		Workloads []pageWorkload `yaml:"workloads"`
		Targets   []pageTarget   `yaml:"targets"`
		SLOs      []pageSLO      `yaml:"slos"`
	}
	pagePace struct {
		Interval      model.Duration `yaml:"interval"`
		Timeout       model.Duration `yaml:"timeout"`
		StallTimeout  model.Duration `yaml:"stall_timeout"`
		Warmup        int            `yaml:"warmup"`
		RelayInterval model.Duration `yaml:"relay_interval"`
	}
	pageWorkload struct {
		Name           string         `yaml:"name"`
		API            string         `yaml:"api"`
		PromptTokens   int            `yaml:"prompt_tokens"`
		OutputTokens   int            `yaml:"output_tokens"`
		Arrival        string         `yaml:"arrival"`
		MaxInFlight    int            `yaml:"max_in_flight,omitempty"`
		Seed           int64          `yaml:"seed"`
		Temperature    float64        `yaml:"temperature"`
		MaxTokensField string         `yaml:"max_tokens_field"`
		DropFields     []string       `yaml:"drop_fields,omitempty,flow"`
		ExtraBody      map[string]any `yaml:"extra_body,omitempty"`
	}
	pageTarget struct {
		Name        string   `yaml:"name"`
		URL         string   `yaml:"url"`
		APIPath     string   `yaml:"api_path"`
		Host        string   `yaml:"host,omitempty"`
		Model       string   `yaml:"model,omitempty"`
		Workloads   []string `yaml:"workloads,flow"`
		pagePace    `yaml:",inline"`
		Arrival     string                      `yaml:"arrival,omitempty"`
		MaxInFlight int                         `yaml:"max_in_flight,omitempty"`
		MetricsURL  *string                     `yaml:"metrics_url,omitempty"`
		HealthURL   *string                     `yaml:"health_url,omitempty"`
		Engine      string                      `yaml:"engine"`
		Labels      map[string]string           `yaml:"labels,omitempty"`
		IPFamily    string                      `yaml:"ip_family"`
		Client      promconfig.HTTPClientConfig `yaml:"http_client_config"`
	}
	pageSLO struct {
		Name      string         `yaml:"name"`
		Indicator string         `yaml:"indicator"`
		Threshold model.Duration `yaml:"threshold,omitempty"`
		Objective float64        `yaml:"objective"`
		Targets   []string       `yaml:"targets,omitempty,flow"`
		Workloads []string       `yaml:"workloads,omitempty,flow"`
	}
)

// pageOf returns target t as it would have to be written. What its plans do not agree on comes from their
// workloads and is written there.
func pageOf(t *Target, g Global) pageTarget {
	first := Plan{Interval: g.Interval, Timeout: g.Timeout, StallTimeout: g.StallTimeout}
	if len(t.Plans) > 0 {
		first = t.Plans[0]
	}
	p := pageTarget{
		Name: t.Name, URL: t.URL.String(), APIPath: t.APIPath, Host: t.Host, Model: t.Model,
		pagePace:   pagePace{model.Duration(first.Interval), model.Duration(first.Timeout), model.Duration(first.StallTimeout), t.Warmup, model.Duration(t.RelayInterval)},
		MetricsURL: written(t.MetricsNamed, t.MetricsURL), HealthURL: written(t.HealthNamed, t.HealthURL),
		Engine: t.Engine, Labels: t.Labels, IPFamily: t.IPFamily, Client: t.HTTPClientConfig,
	}
	for _, plan := range t.Plans {
		p.Workloads = append(p.Workloads, plan.Workload.Name)
	}
	if !slices.ContainsFunc(t.Plans, func(q Plan) bool { return q.Arrival != first.Arrival }) {
		p.Arrival = first.Arrival
	}
	if !slices.ContainsFunc(t.Plans, func(q Plan) bool { return q.MaxInFlight != first.MaxInFlight }) {
		p.MaxInFlight = first.MaxInFlight
	}
	return p
}

// written is a value that means something else where it is not written, though it is the same.
func written(named bool, value string) *string {
	if !named {
		return nil
	}
	return &value
}

func (p page) encode() ([]byte, error) {
	var root yaml.Node
	if err := root.Encode(p); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	for _, section := range []string{"workloads", "targets"} {
		for _, entry := range child(&root, section).Content {
			redact(child(entry, "extra_body"))
			redactClient(child(entry, "http_client_config"))
			redactURL(child(entry, "metrics_url"))
			redactURL(child(entry, "health_url"))
		}
	}
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&root); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	return out.Bytes(), nil
}

// child returns the value of key in mapping n, or an empty node.
func child(n *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return &yaml.Node{}
}

// redact hides the values below n whose keys smell of a secret.
func redact(n *yaml.Node) {
	for i, c := range n.Content {
		switch {
		case n.Kind != yaml.MappingNode:
			redact(c)
		case i%2 == 1 && smells(n.Content[i-1].Value):
			hide(c)
		case i%2 == 1:
			redact(c)
		}
	}
}

// redactClient hides the secrets of an HTTP client: those of its own keys, all headers, and the users in URLs.
func redactClient(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i].Value, n.Content[i+1]
		switch key {
		case "proxy_url", "token_url":
			redactURL(val)
		case "proxy_connect_header":
			hide(val)
		case "http_headers":
			for _, header := range val.Content {
				hide(child(header, "values"))
				hide(child(header, "secrets"))
			}
		case "authorization", "basic_auth", "oauth2", "tls_config":
			redactClient(val)
			redactUser(val)
		default:
			if smells(key) {
				hide(val)
			} else {
				redact(val)
			}
		}
	}
}

// smells reports whether the value of a key is probably a secret.
func smells(key string) bool {
	key = fold(key)
	for _, end := range []string{"_file", "_files", "_id", "_ids"} {
		if strings.HasSuffix(key, end) {
			return false
		}
	}
	for _, word := range []string{"key", "token", "secret", "password", "passwd", "credential", "authorization", "cookie"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// hide replaces every value below n, but true, false and nothing, which are no secrets.
func hide(n *yaml.Node) {
	for i, c := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			hide(c)
		}
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() != "!!bool" && n.ShortTag() != "!!null" {
		n.SetString(secret)
	}
}

// redactURL hides the user information of a URL and what the names in its query say is secret.
func redactURL(n *yaml.Node) {
	u, err := url.Parse(n.Value)
	if err != nil || (u.User == nil && u.RawQuery == "") {
		return
	}
	if u.User != nil {
		u.User = url.User(secret)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // no telling what is secret
		u.RawQuery = url.QueryEscape(secret)
	}
	for key := range query {
		if smells(key) {
			query.Set(key, secret)
			u.RawQuery = query.Encode()
		}
	}
	n.SetString(u.String())
}

// redactUser hides a user name that stands without a password: then it is the token itself.
func redactUser(auth *yaml.Node) {
	if child(auth, "password").Value == "" && child(auth, "password_file").Value == "" {
		hide(child(auth, "username"))
	}
}
