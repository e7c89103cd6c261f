package collector

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/prober"
)

// epoch is where the time lines of tests without a clock begin.
func epoch() time.Time { return time.Unix(1_800_000_000, 0) }

// chat is the workload of most tests: 512 tokens in, out tokens out.
func chat(out int) *prober.Workload {
	return &prober.Workload{Name: "chat", API: prober.Chat, PromptTokens: 512, OutputTokens: out}
}

func chatTarget(w *prober.Workload, slos ...SLO) *Target {
	return NewTarget(TargetConfig{
		Name:      "a",
		Workloads: []WorkloadConfig{{Workload: w, Interval: 15 * time.Second}},
		SLOs:      slos,
	})
}

// series reads all series of a gatherer: "name{label="value"}" to its value, a histogram as its count and sum.
// The labels target and workload are left out where skip says so.
func series(t *testing.T, g prometheus.Gatherer, skip ...string) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	all := make(map[string]float64)
	put := func(name string, m *dto.Metric, v float64) {
		var labels []string
		for _, l := range m.GetLabel() {
			if !slices.Contains(skip, l.GetName()) {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
		}
		key := name
		if len(labels) > 0 {
			key += "{" + strings.Join(labels, ",") + "}"
		}
		if _, twice := all[key]; twice {
			t.Errorf("series %s comes twice", key)
		}
		all[key] = v
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch {
			case m.Histogram != nil:
				put(f.GetName()+"_count", m, float64(m.Histogram.GetSampleCount()))
				put(f.GetName()+"_sum", m, m.Histogram.GetSampleSum())
			case m.Counter != nil:
				put(f.GetName(), m, m.Counter.GetValue())
			default:
				put(f.GetName(), m, m.GetGauge().GetValue())
			}
		}
	}
	return all
}

// short reads the series of a target without the labels that they all have.
func short(t *testing.T, target *Target) map[string]float64 {
	t.Helper()
	return series(t, target, "target", "workload")
}

// moved keeps what is new or other than before, without the prefix of every probe metric.
func moved(before, after map[string]float64) map[string]float64 {
	diff := make(map[string]float64)
	for name, v := range after {
		if old, existed := before[name]; !existed || old != v {
			diff[strings.TrimPrefix(name, "llm_probe_")] = v
		}
	}
	for name := range before {
		if _, exists := after[name]; !exists {
			diff["gone "+strings.TrimPrefix(name, "llm_probe_")] = 0
		}
	}
	return diff
}

func diffSeries(t *testing.T, want, got map[string]float64) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Errorf("series differ (-want +got):\n%s", d)
	}
}

