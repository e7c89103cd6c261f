package collector

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/llm-prober/llm_prober/prober"
)

func named(name string, labels map[string]string) *Target {
	return NewTarget(TargetConfig{
		Name:      name,
		Labels:    labels,
		Workloads: []WorkloadConfig{{Workload: chat(3), Interval: 15 * time.Second}},
		SLOs:      []SLO{{Name: "works", Indicator: IndicatorSuccess, Objective: 0.99}},
	})
}

func setOf(targets ...*Target) *Targets {
	ts := NewTargets()
	ts.Set(targets)
	return ts
}

// The leaner merge gives what prometheus.Gatherers gives, also where targets have other labels and other families.
func TestGatherIsThatOfPrometheus(t *testing.T) {
	a, b, c := named("a", nil), named("b", map[string]string{"site": "ams", "gpu": "a10"}), named("c", map[string]string{"site": "fra"})
	a.Ended(answer(chat(3)))
	b.Ended(failure(chat(3), prober.ReasonConnect))
	self := NewSelf()
	self.Reloaded(true)
	build := only{self, "llm_prober_"} // what the process is doing differs from one moment to the next

	want, err := prometheus.Gatherers{build, a, b, c}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ts := NewTargets(build)
	ts.Set([]*Target{c, a, b})
	got, err := ts.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(names(want), names(got)); d != "" {
		t.Errorf("families and their order (-want +got):\n%s", d)
	}
	bySeries := protocmp.SortRepeated(func(a, b *dto.Metric) bool { return fmt.Sprint(a.GetLabel()) < fmt.Sprint(b.GetLabel()) })
	if d := cmp.Diff(want, got, protocmp.Transform(), bySeries); d != "" {
		t.Errorf("families (-want +got):\n%s", d)
	}
}

// only gathers the families whose names begin with prefix.
type only struct {
	prometheus.Gatherer
	prefix string
}

func (o only) Gather() ([]*dto.MetricFamily, error) {
	families, err := o.Gatherer.Gather()
	return slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), o.prefix) }), err
}

func names(families []*dto.MetricFamily) (names []string) {
	for _, f := range families {
		names = append(names, f.GetName())
	}
	return names
}

// The order of targets does not depend on the order in which they were given, so that two scrapes can be compared.
func TestTargetsInOrder(t *testing.T) {
	families, err := setOf(named("c", nil), named("a", nil), named("b", nil)).Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		var order []string
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "target" {
					order = append(order, l.GetValue())
				}
			}
		}
		if !slices.IsSorted(order) {
			t.Errorf("%s: order of targets %v", f.GetName(), order)
		}
	}
}

func TestRemovedTargetIsGone(t *testing.T) {
	a, b := named("a", nil), named("b", nil)
	r := answer(chat(3))
	b.Ended(answer(chat(3)))
	ts := setOf(a, b)
	a.Started(r.Probe)

	before := series(t, ts)
	ts.Set([]*Target{b})
	// The probe of a ends after the reload, as a failure: nothing of it may come back.
	a.Sent(r.Probe, r.Sent)
	a.Token(r.Probe, r.FirstToken, 0)
	r.Reason = prober.ReasonStalled
	a.Ended(r)

	want := maps.Clone(before)
	maps.DeleteFunc(want, func(name string, _ float64) bool { return strings.Contains(name, `target="a"`) })
	if len(want) == len(before) || len(want) == 0 {
		t.Fatalf("%d of %d series are of other targets than a", len(want), len(before))
	}
	diffSeries(t, want, series(t, ts)) // and b kept every counter
}

// A target whose families contradict another's is told of, and the rest is still exposed.
func TestGatherErrors(t *testing.T) {
	broken := errors.New("broken")
	failing := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) { return nil, broken })
	a, b := named("a", nil), named("b", nil)
	b.Registerer().MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "llm_server_up", Help: "Up.", ConstLabels: b.Labels()}))
	a.Registerer().MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "llm_server_up", Help: "Up.", ConstLabels: a.Labels()}))
	ts := NewTargets(failing)
	ts.Set([]*Target{a, b})

	families, err := ts.Gather()
	if !errors.Is(err, broken) {
		t.Errorf("error %v does not tell of the broken gatherer", err)
	}
	if err == nil || !strings.Contains(err.Error(), "merging metric llm_server_up") {
		t.Errorf("error %v does not tell of llm_server_up", err)
	}
	for _, f := range families {
		if f.GetName() == "llm_probe_requests_total" && len(f.GetMetric()) == 2 {
			return
		}
	}
	t.Error("the healthy metrics of both targets are missing")
}

// Probes, scrapes, reloads of targets and of SLOs at once: for the race detector, and for what must hold in every
// scrape between two increments.
func TestScrapesBetweenIncrements(t *testing.T) {
	a, b := named("a", nil), named("b", nil)
	ts := setOf(a, b)
	done := make(chan struct{})
	var workers sync.WaitGroup
	for _, target := range []*Target{a, a, b} {
		workers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				r := failure(chat(3), prober.ReasonConnect)
				target.Started(r.Probe)
				target.Sent(r.Probe, time.Now())
				target.Token(r.Probe, time.Now(), 0)
				target.Ended(r)
			}
		})
	}
	for i := range 40 {
		ts.Set([][]*Target{{a}, {a, b}}[i%2])
		b.SetSLOs([]SLO{{Name: "works", Indicator: IndicatorSuccess, Objective: 0.9}, {Name: fmt.Sprint(i), Indicator: IndicatorTTFT, Threshold: time.Second}})
		all := series(t, ts)
		for _, target := range []string{"a", "b"} {
			of := func(format string) float64 { return all[fmt.Sprintf(format, target)] }
			requests := of(`llm_probe_requests_total{target=%q,workload="chat"}`)
			failures := of(`llm_probe_request_failures_total{reason="connect",target=%q,workload="chat"}`)
			events := of(`llm_probe_slo_events_total{slo="works",target=%q,workload="chat"}`)
			bad := of(`llm_probe_slo_bad_events_total{slo="works",target=%q,workload="chat"}`)
			if failures > requests || bad > events {
				t.Fatalf("target %s: %v failures of %v requests, %v bad of %v events", target, failures, requests, bad, events)
			}
		}
	}
	close(done)
	workers.Wait()
}

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
