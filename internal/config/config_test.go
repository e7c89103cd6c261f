package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	promconfig "github.com/prometheus/common/config"
)

// comparer compares everything that is public.
var comparer = cmp.Options{
	cmpopts.IgnoreUnexported(Config{}, promconfig.ProxyConfig{}),
	cmpopts.EquateEmpty(),
}

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("config.yml", []byte(text))
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestLoadMakesEveryValueEffective(t *testing.T) {
	got, err := Load("testdata/valid.yml")
	if err != nil {
		t.Fatal(err)
	}
	chat := &Workload{
		Name: "chat-512-128", API: "chat", PromptTokens: 512, OutputTokens: 128, Arrival: "constant", Seed: 42,
		MaxTokensField: "max_tokens",
		ExtraBody:      map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}},
	}
	want := &Config{
		Global:    Global{15 * time.Second, time.Minute, 30 * time.Second, 5, time.Second, "both"},
		Workloads: []*Workload{chat},
		Targets: []*Target{{
			Name: "qwen-a10", URL: mustURL(t, "http://127.0.0.1:8000"), APIPath: "/v1", Model: "qwen3.5-4b",
			Plans: []Plan{{
				Workload: chat, Interval: 5 * time.Second, Timeout: time.Minute, StallTimeout: 30 * time.Second,
				Arrival: "constant", MaxInFlight: 13,
			}},
			Warmup: 5, RelayInterval: time.Second, Histograms: "both",
			MetricsURL: "http://127.0.0.1:8000/metrics", HealthURL: "http://127.0.0.1:8000/health", MetricsNamed: true,
			Engine: "auto", Labels: map[string]string{"site": "ams", "gpu": "a10"}, IPFamily: "any",
			HTTPClientConfig: promconfig.HTTPClientConfig{
				Authorization: &promconfig.Authorization{Type: "Bearer", CredentialsFile: "testdata/key.txt"},
			},
		}},
		SLOs: []SLO{
			{Name: "ttft-fast", Indicator: "ttft", Threshold: time.Second, Objective: 0.99, Workloads: []string{"chat-512-128"}},
			{Name: "itl-smooth", Indicator: "itl_p95", Threshold: 100 * time.Millisecond, Objective: 0.99},
			{Name: "availability", Indicator: "success", Objective: 0.995},
		},
	}
	if diff := cmp.Diff(want, got, comparer); diff != "" {
		t.Errorf("Load (-want +got):\n%s", diff)
	}
}

func TestWithoutSectionsThereIsOneWorkloadAndTwoSLOs(t *testing.T) {
	c := mustParse(t, "targets: [{url: http://h:8000}]")
	if len(c.Workloads) != 1 || c.Workloads[0].Name != "chat-512-128" {
		t.Errorf("workloads = %+v, want chat-512-128 alone", c.Workloads)
	}
	if diff := cmp.Diff(DefaultSLOs(), c.SLOs); diff != "" {
		t.Errorf("SLOs (-want +got):\n%s", diff)
	}
	want := Plan{c.Workloads[0], 15 * time.Second, time.Minute, 30 * time.Second, "constant", 5}
	if diff := cmp.Diff([]Plan{want}, c.Targets[0].Plans); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
}

func TestTargetOverridesWorkloadAndGlobal(t *testing.T) {
	c := mustParse(t, `
global: {interval: 10s, timeout: 20s, stall_timeout: 4s, warmup: 3, relay_interval: 2s, histograms: native}
workloads:
  - {name: x, arrival: poisson, max_in_flight: 7}
  - {name: y, prompt_tokens: 64}
targets:
  - {name: inherits, url: "http://a:1"}
  - {name: overrides, url: "http://a:2", workloads: [y, x], interval: 30s, timeout: 1m1s, stall_timeout: 9s, warmup: 0, relay_interval: 500ms, histograms: classic, arrival: poisson, max_in_flight: 2}
  - {name: paced, url: "http://a:3", interval: 1s, timeout: 2m, arrival: constant}
`)
	x, y := c.Workloads[0], c.Workloads[1]
	const s = time.Second
	want := [][]Plan{
		{{x, 10 * s, 20 * s, 4 * s, "poisson", 7}, {y, 10 * s, 20 * s, 4 * s, "constant", 3}},
		{{y, 30 * s, 61 * s, 9 * s, "poisson", 2}, {x, 30 * s, 61 * s, 9 * s, "poisson", 2}},
		{{x, s, 120 * s, 4 * s, "constant", 7}, {y, s, 120 * s, 4 * s, "constant", 64}},
	}
	for i, target := range c.Targets {
		if diff := cmp.Diff(want[i], target.Plans); diff != "" {
			t.Errorf("plans of %s (-want +got):\n%s", target.Name, diff)
		}
	}
	if got := c.Targets[0]; got.Warmup != 3 || got.RelayInterval != 2*s || got.Histograms != "native" {
		t.Errorf("warmup %d, relay interval %s, histograms %s; want those of global, 3, 2s and native", got.Warmup, got.RelayInterval, got.Histograms)
	}
	if got := c.Targets[1]; got.Warmup != 0 || got.RelayInterval != s/2 || got.Histograms != "classic" {
		t.Errorf("warmup %d, relay interval %s, histograms %s; want the target's own, 0, 500ms and classic", got.Warmup, got.RelayInterval, got.Histograms)
	}
}

