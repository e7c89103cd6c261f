package vllmsim

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// submission is a request and when it arrives.
type submission struct {
	at time.Duration
	Request
}

// simulate runs requests to their ends and returns when their tokens came, in milliseconds.
func simulate(t *testing.T, m Model, all []submission) [][]float64 {
	t.Helper()
	s, err := NewSimulation(m)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range all {
		if err := s.Submit(r.at, i, r.Request); err != nil {
			t.Fatal(err)
		}
	}
	got := make([][]float64, len(all))
	for step, ok := s.Next(); ok; step, ok = s.Next() {
		for _, token := range step.Tokens {
			r := &got[token.Request]
			*r = append(*r, millis(step.At))
			if token.Number != len(*r) || token.Last != (token.Number == all[token.Request].OutputTokens) {
				t.Fatalf("request %d: %+v came after %d others", token.Request, token, len(*r)-1)
			}
		}
	}
	return got
}

func TestSimulationOfAsyncScheduling(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		name        string
		all         []submission
		sync, async [][]float64 // when the tokens of each come, in ms
	}{
		{
			"alone it makes no difference",
			[]submission{{0, Request{PromptTokens: 50, OutputTokens: 3}}},
			[][]float64{{20, 31, 42}},
			[][]float64{{20, 31, 42}},
		},
		{
			"who arrives during a step misses the next, which was composed when that step began",
			[]submission{{0, Request{PromptTokens: 50, OutputTokens: 4}}, {5 * ms, Request{PromptTokens: 50, OutputTokens: 1}}},
			[][]float64{{20, 41, 52, 63}, {41}},
			[][]float64{{20, 31, 52, 63}, {52}},
		},
		{
			"nothing is composed for requests that are about to end, so the engine takes who arrives meanwhile",
			[]submission{{0, Request{PromptTokens: 50, OutputTokens: 1}}, {5 * ms, Request{PromptTokens: 50, OutputTokens: 1}}},
			[][]float64{{20}, {40}},
			[][]float64{{20}, {40}},
		},
		{
			"a slot that becomes free at the end of a step is filled in the step after the next",
			[]submission{
				{0, Request{PromptTokens: 10, OutputTokens: 3}},
				{0, Request{PromptTokens: 10, OutputTokens: 2}},
				{0, Request{PromptTokens: 10, OutputTokens: 1}},
			},
			[][]float64{{22, 34, 51}, {22, 34}, {51}},
			[][]float64{{22, 34, 45}, {22, 34}, {61}},
		},
		{
			"chunks of a long prompt follow one another without a gap",
			[]submission{{0, Request{PromptTokens: 250, OutputTokens: 2}}},
			[][]float64{{60, 71}},
			[][]float64{{60, 71}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := clockwork()
			if diff := cmp.Diff(tc.sync, simulate(t, m, tc.all)); diff != "" {
				t.Errorf("tokens came at (-want +got):\n%s", diff)
			}
			m.Async = true
			if diff := cmp.Diff(tc.async, simulate(t, m, tc.all)); diff != "" {
				t.Errorf("with async scheduling tokens came at (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSimulationOfIntake(t *testing.T) {
	m := clockwork()
	m.PerIntake = time.Millisecond
	// The second is known after 11 ms, and its step lasts 16; the first after 90 ms, so that the engine idles.
	all := []submission{{0, Request{PromptTokens: 90, OutputTokens: 1}}, {time.Millisecond, Request{PromptTokens: 10, OutputTokens: 1}}}
	if diff := cmp.Diff([][]float64{{90 + 24}, {11 + 16}}, simulate(t, m, all)); diff != "" {
		t.Errorf("tokens came at (-want +got):\n%s", diff)
	}
}

// The clock and the simulation must agree on every token, whatever the load.
func TestSimulationMatchesEngine(t *testing.T) {
	for _, async := range []bool{false, true} {
		m := clockwork()
		m.Async, m.PerContext, m.PerIntake, m.RunningCap = async, 7*time.Microsecond, 90*time.Microsecond, 5
		random := rand.New(rand.NewPCG(3, 1))
		var all []submission
		at := time.Duration(0)
		for range 200 {
			at += time.Duration(random.ExpFloat64() * float64(60*time.Millisecond))
			all = append(all, submission{at, Request{
				PromptTokens: 1 + random.IntN(200), OutputTokens: 1 + random.IntN(12), CachedTokens: random.IntN(50),
			}})
		}
		want := simulate(t, m, all)
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine(m)
			defer e.Close()
			start := time.Now()
			var streams []*Stream
			for _, r := range all {
				time.Sleep(time.Until(start.Add(r.at)))
				streams = append(streams, submit(t, e, r.Request))
			}
			for i, s := range streams {
				if diff := cmp.Diff(want[i], arrivals(t, start, s)); diff != "" {
					t.Fatalf("async %v, request %d: tokens came at (-simulation +engine):\n%s", async, i, diff)
				}
			}
		})
	}
}

func TestSimulationShowsTheGauges(t *testing.T) {
	s, err := NewSimulation(clockwork())
	if err != nil {
		t.Fatal(err)
	}
	for id := range 3 {
		at := time.Duration(id/2) * time.Millisecond // the third during the first step, so that the second takes it up
		if err := s.Submit(at, id, Request{PromptTokens: 32, OutputTokens: 2}); err != nil {
			t.Fatal(err)
		}
	}
	var got []StepEnd
	for step, ok := s.Next(); ok; step, ok = s.Next() {
		step.Tokens = nil
		got = append(got, step)
	}
	const us = time.Microsecond
	want := []StepEnd{
		{At: 26_400 * us, Time: 26_400 * us, Work: Work{Prefill: 64, Admitted: 2}, Running: 2, Waiting: 0, KVUsage: .06},
		{At: 38_400 * us, Time: 12_000 * us, Work: Work{Decoding: 2, Context: 66}, Running: 0, Waiting: 1},
		{At: 56_600 * us, Time: 18_200 * us, Work: Work{Prefill: 32, Admitted: 1}, Running: 1, Waiting: 0, KVUsage: .03},
		{At: 67_600 * us, Time: 11_000 * us, Work: Work{Decoding: 1, Context: 33}, Running: 0, Waiting: 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if err := s.Submit(time.Millisecond, 9, Request{PromptTokens: 1, OutputTokens: 1}); err == nil {
		t.Error("a request in the past was accepted")
	}
}

func TestSimulationOfAnAbort(t *testing.T) {
	s, err := NewSimulation(clockwork())
	if err != nil {
		t.Fatal(err)
	}
	for id := range 3 { // two run, one waits
		if err := s.Submit(0, id, Request{PromptTokens: 10, OutputTokens: 3}); err != nil {
			t.Fatal(err)
		}
	}
	const ms = time.Millisecond
	if step, ok := s.NextBefore(22 * ms); ok {
		t.Fatalf("a step ended at %v", step.At)
	}
	if step, ok := s.NextBefore(22*ms + 1); !ok || step.At != 22*ms || len(step.Tokens) != 2 {
		t.Fatalf("first step: %+v, %v", step, ok)
	}
	s.Abort(0) // before the second step is composed
	var got []time.Duration
	for step, ok := s.Next(); ok; step, ok = s.Next() {
		for _, token := range step.Tokens {
			if token.Request == 0 {
				t.Errorf("a token of an aborted request at %v", step.At)
			}
			if token.Last {
				got = append(got, step.At)
			}
		}
	}
	// The second step has one decoding and one admitted in its place, 17 ms; the third has two decoding, 12 ms.
	if diff := cmp.Diff([]time.Duration{51 * ms, 62 * ms}, got); diff != "" {
		t.Errorf("answers ended at (-want +got):\n%s", diff)
	}
}

func TestSimulationRefusesAModelThatCannotRun(t *testing.T) {
	_, err := NewSimulation(Model{Base: -time.Second})
	if err == nil {
		t.Fatal("accepted")
	}
	want := "running cap 0: must be at least 1\ntoken budget 0: must be at least 1\n" +
		"KV cache of 0 tokens: must hold at least one block of 16\ncost -1s: must not be negative"
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
}
