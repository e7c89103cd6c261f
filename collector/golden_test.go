package collector

import (
	"flag"
	"io"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
	"github.com/llm-prober/llm_prober/prober"
)

var update = flag.Bool("update", false, "write the golden files anew")

// A target after a fixed sequence of probes, as /metrics shows it in both text formats.
func TestExposition(t *testing.T) {
	formats := []struct{ name, accept, file string }{
		{"text", "text/plain;version=0.0.4", "target.prom"},
		{"OpenMetrics", "application/openmetrics-text;version=1.0.0", "target.openmetrics"},
	}
	for _, format := range formats {
		t.Run(format.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := scrape(t, setOf(playedTarget()), format.accept)
				file := filepath.Join("testdata", format.file)
				goldenfile.Check(t, file, string(got), *update)
			})
		})
	}
}

func scrape(t *testing.T, targets *Targets, accept string) []byte {
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(targets, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, body)
	}
	return body
}

// playedTarget has seen a warm-up, three answers, a failure, a missed probe and one that hangs in mid stream.
func playedTarget() *Target {
	w := chat(64)
	target := NewTarget(TargetConfig{
		Name:      "qwen-a10",
		Labels:    map[string]string{"site": "ams"},
		Workloads: []WorkloadConfig{{Workload: w, Interval: 5 * sec, Model: "qwen3.5-4b"}},
		SLOs: []SLO{
			{Name: "ttft-fast", Indicator: IndicatorTTFT, Threshold: sec, Objective: 0.99},
			{Name: "itl-smooth", Indicator: IndicatorITLP95, Threshold: 100 * ms, Objective: 0.99},
			{Name: "availability", Indicator: IndicatorSuccess, Objective: 0.995},
		},
	})
	play := func(warmup bool, ttft, gap time.Duration) {
		s := begin(target, w, warmup)
		r := s.result
		r.RequestID = "5f0c6c1e"
		r.DialStart, r.Connected = time.Now(), time.Now().Add(ms)
		time.Sleep(ms)
		send(s)
		time.Sleep(ttft)
		stream(63, gap)(s)
		r.PromptTokens, r.CachedTokens, r.TokenSource, r.KernelStamps, r.ReadDelay = 512, 0, prober.FromUsage, true, 40*time.Microsecond
		r.Server = &prober.ServerTimings{Queue: 10 * ms, Prefill: ttft - 20*ms}
		good(s)
		time.Sleep(sec)
	}
	play(true, 900*ms, 20*ms)
	play(false, 120*ms, 20*ms)
	play(false, 130*ms, 21*ms)
	play(false, 1500*ms, 20*ms)
	fail(prober.ReasonOverloaded)(begin(target, w, false))
	target.Missed("qwen-a10", "chat")

	hung := begin(target, w, false)
	send(hung)
	hung.until(200 * ms)
	stream(10, 20*ms)(hung)
	hung.until(8400 * ms)
	return target
}
