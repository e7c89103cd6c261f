package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
)

// planRules accept objectives that look like one.
func planRules() ExperimentRules {
	shape := regexp.MustCompile(`^[a-z_]+_p[0-9]+=[0-9a-z]+$`)
	return ExperimentRules{Objective: func(text string) error {
		if !shape.MatchString(text) {
			return errors.New("is not an objective")
		}
		return nil
	}}
}

func TestExperimentIsEffective(t *testing.T) {
	got, err := LoadExperiment("testdata/plan-valid.yml", planRules())
	if err != nil {
		t.Fatal(err)
	}
	w := &Workload{
		Name: "chat-256-64", API: "chat", PromptTokens: 256, OutputTokens: 64, Arrival: "constant", Seed: 42, MaxTokensField: "max_tokens",
		ExtraBody: map[string]any{"top_k": int64(3), "chat_template_kwargs": map[string]any{"enable_thinking": false}},
	}
	if got.Target.Plans[0].Workload != got.Workload {
		t.Error("the target runs another workload")
	}
	got.Target.Plans = nil
	want := &Experiment{
		Name: "nightly", Workload: w, Warmup: 3, Timeout: 2 * time.Minute, StallTimeout: time.Minute, Settle: 5 * time.Minute, Seed: 42,
		SLOs: []string{"ttft_p95=1s", "itl_p99=100ms"},
		Target: &Target{
			Name: "127.0.0.1:8000", URL: mustURL(t, "http://127.0.0.1:8000"), APIPath: "/v1", Model: "qwen3.5-4b", Warmup: 3, RelayInterval: 5 * time.Second, Histograms: "both",
			MetricsURL: "http://127.0.0.1:8000/metrics", HealthURL: "http://127.0.0.1:8000/health", Engine: "vllm", IPFamily: "any",
			HTTPClientConfig: promconfig.HTTPClientConfig{Authorization: &promconfig.Authorization{Type: "Bearer", CredentialsFile: "testdata/key.txt"}},
		},
		Levels: []ExperimentLevel{
			{Concurrency: 1, PromptTokens: 256, OutputTokens: 64, Duration: 2 * time.Minute},
			{Concurrency: 4, PromptTokens: 8192, OutputTokens: 64, Requests: 128, Duration: 10 * time.Minute},
			{Rate: 2.5, Arrival: "poisson", PromptTokens: 256, OutputTokens: 64, Requests: 240},
			{Rate: 8, Arrival: "constant", MaxInFlight: 500, PromptTokens: 256, OutputTokens: 16, Requests: 960},
		},
	}
	if diff := cmp.Diff(want, got, comparer); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A plan that is written and read again says the same, from another folder too.
func TestExperimentRoundTrip(t *testing.T) {
	first, err := LoadExperiment("testdata/plan-valid.yml", planRules())
	if err != nil {
		t.Fatal(err)
	}
	text, err := first.YAML()
	if err != nil {
		t.Fatal(err)
	}
	here, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	golden := "testdata/plan-valid.stored"
	shown := strings.ReplaceAll(string(text), here, "HERE")
	goldenfile.Check(t, golden, shown, *update)
	t.Chdir(t.TempDir())
	second, err := ParseExperiment("plan.yml", text, planRules())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second, comparer); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

// Each testdata/plan-invalid-RULE.yml breaks a rule; the file .err beside it is what a user reads.
func TestInvalidExperiments(t *testing.T) {
	files, err := filepath.Glob("testdata/plan-invalid-*.yml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yml"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = ParseExperiment("plan.yml", data, planRules()); err == nil {
				t.Fatal("ParseExperiment accepts the file")
			}
			got := err.Error() + "\n"
			if strings.Contains(got, "SECRET") {
				t.Errorf("a secret is shown:\n%s", got)
			}
			golden := strings.TrimSuffix(path, ".yml") + ".err"
			goldenfile.Check(t, golden, got, *update)
		})
	}
}

