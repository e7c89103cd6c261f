package collector

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/prober"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// stage plays one probe to a target, in virtual time, and remembers it as a Result.
type stage struct {
	target *Target
	result *prober.Result
}

func begin(target *Target, w *prober.Workload, warmup bool) *stage {
	now := time.Now()
	p := &prober.Probe{Target: target.Name(), Workload: w, RequestID: "req-1", Warmup: warmup, Scheduled: now, Started: now}
	target.Started(p)
	return &stage{target: target, result: &prober.Result{Probe: p, FirstTokens: 1, PromptTokens: -1, CachedTokens: -1}}
}

// until sleeps until so long after the probe's start, and lets the timers of that moment run.
func (s *stage) until(d time.Duration) {
	time.Sleep(time.Until(s.result.Started.Add(d)))
	synctest.Wait()
}

func (s *stage) send() {
	s.result.Sent = time.Now()
	s.target.Sent(s.result.Probe, s.result.Sent)
}

// token reports a token event that arrived at the given moment, which may be past.
func (s *stage) token(at time.Time, early time.Duration) {
	r := s.result
	if r.FirstToken.IsZero() {
		r.FirstToken = at
	} else {
		r.Gaps = append(r.Gaps, at.Sub(r.LastToken))
	}
	r.LastToken = at
	r.OutputTokens++
	s.target.Token(r.Probe, at, early)
}

func (s *stage) end() {
	s.result.Ended = time.Now()
	s.target.Ended(s.result)
}

// What a step does.
func send(s *stage)  { s.send() }
func token(s *stage) { s.token(time.Now(), 0) }
func good(s *stage)  { s.end() }

func stamped(d time.Duration) func(*stage) {
	return func(s *stage) { s.token(s.result.Started.Add(d), 0) }
}

// stream reports a token now and n more, one every gap.
func stream(n int, gap time.Duration) func(*stage) {
	return func(s *stage) {
		token(s)
		for range n {
			time.Sleep(gap)
			token(s)
		}
	}
}

func fail(reason prober.Reason) func(*stage) {
	return func(s *stage) { s.result.Reason = reason; s.end() }
}

func doubtful(why prober.Suspect) func(*stage) {
	return func(s *stage) { s.result.Suspect = why; s.end() }
}

// unsure ends a probe well whose token event may have come earlier than its stamp.
func unsure(token int, early time.Duration) func(*stage) {
	return func(s *stage) {
		s.result.Early = make([]time.Duration, len(s.result.Gaps)+1)
		s.result.Early[token] = early
		s.end()
	}
}

// merged reports a token that may have come earlier than now.
func merged(early time.Duration) func(*stage) {
	return func(s *stage) { s.token(time.Now(), early) }
}

func abandon(s *stage) { s.result.Abandoned = true; s.end() }

// step is what happens at a moment after the start, and how many bad events of how many the SLO has then.
type step struct {
	at   time.Duration
	do   func(*stage)
	want string
}

type verdictTest struct {
	name   string
	tokens int // asked for; 128 if not told
	warmup bool
	steps  []step
}

