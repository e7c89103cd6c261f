package collector

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/llm-prober/llm_prober/prober"
)

func manyTargets(n int) *Targets {
	var targets []*Target
	for i := range n {
		w := &prober.Workload{Name: "chat-512-128", API: prober.Chat, PromptTokens: 512, OutputTokens: 128}
		t := NewTarget(TargetConfig{
			Name:      fmt.Sprintf("target-%04d", i),
			Labels:    map[string]string{"site": "ams", "gpu": "a10"},
			Workloads: []WorkloadConfig{{Workload: w, Interval: 15 * time.Second}},
			SLOs: []SLO{
				{Name: "ttft", Indicator: IndicatorTTFT, Threshold: 2 * time.Second, Objective: 0.99},
				{Name: "availability", Indicator: IndicatorSuccess, Objective: 0.99},
			},
		})
		for k := range 3 {
			now := time.Now()
			p := &prober.Probe{Target: t.Name(), Workload: w, RequestID: fmt.Sprintf("%032d", k), Scheduled: now, Started: now}
			t.Started(p)
			gaps := make([]time.Duration, 127)
			for g := range gaps {
				gaps[g] = time.Duration(15+g%7+i%5) * time.Millisecond
			}
			t.Ended(&prober.Result{
				Probe: p, DialStart: now, Connected: now.Add(time.Millisecond), Sent: now,
				FirstToken: now.Add(100 * time.Millisecond), LastToken: now.Add(2 * time.Second), Ended: now.Add(2 * time.Second),
				Gaps: gaps, FirstTokens: 1, OutputTokens: 128, PromptTokens: 512, KernelStamps: true, TokenSource: prober.FromUsage,
				Server: &prober.ServerTimings{Queue: time.Millisecond, Prefill: 90 * time.Millisecond},
			})
		}
		targets = append(targets, t)
	}
	ts := NewTargets()
	ts.Set(targets)
	return ts
}

func BenchmarkScrape(b *testing.B) {
	ts := manyTargets(1000)
	for name, accept := range map[string]string{
		"text":        "text/plain",
		"openmetrics": "application/openmetrics-text;version=1.0.0",
		"protobuf":    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	} {
		b.Run(name, func(b *testing.B) {
			h := promhttp.HandlerFor(ts, promhttp.HandlerOpts{EnableOpenMetrics: true, DisableCompression: true})
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("GET", "/metrics", nil)
				r.Header.Set("Accept", accept)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				b.ReportMetric(float64(w.Body.Len()), "bytes")
			}
		})
	}
	b.Run("gather", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ts.Gather(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