func TestEverySeriesThatCountsStartsAtZero(t *testing.T) {
	target := chatTarget(chat(128), SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: time.Second, Objective: 0.99},
		SLO{Name: "works", Indicator: IndicatorSuccess, Objective: 0.995})
	want := map[string]float64{
		`llm_probe_interval_seconds`: 15,
		`llm_probe_workload_info{api="chat",model="",output_tokens="128",prompt_tokens="512"}`: 1,
		`llm_probe_slo_objective_ratio{slo="fast"}`:                                            0.99,
		`llm_probe_slo_objective_ratio{slo="works"}`:                                           0.995,
		`llm_probe_slo_threshold_seconds{indicator="ttft",slo="fast"}`:                         1,
		`llm_probe_output_tokens_total{source="usage"}`:                                        0,
		`llm_probe_output_tokens_total{source="chunks"}`:                                       0,
	}
	for _, name := range []string{
		"requests_total", "missed_total", "warmup_requests_total", "consecutive_failures",
		"in_flight", "oldest_in_flight_seconds", "silence_seconds", "unanswered_seconds", "prompt_tokens_total", "stream_events_total",
	} {
		want["llm_probe_"+name] = 0
	}
	for _, reason := range []string{
		"dns", "connect", "tls", "http_status", "rate_limited", "overloaded", "auth", "model_not_found", "bad_request", "content_type",
		"timeout", "stalled", "truncated", "malformed", "too_large", "server_error", "empty_output", "conn_reset", "internal",
	} {
		want[fmt.Sprintf("llm_probe_request_failures_total{reason=%q}", reason)] = 0
	}
	for _, reason := range []string{ // cached_prompt waits for a count from the server
		"prompt_length", "short_output", "long_output", "coalesced", "reader_late",
		"usage_mismatch", "no_done", "content_type", "field_refused", "degenerate", "other_model", "finish_reason",
	} {
		want[fmt.Sprintf("llm_probe_suspect_total{reason=%q}", reason)] = 0
	}
	for _, slo := range []string{"fast", "works"} {
		want[fmt.Sprintf("llm_probe_slo_events_total{slo=%q}", slo)] = 0
		want[fmt.Sprintf("llm_probe_slo_bad_events_total{slo=%q}", slo)] = 0
		want[fmt.Sprintf("llm_probe_slo_unjudged_total{slo=%q}", slo)] = 0
	}
	for _, metric := range []string{"time_to_first_token", "inter_token_latency", "time_per_output_token", "request_duration"} {
		want[fmt.Sprintf("llm_probe_samples_withheld_total{metric=%q}", metric+"_seconds")] = 0
	}
	for _, name := range []string{
		"time_to_first_token", "inter_token_latency", "time_per_output_token", "request_duration",
		"connect_duration", "start_delay", "read_delay", "server_queue", "server_prefill",
	} {
		want["llm_probe_"+name+"_seconds_count"] = 0
		want["llm_probe_"+name+"_seconds_sum"] = 0
	}
	diffSeries(t, want, short(t, target))
}

func TestConstantLabels(t *testing.T) {
	target := NewTarget(TargetConfig{
		Name:      "qwen-a10",
		Labels:    map[string]string{"site": "ams", "gpu": "a10"},
		Workloads: []WorkloadConfig{{Workload: chat(8)}, {Workload: &prober.Workload{Name: "long"}}},
	})
	all := series(t, target)
	for name := range all {
		if !strings.Contains(name, `gpu="a10"`) || !strings.Contains(name, `site="ams"`) || !strings.Contains(name, `target="qwen-a10"`) {
			t.Errorf("%s lacks a label of its target", name)
		}
	}
	for _, workload := range []string{"chat", "long"} {
		name := fmt.Sprintf(`llm_probe_requests_total{gpu="a10",site="ams",target="qwen-a10",workload=%q}`, workload)
		if v, ok := all[name]; !ok || v != 0 {
			t.Errorf("%s = %v, %v; want 0", name, v, ok)
		}
	}

	labels := target.Labels()
	if d := cmp.Diff(prometheus.Labels{"site": "ams", "gpu": "a10", "target": "qwen-a10"}, labels); d != "" {
		t.Errorf("labels for other collectors (-want +got):\n%s", d)
	}
	labels["target"] = "other"
	if target.Labels()["target"] != "qwen-a10" {
		t.Error("Labels handed out the target's own map")
	}
}

// A label of the configuration cannot take the place of the exporter's own.
func TestOwnLabelsWin(t *testing.T) {
	target := NewTarget(TargetConfig{
		Name:      "a",
		Labels:    map[string]string{"target": "x", "workload": "y"},
		Workloads: []WorkloadConfig{{Workload: chat(8)}},
	})
	if _, ok := series(t, target)[`llm_probe_requests_total{target="a",workload="chat"}`]; !ok {
		t.Error("target and workload are not the exporter's own")
	}
}

