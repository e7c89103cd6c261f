package prober

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// begin runs a rig in the background; end cancels it and waits for the end of Run.
func (g *rig) begin(t *testing.T) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// runFor runs a rig for a time.
func (g *rig) runFor(t *testing.T, d time.Duration) {
	end := g.begin(t)
	time.Sleep(d)
	end()
}

// starts lists when the probes began, since the first slot.
func (g *rig) starts() (list []time.Duration) {
	g.rec.mu.Lock()
	defer g.rec.mu.Unlock()
	for _, p := range g.rec.started {
		list = append(list, p.Started.Sub(g.rec.started[0].Scheduled))
	}
	return list
}

// every is a plan with an interval and room for n probes in flight.
func every(interval, timeout time.Duration, n int) Plan {
	p := plan()
	p.Interval, p.Timeout, p.StallTimeout, p.MaxInFlight = interval, timeout, timeout, n
	return p
}

func TestProbesStartAtTheirPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := every(10*time.Second, time.Minute, 7)
		g := newRig(t, (&fakeServer{}).dial, target(p))
		begin := time.Now()
		g.runFor(t, time.Minute)
		if n := len(g.rec.started); n != 6 {
			t.Errorf("%d probes in six intervals", n)
		}
		for i, probe := range g.rec.started {
			if at := time.Duration(probe.Started.UnixNano()) % p.Interval; at != Phase("t", "w", 0, p.Interval) {
				t.Errorf("probe %d started %v into its interval", i, at)
			}
			if probe.StartDelay() != 0 {
				t.Errorf("probe %d started %v late", i, probe.StartDelay())
			}
		}
		if first := g.rec.started[0].Started.Sub(begin); first > p.Interval {
			t.Errorf("the first probe came after %v", first)
		}
	})
}

// p11: whatever hangs, probes start on time, up to the cap; the slots above it are missed and counted; and while
// it hangs all of that is told.
func TestHungServerDoesNotStopTheSchedule(t *testing.T) {
	for name, hang := range map[string]script{
		"before the headers":   "<<HANG>>HTTP/1.1 ",
		"after the role chunk": "{ROLE}<<HANG>>",
		"in mid stream":        "{ROLE}{C:a}<<HANG>>",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := always(hang)
				g := newRig(t, s.dial, target(every(10*time.Second, 35*time.Second, 2)))
				end := g.begin(t)
				time.Sleep(30 * time.Second)
				if got := g.rec.tally(); got != "2 started, 0 ended, 1 missed" {
					t.Errorf("after 30 s: %s", got)
				}
				time.Sleep(70 * time.Second)
				end()
				// Each probe holds its place for 35 s: two slots in four are missed.
				want := seconds(0, 10, 40, 50, 80, 90)
				if diff := cmp.Diff(want, g.starts()); diff != "" {
					t.Errorf("starts (-want +got):\n%s", diff)
				}
				if n := len(g.rec.missed); n != 4 {
					t.Errorf("%d slots missed: %v", n, g.rec.missed)
				}
				for _, r := range g.rec.results {
					if got := ending(r); got != "abandoned" && got != "timeout" && got != "stalled" {
						t.Errorf("%s", outcome(r))
					}
					if r.StartDelay() != 0 {
						t.Errorf("started %v late", r.StartDelay())
					}
				}
			})
		})
	}
}

// p13: a target that hangs changes nothing for another.
func TestHungTargetLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := newRig(t, always("<<HANG>>HTTP/1.1 ").dial, target(every(time.Second, 30*time.Second, 31)))
		well := newRig(t, (&fakeServer{}).dial, target(every(time.Second, 30*time.Second, 31)))
		endSick, endWell := sick.begin(t), well.begin(t)
		time.Sleep(time.Minute)
		endSick()
		endWell()
		if n := len(well.rec.results); n != 60 || len(well.rec.missed) != 0 {
			t.Errorf("%d probes, %d missed", n, len(well.rec.missed))
		}
		for _, r := range well.rec.results {
			if got, want := outcome(r), "ok ttft=100ms gaps=[20ms] tpot=157.48µs duration=120ms tokens=128/usage prompt=512"; got != want && !r.Abandoned {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
	})
}

// A healthy long answer is old, not late: it overlaps with the next.
func TestLongAnswersOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always("{ROLE}<<+1s>>{C:a}<<+24s>>{C:b}{FIN:length}{USAGE:512,128}{DONE}")
		g := newRig(t, s.dial, target(every(10*time.Second, time.Minute, 7)))
		end := g.begin(t)
		time.Sleep(100 * time.Second)
		g.Drain()
		time.Sleep(30 * time.Second)
		end()
		if got := g.rec.reasons(); got["ok"] != 10 || len(got) != 1 || len(g.rec.missed) != 0 {
			t.Errorf("%v, %d missed", got, len(g.rec.missed))
		}
	})
}