func TestVerdictOnTTFT(t *testing.T) {
	testVerdicts(t, SLO{Indicator: IndicatorTTFT, Threshold: sec}, []verdictTest{
		{name: "in time", steps: []step{{2 * ms, send, "0/0"}, {900 * ms, token, "0/0"}, {2 * sec, nil, "0/0"}, {3 * sec, good, "0/1"}}},
		{name: "a healthy answer of 30 s", steps: []step{{2 * ms, send, "0/0"}, {500 * ms, stream(127, 230*ms), "0/0"}, {30 * sec, good, "0/1"}}},
		{name: "to the very threshold", steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {2 * sec, good, "0/1"}}},
		{name: "hangs while connecting", steps: []step{{1099 * ms, nil, "0/0"}, {1100 * ms, nil, "1/1"}, {60 * sec, fail(prober.ReasonTimeout), "1/1"}}},
		{name: "hangs once the request is sent: counts from there", steps: []step{{500 * ms, send, "0/0"}, {1599 * ms, nil, "0/0"}, {1600 * ms, nil, "1/1"}, {9 * sec, token, "1/1"}, {10 * sec, good, "1/1"}}},
		{name: "connects slowly, then answers in time", steps: []step{{800 * ms, send, "0/0"}, {1700 * ms, token, "0/0"}, {2 * sec, good, "0/1"}}},
		{name: "connects too slowly", steps: []step{{1050 * ms, send, "1/1"}, {1060 * ms, token, "1/1"}, {2 * sec, good, "1/1"}}},
		{name: "sent again without a refused field", steps: []step{{100 * ms, send, "0/0"}, {900 * ms, send, "0/0"}, {1800 * ms, token, "0/0"}, {2 * sec, good, "0/1"}}},
		{name: "arrived in time, read after the threshold", steps: []step{{0, send, "0/0"}, {1090 * ms, stamped(990 * ms), "0/0"}, {2 * sec, good, "0/1"}}},
		{name: "arrived too late, read before the timer", steps: []step{{0, send, "0/0"}, {1050 * ms, stamped(1040 * ms), "1/1"}, {2 * sec, good, "1/1"}}},
		{name: "refused at once", steps: []step{{10 * ms, fail(prober.ReasonConnect), "1/1"}, {5 * sec, nil, "1/1"}}},
		{name: "first token in time, then a failure", steps: []step{{0, send, "0/0"}, {500 * ms, token, "0/0"}, {40 * sec, fail(prober.ReasonStalled), "1/1"}}},
		{name: "read late, but stamped in time", steps: []step{{0, send, "0/0"}, {500 * ms, token, "0/0"}, {sec, unsure(0, 400*ms), "0/1"}}},
		{name: "too late, perhaps", steps: []step{{0, send, "0/0"}, {1020 * ms, merged(30 * ms), "0/0"}, {2 * sec, unsure(0, 30*ms), "0/0 and 1"}}},
		{name: "too late, at any rate", steps: []step{{0, send, "0/0"}, {1020 * ms, merged(10 * ms), "1/1"}, {2 * sec, unsure(0, 10*ms), "1/1"}}},
		{name: "abandoned", steps: []step{{0, send, "0/0"}, {500 * ms, abandon, "0/0"}, {5 * sec, nil, "0/0"}}},
		{name: "abandoned after its verdict: it stays", steps: []step{{0, send, "0/0"}, {1100 * ms, nil, "1/1"}, {5 * sec, abandon, "1/1"}}},
		{name: "a slow warm-up that succeeds", warmup: true, steps: []step{{0, send, "0/0"}, {5 * sec, token, "0/0"}, {6 * sec, good, "0/0"}}},
		{name: "a warm-up that connects slowly", warmup: true, steps: []step{{5 * sec, send, "0/0"}, {6 * sec, token, "0/0"}, {7 * sec, good, "0/0"}}},
		{name: "a warm-up that hangs: at its end", warmup: true, steps: []step{{0, send, "0/0"}, {59 * sec, nil, "0/0"}, {60 * sec, fail(prober.ReasonTimeout), "1/1"}}},
	})
}

func TestVerdictOnDuration(t *testing.T) {
	testVerdicts(t, SLO{Indicator: IndicatorDuration, Threshold: 10 * sec}, []verdictTest{
		{name: "in time", steps: []step{{0, send, "0/0"}, {sec, stream(127, 50*ms), "0/0"}, {8 * sec, good, "0/1"}}},
		{name: "hangs while connecting", steps: []step{{10099 * ms, nil, "0/0"}, {10100 * ms, nil, "1/1"}, {60 * sec, fail(prober.ReasonTimeout), "1/1"}}},
		{name: "counts from the request", steps: []step{{5 * sec, send, "0/0"}, {15099 * ms, nil, "0/0"}, {15100 * ms, nil, "1/1"}, {60 * sec, fail(prober.ReasonTimeout), "1/1"}}},
		{name: "counts from the request, and is in time", tokens: 3, steps: []step{{5 * sec, send, "0/0"}, {14 * sec, stream(2, 100*ms), "0/0"}, {16 * sec, good, "0/1"}}},
		{name: "hangs in mid stream", steps: []step{{0, send, "0/0"}, {sec, stream(3, 10*ms), "0/0"}, {10099 * ms, nil, "0/0"}, {10100 * ms, nil, "1/1"}, {31 * sec, fail(prober.ReasonStalled), "1/1"}}},
		{name: "too slow, token by token", steps: []step{{0, send, "0/0"}, {sec, stream(17, 500*ms), "0/0"}, {10 * sec, token, "0/0"}, {10050 * ms, token, "1/1"}, {11 * sec, good, "1/1"}}},
		{name: "all tokens in time, the end of the stream is not", tokens: 3, steps: []step{{0, send, "0/0"}, {sec, stream(2, sec), "0/0"}, {15 * sec, nil, "0/0"}, {20 * sec, good, "0/1"}}},
		{name: "short and slow, and nothing follows", tokens: 3, steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {10100 * ms, nil, "1/1"}, {11 * sec, good, "1/1"}}},
		{name: "too slow, perhaps", tokens: 2, steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {10050 * ms, merged(100 * ms), "0/0"}, {11 * sec, unsure(1, 100*ms), "0/0 and 1"}}},
		{name: "longer than asked, beyond the threshold", tokens: 3, steps: []step{{0, send, "0/0"}, {sec, stream(2, sec), "0/0"}, {12 * sec, token, "0/0"}, {13 * sec, doubtful(prober.SuspectLongOutput), "1/1"}}},
		{name: "fails", steps: []step{{0, send, "0/0"}, {sec, fail(prober.ReasonOverloaded), "1/1"}}},
	})
}

