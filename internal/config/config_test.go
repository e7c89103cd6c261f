package config

import (
	"net/url"
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
		Global:    Global{15 * time.Second, time.Minute, 30 * time.Second, 5, time.Second},
		Workloads: []*Workload{chat},
		Targets: []*Target{{
			Name: "qwen-a10", URL: mustURL(t, "http://127.0.0.1:8000"), Model: "qwen3.5-4b",
			Plans: []Plan{{
				Workload: chat, Interval: 5 * time.Second, Timeout: time.Minute, StallTimeout: 30 * time.Second,
				Arrival: "constant", MaxInFlight: 13,
			}},
			Warmup: 5, RelayInterval: time.Second,
			MetricsURL: "http://127.0.0.1:8000/metrics", HealthURL: "http://127.0.0.1:8000/health",
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
