package load_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/load"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// A closed loop has as many requests in flight as its level, sends as many as it should, and each is due when the
// one before it in its place has ended.
func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		run, notes := l.measure(t, t.Context(), plan(experiment.Level{Concurrency: 4, Requests: 25}, experiment.Level{Concurrency: 1, Requests: 3}))
		asked, peak, _ := l.tally()
		if asked != 28 || peak != 4 {
			t.Errorf("%d requests, %d at once; want 28 and 4", asked, peak)
		}
		first, second := measured(run, 0), measured(run, 1)
		if diff := cmp.Diff([]map[string]int{{"ok": 25}, {"ok": 3}}, []map[string]int{outcomes(first), outcomes(second)}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		ended := map[time.Time]int{}
		for place := range 4 {
			ended[run.Levels[0].Start.Add(time.Duration(place)*500*time.Microsecond)]++
		}
		for _, r := range first {
			if ended[r.Scheduled] == 0 {
				t.Errorf("a request was due at %v, when none had ended", r.Scheduled.Sub(run.Levels[0].Start))
			}
			ended[r.Scheduled]--
			ended[r.Ended]++
		}
		want := []string{
			"began",
			"0 began: c=4, 64+4", "0 preparing", "0 warming up", "0 loading", "0 answering", "0 settling", `0 ended: ""`,
			"1 began: c=1, 64+4", "1 preparing", "1 warming up", "1 loading", "1 answering", "1 settling", `1 ended: ""`,
			"finished",
		}
		if diff := cmp.Diff(want, notes.all); diff != "" {
			t.Errorf("what the watcher was told (-want +got):\n%s", diff)
		}
	})
}

// A level that lasts a time sends nothing after it, and waits for what is in flight.
func TestDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		run, _ := l.measure(t, t.Context(), plan(experiment.Level{Concurrency: 2, Duration: time.Second}))
		requests, start := measured(run, 0), run.Levels[0].Start
		if n := len(requests); n != 50 { // 2 places, 40 ms each
			t.Errorf("%d requests, want 50", n)
		}
		for _, r := range requests {
			if late := r.Scheduled.Sub(start); late >= time.Second || !r.OK() {
				t.Errorf("a request due after %v, ok %t", late, r.OK())
			}
		}
		if last := requests[len(requests)-1].Ended; !run.Levels[0].End.Equal(last) {
			t.Errorf("the level ended at %v, its last answer at %v", run.Levels[0].End, last)
		}
	})
}

// An open loop sends at its times, whatever becomes of those before.
func TestOpenLoop(t *testing.T) {
	for _, arrival := range []prober.Arrival{prober.Constant, prober.Poisson} {
		t.Run(string(arrival), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, vllmsim.Config{})
				p := plan(experiment.Level{Rate: 20, Arrival: arrival, Requests: 40, PromptTokens: 64, OutputTokens: 300}) // 3 s each
				run, _ := l.measure(t, t.Context(), p)
				var want, due, delays []time.Duration
				for at := range p.Arrivals(0) {
					want = append(want, at)
				}
				for _, r := range measured(run, 0) {
					due = append(due, r.Scheduled.Sub(run.Levels[0].Start))
					delays = append(delays, r.Started.Sub(r.Scheduled))
				}
				stored := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= time.Microsecond })
				if diff := cmp.Diff(want, due, stored); diff != "" {
					t.Errorf("requests were due at (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(make([]time.Duration, 40), delays); diff != "" {
					t.Errorf("requests began late (-want +got):\n%s", diff)
				}
				if _, peak, _ := l.tally(); peak < 38 {
					t.Errorf("%d at once: something held requests back", peak)
				}
			})
		})
	}
}