func TestVerdictOnLongestGap(t *testing.T) {
	testVerdicts(t, SLO{Indicator: IndicatorITLMax, Threshold: 500 * ms}, []verdictTest{
		{name: "every gap in time", steps: []step{{0, send, "0/0"}, {sec, stream(127, 500*ms), "0/0"}, {70 * sec, good, "0/1"}}},
		{name: "hangs in mid stream", steps: []step{{0, send, "0/0"}, {sec, stream(10, 20*ms), "0/0"}, {1799 * ms, nil, "0/0"}, {1800 * ms, nil, "1/1"}, {31 * sec, fail(prober.ReasonStalled), "1/1"}}},
		{name: "one gap too long", steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {1550 * ms, token, "1/1"}, {2 * sec, good, "1/1"}}},
		{name: "read late, stamped in time", steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {1590 * ms, stamped(1490 * ms), "0/0"}, {1600 * ms, good, "0/1"}}},
		{name: "a late first token is no gap", steps: []step{{0, send, "0/0"}, {30 * sec, token, "0/0"}, {30100 * ms, token, "0/0"}, {30200 * ms, good, "0/1"}}},
		{name: "what follows the last token is no gap", tokens: 3, steps: []step{{0, send, "0/0"}, {sec, stream(2, 10*ms), "0/0"}, {10 * sec, good, "0/1"}}},
		{name: "one token has no gap", tokens: 1, steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {10 * sec, good, "0/0"}}},
		{name: "one token, and it fails", tokens: 1, steps: []step{{0, send, "0/0"}, {sec, fail(prober.ReasonServerError), "1/1"}}},
		{name: "a proxy buffers: not judged while it seems so, nor at the end", tokens: 21, steps: []step{{0, send, "0/0"}, {sec, stream(10, 0), "0/0"}, {3 * sec, stream(9, 0), "0/0"}, {4 * sec, doubtful(prober.SuspectCoalesced), "0/0"}}},
		{name: "a buffer that fills and then a hang: bad when it fails", tokens: 21, steps: []step{{0, send, "0/0"}, {sec, stream(10, 0), "0/0"}, {30 * sec, nil, "0/0"}, {31 * sec, fail(prober.ReasonStalled), "1/1"}}},
		{name: "read too late to know, and then a hang", steps: []step{{0, send, "0/0"}, {sec, stream(9, 10*ms), "0/0"}, {2 * sec, nil, "1/1"}, {3 * sec, unsure(3, 10*ms), "1/1"}}},
		{name: "read too late to know, but short at any rate", tokens: 10, steps: []step{{0, send, "0/0"}, {sec, stream(9, 10*ms), "0/0"}, {2 * sec, unsure(3, 10*ms), "0/1"}}},
		{name: "read too late to know", tokens: 3, steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {1550 * ms, merged(60 * ms), "0/0"}, {1560 * ms, token, "0/0"}, {2 * sec, unsure(1, 60*ms), "0/0 and 1"}}},
		{name: "the one before may have been earlier", tokens: 3, steps: []step{{0, send, "0/0"}, {sec, stream(2, 490*ms), "0/0"}, {3 * sec, unsure(1, 20*ms), "0/0 and 1"}}},
		{name: "a warm-up that stutters", warmup: true, steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {9 * sec, token, "0/0"}, {10 * sec, good, "0/0"}}},
	})
}

