package vllmsim

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// clockwork is a model whose steps are easy to add up.
func clockwork() Model {
	return Model{
		RunningCap: 2, TokenBudget: 100, KVTokens: 1600,
		Base: 10 * time.Millisecond, PerDecode: time.Millisecond, PerPrefill: 100 * time.Microsecond,
		PerAdmission: 5 * time.Millisecond, Window: time.Microsecond,
	}
}

// arrivals reads a stream to its end and returns when its tokens came, in milliseconds.
func arrivals(t *testing.T, start time.Time, s *Stream) (ms []float64) {
	t.Helper()
	for {
		e, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Token != len(ms)+1 {
			t.Fatalf("token %d came after %d others", e.Token, len(ms))
		}
		ms = append(ms, millis(e.At.Sub(start)))
		if e.Last {
			return ms
		}
	}
}

func submit(t *testing.T, e *Engine, r Request) *Stream {
	t.Helper()
	s, err := e.Submit(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestScheduler(t *testing.T) {
	for _, tc := range []struct {
		name     string
		requests []Request
		want     [][]float64 // when the tokens of each come, in ms
	}{
		{"alone", []Request{{PromptTokens: 50, OutputTokens: 3}}, [][]float64{{20, 31, 42}}},
		{"one token", []Request{{PromptTokens: 50, OutputTokens: 1}}, [][]float64{{20}}},
		{"cached tokens need no prefill", []Request{{PromptTokens: 50, OutputTokens: 2, CachedTokens: 40}}, [][]float64{{16, 27}}},
		{"the last token is always computed", []Request{{PromptTokens: 50, OutputTokens: 1, CachedTokens: 50}}, [][]float64{{15.1}}},
		{
			"two at once share a step",
			[]Request{{PromptTokens: 50, OutputTokens: 2}, {PromptTokens: 50, OutputTokens: 2}},
			[][]float64{{30, 42}, {30, 42}},
		},
		{
			"a long prompt takes several steps",
			[]Request{{PromptTokens: 250, OutputTokens: 2}},
			[][]float64{{25 + 20 + 15, 71}},
		},
		{
			// the second gets 20 tokens of the first step; then decoding goes first and takes one of the budget
			"prefill in chunks beside decoding",
			[]Request{{PromptTokens: 80, OutputTokens: 3}, {PromptTokens: 110, OutputTokens: 1}},
			[][]float64{{30, 50, 61}, {50}},
		},
		{
			"beyond the cap requests wait",
			[]Request{{PromptTokens: 10, OutputTokens: 2}, {PromptTokens: 10, OutputTokens: 2}, {PromptTokens: 10, OutputTokens: 1}},
			[][]float64{{22, 34}, {22, 34}, {50}},
		},
		{
			"first come, first served: one too large for the cache holds up a small one",
			[]Request{{PromptTokens: 100, OutputTokens: 2}, {PromptTokens: 1550, OutputTokens: 1}, {PromptTokens: 1, OutputTokens: 1}},
			[][]float64{{25, 36}, {36 + 25 + 14*20 + 20.1}, {36 + 25 + 14*20 + 20.1}},
		},
	} {
		onEngine(t, tc.name, clockwork(), func(t *testing.T, e *Engine) {
			start := time.Now()
			var streams []*Stream
			for _, r := range tc.requests {
				streams = append(streams, submit(t, e, r))
			}
			var got [][]float64
			for _, s := range streams {
				got = append(got, arrivals(t, start, s))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tokens came at (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimingsAddUp(t *testing.T) {
	onEngine(t, "", clockwork(), func(t *testing.T, e *Engine) {
		start := time.Now()
		submit(t, e, Request{PromptTokens: 10, OutputTokens: 2})
		submit(t, e, Request{PromptTokens: 10, OutputTokens: 2})
		s := submit(t, e, Request{PromptTokens: 10, OutputTokens: 3})
		last := arrivals(t, start, s)[2]
		timings := s.Timings()
		got := []float64{millis(timings.Queue()), millis(timings.Prefill()), millis(timings.Generation())}
		if diff := cmp.Diff([]float64{34, 16, 22}, got); diff != "" {
			t.Errorf("queue, prefill, generation (-want +got):\n%s", diff)
		}
		if sum := got[0] + got[1] + got[2]; sum != last {
			t.Errorf("they add up to %v, the answer took %v", sum, last)
		}
	})
}

func TestStatsMoveAtTheEndOfAStep(t *testing.T) {
	onEngine(t, "", clockwork(), func(t *testing.T, e *Engine) {
		for range 3 {
			submit(t, e, Request{PromptTokens: 32, OutputTokens: 2})
		}
		type gauges struct {
			Running, Waiting, Prompt, Generated, Steps int
			KV                                         float64
		}
		at := func(d time.Duration) gauges {
			time.Sleep(d)
			s := e.Stats()
			return gauges{s.Running, s.Waiting, s.PromptTokens, s.GenerationTokens, s.Steps, s.KVUsage}
		}
		for _, step := range []struct {
			after time.Duration
			want  gauges
		}{
			{26 * time.Millisecond, gauges{}},                  // the first step takes 26.4 ms
			{time.Millisecond, gauges{2, 1, 64, 2, 1, .06}},    // 3 blocks of 100 each
			{12 * time.Millisecond, gauges{0, 1, 64, 4, 2, 0}}, // two ended
			{time.Second, gauges{0, 0, 96, 6, 4, 0}},           // all ended
			{time.Hour, gauges{0, 0, 96, 6, 4, 0}},             // an idle engine does not step
		} {
			if diff := cmp.Diff(step.want, at(step.after)); diff != "" {
				t.Errorf("%v later (-want +got):\n%s", step.after, diff)
			}
		}
		s := e.Stats()
		if diff := cmp.Diff(map[string]int{"length": 3}, s.Finished); diff != "" {
			t.Error(diff)
		}
		if got, want := s.TimeToFirstToken.Sum, .0264+.0264+.0384+.0182; s.TimeToFirstToken.Count != 3 || got-want > 1e-9 || want-got > 1e-9 {
			t.Errorf("TTFT: sum %v of %d, want %v of 3", got, s.TimeToFirstToken.Count, want)
		}
	})
}

func TestAbortFreesTheSlot(t *testing.T) {
	onEngine(t, "", clockwork(), func(t *testing.T, e *Engine) {
		gone := errors.New("client has gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		var aborted []*Stream
		for range 3 { // two run, one waits
			s, err := e.Submit(ctx, Request{PromptTokens: 10, OutputTokens: 700})
			if err != nil {
				t.Fatal(err)
			}
			aborted = append(aborted, s)
		}
		survivor := submit(t, e, Request{PromptTokens: 10, OutputTokens: 1})
		time.Sleep(time.Second)
		if s := e.Stats(); s.Running != 2 || s.Waiting != 2 {
			t.Fatalf("%d running, %d waiting", s.Running, s.Waiting)
		}
		cancel(gone)
		start := time.Now()
		if took := arrivals(t, start, survivor)[0]; took > 16+12 {
			t.Errorf("the survivor waited %v ms", took)
		}
		for i, s := range aborted {
			var err error
			for err == nil {
				_, err = s.Next(t.Context())
			}
			if !errors.Is(err, gone) {
				t.Errorf("stream %d: %v", i, err)
			}
		}
		s := e.Stats()
		if s.Running != 0 || s.Waiting != 0 || s.KVUsage != 0 || s.Finished["length"] != 1 {
			t.Errorf("left over: %d running, %d waiting, KV %v, finished %v", s.Running, s.Waiting, s.KVUsage, s.Finished)
		}
	})
}

func TestPausedEngineStandsStill(t *testing.T) {
	onEngine(t, "", clockwork(), func(t *testing.T, e *Engine) {
		start := time.Now()
		s := submit(t, e, Request{PromptTokens: 50, OutputTokens: 3})
		time.Sleep(25 * time.Millisecond) // in the second step
		e.SetPaused(true)
		late := submit(t, e, Request{PromptTokens: 50, OutputTokens: 1})
		time.Sleep(time.Minute)
		if got := e.Stats(); got.GenerationTokens != 1 || got.Running != 1 || got.Waiting != 0 {
			t.Errorf("while paused: %d tokens, %d running, %d waiting", got.GenerationTokens, got.Running, got.Waiting)
		}
		e.SetPaused(false)
		const resumed = 60_025
		if diff := cmp.Diff([]float64{20, resumed, resumed + 21}, arrivals(t, start, s)); diff != "" {
			t.Errorf("tokens came at (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]float64{resumed + 21}, arrivals(t, start, late)); diff != "" {
			t.Errorf("the late one came at (-want +got):\n%s", diff)
		}
	})
}

func TestSlowdown(t *testing.T) {
	onEngine(t, "", clockwork(), func(t *testing.T, e *Engine) {
		e.SetSlowdown(3)
		s := submit(t, e, Request{PromptTokens: 50, OutputTokens: 2})
		if diff := cmp.Diff([]float64{60, 93}, arrivals(t, time.Now(), s)); diff != "" {
			t.Errorf("tokens came at (-want +got):\n%s", diff)
		}
	})
}

func TestEndOfTheEngineEndsEveryStream(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(*Engine)
		want error
	}{
		{"closed", (*Engine).Close, ErrClosed},
		{"killed", (*Engine).Kill, ErrEngineDead},
		{"killed, then closed", func(e *Engine) { e.Kill(); e.Close() }, ErrEngineDead},
		{"paused, then closed", func(e *Engine) { e.SetPaused(true); e.Close() }, ErrClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := NewEngine(clockwork())
				var streams []*Stream
				for range 3 {
					streams = append(streams, submit(t, e, Request{PromptTokens: 10, OutputTokens: 700}))
				}
				time.Sleep(23 * time.Millisecond) // one token
				tc.end(e)
				for i, s := range streams {
					var err error
					tokens := -1
					for ; err == nil; tokens++ {
						_, err = s.Next(t.Context())
					}
					if want := map[bool]int{true: 1, false: 0}[i < 2]; tokens != want || !errors.Is(err, tc.want) {
						t.Errorf("stream %d ended after %d tokens with %v", i, tokens, err)
					}
				}
				if _, err := e.Submit(t.Context(), Request{PromptTokens: 1, OutputTokens: 1}); !errors.Is(err, tc.want) {
					t.Errorf("Submit afterwards: %v", err)
				}
			})
		})
	}
}

func TestSubmitRefuses(t *testing.T) {
	onEngine(t, "", clockwork(), func(t *testing.T, e *Engine) {
		larger := clockwork().KVTokens + 1 // than the cache
		for _, r := range []Request{
			{},
			{PromptTokens: 1},
			{OutputTokens: 1},
			{PromptTokens: larger - 1, OutputTokens: 1},
			{PromptTokens: 1, OutputTokens: larger - 1},
			{PromptTokens: 1, OutputTokens: 1, MaxTokens: larger - 1},
		} {
			if _, err := e.Submit(t.Context(), r); err == nil {
				t.Errorf("%+v was accepted", r)
			}
		}
	})
}