// A plan for a model needs no target, and is stored without one.
func TestVirtualExperiment(t *testing.T) {
	rules := planRules()
	rules.Virtual = true
	e, err := ParseExperiment("plan.yml", []byte("levels: [{concurrency: 1, requests: 1}]"), rules)
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.YAML()
	if err != nil || strings.Contains(string(text), "target") {
		t.Errorf("%v\n%s", err, text)
	}
}

// Flags make the same plan as a file, and problems name them.
func TestExperimentOfFlags(t *testing.T) {
	settings := []Setting{
		{"target.url", "url", "http://h:8000", true},
		{"target.model", "--model", "7", true},
		{"target.http_client_config.tls_config.insecure_skip_verify", "--insecure", "true", false},
		{"target.http_client_config.authorization.credentials_file", "--api-key-file", "/k", true},
		{"workload.extra_body", "--extra-body", `{"a": [1, {"b": null}], "c": "x\ty"}`, false},
		{"slos[0]", "--slo", "ttft_p95=1s", true},
		{"slos[1]", "--slo", "itl_p95=1s", true},
		{"levels[0].concurrency", "--levels", "4", false},
		{"levels[0].requests", "--requests", "10", false},
		{"levels[1].rate", "--levels", "2.5", false},
		{"levels[1].requests", "--requests", "10", false},
	}
	got, err := ExperimentOf(settings, planRules())
	if err != nil {
		t.Fatal(err)
	}
	want, err := ParseExperiment("plan.yml", []byte(`
target: {url: http://h:8000, model: "7", http_client_config: {tls_config: {insecure_skip_verify: true}, authorization: {credentials_file: /k}}}
workload: {extra_body: {a: [1, {b: null}], c: "x\ty"}}
slos: [ttft_p95=1s, itl_p95=1s]
levels: [{concurrency: 4, requests: 10}, {rate: 2.5, requests: 10}]
`), planRules())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, comparer); diff != "" {
		t.Errorf("(-file +flags):\n%s", diff)
	}
	level := func(key, flag, value string) []Setting {
		return []Setting{{"target.url", "url", "http://h", true}, {"levels[0]." + key, flag, value, false}, {"levels[0].requests", "--requests", "1", false}}
	}
	for _, c := range []struct {
		settings []Setting
		want     string
	}{
		{level("concurrency", "--levels", "x"), `--levels: "x" is not a whole number`},
		{level("concurrency", "--levels", ""), `--levels: "" cannot be read`},
		{level("concurrency", "--levels", "0"), "--levels: must be from 1 to 100000, not 0"},
		{level("rate", "--levels", "-1"), "--levels: must be from 0 to 100000, not -1"},
		{append(level("rate", "--levels", "1"), Setting{"slos[0]", "--slo", "ttft", true}), "--slo: is not an objective"},
		{append(level("rate", "--levels", "1"), Setting{"workload.extra_body", "--extra-body", "{", false}), `--extra-body: "{" cannot be read`},
		{append(level("rate", "--levels", "1"), Setting{"workload.extra_body", "--extra-body", `{"n": 2}`, false}), "--extra-body: the prober sets this field itself"},
		{append(level("rate", "--levels", "1"), Setting{"workload.extra_body", "--extra-body", `{"api_key": "SECRET"}`, false}), "--extra-body: a secret has no place in a plan, which is stored with its results (name a file that holds it: http_client_config has credentials_file, password_file, key_file and, for a header, files)"},
		{append(level("rate", "--levels", "1")[1:], Setting{"target.url", "url", "http://u:SECRET@h", true}), "url: a secret has no place in a plan, which is stored with its results (name a file that holds it: http_client_config has credentials_file, password_file, key_file and, for a header, files)"},
	} {
		_, err := ExperimentOf(c.settings, planRules())
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), c.want) {
			t.Errorf("%v: %v, want %s", c.settings, err, c.want)
		}
	}
}