func TestVerdictOn95thPercentileOfGaps(t *testing.T) {
	const long = 200 * ms
	// 41 tokens have 40 gaps, of which 40 − ⌈0.95·40⌉ = 2 may be too long.
	testVerdicts(t, SLO{Indicator: IndicatorITLP95, Threshold: 100 * ms}, []verdictTest{
		{name: "two of 40 gaps may be long", tokens: 41, steps: []step{
			{0, send, "0/0"}, {sec, stream(2, long), "0/0"}, {1410 * ms, stream(37, 10*ms), "0/0"}, {5 * sec, good, "0/1"},
		}},
		{name: "the third is bad as soon as it is too long, while it is open", tokens: 41, steps: []step{
			{0, send, "0/0"}, {sec, stream(2, long), "0/0"}, {1599 * ms, nil, "0/0"}, {1600 * ms, nil, "1/1"}, {5 * sec, good, "1/1"},
		}},
		{name: "gaps of the very threshold are not too long", tokens: 41, steps: []step{
			{0, send, "0/0"}, {sec, stream(2, 100*ms), "0/0"}, {1200*ms + long, stream(37, 10*ms), "0/0"}, {5 * sec, good, "0/1"},
		}},
		{name: "the third is bad by its stamp", tokens: 41, steps: []step{
			{0, send, "0/0"}, {sec, stream(2, long), "0/0"}, {1550 * ms, token, "1/1"}, {5 * sec, good, "1/1"},
		}},
		{name: "a hang is one long gap: bad when it fails", tokens: 41, steps: []step{
			{0, send, "0/0"}, {sec, stream(5, 10*ms), "0/0"}, {30 * sec, nil, "0/0"}, {31050 * ms, fail(prober.ReasonStalled), "1/1"},
		}},
		{name: "25 gaps came of 40: one of them may be long, not two", tokens: 41, steps: []step{
			{0, send, "0/0"}, {sec, stream(2, long), "0/0"}, {1410 * ms, stream(22, 10*ms), "0/0"}, {2 * sec, doubtful(prober.SuspectShortOutput), "1/1"},
		}},
		{name: "fewer than 20 gaps: no event", tokens: 20, steps: []step{
			{0, send, "0/0"}, {sec, stream(19, long), "0/0"}, {5 * sec, good, "0/0"},
		}},
		{name: "fewer than 20 gaps, and it fails", tokens: 20, steps: []step{
			{0, send, "0/0"}, {sec, stream(3, 10*ms), "0/0"}, {5 * sec, fail(prober.ReasonTruncated), "1/1"},
		}},
		{name: "20 gaps are enough: one may be long", tokens: 21, steps: []step{
			{0, send, "0/0"}, {sec, stream(19, 10*ms), "0/0"}, {1190*ms + long, token, "0/0"}, {5 * sec, good, "0/1"},
		}},
		{name: "read too late to know", tokens: 21, steps: []step{
			{0, send, "0/0"}, {sec, stream(19, 10*ms), "0/0"}, {1190*ms + long, stream(0, 0), "0/0"}, {5 * sec, unsure(18, 95*ms), "0/0 and 1"},
		}},
	})
}

// How many gaps may be too long is n − ⌈0.95·n⌉, for any n.
func TestAllowedGaps(t *testing.T) {
	p95, longest := verdict{slo: &slo{SLO: SLO{Indicator: IndicatorITLP95}}}, verdict{slo: &slo{SLO: SLO{Indicator: IndicatorITLMax}}}
	for n := range 500 {
		if got, want := p95.allowed(n), n-(95*n+99)/100; got != want {
			t.Errorf("itl_p95: %d of %d gaps are allowed, want %d", got, n, want)
		}
		if got := longest.allowed(n); got != 0 {
			t.Errorf("itl_max: %d of %d gaps are allowed, want 0", got, n)
		}
	}
}

