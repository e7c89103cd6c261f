package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// The types below read themselves in the way of those of Prometheus' discovery: with a default, with rules between keys,
// with an HTTP client inline, as a text of a few words, as a pattern.
type (
	foreignSD struct {
		URL      string                      `yaml:"url"`
		Refresh  model.Duration              `yaml:"refresh_interval,omitempty"`
		Port     int                         `yaml:"port"`
		Role     foreignRole                 `yaml:"role"`
		Relabel  []*foreignRelabel           `yaml:"relabel_configs"`
		HTTP     promconfig.HTTPClientConfig `yaml:",inline"`
		Selected struct {
			Own   bool     `yaml:"own"`
			Names []string `yaml:"names"`
		} `yaml:"namespaces"`
	}
	foreignRole    string
	foreignRelabel struct {
		Source model.LabelName `yaml:"source"`
		Regex  foreignPattern  `yaml:"regex"`
	}
	foreignPattern struct{ *regexp.Regexp }
	foreignGroup   struct {
		Name   string              `yaml:"name" kind:"name" required:"true"`
		Proxy  promconfig.URL      `yaml:"proxy"`
		Params map[string][]string `yaml:"params"`
		SD     []*foreignSD        `yaml:"some_sd_configs,omitempty" doc:"[<some_sd_config>, ...]"`
	}
)

func (c *foreignSD) UnmarshalYAML(unmarshal func(any) error) error {
	type plain foreignSD
	*c = foreignSD{Refresh: model.Duration(time.Minute), HTTP: promconfig.DefaultHTTPClientConfig}
	if err := unmarshal((*plain)(c)); err != nil {
		return err
	}
	if c.URL == "" {
		return errors.New("url is missing")
	}
	return nil
}

func (r *foreignRole) UnmarshalYAML(unmarshal func(any) error) error {
	if err := unmarshal((*string)(r)); err != nil {
		return err
	}
	if *r != "pod" && *r != "node" {
		return fmt.Errorf("unknown role %q", *r)
	}
	return nil
}

func (p *foreignPattern) UnmarshalYAML(n *yaml.Node) error {
	re, err := regexp.Compile(n.Value)
	p.Regexp = re
	return err
}

func readForeign(t *testing.T, text string) (g foreignGroup, told []string) {
	t.Helper()
	d := newDecoder()
	d.file = "config.yml"
	root := d.document([]byte(text))
	if root == nil {
		t.Fatal(d.refused())
	}
	d.value("", root, reflect.ValueOf(&g).Elem())
	for _, p := range d.refused() {
		told = append(told, p.String())
	}
	return g, told
}

func TestForeignSectionReadsItself(t *testing.T) {
	g, told := readForeign(t, `
name: a
proxy: http://p:3128
params: {module: [x, y]}
some_sd_configs:
  - url: http://h/targets
    refresh_interval: 5m
    port: 80
    role: pod
    relabel_configs: [{source: __address__, regex: "a.*"}]
    basic_auth: {username: u, password_file: p}
    namespaces: {own: true, names: [x, y]}
  - {url: http://i}
`)
	if told != nil || len(g.SD) != 2 {
		t.Fatalf("%d sections, %q", len(g.SD), told)
	}
	if g.Proxy.Host != "p:3128" || !slices.Equal(g.Params["module"], []string{"x", "y"}) {
		t.Errorf("%+v", g)
	}
	c := g.SD[0]
	if c.URL != "http://h/targets" || time.Duration(c.Refresh) != 5*time.Minute || c.Port != 80 || c.Role != "pod" || c.Relabel[0].Regex.String() != "a.*" ||
		c.HTTP.BasicAuth.Username != "u" || !c.HTTP.FollowRedirects || !c.Selected.Own || !slices.Equal(c.Selected.Names, []string{"x", "y"}) {
		t.Errorf("%+v", c)
	}
	if g.SD[1].Refresh != model.Duration(time.Minute) {
		t.Errorf("refreshed each %s, not by the type's own default", g.SD[1].Refresh)
	}
}

func TestForeignProblemsHaveLines(t *testing.T) {
	_, told := readForeign(t, `
params: {a: x}
some_sd_configs:
  - port: 80
  - ur: http://h
    refresh_interval: soon
    port: many
    role: prod
    relabel_configs:
      - source: a-b
        regex: "("
      - {source: a, source: b}
    basic_auth:
      usernam: u
    namespaces: {own: 7, names: x}
    authorization: {credentials: [SECRET]}
  - http://h
`)
	want := []string{
		"config.yml:2: name: is missing",
		"config.yml:2: params.a: must be a list, not a single value (did you mean [x]?)",
		"config.yml:4: some_sd_configs[0]: url is missing",
		`config.yml:5: some_sd_configs[1].ur: unknown key (did you mean "url"?)`,
		`config.yml:6: some_sd_configs[1].refresh_interval: not a valid duration string: "soon"`,
		`config.yml:7: some_sd_configs[1].port: "many" is not a whole number`,
		`config.yml:8: some_sd_configs[1].role: unknown role "prod"`,
		`config.yml:11: some_sd_configs[1].relabel_configs[0].regex: error parsing regexp: missing closing ): ` + "`(`",
		`config.yml:12: some_sd_configs[1].relabel_configs[1].source: duplicate key, first on line 12`,
		`config.yml:14: some_sd_configs[1].basic_auth.usernam: unknown key (did you mean "username"?)`,
		`config.yml:15: some_sd_configs[1].namespaces.own: must be true or false`,
		`config.yml:15: some_sd_configs[1].namespaces.names: must be a list, not a single value (did you mean [x]?)`,
		`config.yml:16: some_sd_configs[1].authorization.credentials: must be a single value, not a list`,
		`config.yml:17: some_sd_configs[2]: must be a mapping of keys to values, not a single value`,
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
