package prober

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// send sends several probes at once.
func (g *rig) send(t *testing.T, orders ...Order) []*Result {
	t.Helper()
	results := make([]*Result, len(orders))
	var all sync.WaitGroup
	for i, o := range orders {
		all.Go(func() {
			var err error
			if results[i], err = g.Send(t.Context(), o); err != nil {
				t.Error(err)
				return
			}
			checkInvariants(t, results[i])
		})
	}
	all.Wait()
	return results
}

func TestSendStartsWhenDue(t *testing.T) {
	for _, c := range []struct {
		name        string
		due         time.Duration // from now
		zero        bool
		wait, delay time.Duration
	}{
		{"no time", 0, true, 0, 0},
		{"now", 0, false, 0, 0},
		{"in a while", 3 * time.Second, false, 3 * time.Second, 0},
		{"a moment ago", -20 * time.Millisecond, false, 0, 20 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, (&fakeServer{}).dial, target())
				called := time.Now()
				o := Order{Workload: "w", Scheduled: called.Add(c.due)}
				if c.zero {
					o.Scheduled = time.Time{}
				}
				r := g.send(t, o)[0]
				if wait := r.Started.Sub(called); wait != c.wait || r.StartDelay() != c.delay || !r.OK() || r.Warmup {
					t.Errorf("started %v after the call and %v after it was due, want %v and %v: %s", wait, r.StartDelay(), c.wait, c.delay, outcome(r))
				}
				if !c.zero && !r.Scheduled.Equal(o.Scheduled) {
					t.Errorf("scheduled %v, want %v", r.Scheduled, o.Scheduled)
				}
			})
		})
	}
}

// A warm-up probe of an experiment is marked, and has nothing to do with the warm-up of the schedule.
func TestSendMarksAWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := target()
		w.Warmup = 1
		g := newRig(t, (&fakeServer{}).dial, w)
		results := g.send(t, Order{Workload: "w", Warmup: true}, Order{Workload: "w"})
		if !results[0].Warmup || results[1].Warmup || !g.rec.results[0].OK() {
			t.Errorf("warm-up: %v and %v, want the first", results[0].Warmup, results[1].Warmup)
		}
		if g.warm.left != 1 {
			t.Errorf("%d probes of the schedule's warm-up are left, want 1", g.warm.left)
		}
	})
}

// Five hundred streams are under way at once, whatever MaxInFlight says, and none waits for another.
func TestSendManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 512
		s := counting(10, 0)
		g := newRig(t, s.dial, target())
		if err := g.Prepare(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
		asked := len(s.others)
		due := time.Now().Add(time.Second)
		prompts, ids := map[string]bool{}, map[string]bool{}
		for _, r := range g.send(t, slices.Repeat([]Order{{Workload: "w", Scheduled: due}}, streams)...) {
			if want := "ok ttft=100ms gaps=[20ms] tpot=157.48µs duration=120ms tokens=128/usage prompt=512"; outcome(r) != want || !r.Started.Equal(due) {
				t.Fatalf("%v after it was due: %s\nwant %s", r.StartDelay(), outcome(r), want)
			}
			ids[r.RequestID] = true
		}
		for _, r := range s.sent() {
			prompts[r.prompt()] = true
			if !r.at.Equal(due) {
				t.Errorf("a request came %v after it was due", r.at.Sub(due))
			}
		}
		if len(prompts) != streams || len(ids) != streams || len(s.others) != asked {
			t.Errorf("%d prompts, %d ids, the server was asked %d times more", len(prompts), len(ids), len(s.others)-asked)
		}
	})
}

// Probes that are refused for the same field at the same time learn it once, and all go on.
func TestFieldRefusedToManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 20
		s := refusing("cache_salt")
		g := newRig(t, s.dial, target())
		if err := g.Prepare(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
		due := time.Now().Add(time.Second)
		for _, r := range g.send(t, slices.Repeat([]Order{{Workload: "w", Scheduled: due}}, streams)...) {
			if !r.OK() || r.Suspect != SuspectFieldRefused {
				t.Errorf("%s (%v)", outcome(r), r.Err)
			}
		}
		if n := strings.Count(g.logs.String(), "the server refuses a field, sending without it"); n != 1 {
			t.Errorf("told %d times:\n%s", n, g.logs)
		}
		if n := len(s.sent()); n != 2*streams {
			t.Errorf("%d requests, want %d", n, 2*streams)
		}
	})
}

func TestSendEndsBeforeItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		g := newRig(t, s.dial, target())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r, err := g.Send(ctx, Order{Workload: "w", Scheduled: time.Now().Add(time.Minute)})
		if r != nil || !errors.Is(err, context.DeadlineExceeded) || err.Error() != `waiting until a probe of workload "w" is due: context deadline exceeded` {
			t.Errorf("result %v, error %v", r, err)
		}
		if got := g.rec.tally(); got != "0 started, 0 ended, 0 missed" || len(s.dials) != 0 {
			t.Errorf("%s, %d connections", got, len(s.dials))
		}
	})
}

// Prepare finds out all that a probe needs to know, and sends none.
func TestPrepare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := counting(10, 0)
		w := target()
		w.Model = ""
		g := newRig(t, s.dial, w)
		if diff := cmp.Diff(Model{}, g.Model()); diff != "" {
			t.Errorf("model before (-want +got):\n%s", diff)
		}
		if err := g.Prepare(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Model{Name: "m", MaxLen: 8192}, g.Model()); diff != "" {
			t.Errorf("model (-want +got):\n%s", diff)
		}
		asked := len(s.others)
		if got := g.rec.tally(); got != "0 started, 0 ended, 0 missed" || len(s.sent()) != 0 || asked == 0 {
			t.Errorf("%s, %d probes sent, %d other requests", got, len(s.sent()), asked)
		}
		if err := g.Prepare(t.Context(), "w"); err != nil || len(s.others) != asked {
			t.Errorf("prepared again: %v, %d more requests", err, len(s.others)-asked)
		}
		if r := g.once(t); !r.OK() || r.PromptTokens != 512 || len(s.others) != asked {
			t.Errorf("%s, %d more requests", outcome(r), len(s.others)-asked)
		}
	})
}

func TestPrepareTellsWhyItCannot(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*fakeServer, *Target)
		want   string
	}{
		{"another workload", func(_ *fakeServer, w *Target) { w.Plans[0].Name = "x" }, `target "t" has no workload "w"`},
		{
			"nobody there", func(s *fakeServer, _ *Target) { s.dialing = func(string, string) error { return refusedError } },
			`target "t": preparing workload "w": dial tcp: connect: connection refused`,
		},
		{
			"no such model", func(s *fakeServer, w *Target) { s.models, w.Model = `{"data":[]}`, "" },
			`target "t": preparing workload "w": GET /v1/models lists no model; set the target's model`,
		},
		{
			"too long for the model", func(s *fakeServer, _ *Target) { s.models = `{"data":[{"id":"m","max_model_len":512}]}` },
			`target "t": preparing workload "w": prompt_tokens 512 and output_tokens 128 are 640 together; model "m" takes at most 512 (max_model_len)`,
		},
		{
			"a server that hangs", func(s *fakeServer, w *Target) { s.models, w.Model = "<<HANG>>HTTP/1.1 ", "" },
			`target "t": preparing workload "w": context deadline exceeded`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := &fakeServer{}, target()
				c.change(s, &w)
				g := newRig(t, s.dial, w)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				if err := g.Prepare(ctx, "w"); err == nil || err.Error() != c.want {
					t.Errorf("error %v\nwant  %s", err, c.want)
				}
				if len(s.sent()) != 0 || len(g.rec.started) != 0 {
					t.Errorf("%d probes sent, %d started", len(s.sent()), len(g.rec.started))
				}
			})
		})
	}
}

// BenchmarkDraft makes the requests of many goroutines at once: no part of it may wait for another.
func BenchmarkDraft(b *testing.B) {
	for _, tokens := range []int{512, 8192} {
		b.Run(fmt.Sprintf("%d tokens", tokens), func(b *testing.B) {
			p := plan()
			p.PromptTokens = tokens
			s := &fakeServer{models: `{"data":[{"id":"m","max_model_len":16384}]}`}
			r, err := NewRunner(target(p), Options{Dial: s.dial})
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Prepare(b.Context(), p.Name); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.SetParallelism(256)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if d := r.prepare(r.loops[0]); !d.made {
						b.Error("no request was made")
					}
				}
			})
		})
	}
}