func twoWorkloads(interval time.Duration) Target {
	a, b := every(interval, 35*time.Second, 5), every(interval, 35*time.Second, 5)
	a.Name, b.Name = "a", "b"
	return target(a, b)
}

// history lists what became of each probe: "a warm-up", "b ok", "a http_status".
func (g *rig) history() (list []string) {
	g.rec.mu.Lock()
	defer g.rec.mu.Unlock()
	for _, r := range g.rec.results {
		list = append(list, r.Workload.Name+" "+ending(r))
	}
	return list
}

func TestWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := twoWorkloads(10 * time.Second)
		target.Warmup = 3
		s := &fakeServer{}
		g := newRig(t, s.dial, target)
		g.runFor(t, 30*time.Second)
		history := g.history()
		first := history[0][:1]
		second := map[string]string{"a": "b", "b": "a"}[first]
		want := []string{first + " warm-up", second + " warm-up", first + " warm-up"}
		if diff := cmp.Diff(want, history[:3]); diff != "" {
			t.Errorf("one after another, the workloads in turn (-want +got):\n%s", diff)
		}
		for i, r := range g.rec.results[:3] {
			if i > 0 && r.Started.Before(g.rec.results[i-1].Ended) {
				t.Errorf("warm-up probe %d began before the one before had ended", i)
			}
		}
		// The phases of the two are 0.2 s apart, so the burst has begun in b's first slot and covers a's.
		if rest := history[3:]; len(rest) != 4 || slices.Contains(rest, "a warm-up") || slices.Contains(rest, "b warm-up") {
			t.Errorf("after the warm-up: %v", rest)
		}
		if len(g.rec.missed) != 0 {
			t.Errorf("missed %v", g.rec.missed)
		}
	})
}

// A failed warm-up probe is an ordinary failure: it ends the burst until the next slot, and warms nothing up.
func TestFailedWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{script: func(n int, _ sentRequest) script {
			if n == 1 || n == 2 {
				return statusScript(500)
			}
			return defaultScript
		}}
		target := target(every(10*time.Second, 35*time.Second, 5))
		target.Warmup = 3
		g := newRig(t, s.dial, target)
		g.runFor(t, 50*time.Second)
		want := []string{"w warm-up", "w http_status", "w http_status", "w warm-up", "w warm-up", "w ok", "w ok"}
		if diff := cmp.Diff(want, g.history()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// Two in the burst of the first slot, one in the second, two in the third, then one a slot.
		if diff := cmp.Diff(seconds(0, 0.12, 10, 20, 20.12, 30, 40), g.starts()); diff != "" {
			t.Errorf("starts (-want +got):\n%s", diff)
		}
	})
}

// A server that hangs in its warm-up: the slots that pass are missed, and the probe shows as in flight.
func TestHangInWarmUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := target(every(10*time.Second, 35*time.Second, 5))
		target.Warmup = 3
		g := newRig(t, always("<<HANG>>HTTP/1.1 ").dial, target)
		end := g.begin(t)
		time.Sleep(30 * time.Second)
		if got := g.rec.tally(); got != "1 started, 0 ended, 2 missed" {
			t.Errorf("after 30 s: %s", got)
		}
		time.Sleep(30 * time.Second)
		end()
		if diff := cmp.Diff([]string{"w timeout", "w abandoned"}, g.history()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(g.rec.started)+len(g.rec.missed) != 6 {
			t.Errorf("%d started and %d missed in six slots", len(g.rec.started), len(g.rec.missed))
		}
	})
}

func TestWarmUpAfterARestartOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := target(every(10*time.Second, 35*time.Second, 5))
		target.Warmup = 2
		s := &fakeServer{}
		g := newRig(t, s.dial, target)
		end := g.begin(t)
		warm := func() int { return g.rec.reasons()["warm-up"] }
		for _, step := range []struct {
			after time.Duration
			want  int // warm-up probes so far
		}{
			{10 * time.Second, 2},
			{time.Minute, 4},
			{9 * time.Minute, 4}, // at most once in ten minutes
			{2 * time.Minute, 6},
		} {
			time.Sleep(step.after)
			if step.want > 2 {
				g.WarmUp()
				time.Sleep(20 * time.Second)
			}
			if got := warm(); got != step.want {
				t.Errorf("after %v more: %d warm-up probes, want %d", step.after, got, step.want)
			}
		}
		end()
		if n := s.asked("/v1/models"); n != 4 {
			t.Errorf("the models were asked for %d times, want once and after each restart", n)
		}
		if n := strings.Count(g.logs.String(), "the server has restarted, warming up"); n != 2 {
			t.Errorf("told of %d restarts", n)
		}
	})
}

func TestDrainLetsProbesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, always("{ROLE}{C:a}<<+8s>>{C:b}{FIN:length}{USAGE:512,128}{DONE}").dial, target(every(10*time.Second, 35*time.Second, 5)))
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.Run(t.Context())
		}()
		time.Sleep(10*time.Second + time.Second)
		g.Drain()
		g.Drain() // harmless
		<-done
		if diff := cmp.Diff([]string{"w ok"}, g.history()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestCancelAbandonsProbes(t *testing.T) {
	for name, s := range map[string]script{
		"before the headers": "<<HANG>>HTTP/1.1 ",
		"in mid stream":      "{ROLE}{C:a}<<HANG>>",
	} {
		synctest.Test(t, func(t *testing.T) {
			server := always(s)
			g := newRig(t, server.dial, target(every(10*time.Second, 35*time.Second, 5)))
			end := g.begin(t)
			time.Sleep(22 * time.Second)
			before := time.Now()
			end()
			if took := time.Since(before); took != 0 {
				t.Errorf("%s: the end took %v", name, took)
			}
			if got := g.rec.reasons(); got["abandoned"] != len(g.rec.started) || len(got) != 1 {
				t.Errorf("%s: %v of %d", name, got, len(g.rec.started))
			}
			if log := g.logs.String(); strings.Contains(log, "probe failed") {
				t.Errorf("%s: told as a failure: %s", name, log)
			}
			synctest.Wait()
			if server.open != 0 {
				t.Errorf("%s: %d connections are open", name, server.open)
			}
		})
	}
}

// e26 (SuperQ/smokeping_prober#228): a panic is one failure, and the next slot probes again.
func TestPanicIsOneFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		g := newRig(t, s.dial, target(every(10*time.Second, 35*time.Second, 5)))
		n := 0
		g.rec.onToken = func() {
			if n++; n == 3 { // the first token of the second probe
				panic("out of cheese")
			}
		}
		g.runFor(t, 30*time.Second)
		if diff := cmp.Diff([]string{"w ok", "w internal", "w ok"}, g.history()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if r := g.rec.results[1]; r.Err.Error() != "panic: out of cheese" {
			t.Errorf("error %v", r.Err)
		}
		synctest.Wait()
		if s.open != 0 {
			t.Errorf("%d connections are open", s.open)
		}
	})
}

// A log line when the state changes, never one a probe.
func TestLogTellsChangesOfState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{script: func(n int, _ sentRequest) script {
			if n >= 2 && n < 7 {
				return statusScript(500)
			}
			return "{ROLE}{C:a}{FIN:length}{USAGE:512,3}{DONE}"
		}}
		g := newRig(t, s.dial, target(every(10*time.Second, 35*time.Second, 5)))
		g.runFor(t, 90*time.Minute)
		var told []string
		for line := range strings.Lines(g.logs.String()) {
			line, _, _ = strings.Cut(line, " request_id=")
			told = append(told, strings.TrimSpace(line))
		}
		want := []string{
			`level=info target=t msg="prompt length is corrected by the server's usage instead of its tokenizer" workload=w err="the server does not tell how it tokenizes: POST /tokenize: HTTP status 404: Not Found"`,
			`level=warn target=t workload=w msg="probe is suspect" reason=short_output hint="` + hints["short_output"] + `"`,
			`level=warn target=t workload=w msg="probe failed" reason=http_status err="HTTP status 500: no"`,
			`level=info target=t workload=w msg="probes succeed again" after=50s failures=5`,
			`level=warn target=t workload=w msg="probe is suspect" reason=short_output hint="` + hints["short_output"] + `"`,
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// e01 (SuperQ/smokeping_prober#68): a name that does not resolve fails each probe, and recovers by itself.
// e25 (ai-dynamo/dynamo#3728): so does a server that is not there yet, or still loads.
func TestServerThatComesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{script: func(n int, _ sentRequest) script {
			if n < 1 {
				return statusScript(503)
			}
			return defaultScript
		}}
		n := 0
		s.dialing = func(string, string) error {
			n++
			return map[int]error{1: dnsError, 2: dnsError, 3: dnsError, 4: dnsError, 5: refusedError, 6: refusedError}[n] // the list's and the probe's
		}
		g := newRig(t, s.dial, target(every(10*time.Second, 35*time.Second, 5)))
		g.runFor(t, 60*time.Second)
		want := []string{"w dns", "w dns", "w connect", "w overloaded", "w ok", "w ok"}
		if diff := cmp.Diff(want, g.history()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// Observers are told of one probe in order, and of every probe's end.
func TestObserverIsToldInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, (&fakeServer{}).dial, target())
		res := g.once(t)
		got := fmt.Sprint(len(g.rec.started), g.rec.sent, g.rec.tokens, len(g.rec.results))
		if want := "1 [0s] [100ms 120ms] 1"; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
		if g.rec.started[0] != res.Probe || g.rec.results[0] != res {
			t.Error("told of another probe")
		}
	})
}

func TestSendNeedsAKnownWorkload(t *testing.T) {
	g := newRig(t, (&fakeServer{}).dial, target())
	if _, err := g.Send(t.Context(), Order{Workload: "x"}); err == nil || err.Error() != `target "t" has no workload "x"` {
		t.Errorf("error %v", err)
	}
}