// Beyond the bound that was asked for, requests are missed and counted, never caught up.
func TestMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		run, _ := l.measure(t, t.Context(), plan(experiment.Level{Rate: 10, Arrival: prober.Constant, MaxInFlight: 3, Requests: 30, PromptTokens: 64, OutputTokens: 98})) // 0.98 s each
		requests := measured(run, 0)
		if _, peak, _ := l.tally(); peak != 3 {
			t.Errorf("%d at once, want 3", peak)
		}
		var due []int
		for _, r := range requests {
			due = append(due, int(r.Scheduled.Sub(run.Levels[0].Start)/(100*time.Millisecond)))
		}
		if diff := cmp.Diff([]int{0, 1, 2, 10, 11, 12, 20, 21, 22}, due); diff != "" {
			t.Errorf("slots that were used (-want +got):\n%s", diff)
		}
		if missed := run.Levels[0].Missed; missed != 21 {
			t.Errorf("%d missed, want 21", missed)
		}
	})
}

// The same seed gives the same arrivals; another seed or level gives others. Their mean gap is that of the rate.
func TestArrivals(t *testing.T) {
	of := func(seed uint64, level int, l experiment.Level) (all []time.Duration) {
		p := experiment.Plan{Seed: seed, Levels: []experiment.Level{l, l}}
		for at := range p.Arrivals(level) {
			all = append(all, at)
		}
		return all
	}
	poisson := experiment.Level{Rate: 8, Arrival: prober.Poisson, Requests: 4000}
	first := of(1, 0, poisson)
	if diff := cmp.Diff(first, of(1, 0, poisson)); diff != "" {
		t.Errorf("the same seed differs:\n%s", diff)
	}
	if cmp.Equal(first[1:], of(2, 0, poisson)[1:]) || cmp.Equal(first[1:], of(1, 1, poisson)[1:]) {
		t.Error("another seed or level gives the same times")
	}
	if mean := first[3999].Seconds() / 3999; math.Abs(mean*8-1) > 0.05 {
		t.Errorf("mean gap %v s, want 0.125", mean)
	}
	timed := experiment.Level{Rate: 3, Arrival: prober.Constant, Duration: time.Second}
	if diff := cmp.Diff([]time.Duration{0, time.Second / 3, 2 * time.Second / 3}, of(1, 0, timed)); diff != "" {
		t.Errorf("constant arrivals (-want +got):\n%s", diff)
	}
}

// Warm-up has the level's shape, is sent no faster than the level, and is marked.
func TestWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		p := plan(experiment.Level{Concurrency: 2, Requests: 6})
		p.Warmup = 5
		run, _ := l.measure(t, t.Context(), p)
		asked, peak, _ := l.tally()
		if asked != 11 || peak != 2 || len(run.Requests) != 11 {
			t.Errorf("%d requests, %d at once, %d kept; want 11, 2, 11", asked, peak, len(run.Requests))
		}
		for i, r := range run.Requests {
			if r.Warmup != (i < 5) || r.PromptTokens != 64 || r.OutputTokens != 4 {
				t.Errorf("request %d: warm-up %t, %d+%d tokens", i, r.Warmup, r.PromptTokens, r.OutputTokens)
			}
			if r.Warmup && r.Ended.After(run.Levels[0].Start) {
				t.Errorf("request %d of the warm-up ended after the level's start", i)
			}
		}
	})
}

// What is on a request's record.
func TestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true})
		run, _ := l.measure(t, t.Context(), plan(experiment.Level{Concurrency: 1, Requests: 1}))
		r := run.Requests[0]
		sent, ms := r.Sent, time.Millisecond
		for _, c := range []struct {
			what      string
			got, want any
		}{
			{"scheduled", r.Scheduled, sent},
			{"started", r.Started, sent},
			{"connected", r.Connected, sent},
			{"first token", r.FirstToken.Sub(sent), 10 * ms},
			{"last token", r.LastToken.Sub(sent), 40 * ms},
			{"status", r.Status, 200},
			{"prompt, cached and output tokens", [3]int{r.PromptTokens, r.CachedTokens, r.OutputTokens}, [3]int{64, 0, 4}},
			{"tokens in the first event", r.FirstTokens, 1},
			{"suspect", r.Suspect, prober.Suspect(0)},
		} {
			if c.got != c.want {
				t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
			}
		}
		if diff := cmp.Diff([]time.Duration{10 * ms, 10 * ms, 10 * ms}, r.Gaps); diff != "" {
			t.Errorf("gaps (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(&prober.ServerTimings{Prefill: 10 * ms}, r.Server); diff != "" {
			t.Errorf("account of the server (-want +got):\n%s", diff)
		}
		if name, offset := sent.Zone(); name != "UTC" || offset != 0 {
			t.Errorf("times are in %s", name)
		}
	})
}

