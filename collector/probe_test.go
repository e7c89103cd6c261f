package collector

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/llm-prober/llm_prober/prober"
)

// answer is a success: connected after 2 ms, first token 500 ms after that, then two gaps of 20 ms.
func answer(w *prober.Workload, change ...func(*prober.Result)) *prober.Result {
	at := func(ms int) time.Time { return epoch().Add(time.Duration(ms) * time.Millisecond) }
	r := &prober.Result{
		Probe:      &prober.Probe{Target: "a", Workload: w, RequestID: "req-1", Scheduled: at(-3), Started: at(0)},
		Status:     200,
		DialStart:  at(0),
		Connected:  at(2),
		Sent:       at(2),
		Headers:    at(100),
		FirstToken: at(502),
		LastToken:  at(542),
		Ended:      at(550),

		Gaps:         []time.Duration{20 * time.Millisecond, 20 * time.Millisecond},
		FirstTokens:  1,
		ReadDelay:    30 * time.Microsecond,
		KernelStamps: true,
		PromptTokens: 512,
		CachedTokens: 0,
		OutputTokens: 3,
		TokenSource:  prober.FromUsage,
	}
	for _, f := range change {
		f(r)
	}
	return r
}

// failure is a probe that was answered by an error before any token.
func failure(w *prober.Workload, reason prober.Reason) *prober.Result {
	return answer(w, func(r *prober.Result) {
		r.Reason, r.Err = reason, errors.New("dial tcp 10.0.0.1:43210: \xff")
		r.FirstToken, r.LastToken, r.Gaps = time.Time{}, time.Time{}, nil
		r.PromptTokens, r.CachedTokens, r.OutputTokens, r.TokenSource = -1, -1, 0, ""
	})
}

// with is what answer moves, with changes; a value of gone takes a key away.
func with(changes map[string]float64) map[string]float64 {
	m := map[string]float64{
		"requests_total":                        1,
		"up":                                    1,
		"last_success_timestamp_seconds":        1_800_000_000.550,
		"time_to_first_token_seconds_count":     1,
		"time_to_first_token_seconds_sum":       0.5,
		"inter_token_latency_seconds_count":     2,
		"inter_token_latency_seconds_sum":       0.04,
		"time_per_output_token_seconds_count":   1,
		"time_per_output_token_seconds_sum":     0.02,
		"request_duration_seconds_count":        1,
		"request_duration_seconds_sum":          0.54,
		"connect_duration_seconds_count":        1,
		"connect_duration_seconds_sum":          0.002,
		"read_delay_seconds_count":              1,
		"read_delay_seconds_sum":                0.00003,
		"prompt_tokens_total":                   512,
		"cached_prompt_tokens_total":            0,
		`suspect_total{reason="cached_prompt"}`: 0,
		`output_tokens_total{source="usage"}`:   3,
		"stream_events_total":                   3,
	}
	maps.Copy(m, changes)
	maps.DeleteFunc(m, func(_ string, v float64) bool { return v == gone })
	return m
}

const gone = -1

// without lists histograms of with that have no sample.
func without(changes map[string]float64, histograms ...string) map[string]float64 {
	if changes == nil {
		changes = make(map[string]float64)
	}
	for _, h := range histograms {
		changes[h+"_seconds_count"], changes[h+"_seconds_sum"] = gone, gone
	}
	return with(changes)
}