func TestMaxInFlight(t *testing.T) {
	tests := []struct {
		timeout, interval time.Duration
		want              int
	}{
		{60 * time.Second, 15 * time.Second, 5},
		{60 * time.Second, 5 * time.Second, 13},
		{61 * time.Second, 15 * time.Second, 6},
		{time.Second, time.Hour, 2},
		{120 * time.Second, 100 * time.Millisecond, 64},
	}
	for _, tt := range tests {
		if got := MaxInFlight(tt.timeout, tt.interval); got != tt.want {
			t.Errorf("MaxInFlight(%s, %s) = %d, want %d", tt.timeout, tt.interval, got, tt.want)
		}
	}
}

func TestThinkingIsOffUnlessTheWorkloadSaysOtherwise(t *testing.T) {
	off := map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}
	tests := []struct {
		workload string
		want     map[string]any
	}{
		{"{}", off},
		{"{extra_body: {chat_template_kwargs: {enable_thinking: true}}}", map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": true}}},
		{"{extra_body: {priority: 1}}", map[string]any{"priority": int64(1), "chat_template_kwargs": off["chat_template_kwargs"]}},
		{"{drop_fields: [chat_template_kwargs]}", nil},
		{"{api: completions}", nil},
	}
	for _, tt := range tests {
		c := mustParse(t, "targets: []\nworkloads: ["+tt.workload+"]")
		if diff := cmp.Diff(tt.want, c.Workloads[0].ExtraBody, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("extra body of %s (-want +got):\n%s", tt.workload, diff)
		}
	}
}

func TestExtraBodyKeepsTheKindsOfJSON(t *testing.T) {
	c := mustParse(t, `
targets: []
workloads:
  - api: completions
    extra_body: {s: x, i: -3, u: 18446744073709551615, f: 0.5, b: true, nothing: null, when: "2026-11-29", quoted: "7", list: [1, {a: b}]}
`)
	want := map[string]any{
		"s": "x", "i": int64(-3), "u": uint64(1<<64 - 1), "f": 0.5, "b": true, "nothing": nil, "when": "2026-11-29", "quoted": "7",
		"list": []any{int64(1), map[string]any{"a": "b"}},
	}
	if diff := cmp.Diff(want, c.Workloads[0].ExtraBody); diff != "" {
		t.Errorf("extra body (-want +got):\n%s", diff)
	}
}

func TestAddresses(t *testing.T) {
	tests := []struct {
		url                       string
		base, name, metrics, user string
	}{
		{"http://h:8000", "http://h:8000", "h:8000", "http://h:8000/metrics", ""},
		{"http://h:8000/", "http://h:8000", "h:8000", "http://h:8000/metrics", ""},
		{"http://h:8000/v1", "http://h:8000", "h:8000", "http://h:8000/metrics", ""},
		{"http://h:8000/v1/", "http://h:8000", "h:8000", "http://h:8000/metrics", ""},
		{"HTTPS://GW.Example/OpenAI/v1", "https://gw.example/OpenAI", "gw.example:443", "https://gw.example/OpenAI/metrics", ""},
		{"http://h/team%2Fa/v1", "http://h/team%2Fa", "h:80", "http://h/team%2Fa/metrics", ""},
		{"http://[::1]:8000/v1", "http://[::1]:8000", "[::1]:8000", "http://[::1]:8000/metrics", ""},
		{"http://user:pa%3Ass@h:8000/v1", "http://h:8000", "h:8000", "http://h:8000/metrics", "user pa:ss"},
		{"http://token@h", "http://h", "h:80", "http://h/metrics", "token "},
		{"http://@h", "http://h", "h:80", "http://h/metrics", ""},
	}
	for _, tt := range tests {
		target := mustParse(t, "targets: [{url: '"+tt.url+"'}]").Targets[0]
		user := ""
		if auth := target.HTTPClientConfig.BasicAuth; auth != nil {
			user = auth.Username + " " + string(auth.Password)
		}
		got := []string{target.URL.String(), target.Name, target.MetricsURL, user}
		if diff := cmp.Diff([]string{tt.base, tt.name, tt.metrics, tt.user}, got); diff != "" {
			t.Errorf("%s: base, name, metrics, user (-want +got):\n%s", tt.url, diff)
		}
	}
}