// An interrupted run keeps what was measured, gives up what is in flight, and runs no further level.
func TestInterrupted(t *testing.T) {
	for name, c := range map[string]struct {
		cause error
		want  string
	}{
		"by somebody":    {nil, "interrupted"},
		"by a full disk": {&experiment.Stop{Why: "results could not be stored", Err: errors.New("no space")}, "results could not be stored"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, vllmsim.Config{})
				ctx, cancel := context.WithCancelCause(t.Context())
				p := plan(experiment.Level{Concurrency: 3, Duration: time.Minute}, experiment.Level{Concurrency: 4, Duration: time.Minute})
				r, err := load.NewRunner(p, l.server())
				if err != nil {
					t.Fatal(err)
				}
				n := &notes{hook: func(phase experiment.Phase) {
					if phase == experiment.Loading {
						time.AfterFunc(115*time.Millisecond, func() { cancel(c.cause) })
					}
				}}
				run := r.Run(ctx, n)
				if diff := cmp.Diff(map[string]int{"ok": 6, "abandoned": 3}, outcomes(measured(run, 0))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if len(run.Levels) != 1 || run.Levels[0].Cut != c.want {
					t.Errorf("levels %+v, want one cut by %q", run.Levels, c.want)
				}
				if took := run.Levels[0].End.Sub(run.Levels[0].Start); took != 95*time.Millisecond {
					t.Errorf("the level took %v, want 95ms", took)
				}
			})
		})
	}
}

// A server that dies is told from one that fails: it is asked a few times more, and then left alone.
func TestServerLost(t *testing.T) {
	levels := map[string]experiment.Level{
		"closed": {Concurrency: 8, Duration: time.Hour},
		"open":   {Rate: 5, Arrival: prober.Constant, Duration: time.Hour},
	}
	for name, level := range levels {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, vllmsim.Config{})
				time.AfterFunc(20*time.Second, l.die)
				run, notes := l.measure(t, t.Context(), plan(level, experiment.Level{Concurrency: 1, Requests: 1}))
				if len(run.Levels) != 1 || run.Levels[0].Cut != "server lost" {
					t.Fatalf("levels %+v, want one cut by the loss of the server", run.Levels)
				}
				counts := outcomes(measured(run, 0))
				if counts["ok"] < 60 || counts["connect"] < 3 || counts["connect"] > 100 {
					t.Errorf("requests ended %v", counts)
				}
				if after := run.Levels[0].End.Sub(run.Facts.Began); after > 32*time.Second {
					t.Errorf("it took %v to give up", after-20*time.Second)
				}
				if told := notes.told(); len(told) != 1 || !strings.HasPrefix(told[0], "the server is lost: ") {
					t.Errorf("told %q", told)
				}
			})
		})
	}
}

// A server that refuses connections while it still answers is not lost.
func TestServerNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		p := plan(experiment.Level{Rate: 2, Arrival: prober.Constant, Duration: 15 * time.Second, PromptTokens: 64, OutputTokens: 2000}) // 20 s each
		p.Timeout = time.Minute
		r, err := load.NewRunner(p, l.server())
		if err != nil {
			t.Fatal(err)
		}
		n := &notes{hook: func(phase experiment.Phase) {
			if phase == experiment.Loading {
				time.AfterFunc(2250*time.Millisecond, func() { l.refuses(true) })
				time.AfterFunc(12250*time.Millisecond, func() { l.refuses(false) })
			}
		}}
		run := r.Run(t.Context(), n)
		if diff := cmp.Diff(map[string]int{"ok": 10, "connect": 20}, outcomes(measured(run, 0))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if cut := run.Levels[0].Cut; cut != "" {
			t.Errorf("the level was cut: %s", cut)
		}
	})
}