func TestVerdictOnSuccess(t *testing.T) {
	testVerdicts(t, SLO{Indicator: IndicatorSuccess}, []verdictTest{
		{name: "succeeds, however slowly", steps: []step{{0, send, "0/0"}, {30 * sec, stream(127, 200*ms), "0/0"}, {59 * sec, good, "0/1"}}},
		{name: "fails", steps: []step{{0, send, "0/0"}, {60 * sec, fail(prober.ReasonTimeout), "1/1"}}},
		{name: "the prober fails", steps: []step{{0, send, "0/0"}, {sec, fail(prober.ReasonInternal), "0/0"}}},
		{name: "abandoned", steps: []step{{0, send, "0/0"}, {sec, abandon, "0/0"}}},
		{name: "a warm-up succeeds", warmup: true, steps: []step{{0, send, "0/0"}, {sec, token, "0/0"}, {2 * sec, good, "0/0"}}},
		{name: "a warm-up fails", warmup: true, steps: []step{{sec, fail(prober.ReasonConnect), "1/1"}}},
		{name: "a warm-up is abandoned", warmup: true, steps: []step{{sec, abandon, "0/0"}}},
	})
}

func testVerdicts(t *testing.T, slo SLO, tests []verdictTest) {
	slo.Name = "slo"
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := chat(128)
				if tt.tokens > 0 {
					w = chat(tt.tokens)
				}
				target := chatTarget(w, slo)
				s := begin(target, w, tt.warmup)
				for _, step := range tt.steps {
					s.until(step.at)
					if step.do != nil {
						step.do(s)
					}
					if got := counted(t, target, "slo"); got != step.want {
						t.Fatalf("%v after the start: %s events are bad, want %s", step.at, got, step.want)
					}
				}
			})
		})
	}
}

// counted is "bad/events" of an SLO, "bad/events and unjudged" if there are any, or "none" if it has no series.
func counted(t *testing.T, target *Target, slo string) string {
	t.Helper()
	all := short(t, target)
	bad, ok := all[fmt.Sprintf("llm_probe_slo_bad_events_total{slo=%q}", slo)]
	events, too := all[fmt.Sprintf("llm_probe_slo_events_total{slo=%q}", slo)]
	if !ok && !too {
		return "none"
	}
	text := fmt.Sprintf("%g/%g", bad, events)
	if unjudged := all[fmt.Sprintf("llm_probe_slo_unjudged_total{slo=%q}", slo)]; unjudged > 0 {
		text += fmt.Sprintf(" and %g", unjudged)
	}
	return text
}

// SLOs judge on their own: what one finds bad early, another finds good at the end.
func TestEachSLOHasItsOwnVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(3)
		target := chatTarget(w,
			SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: sec},
			SLO{Name: "patient", Indicator: IndicatorTTFT, Threshold: 5 * sec},
			SLO{Name: "works", Indicator: IndicatorSuccess},
			SLO{Name: "elsewhere", Indicator: IndicatorSuccess, Workloads: []string{"other"}},
		)
		s := begin(target, w, false)
		send(s)
		s.until(3 * sec)
		stream(2, 10*ms)(s)
		good(s)
		for slo, want := range map[string]string{"fast": "1/1", "patient": "0/1", "works": "0/1", "elsewhere": "none"} {
			if got := counted(t, target, slo); got != want {
				t.Errorf("%s: %s, want %s", slo, got, want)
			}
		}
	})
}

// Probes that overlap have their verdicts one by one.
func TestOverlappingProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(3)
		target := chatTarget(w, SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: sec})
		var stages []*stage
		for range 4 {
			s := begin(target, w, false)
			send(s)
			stages = append(stages, s)
			time.Sleep(500 * ms)
		}
		// The first was sent 2 s ago, the last 0.5 s ago: two are beyond threshold and grace.
		synctest.Wait()
		if got := counted(t, target, "fast"); got != "2/2" {
			t.Errorf("after 2 s: %s, want 2/2", got)
		}
		for _, s := range stages {
			stream(2, 0)(s)
			good(s)
		}
		if got := counted(t, target, "fast"); got != "2/4" {
			t.Errorf("at the end: %s, want 2/4", got)
		}
	})
}