func TestRelayPages(t *testing.T) {
	tests := []struct {
		keys, metrics, health     string
		metricsNamed, healthNamed bool
	}{
		{"", "http://h:1/metrics", "http://h:1/health", false, false},
		{", metrics_url: ''", "", "", true, false},
		{", health_url: ''", "http://h:1/metrics", "", false, true},
		{", metrics_url: 'http://H:9/m?all=1'", "http://h:9/m?all=1", "http://h:1/health", true, false},
		{", metrics_url: 'http://h:1/metrics'", "http://h:1/metrics", "http://h:1/health", true, false}, // the default, named
		{", health_url: 'http://h:1/ping'", "http://h:1/metrics", "http://h:1/ping", false, true},
		{", health_url: 'http://h:1/health'", "http://h:1/metrics", "http://h:1/health", false, true},
	}
	for _, tt := range tests {
		target := mustParse(t, "targets: [{url: 'http://h:1/v1'"+tt.keys+"}]").Targets[0]
		if target.MetricsURL != tt.metrics || target.HealthURL != tt.health {
			t.Errorf("with %q: metrics %q, health %q; want %q, %q", tt.keys, target.MetricsURL, target.HealthURL, tt.metrics, tt.health)
		}
		if target.MetricsNamed != tt.metricsNamed || target.HealthNamed != tt.healthNamed {
			t.Errorf("with %q: named: metrics %t, health %t", tt.keys, target.MetricsNamed, target.HealthNamed)
		}
	}
}

func TestTargetsThatDifferInOneThingAreTwo(t *testing.T) {
	for _, second := range []string{
		"workloads: [x], model: m", "workloads: [x], ip_family: ipv6", "workloads: [y]",
		"workloads: [x], http_client_config: {bearer_token: t}", "workloads: [x], http_client_config: {proxy_url: 'http://p:1'}",
	} {
		text := "workloads: [{name: x}, {name: y}]\ntargets: [{name: a, url: 'http://h', workloads: [x]}, {name: b, url: 'http://h:80/v1', " + second + "}]\n"
		if _, err := Parse("config.yml", []byte(text)); err != nil {
			t.Errorf("with %s: %v", second, err)
		}
	}
}

func TestObjectivesAreTheNearestRatio(t *testing.T) {
	for percent, want := range map[string]float64{"99": 0.99, "99.5": 0.995, "99.9": 0.999, "99.95": 0.9995, "99.999": 0.99999, "5": 0.05, "9.99e1": 0.999, "50": 0.5} {
		c := mustParse(t, "targets: []\nslos: [{name: s, indicator: success, objective: "+percent+"}]")
		if got := c.SLOs[0].Objective; got != want {
			t.Errorf("objective %s = %v, want %v", percent, got, want)
		}
	}
}

func TestCovers(t *testing.T) {
	some := SLO{Targets: []string{"a", "b"}, Workloads: []string{"x"}}
	tests := []struct {
		slo                     SLO
		target, group, workload string
		want                    bool
	}{
		{SLO{}, "a", "", "x", true},
		{some, "a", "", "x", true},
		{some, "b", "", "x", true},
		{some, "c", "", "x", false},
		{some, "a", "", "y", false},
		{some, "c", "a", "x", true},
		{some, "a", "c", "x", false},
		{SLO{Targets: []string{"a"}}, "a", "", "y", true},
		{SLO{Workloads: []string{"x"}}, "c", "", "y", false},
	}
	for _, tt := range tests {
		if got := tt.slo.Covers(&Target{Name: tt.target, Group: tt.group}, tt.workload); got != tt.want {
			t.Errorf("%+v covers %s of group %q, %s = %v", tt.slo, tt.target, tt.group, tt.workload, got)
		}
	}
}

func TestAnchorsAliasesAndMergeKeys(t *testing.T) {
	c := mustParse(t, `
targets:
  - &first {name: a, url: "http://h:1", warmup: 1, labels: &labels {site: ams}}
  - {<<: *first, name: b, url: "http://h:2"}
  - {<<: [{warmup: 2}, *first], name: c, url: "http://h:3", labels: {<<: *labels, gpu: a10}}
`)
	var got []string
	for _, t := range c.Targets {
		got = append(got, fmt.Sprintf("%s %s %d %v", t.Name, t.URL, t.Warmup, t.Labels))
	}
	want := []string{"a http://h:1 1 map[site:ams]", "b http://h:2 1 map[site:ams]", "c http://h:3 2 map[gpu:a10 site:ams]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
}

func TestEmptySectionsAreAsLeftOut(t *testing.T) {
	got := mustParse(t, "global:\nworkloads:\ntargets:\nslos:\n")
	if diff := cmp.Diff(mustParse(t, "targets: []\n"), got, comparer); diff != "" {
		t.Errorf("(-left out +empty):\n%s", diff)
	}
	if none := mustParse(t, "targets: []\nslos: []\n"); len(none.SLOs) != 0 {
		t.Errorf("slos: [] leaves %v", none.SLOs)
	}
}

func TestTheSameFileGivesEqualTargets(t *testing.T) {
	const text = "targets: [{url: 'http://u:p@h:1', labels: {a: b}, http_client_config: {proxy_url: 'http://proxy:1', no_proxy: x}}]"
	old, again := mustParse(t, text).Targets[0], mustParse(t, text).Targets[0]
	if _, err := promconfig.NewClientFromConfig(old.HTTPClientConfig, "probe"); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(old, again) {
		t.Error("a target in use is not equal to the same target read again")
	}
	other := mustParse(t, strings.ReplaceAll(text, "u:p@", "u:q@")).Targets[0]
	if reflect.DeepEqual(old, other) {
		t.Error("a changed password makes no difference")
	}
}