// Where nobody answers from the beginning, nothing is sent and the reason is told once.
func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		l.die()
		run, notes := l.measure(t, t.Context(), plan(experiment.Level{Concurrency: 8, Duration: time.Hour}, experiment.Level{Concurrency: 1, Requests: 1}))
		if len(run.Levels) != 1 || run.Levels[0].Cut != "server lost" || len(run.Requests) != 0 {
			t.Errorf("levels %+v, %d requests", run.Levels, len(run.Requests))
		}
		want := []string{
			"there will be no queue curve: dial tcp: connection refused",
			`level c=8, 64+4: server lost: target "t": preparing workload "64+4": dial tcp: connection refused`,
		}
		if diff := cmp.Diff(want, notes.told()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// A closed loop on a server that fails at once does not spin.
func TestFailingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		l.fault(t, vllmsim.Fault{Name: vllmsim.Status, Value: "500"})
		run, _ := l.measure(t, t.Context(), plan(experiment.Level{Concurrency: 10, Duration: time.Minute}))
		counts := outcomes(measured(run, 0))
		// One at once, 6 more after pauses of 0.1, 0.2, … 3.2 s, 10 more after pauses of 5 s, in each of 10 places.
		if diff := cmp.Diff(map[string]int{"http_status": 170}, counts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if run.Levels[0].Cut != "" {
			t.Errorf("the level was cut: %s", run.Levels[0].Cut)
		}
	})
}

// A server that hangs costs each request its timeout, and no more.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		p := plan(experiment.Level{Concurrency: 2, Duration: 15 * time.Second})
		time.AfterFunc(8*time.Second, func() { l.fault(t, vllmsim.Fault{Name: vllmsim.Hang}) })
		run, _ := l.measure(t, t.Context(), p)
		counts := outcomes(measured(run, 0))
		if counts["ok"] < 100 || counts["timeout"]+counts["stalled"] < 2 || len(counts) > 3 {
			t.Errorf("requests ended %v", counts)
		}
		if took := run.Levels[0].End.Sub(run.Levels[0].Start); took > 26*time.Second {
			t.Errorf("the level took %v; it should have ended with the last timeout", took)
		}
	})
}

// A level that the server cannot run is left out, with the reason; the others run.
func TestUnfitLevel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{MaxModelLen: 1000})
		run, notes := l.measure(t, t.Context(), plan(
			experiment.Level{Concurrency: 1, Requests: 2, PromptTokens: 998, OutputTokens: 4},
			experiment.Level{Concurrency: 1, Requests: 2}))
		var cuts []string
		for _, l := range run.Levels {
			cuts = append(cuts, l.Cut)
		}
		if diff := cmp.Diff([]string{"not run", ""}, cuts); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want := []string{`level c=1, 998+4: not run: target "t": preparing workload "998+4": prompt_tokens 998 and output_tokens 4 are 1002 together; model "tiny" takes at most 1000 (max_model_len)`}
		if diff := cmp.Diff(want, notes.told()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// If no request of the warm-up succeeds, the level would be full of failures and is not run.
func TestFailedWarmup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		l.fault(t, vllmsim.Fault{Name: vllmsim.Status, Value: "503"})
		p := plan(experiment.Level{Concurrency: 2, Duration: time.Hour})
		p.Warmup = 4
		run, notes := l.measure(t, t.Context(), p)
		if run.Levels[0].Cut != "warm-up failed" || len(measured(run, 0)) != 0 || len(run.Requests) != 4 {
			t.Errorf("level %+v, %d requests", run.Levels[0], len(run.Requests))
		}
		if told := notes.told(); len(told) != 1 {
			t.Errorf("told %q", told)
		}
	})
}