func TestWorkloadInfoModel(t *testing.T) {
	const shape = `workload_info{api="chat",model=%q,output_tokens="8",prompt_tokens="512"}`
	tests := []struct {
		name       string
		configured string
		seen       []string
		want       string
	}{
		{name: "none seen", want: ""},
		{name: "the one of the requests", seen: []string{"qwen"}, want: "qwen"},
		{name: "the latest of the requests", seen: []string{"qwen", "llama"}, want: "llama"},
		{name: "one that never got to a model leaves it", seen: []string{"qwen", ""}, want: "qwen"},
		{name: "the configured one", configured: "qwen", seen: []string{"other"}, want: "qwen"},
		{name: "not UTF-8", seen: []string{"q\xffwen"}, want: "q\uFFFDwen"},
		{name: "endless", seen: []string{strings.Repeat("m", 10_000)}, want: strings.Repeat("m", 256)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := chat(8)
			target := NewTarget(TargetConfig{Name: "a", Workloads: []WorkloadConfig{{Workload: w, Model: tt.configured}}})
			for _, model := range tt.seen {
				r := answer(w)
				r.Model = model
				target.Ended(r)
			}
			var got []string
			for name := range maps.Keys(short(t, target)) {
				if strings.Contains(name, "workload_info") {
					got = append(got, strings.TrimPrefix(name, "llm_probe_"))
				}
			}
			if d := cmp.Diff([]string{fmt.Sprintf(shape, tt.want)}, got); d != "" {
				t.Errorf("workload info (-want +got):\n%s", d)
			}
		})
	}
}

func TestMissed(t *testing.T) {
	target := chatTarget(chat(8))
	before := short(t, target)
	target.Missed("a", "chat")
	target.Missed("a", "chat")
	diffSeries(t, map[string]float64{"missed_total": 2}, moved(before, short(t, target)))
}

// Whatever an observer is told of a workload that the target does not have, no series comes of it.
func TestUnknownWorkload(t *testing.T) {
	target := chatTarget(chat(8))
	before := short(t, target)
	other := &prober.Workload{Name: "other", OutputTokens: 8}
	r := answer(other)
	target.Started(r.Probe)
	target.Sent(r.Probe, r.Sent)
	target.Token(r.Probe, r.FirstToken, 0)
	target.Ended(r)
	target.Missed("a", "other")
	diffSeries(t, map[string]float64{}, moved(before, short(t, target)))
}

// Anything that has the target's labels can share its registry, and goes when the target goes.
func TestRegisterer(t *testing.T) {
	target := chatTarget(chat(8))
	up := prometheus.NewGauge(prometheus.GaugeOpts{Name: "llm_server_up", Help: "Up.", ConstLabels: target.Labels()})
	target.Registerer().MustRegister(up)
	up.Set(1)
	if got := series(t, target)[`llm_server_up{target="a"}`]; got != 1 {
		t.Errorf("llm_server_up = %v, want 1", got)
	}
}

// The names, help texts and types are what promtool calls clean, and every collected metric was described.
func TestLint(t *testing.T) {
	families, err := completeTarget(histogram.Both).Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}

	pedantic := prometheus.NewPedanticRegistry()
	w := chat(128)
	set := &metricSet{labels: prometheus.Labels{"target": "a", "workload": "chat"}}
	m := newProbeMetrics(set, WorkloadConfig{Workload: w})
	newInFlight(set, newSLOMetrics(set)).setSLOs([]SLO{{Name: "fast", Indicator: IndicatorTTFT, Threshold: time.Second}})
	pedantic.MustRegister(set)
	m.ended(answer(w))
	if _, err := pedantic.Gather(); err != nil {
		t.Error(err)
	}
}

// completeTarget shows every series that there can be: one of each state, count and measurement.
func completeTarget(kind histogram.Kind) *Target {
	w := chat(128)
	target := NewTarget(TargetConfig{Name: "a", Histograms: kind, Workloads: []WorkloadConfig{{Workload: w}}, SLOs: []SLO{
		{Name: "fast", Indicator: IndicatorTTFT, Threshold: time.Second, Objective: 0.99},
		{Name: "works", Indicator: IndicatorSuccess, Objective: 0.995},
	}})
	target.Ended(answer(w, func(r *prober.Result) {
		r.CertNotBefore, r.CertExpiry = epoch(), epoch().Add(720*time.Hour)
		r.FirstAnswer = r.LastToken
		r.Server = &prober.ServerTimings{Queue: time.Millisecond, Prefill: 90 * time.Millisecond}
	}))
	return target
}