func TestResultBecomesSamples(t *testing.T) {
	suspect := func(s prober.Suspect) func(*prober.Result) {
		return func(r *prober.Result) { r.Suspect = s }
	}
	counted := func(reason string) map[string]float64 {
		return map[string]float64{fmt.Sprintf("suspect_total{reason=%q}", reason): 1}
	}
	tests := []struct {
		name   string
		change func(*prober.Result)
		want   map[string]float64
	}{
		{name: "an ordinary answer", change: func(*prober.Result) {}, want: with(nil)},
		{
			name:   "the server sends no count of cached tokens",
			change: func(r *prober.Result) { r.CachedTokens = -1 },
			want:   with(map[string]float64{"cached_prompt_tokens_total": gone, `suspect_total{reason="cached_prompt"}`: gone}),
		},
		{
			name:   "a cached prompt",
			change: func(r *prober.Result) { r.CachedTokens, r.Suspect = 496, prober.SuspectCachedPrompt },
			want:   with(map[string]float64{"cached_prompt_tokens_total": 496, `suspect_total{reason="cached_prompt"}`: 1}),
		},
		{
			name:   "no usage: tokens are counted as chunks",
			change: func(r *prober.Result) { r.PromptTokens, r.CachedTokens, r.TokenSource = -1, -1, prober.FromChunks },
			want: with(map[string]float64{
				"prompt_tokens_total": gone, "cached_prompt_tokens_total": gone, `suspect_total{reason="cached_prompt"}`: gone,
				`output_tokens_total{source="usage"}`: gone, `output_tokens_total{source="chunks"}`: 3,
			}),
		},
		{
			name:   "several tokens an event: a gap is one sample, TPOT divides",
			change: func(r *prober.Result) { r.FirstTokens, r.OutputTokens = 4, 12 },
			want:   with(map[string]float64{`output_tokens_total{source="usage"}`: 12, "time_per_output_token_seconds_sum": 0.005}),
		},
		{
			name:   "one token: TTFT and no TPOT",
			change: func(r *prober.Result) { r.LastToken, r.Gaps, r.OutputTokens = r.FirstToken, nil, 1 },
			want: without(map[string]float64{
				"request_duration_seconds_sum": 0.5, `output_tokens_total{source="usage"}`: 1, "stream_events_total": 1,
			}, "inter_token_latency", "time_per_output_token"),
		},
		{
			name:   "usage says no token although one came: no TPOT",
			change: func(r *prober.Result) { r.LastToken, r.Gaps, r.OutputTokens = r.FirstToken, nil, 0 },
			want: without(map[string]float64{
				"request_duration_seconds_sum": 0.5, `output_tokens_total{source="usage"}`: gone, "stream_events_total": 1,
			}, "inter_token_latency", "time_per_output_token"),
		},
		{
			name:   "reasoning, then an answer",
			change: func(r *prober.Result) { r.FirstAnswer = r.FirstToken.Add(20 * time.Millisecond) },
			want: with(map[string]float64{
				"time_to_first_answer_seconds_count": 1, "time_to_first_answer_seconds_sum": 0.52, `samples_withheld_total{metric="time_to_first_answer_seconds"}`: 0,
			}),
		},
		{
			name: "the server accounts for the request",
			change: func(r *prober.Result) {
				r.Server = &prober.ServerTimings{Queue: 40 * time.Millisecond, Prefill: 450 * time.Millisecond}
			},
			want: with(map[string]float64{
				"server_queue_seconds_count": 1, "server_queue_seconds_sum": 0.04,
				"server_prefill_seconds_count": 1, "server_prefill_seconds_sum": 0.45,
			}),
		},
		{
			name: "first token read too late: no TTFT, so the server's account is left out too, or the means would not add up",
			change: func(r *prober.Result) {
				r.Suspect, r.ReadDelay, r.Early = prober.SuspectReaderLate, 80*time.Millisecond, []time.Duration{11 * time.Millisecond, 0, 0}
				r.Server = &prober.ServerTimings{Queue: 40 * time.Millisecond, Prefill: 450 * time.Millisecond}
			},
			want: without(map[string]float64{
				`suspect_total{reason="reader_late"}`: 1, "read_delay_seconds_sum": 0.08,
				`samples_withheld_total{metric="time_to_first_token_seconds"}`: 1, `samples_withheld_total{metric="inter_token_latency_seconds"}`: 1,
				`samples_withheld_total{metric="time_per_output_token_seconds"}`: 1,
				"inter_token_latency_seconds_count":                              1, "inter_token_latency_seconds_sum": 0.02,
				"request_duration_seconds_count": 1, "request_duration_seconds_sum": 0.54,
			}, "time_to_first_token", "time_per_output_token"),
		},
		{
			name: "an error of 2 % is none",
			change: func(r *prober.Result) {
				r.Early, r.FirstAnswer, r.AnswerToken = []time.Duration{0, 10 * time.Millisecond, 10 * time.Millisecond}, r.LastToken, 2
			},
			want: without(map[string]float64{
				`samples_withheld_total{metric="inter_token_latency_seconds"}`:   2,
				`samples_withheld_total{metric="time_per_output_token_seconds"}`: 1,
				"time_to_first_answer_seconds_count":                             1, "time_to_first_answer_seconds_sum": 0.54, `samples_withheld_total{metric="time_to_first_answer_seconds"}`: 0,
			}, "inter_token_latency", "time_per_output_token"),
		},
		{
			name:   "no kernel stamps: the read delay is unknown",
			change: func(r *prober.Result) { r.KernelStamps, r.ReadDelay = false, 0 },
			want:   without(nil, "read_delay"),
		},
		{
			name: "coalesced by a proxy", change: suspect(prober.SuspectCoalesced),
			want: without(counted("coalesced"), "inter_token_latency", "time_per_output_token"),
		},
		{
			name: "cut at twice the length", change: suspect(prober.SuspectLongOutput),
			want: without(counted("long_output"), "time_per_output_token", "request_duration"),
		},
		{name: "another prompt length", change: suspect(prober.SuspectPromptLength), want: with(counted("prompt_length"))},
		{
			name: "doubtful twice over", change: suspect(prober.SuspectShortOutput | prober.SuspectNoDone),
			want: with(map[string]float64{`suspect_total{reason="short_output"}`: 1, `suspect_total{reason="no_done"}`: 1}),
		},
		{
			name: "a certificate",
			change: func(r *prober.Result) {
				r.CertNotBefore, r.CertExpiry = time.Unix(1_800_000_000, 0), time.Unix(1_900_000_000, 0)
			},
			want: with(map[string]float64{
				"tls_certificate_not_before_timestamp_seconds": 1_800_000_000, "tls_certificate_expiry_timestamp_seconds": 1_900_000_000,
			}),
		},
		{
			name:   "refused: in no latency histogram",
			change: func(r *prober.Result) { *r = *failure(r.Workload, prober.ReasonRateLimited) },
			want:   map[string]float64{"requests_total": 1, `request_failures_total{reason="rate_limited"}`: 1, "up": 0, "consecutive_failures": 1},
		},
		{
			name: "stalled in mid stream: costs count, latencies do not, nor does doubt",
			change: func(r *prober.Result) {
				r.Reason, r.Suspect, r.TokenSource, r.PromptTokens, r.CachedTokens = prober.ReasonStalled, prober.SuspectReaderLate, prober.FromChunks, -1, -1
			},
			want: map[string]float64{
				"requests_total": 1, `request_failures_total{reason="stalled"}`: 1, "up": 0, "consecutive_failures": 1,
				`output_tokens_total{source="chunks"}`: 3, "stream_events_total": 3,
			},
		},
		{
			name:   "a reason that nobody knows",
			change: func(r *prober.Result) { *r = *failure(r.Workload, "dial tcp: \xff") },
			want:   map[string]float64{"requests_total": 1, `request_failures_total{reason="internal"}`: 1, "up": 0, "consecutive_failures": 1},
		},
		{
			name: "abandoned", change: func(r *prober.Result) { r.Abandoned, r.Reason = true, prober.ReasonInternal },
			want: map[string]float64{},
		},
		{
			name:   "a warm-up probe succeeds: it measures nothing, but the server is up",
			change: func(r *prober.Result) { r.Warmup, r.Suspect = true, prober.SuspectShortOutput },
			want: map[string]float64{
				"warmup_requests_total": 1, "up": 1, "last_success_timestamp_seconds": 1_800_000_000.550,
				"cached_prompt_tokens_total": 0, `suspect_total{reason="cached_prompt"}`: 0,
			},
		},
		{
			name:   "a warm-up probe fails: an ordinary failure",
			change: func(r *prober.Result) { *r = *failure(r.Workload, prober.ReasonTimeout); r.Warmup = true },
			want:   map[string]float64{"requests_total": 1, `request_failures_total{reason="timeout"}`: 1, "up": 0, "consecutive_failures": 1},
		},
		{
			name: "a warm-up probe is abandoned", change: func(r *prober.Result) { r.Abandoned, r.Warmup = true, true },
			want: map[string]float64{},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := chatTarget(chat(3))
			before := short(t, target)
			target.Ended(answer(chat(3), tt.change))
			diffSeries(t, tt.want, moved(before, short(t, target)))
		})
	}
}

