//go:build vllm

package vllm

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestFlavours holds the same as TestTruth, but for the benchmark, against servers that were started otherwise.
func TestFlavours(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(key, []byte("sk-test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flavour := range []struct {
		name    string
		options []string // of vllm serve
		flags   []string // of llm_prober
		before  func(*testing.T, *server)
		after   func(*testing.T, *server)
	}{
		{"two API servers", []string{"--api-server-count=2"}, nil, gaugesAreAbsent, nil},
		{"reasoning parser", []string{"--reasoning-parser=qwen3"}, nil, nil, reasoningCounts},
		{"API key", []string{"--api-key=sk-test"}, []string{"--target.api-key-file=" + key}, keyIsWrong, nil},
	} {
		t.Run(flavour.name, func(t *testing.T) {
			s := startServer(t, flavour.options...)
			if flavour.before != nil {
				flavour.before(t, s)
			}
			d := startDaemon(t, append(flavour.flags, "--target.url="+s.url, "--probe.interval=1s", "--probe.prompt-tokens=512", "--probe.output-tokens=64")...)
			checkProbes(t, s, d, window(t, 30*time.Second))
			if flavour.after != nil {
				flavour.after(t, s)
			}
		})
	}
}

// gaugesAreAbsent: several API servers share their metrics, and show no gauge before the engine's first step. What
// is unknown is not 0, and not missing either. checkProbes sees that the gauges are there later.
func gaugesAreAbsent(t *testing.T, s *server) {
	t.Helper()
	d := startDaemon(t, "--target.url="+s.url, "--probe.interval=1h") // the relay alone
	defer d.stop(t)
	var p page
	eventually(t, 30*time.Second, "the relay has read the page", func() bool {
		p = d.metrics(t)
		return p.sum("llm_server_up") == 1
	})
	for _, gauge := range []string{"llm_server_requests_running", "llm_server_requests_waiting", "llm_server_kv_cache_usage_ratio"} {
		if got := p.sum(gauge); !math.IsNaN(got) {
			t.Errorf("%s is %v before the first step, want none", gauge, got)
		}
	}
	if missing := p.sum("llm_server_metric_missing"); missing > 0 {
		t.Errorf("%v metrics are called missing before the first step", missing)
	}
	if tokens := p.sum("llm_server_generation_tokens_total"); tokens != 0 {
		t.Errorf("llm_server_generation_tokens_total is %v, want 0: vLLM shows its counters from the start", tokens)
	}
}

// reasoningCounts: where the text is all reasoning, its tokens are tokens, and there is no answer to time.
func reasoningCounts(t *testing.T, s *server) {
	t.Helper()
	body := `{"model":"tiny","messages":[{"role":"user","content":"a"}],"max_tokens":8,"min_tokens":8,"ignore_eos":true,"stream":true}`
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stream, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Contains(stream, []byte(`"reasoning":"`)) {
		t.Fatalf("the server sends no reasoning (%v):\n%s", err, stream)
	}
	d := configured(t, fmt.Sprintf(`
global: {interval: 1s, warmup: 0}
workloads: [{name: thinking, prompt_tokens: 512, output_tokens: 64, extra_body: {chat_template_kwargs: {enable_thinking: true}}}]
targets: [{name: tiny, url: %q}]
`, s.url))
	defer d.stop(t)
	eventually(t, time.Minute, "five probes have ended", func() bool { return d.metrics(t).sum("llm_probe_requests_total") >= 5 })
	for _, r := range d.results(t) {
		checkResult(t, r)
		if r.Events < outputTokens/2 {
			t.Errorf("%s: %d token events of %d tokens", r.RequestID, r.Events, outputTokens)
		}
	}
	if p := d.metrics(t); p.sum("llm_probe_time_to_first_token_seconds_count")+p.sum("llm_probe_samples_withheld_total", `metric="time_to_first_token_seconds"`) < 5 {
		t.Error("reasoning gave no TTFT")
	}
}

// keyIsWrong: without the key a probe fails as auth, and neither the log nor a page shows another's.
func keyIsWrong(t *testing.T, s *server) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "wrong.txt")
	if err := os.WriteFile(key, []byte("sk-not-the-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, "--target.url="+s.url, "--probe.interval=1s", "--target.api-key-file="+key)
	defer d.stop(t)
	eventually(t, 30*time.Second, "two probes have failed", func() bool { return d.metrics(t).sum("llm_probe_request_failures_total") >= 2 })
	p := d.metrics(t)
	if auth, all := p.sum("llm_probe_request_failures_total", `reason="auth"`), p.sum("llm_probe_request_failures_total"); auth != all {
		t.Errorf("%v failures, %v of them auth, want all", all, auth)
	}
	if lines := d.log.with("probe failed"); len(lines) != 1 || strings.Contains(lines[0], "sk-not-the-key") {
		t.Errorf("the log says %q, want one line without the key", lines)
	}
	if lines := d.log.with("the relay is off"); len(lines) != 1 || strings.Contains(lines[0], "sk-not-the-key") {
		t.Errorf("the log says %q, want one line that the server is not known", lines)
	}
}
