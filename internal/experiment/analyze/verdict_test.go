package analyze

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// A level of 100 requests with TTFTs of 1 to 100 ms, in an order that tells nothing, and gaps of 10 ms.
func hundred(t testing.TB, change func(*experiment.Run)) *experiment.Run {
	t.Helper()
	run := &experiment.Run{Plan: experiment.Plan{Levels: []experiment.Level{{Concurrency: 1, PromptTokens: 5, OutputTokens: 3, Requests: 100}}}}
	at := epoch
	for i := range 100 {
		ttft := time.Duration(i*37%100+1) * time.Millisecond
		r := experiment.Request{Result: prober.Result{
			Probe: &prober.Probe{Scheduled: at, Started: at},
			Sent:  at, FirstToken: at.Add(ttft), LastToken: at.Add(ttft + 20*time.Millisecond), Gaps: []time.Duration{seconds(0.01), seconds(0.01)}, FirstTokens: 1, OutputTokens: 3, PromptTokens: 5, CachedTokens: -1,
		}}
		r.Ended = r.LastToken
		run.Requests = append(run.Requests, r)
		at = r.Ended
	}
	run.Levels = []experiment.LevelRun{{Start: epoch, End: at}}
	if change != nil {
		change(run)
	}
	return run
}

func fail(run *experiment.Run, n int) {
	for i := range n {
		run.Requests[i].Reason = "timeout"
	}
}

func TestVerdict(t *testing.T) {
	inf := experiment.Figure(math.Inf(1))
	for _, c := range []struct {
		name       string
		objective  string
		change     func(*experiment.Run)
		value      experiment.Figure
		held, sure bool
	}{
		{"well below", "ttft_p50=90ms", nil, 0.05, true, true},
		{"just below", "ttft_p50=51ms", nil, 0.05, true, false},
		{"equal", "ttft_p50=50ms", nil, 0.05, true, false},
		{"just above", "ttft_p50=49ms", nil, 0.05, false, false},
		{"well above", "ttft_p50=10ms", nil, 0.05, false, true},
		{"any percentile", "ttft_p33=50ms", nil, 0.033, true, true},
		{"no upper bound", "ttft_p99=200ms", nil, 0.099, true, false},
		{"every gap", "itl_p95=10ms", nil, 0.01, true, true},
		// Of 100 the 10 that failed are the slowest: the p90 of all is the slowest of the 90.
		{"failures are slow", "ttft_p90=100ms", func(run *experiment.Run) { fail(run, 10) }, 0.1, true, false},
		{"failures are too many", "ttft_p90=200ms", func(run *experiment.Run) { fail(run, 11) }, inf, false, true},
		{"missed ones too", "ttft_p90=200ms", func(run *experiment.Run) { run.Levels[0].Missed = 12 }, inf, false, true},
		{"all failed", "ttft_p50=1s", func(run *experiment.Run) { fail(run, 100) }, nan, false, true},
		{"nothing was sent", "ttft_p50=1s", func(run *experiment.Run) { run.Requests = nil }, nan, false, false},
		{"unknown", "tpot_p50=1s", func(run *experiment.Run) {
			for i := range run.Requests {
				run.Requests[i].Suspect = prober.SuspectCoalesced
			}
		}, nan, false, false},
	} {
		o, err := experiment.ParseObjective(c.objective)
		if err != nil {
			t.Fatal(err)
		}
		level := newView(hundred(t, c.change), 0)
		v := level.verdict(o, level.sample(o.Indicator))
		got := struct {
			Value      experiment.Figure
			Held, Sure bool
		}{v.Estimate.Value, v.Held, v.Sure}
		want := got
		want.Value, want.Held, want.Sure = c.value, c.held, c.sure
		if diff := cmp.Diff(want, got, nearly); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", c.name, c.objective, diff)
		}
	}
}

func TestHeldBy(t *testing.T) {
	r := experiment.Request{Result: prober.Result{
		Probe: &prober.Probe{},
		Sent:  epoch, FirstToken: epoch.Add(time.Second), LastToken: epoch.Add(2 * time.Second), Ended: epoch.Add(2 * time.Second), Gaps: []time.Duration{seconds(0.1), seconds(0.2), seconds(0.3), seconds(0.4)}, FirstTokens: 1, OutputTokens: 5,
	}}
	for text, want := range map[string]bool{
		"ttft_p95=1s":       true,
		"ttft_p95=999ms":    false,
		"itl_p50=200ms":     true, // the second of four
		"itl_p50=199ms":     false,
		"itl_p95=400ms":     true,
		"itl_p95=399ms":     false,
		"tpot_p50=250ms":    true,
		"duration_p50=2s":   true,
		"duration_p50=1.9s": false,
	} {
		o, err := experiment.ParseObjective(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := heldBy(o, &r); got != want {
			t.Errorf("%s held: %v", text, got)
		}
	}
	failed := r
	failed.Reason = "timeout"
	if o := (experiment.Objective{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Hour}); heldBy(o, &failed) {
		t.Error("a request that failed holds an objective")
	}
}