func TestEveryReasonAndDoubtHasItsCounter(t *testing.T) {
	target := chatTarget(chat(3))
	for _, reason := range prober.Reasons() {
		target.Ended(failure(chat(3), reason))
	}
	for i := range prober.SuspectNames() {
		target.Ended(answer(chat(3), func(r *prober.Result) { r.Suspect = 1 << i }))
	}
	all := short(t, target)
	for _, reason := range prober.Reasons() {
		if got := all[fmt.Sprintf("llm_probe_request_failures_total{reason=%q}", reason)]; got != 1 {
			t.Errorf("failures with reason %s = %v, want 1", reason, got)
		}
	}
	for _, reason := range prober.SuspectNames() {
		if got := all[fmt.Sprintf("llm_probe_suspect_total{reason=%q}", reason)]; got != 1 {
			t.Errorf("suspects with reason %s = %v, want 1", reason, got)
		}
	}
}

// Ten requests, four of which time out: they count as attempts, and in no latency.
func TestTimeoutsStayInTheDenominator(t *testing.T) {
	target := chatTarget(chat(3))
	for range 6 {
		target.Ended(answer(chat(3)))
	}
	for range 4 {
		target.Ended(failure(chat(3), prober.ReasonTimeout))
	}
	all := short(t, target)
	for name, want := range map[string]float64{
		"llm_probe_requests_total":                           10,
		`llm_probe_request_failures_total{reason="timeout"}`: 4,
		"llm_probe_time_to_first_token_seconds_count":        6,
		"llm_probe_request_duration_seconds_count":           6,
		"llm_probe_consecutive_failures":                     4,
		"llm_probe_up":                                       0,
		"llm_probe_last_success_timestamp_seconds":           1_800_000_000.550,
	} {
		if got := all[name]; got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
}

func TestConsecutiveFailures(t *testing.T) {
	w := chat(3)
	warmup := func(r *prober.Result) *prober.Result { r.Warmup = true; return r }
	abandoned := func(r *prober.Result) *prober.Result { r.Abandoned = true; return r }
	target := chatTarget(w)
	for i, step := range []struct {
		result *prober.Result
		want   float64
	}{
		{failure(w, prober.ReasonConnect), 1},
		{failure(w, prober.ReasonTimeout), 2},
		{abandoned(failure(w, prober.ReasonTimeout)), 2},
		{warmup(failure(w, prober.ReasonTimeout)), 3},
		{warmup(answer(w)), 0},
		{failure(w, prober.ReasonStalled), 1},
		{answer(w), 0},
	} {
		target.Ended(step.result)
		if got := short(t, target)["llm_probe_consecutive_failures"]; got != step.want {
			t.Errorf("step %d: %v consecutive failures, want %v", i, got, step.want)
		}
	}
}

func TestStartDelay(t *testing.T) {
	tests := []struct {
		name   string
		warmup bool
		want   map[string]float64
	}{
		{name: "a probe", want: map[string]float64{"start_delay_seconds_count": 1, "start_delay_seconds_sum": 0.003}},
		{name: "a warm-up probe measures nothing", warmup: true, want: map[string]float64{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := chatTarget(chat(3))
			before := short(t, target)
			r := answer(chat(3), func(r *prober.Result) { r.Warmup = tt.warmup })
			target.Started(r.Probe)
			got := moved(before, short(t, target))
			for _, age := range []string{"in_flight", "oldest_in_flight_seconds", "silence_seconds"} {
				delete(got, age)
			}
			diffSeries(t, tt.want, got)
		})
	}
}

func TestExemplars(t *testing.T) {
	long := strings.Repeat("x", 200)
	tests := []struct {
		name, id string
		want     map[string][]float64 // histogram to the values of its exemplars
	}{
		{
			name: "TTFT, duration and the longest gap", id: "req-1",
			want: map[string][]float64{
				"llm_probe_time_to_first_token_seconds": {0.5},
				"llm_probe_request_duration_seconds":    {0.62},
				"llm_probe_inter_token_latency_seconds": {0.1},
			},
		},
		{name: "no id", id: "", want: map[string][]float64{}},
		{name: "an id beyond the limit of OpenMetrics", id: long, want: map[string][]float64{}},
		{name: "an id that is not UTF-8", id: "\xff", want: map[string][]float64{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			target := chatTarget(chat(4))
			target.Ended(answer(chat(4), func(r *prober.Result) {
				r.RequestID = tt.id
				r.Gaps = []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 10 * time.Millisecond}
				r.LastToken, r.OutputTokens = r.FirstToken.Add(120*time.Millisecond), 4
			}))
			families, err := target.Gather()
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[string][]float64)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					classic, native := exemplarsOf(m.GetHistogram())
					if d := cmp.Diff(classic, native); d != "" {
						t.Errorf("%s: exemplars of classic and native buckets differ:\n%s", f.GetName(), d)
					}
					for _, e := range classic {
						got[f.GetName()] = append(got[f.GetName()], e.Value)
						if e.ID != tt.id {
							t.Errorf("%s: exemplar has request_id %q, want %q", f.GetName(), e.ID, tt.id)
						}
					}
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("exemplars (-want +got):\n%s", d)
			}
		})
	}
}