func TestSetSLOs(t *testing.T) {
	base := SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: sec, Objective: 0.99}
	changed := func(f func(*SLO)) []SLO {
		s := base
		f(&s)
		return []SLO{s}
	}
	const objective = `llm_probe_slo_objective_ratio{slo="fast"}`
	threshold := func(all map[string]float64) (sum float64) { // one at most: that of another indicator vanishes
		for _, indicator := range []Indicator{IndicatorTTFT, IndicatorDuration} {
			sum += all[fmt.Sprintf(`llm_probe_slo_threshold_seconds{indicator=%q,slo="fast"}`, indicator)]
		}
		return sum
	}
	tests := []struct {
		name                         string
		next                         []SLO
		want                         string // of the SLO after the reload
		wantObjective, wantThreshold float64
		wantLater                    string // after the probe in flight at the reload failed, and one more
	}{
		{name: "unchanged", next: []SLO{base}, want: "1/2", wantObjective: 0.99, wantThreshold: 1, wantLater: "3/4"},
		{name: "another beside it", next: []SLO{{Name: "works", Indicator: IndicatorSuccess}, base}, want: "1/2", wantObjective: 0.99, wantThreshold: 1, wantLater: "3/4"},
		{name: "objective", next: changed(func(s *SLO) { s.Objective = 0.9 }), want: "1/2", wantObjective: 0.9, wantThreshold: 1, wantLater: "3/4"},
		{name: "threshold: another question", next: changed(func(s *SLO) { s.Threshold = 2 * sec }), want: "0/0", wantObjective: 0.99, wantThreshold: 2, wantLater: "1/1"},
		{name: "indicator with the same threshold: another question", next: changed(func(s *SLO) { s.Indicator = IndicatorDuration }), want: "0/0", wantObjective: 0.99, wantThreshold: 1, wantLater: "1/1"},
		{name: "indicator: another question", next: changed(func(s *SLO) { s.Indicator, s.Threshold = IndicatorSuccess, 0 }), want: "0/0", wantObjective: 0.99, wantLater: "1/1"},
		{name: "another workload", next: changed(func(s *SLO) { s.Workloads = []string{"other"} }), want: "none", wantLater: "none"},
		{name: "removed", next: nil, want: "none", wantLater: "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := chat(1)
				target := chatTarget(w, base)
				s := begin(target, w, false)
				send(s)
				token(s)
				good(s)
				fail(prober.ReasonConnect)(begin(target, w, false))

				inFlight := begin(target, w, false)
				target.SetSLOs(tt.next)
				all := short(t, target)
				if got := counted(t, target, "fast"); got != tt.want {
					t.Errorf("after the reload: %s, want %s", got, tt.want)
				}
				if all[objective] != tt.wantObjective || threshold(all) != tt.wantThreshold {
					t.Errorf("objective %v and threshold %v, want %v and %v", all[objective], threshold(all), tt.wantObjective, tt.wantThreshold)
				}

				// The probe in flight keeps the SLO it began with, also when that is gone.
				fail(prober.ReasonConnect)(inFlight)
				fail(prober.ReasonConnect)(begin(target, w, false))
				if got := counted(t, target, "fast"); got != tt.wantLater {
					t.Errorf("after two more failures: %s, want %s", got, tt.wantLater)
				}
			})
		})
	}
}

// Verdicts says what the counters say, for those who show it beside the metrics.
func TestVerdicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(1)
		slo := SLO{Name: "works", Indicator: IndicatorSuccess, Objective: 0.99}
		target := chatTarget(w, slo)
		s := begin(target, w, false)
		send(s)
		token(s)
		good(s)
		fail(prober.ReasonConnect)(begin(target, w, false))
		want := []Verdicts{{SLO: slo, Workload: w.Name, Events: 2, Bad: 1}}
		if diff := cmp.Diff(want, target.Verdicts()); diff != "" {
			t.Error(diff)
		}
	})
}

// An SLO that comes back after it was removed starts anew.
func TestSLORemovedAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(1)
		slo := SLO{Name: "works", Indicator: IndicatorSuccess, Objective: 0.99}
		target := chatTarget(w, slo)
		inFlight := begin(target, w, false)
		fail(prober.ReasonConnect)(begin(target, w, false))
		target.SetSLOs(nil)
		target.SetSLOs([]SLO{slo})
		fail(prober.ReasonConnect)(inFlight) // an event of the SLO that was removed
		if got := counted(t, target, "works"); got != "0/0" {
			t.Errorf("%s, want 0/0", got)
		}
	})
}
