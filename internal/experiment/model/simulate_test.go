package model

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// twoSlots is a model whose steps are easy to add up.
func twoSlots() vllmsim.Model {
	return vllmsim.Model{
		RunningCap: 2, TokenBudget: 100, KVTokens: 1600,
		Base: 100 * time.Millisecond, PerAdmission: 50 * time.Millisecond,
	}
}

// simulated runs a plan of one level on a model.
func simulated(t *testing.T, ctx context.Context, p experiment.Plan, v Virtual) *experiment.Run {
	t.Helper()
	run, err := Simulate(ctx, p, v, nil)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// brief is a request as seconds since the level's start.
type brief struct {
	Due, Sent, First, Last float64
	Gaps                   []float64
	Ending                 string
}

func briefly(run *experiment.Run) (all []brief) {
	start := run.Levels[0].Start
	since := func(at time.Time) float64 {
		if at.IsZero() {
			return -1
		}
		return at.Sub(start).Seconds()
	}
	for _, r := range run.Requests {
		if r.Warmup {
			continue
		}
		ending := "ok"
		switch {
		case r.Abandoned:
			ending = "abandoned"
		case !r.OK():
			ending = fmt.Sprintf("%s at %v", r.Reason, since(r.Ended))
		}
		var gaps []float64
		for _, gap := range r.Gaps {
			gaps = append(gaps, gap.Seconds())
		}
		all = append(all, brief{since(r.Scheduled), since(r.Sent), since(r.FirstToken), since(r.LastToken), gaps, ending})
	}
	return all
}

func TestSimulateLevels(t *testing.T) {
	for _, c := range []struct {
		name   string
		plan   experiment.Plan // with one level
		wait   time.Duration
		want   []brief
		missed int
		inTurn bool // the places of a closed loop are filled one after another
	}{
		{
			// A prefill step of two lasts 0.2 s, a decoding step 0.1 s.
			name: "a closed loop sends when an answer has ended, and ends with the last request",
			plan: experiment.Plan{Levels: []experiment.Level{{Concurrency: 2, PromptTokens: 10, OutputTokens: 2, Requests: 3}}},
			wait: 10 * time.Millisecond,
			want: []brief{
				{0, 0, 0.2, 0.3, []float64{0.1}, "ok"},
				{0, 0, 0.2, 0.3, []float64{0.1}, "ok"},
				{0.3, 0.31, 0.46, 0.56, []float64{0.1}, "ok"},
			},
		},
		{
			name: "a closed loop is filled one place after another, within the time it has",
			plan: experiment.Plan{Levels: []experiment.Level{{Concurrency: 3, PromptTokens: 10, OutputTokens: 1, Duration: time.Millisecond}}},
			want: []brief{
				{0, 0, 0.15, 0.15, nil, "ok"},
				{0.0005, 0.0005, 0.3, 0.3, nil, "ok"},
			},
			inTurn: true,
		},
		{
			name: "a closed loop sends for a time, and what is in flight then is waited for",
			plan: experiment.Plan{Levels: []experiment.Level{{Concurrency: 1, PromptTokens: 10, OutputTokens: 2, Duration: 300 * time.Millisecond}}},
			want: []brief{
				{0, 0, 0.15, 0.25, []float64{0.1}, "ok"},
				{0.25, 0.25, 0.4, 0.5, []float64{0.1}, "ok"},
			},
		},
		{
			name: "an open loop sends when it is due, whatever becomes of those before",
			plan: experiment.Plan{Levels: []experiment.Level{{Rate: 10, Arrival: prober.Constant, PromptTokens: 10, OutputTokens: 2, Requests: 3}}},
			want: []brief{
				// The first has its token at 0.15; the second, of 0.1, joins then, and the third comes in that step.
				{0, 0, 0.15, 0.3, []float64{0.15}, "ok"},
				{0.1, 0.1, 0.3, 0.45, []float64{0.15}, "ok"},
				{0.2, 0.2, 0.45, 0.55, []float64{0.1}, "ok"},
			},
		},
		{
			name: "an open loop misses what is due at its bound",
			plan: experiment.Plan{Levels: []experiment.Level{{Rate: 10, Arrival: prober.Constant, MaxInFlight: 1, PromptTokens: 10, OutputTokens: 2, Requests: 4}}},
			want: []brief{
				{0, 0, 0.15, 0.25, []float64{0.1}, "ok"},
				{0.3, 0.3, 0.45, 0.55, []float64{0.1}, "ok"},
			},
			missed: 2,
		},
		{
			// Two run; the third would have its token at 0.55. A pause of 0.1 s follows a failure.
			name: "who is not answered in time fails, and another is sent",
			plan: experiment.Plan{Timeout: 450 * time.Millisecond, Levels: []experiment.Level{{Concurrency: 3, PromptTokens: 10, OutputTokens: 3, Requests: 6}}},
			want: []brief{
				{0, 0, 0.2, 0.4, []float64{0.1, 0.1}, "ok"},
				{0, 0, 0.2, 0.4, []float64{0.1, 0.1}, "ok"},
				{0, 0, -1, -1, nil, "timeout at 0.45"},
				// One of the two sent at 0.4 is in the step of the one that failed, to 0.6; the other in the next, to 0.75.
				{0.4, 0.4, 0.6, 0.75, []float64{0.15}, "timeout at 0.85"},
				{0.4, 0.4, 0.75, 0.75, nil, "timeout at 0.85"},
				{0.55, 0.55, -1, -1, nil, "timeout at 1"},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := simulated(t, t.Context(), c.plan, Virtual{Model: twoSlots(), Turnaround: c.wait, AtOnce: !c.inTurn})
			if diff := cmp.Diff(c.want, briefly(run), cmpopts.EquateApprox(1e-9, 1e-12), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if run.Levels[0].Missed != c.missed {
				t.Errorf("%d missed, want %d", run.Levels[0].Missed, c.missed)
			}
		})
	}
}

func TestSimulateQueue(t *testing.T) {
	m := twoSlots()
	m.Base, m.PerAdmission = 700*time.Millisecond, 0
	plan := experiment.Plan{
		Warmup: 1, Settle: time.Minute,
		Levels: []experiment.Level{{Concurrency: 3, PromptTokens: 16, OutputTokens: 2, Requests: 3}},
	}
	run := simulated(t, t.Context(), plan, Virtual{Model: m, AtOnce: true})
	// Steps end at 0.7, 1.4 (two answers), 2.1 and 2.8 (the third).
	type look struct{ At, Running, Waiting, Prompt, Generated float64 }
	var got []look
	for _, s := range run.Queue {
		got = append(got, look{s.At.Sub(run.Levels[0].Start).Seconds(), s.Running, s.Waiting, s.PromptTokens, s.GenerationTokens})
	}
	// The warm-up counts with the server, and is not looked at.
	want := []look{{0, 0, 0, 16, 2}, {1, 2, 1, 48, 4}, {2, 0, 1, 48, 6}, {3, 0, 0, 64, 8}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 1e-12), cmpopts.EquateNaNs()); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	went := run.Levels[0]
	if got := []time.Duration{went.Start.Sub(run.Facts.Began), went.End.Sub(went.Start), went.Empty.Sub(went.Start)}; !cmp.Equal(got, []time.Duration{
		1400 * time.Millisecond, 2800 * time.Millisecond, 3 * time.Second,
	}) {
		t.Errorf("warm-up, level and drain: %v", got)
	}
}

func TestSimulateIsRepeatable(t *testing.T) {
	plan := experiment.Plan{
		Warmup: 3, Settle: time.Minute, Timeout: time.Minute, Seed: 7,
		Levels: []experiment.Level{
			{Rate: 6, Arrival: prober.Poisson, PromptTokens: 512, OutputTokens: 64, Requests: 100},
			{Concurrency: 8, PromptTokens: 512, OutputTokens: 64, Requests: 100},
		},
	}
	v := Virtual{Model: vllmsim.DefaultModel(), Turnaround: time.Millisecond}
	first := simulated(t, t.Context(), plan, v)
	if diff := cmp.Diff(first, simulated(t, t.Context(), plan, v), cmpopts.IgnoreUnexported()); diff != "" {
		t.Errorf("another run differs:\n%s", diff)
	}
	if got := analyze.Summarize(first); len(got.Levels) != 2 || got.Levels[0].Requests != 100 || got.Levels[0].OutputTokens != 64 || len(got.Levels[1].Doubts) != 0 {
		t.Errorf("summary: %+v", got.Levels)
	}
	plan.Seed = 8
	if cmp.Equal(first.Requests, simulated(t, t.Context(), plan, v).Requests) {
		t.Error("another seed has the same arrivals")
	}
}

func TestSimulateInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	plan := experiment.Plan{Levels: []experiment.Level{
		{Concurrency: 2, PromptTokens: 10, OutputTokens: 2, Requests: 100},
		{Concurrency: 3, PromptTokens: 10, OutputTokens: 2, Requests: 100},
	}}
	run, err := Simulate(ctx, plan, Virtual{Model: twoSlots()}, &stopper{after: 4, stop: func() { cancel(&experiment.Stop{Why: experiment.CutInterrupted}) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Levels) != 1 || run.Levels[0].Cut != experiment.CutInterrupted {
		t.Errorf("levels: %+v", run.Levels)
	}
	endings := map[string]int{}
	for _, r := range briefly(run) {
		endings[r.Ending]++
	}
	if diff := cmp.Diff(map[string]int{"ok": 4, "abandoned": 2}, endings); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// stopper is a watcher that stops the run after some requests.
type stopper struct {
	experiment.Watchers
	after int
	stop  func()
}

func (s *stopper) Ended(*experiment.Request) {
	if s.after--; s.after == 0 {
		s.stop()
	}
}

func TestSimulateRefuses(t *testing.T) {
	_, err := Simulate(t.Context(), experiment.Plan{}, Virtual{}, nil)
	if want := "model of a server: running cap 0: must be at least 1"; err == nil || err.Error()[:len(want)] != want {
		t.Errorf("a model that cannot run: %v", err)
	}
	notes := &noted{}
	_, err = Simulate(t.Context(), experiment.Plan{Levels: []experiment.Level{
		{Concurrency: 1, PromptTokens: 1, OutputTokens: 1},
		{PromptTokens: 1, OutputTokens: 1, Requests: 1},
		{Rate: 1, PromptTokens: 1, Requests: 1},
		{Concurrency: 1, PromptTokens: 1600, OutputTokens: 1, Requests: 1},
	}}, Virtual{Model: twoSlots()}, notes)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"level c=1, 1+1: not run: it would never end, for it bounds neither requests nor time",
		"level 0/s, 1+1: not run: it has neither a concurrency nor a rate",
		"level 1/s, 1+0: not run: prompt and answer must have at least one token",
		"level c=1, 1600+1: not run: a request of 1600 prompt and 1 output tokens needs 1601 tokens of KV cache, which has 1600",
	}
	if diff := cmp.Diff(want, notes.texts); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// noted is a watcher that keeps the notes.
type noted struct {
	experiment.Watchers
	texts []string
}

func (n *noted) Noted(text string) { n.texts = append(n.texts, text) }