type foundExemplar struct {
	ID    string
	Value float64
}

func exemplarsOf(h *dto.Histogram) (classic, native []foundExemplar) {
	found := func(e *dto.Exemplar) foundExemplar {
		return foundExemplar{ID: e.GetLabel()[0].GetValue(), Value: e.GetValue()}
	}
	for _, b := range h.GetBucket() {
		if b.Exemplar != nil {
			classic = append(classic, found(b.Exemplar))
		}
	}
	for _, e := range h.GetExemplars() {
		native = append(native, found(e))
	}
	return classic, native
}

// Every error text is another one, and some are not UTF-8: no series comes of any.
func TestErrorsMakeNoSeries(t *testing.T) {
	target := chatTarget(chat(3))
	target.Ended(failure(chat(3), prober.ReasonConnect))
	before := len(short(t, target))
	for i := range 500 {
		r := failure(chat(3), prober.Reasons()[i%len(prober.Reasons())])
		r.Err = fmt.Errorf("read tcp 10.0.0.1:%d: %d \xff", i, time.Now().UnixNano())
		r.Body, r.RemoteAddr, r.RequestID = r.Err.Error(), fmt.Sprint(i), fmt.Sprint(i)
		target.Ended(r)
	}
	if after := len(short(t, target)); after != before {
		t.Errorf("500 failures made %d series of %d", after, before)
	}
}

// A prober runs for months: what it keeps of a probe must be gone when the probe is.
func TestMemoryDoesNotGrow(t *testing.T) {
	w := chat(3)
	target := chatTarget(w, SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: time.Hour}, SLO{Name: "smooth", Indicator: IndicatorITLMax, Threshold: time.Hour})
	probe := func(i int) {
		r := answer(w, func(r *prober.Result) { r.RequestID = fmt.Sprint(i) })
		if i%3 == 0 {
			r.Reason = prober.ReasonTimeout
		}
		target.Started(r.Probe)
		target.Sent(r.Probe, r.Sent)
		target.Token(r.Probe, r.FirstToken, 0)
		target.Ended(r)
	}
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for i := range 1000 {
		probe(i)
	}
	before := heap()
	for i := range 10_000 {
		probe(i)
	}
	if grown := heap() - before; grown > 200_000 { // 20 bytes a probe; a timer or a flight has over 100
		t.Errorf("10,000 probes left %d bytes", grown)
	}
	if n := len(target.workloads["chat"].inFlight.flights); n != 0 {
		t.Errorf("%d probes are still in flight", n)
	}
	runtime.KeepAlive(target)
}
