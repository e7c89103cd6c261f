package wire_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/wire"
	"github.com/llm-prober/llm_prober/prober"
)

// Every key of a target, none at its default.
const full = `
global: {interval: 15s}
workloads:
  - {name: short, api: completions, prompt_tokens: 10, output_tokens: 30, seed: 7, temperature: 0.5, drop_fields: [seed], extra_body: {top_k: 3}}
  - {name: long, prompt_tokens: 2000, output_tokens: 200, arrival: poisson, max_tokens_field: max_completion_tokens, max_in_flight: 9}
targets:
  - {name: a, url: "http://h:8000/v1", model: m, ip_family: ipv4, warmup: 3, interval: 5s, timeout: 20s, stall_timeout: 6s}
  - {name: b, url: "http://i:8000", api_path: /v3, host: model.example, workloads: [long], http_client_config: {authorization: {credentials: key}}}
slos:
  - {name: everywhere, indicator: ttft, threshold: 1s, objective: 99}
  - {name: short-only, indicator: itl_p95, threshold: 100ms, objective: 95, workloads: [short]}
  - {name: b-only, indicator: success, objective: 99.5, targets: [b]}
`

func parse(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Parse("config.yml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestTarget(t *testing.T) {
	cfg := parse(t)
	short := prober.Workload{
		Name: "short", API: prober.Completions, PromptTokens: 10, OutputTokens: 30, Seed: 7, Temperature: 0.5,
		MaxTokensField: "max_tokens", DropFields: []string{"seed"}, ExtraBody: map[string]any{"top_k": int64(3)},
	}
	long := prober.Workload{
		Name: "long", API: prober.Chat, PromptTokens: 2000, OutputTokens: 200, Seed: 42, MaxTokensField: "max_completion_tokens",
		ExtraBody: map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}, // the default of chat
	}
	want := []prober.Target{
		{
			Name: "a", URL: &url.URL{Scheme: "http", Host: "h:8000"}, APIPath: "/v1", Model: "m", Warmup: 3, IPFamily: prober.IPv4, HTTP: cfg.Targets[0].HTTPClientConfig,
			Plans: []prober.Plan{
				{Workload: short, Interval: 5 * time.Second, Arrival: prober.Constant, Timeout: 20 * time.Second, StallTimeout: 6 * time.Second, MaxInFlight: 5},
				{Workload: long, Interval: 5 * time.Second, Arrival: prober.Poisson, Timeout: 20 * time.Second, StallTimeout: 6 * time.Second, MaxInFlight: 9},
			},
		},
		{
			Name: "b", URL: &url.URL{Scheme: "http", Host: "i:8000"}, APIPath: "/v3", Host: "model.example", Warmup: 5, IPFamily: prober.AnyFamily, HTTP: cfg.Targets[1].HTTPClientConfig,
			Plans: []prober.Plan{
				{Workload: long, Interval: 15 * time.Second, Arrival: prober.Poisson, Timeout: time.Minute, StallTimeout: 30 * time.Second, MaxInFlight: 9},
			},
		},
	}
	for i, target := range cfg.Targets {
		if d := cmp.Diff(want[i], wire.Target(*target), cmp.Comparer(func(a, b promconfig.HTTPClientConfig) bool {
			return (a.Authorization == nil) == (b.Authorization == nil)
		})); d != "" {
			t.Errorf("target %s (-want +got):\n%s", target.Name, d)
		}
	}
	if key := wire.Target(*cfg.Targets[1]).HTTP.Authorization.Credentials; key != "key" {
		t.Errorf("the credentials of b are %q", string(key))
	}
}

// A page is named to the relay if the file names it, whatever its value.
func TestRelay(t *testing.T) {
	tests := []struct{ keys, metrics, health string }{
		{"", "none", "none"},
		{`, metrics_url: "http://h:1/metrics"`, "http://h:1/metrics", "none"},
		{`, metrics_url: "http://h:9/m"`, "http://h:9/m", "none"},
		{`, health_url: "http://h:1/health"`, "none", "http://h:1/health"},
		{`, health_url: ""`, "none", ""},
	}
	text := func(u *url.URL) string {
		if u == nil {
			return "none"
		}
		return u.String()
	}
	for _, tt := range tests {
		cfg, err := config.Parse("config.yml", []byte(`targets: [{url: "http://h:1/v1"`+tt.keys+`}]`))
		if err != nil {
			t.Fatal(err)
		}
		c, err := wire.Relay(*cfg.Targets[0], nil)
		if err != nil || text(c.MetricsURL) != tt.metrics || text(c.HealthURL) != tt.health {
			t.Errorf("%s: metrics %s, health %s, %v", tt.keys, text(c.MetricsURL), text(c.HealthURL), err)
		}
	}
}

func TestWorkloads(t *testing.T) {
	target := wire.Target(*parse(t).Targets[0])
	got := wire.Workloads(&target)
	want := []collector.WorkloadConfig{
		{Workload: &target.Plans[0].Workload, Interval: 5 * time.Second, Model: "m"},
		{Workload: &target.Plans[1].Workload, Interval: 5 * time.Second, Model: "m"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// A probe carries a pointer to its workload: both sides must know the same one.
	if got[0].Workload != &target.Plans[0].Workload {
		t.Error("the collector's workload is a copy of the prober's")
	}
}

func TestSLOs(t *testing.T) {
	cfg := parse(t)
	everywhere := collector.SLO{Name: "everywhere", Indicator: collector.IndicatorTTFT, Threshold: time.Second, Objective: 0.99}
	shortOnly := collector.SLO{Name: "short-only", Indicator: collector.IndicatorITLP95, Threshold: 100 * time.Millisecond, Objective: 0.95, Workloads: []string{"short"}}
	bOnly := collector.SLO{Name: "b-only", Indicator: collector.IndicatorSuccess, Objective: 0.995, Workloads: []string{"long"}}
	on := func(s collector.SLO, workloads ...string) collector.SLO {
		s.Workloads = workloads
		return s
	}
	for i, want := range [][]collector.SLO{
		{on(everywhere, "short", "long"), shortOnly},
		{on(everywhere, "long"), bOnly},
	} {
		if d := cmp.Diff(want, wire.SLOs(cfg.SLOs, *cfg.Targets[i])); d != "" {
			t.Errorf("target %s (-want +got):\n%s", cfg.Targets[i].Name, d)
		}
	}
}
