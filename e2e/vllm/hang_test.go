//go:build vllm

package vllm

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestHang stops the engine and lets it go on. /health answers 200 all the time, and the server's own metrics
// stand still: what tells is a probe that waits.
func TestHang(t *testing.T) {
	s := startServer(t)
	for _, hang := range []struct {
		name      string
		output    int
		slo       string
		threshold time.Duration
		ready     func(*testing.T, *server, *daemon) page // brings about the moment of the stop
	}{
		{"while idle", 32, "ttft", time.Second, func(t *testing.T, s *server, d *daemon) page {
			p, _ := settle(t, s, d)
			return p
		}},
		{"in mid stream", 1500, "itl_max", time.Second, func(t *testing.T, _ *server, d *daemon) (p page) {
			eventually(t, time.Minute, "a stream is under way", func() bool {
				p = d.metrics(t)
				flights := d.inFlight(t)
				return len(flights) > 0 && flights[0].Events > 100 && flights[0].Events < 1000
			})
			return p
		}},
	} {
		t.Run(hang.name, func(t *testing.T) {
			d := configured(t, fmt.Sprintf(`
global: {interval: 1s, timeout: 1m, stall_timeout: 30s, warmup: 2}
workloads: [{name: chat, prompt_tokens: 128, output_tokens: %d}]
targets: [{name: tiny, url: %q}]
slos:
  - {name: judged, indicator: %s, threshold: %s, objective: 99}
  - {name: success, indicator: success, objective: 99}
`, hang.output, s.url, hang.slo, hang.threshold))
			eventually(t, 2*time.Minute, "three probes have succeeded", func() bool {
				return d.metrics(t).sum("llm_probe_slo_events_total", `slo="success"`) >= 3
			})
			before := hang.ready(t, s, d)
			s.signalEngine(t, syscall.SIGSTOP)
			checkHang(t, d, before, time.Now(), hang.threshold)
			s.signalEngine(t, syscall.SIGCONT)
			checkRecovery(t, s, d, before, time.Now())
		})
	}
}

const (
	judged  = `slo="judged"`
	success = `slo="success"`
)

// checkHang watches a hang for 10 s.
func checkHang(t *testing.T, d *daemon, before page, stopped time.Time, threshold time.Duration) {
	t.Helper()
	var silentSince, moved time.Time
	var changes []float64
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for now := stopped; now.Sub(stopped) < 10*time.Second; now = <-tick.C {
		p := d.metrics(t)
		read := time.Now()
		since := read.Add(-seconds(p.sum("llm_probe_silence_seconds")))
		hung := now.Sub(stopped) > 2*time.Second // what was on its way has come
		if p.sum("llm_probe_in_flight") > 0 && hung {
			if silentSince.IsZero() {
				silentSince = since
			}
			if drift := since.Sub(silentSince).Abs(); drift > 300*time.Millisecond {
				t.Errorf("%s after the stop, llm_probe_silence_seconds is %v: it does not grow with time", read.Sub(stopped), p.sum("llm_probe_silence_seconds"))
			}
		}
		if moved.IsZero() && p.sum("llm_probe_slo_bad_events_total", judged) > before.sum("llm_probe_slo_bad_events_total", judged) {
			moved = read
		}
		if healthy, up := p.sum("llm_server_healthy"), p.sum("llm_server_up"); healthy != 1 || up != 1 {
			t.Errorf("%s after the stop, llm_server_healthy is %v and llm_server_up %v, want 1: vLLM answers as ever", read.Sub(stopped), healthy, up)
		}
		if failed := p.sum("llm_probe_request_failures_total") - before.sum("llm_probe_request_failures_total"); failed != 0 {
			t.Errorf("%s after the stop, %v probes have failed, want none before their timeout", read.Sub(stopped), failed)
		}
		if hung {
			changes = append(changes, p.sum("llm_server_last_change_timestamp_seconds"))
		}
	}
	if silentSince.IsZero() || moved.IsZero() {
		t.Fatalf("silence since %v, SLO counter moved at %v: want both", silentSince, moved)
	}
	t.Logf("silent since %s after the stop; the SLO counter moved %s after that (threshold %s)",
		silentSince.Sub(stopped).Round(time.Millisecond), moved.Sub(silentSince).Round(time.Millisecond), threshold)
	if waited := moved.Sub(silentSince); waited < threshold || waited > threshold+time.Second {
		t.Errorf("the SLO counter moved after a silence of %s, want between %s and a second more", waited, threshold)
	}
	changes = slices.Compact(changes)
	if len(changes) != 1 || changes[0] > float64(stopped.Add(2*time.Second).UnixMilli())/1e3 {
		t.Errorf("llm_server_last_change_timestamp_seconds was %v, want one value from before the hang (%v)", changes, stopped.Unix())
	}
}

// checkRecovery: all that waited is answered, and nothing is taken for a restart.
func checkRecovery(t *testing.T, s *server, d *daemon, before page, resumed time.Time) {
	t.Helper()
	var p page
	eventually(t, time.Minute, "the probes after the hang succeed", func() bool {
		p = d.metrics(t)
		return p.sum("llm_probe_silence_seconds") < 1 && p.sum("llm_probe_last_success_timestamp_seconds") > float64(resumed.Unix()+5)
	})
	if changed := p.sum("llm_server_last_change_timestamp_seconds"); changed < float64(resumed.Unix()) {
		t.Errorf("llm_server_last_change_timestamp_seconds is %v, want it to move again after %v", changed, resumed.Unix())
	}
	for name, want := range map[string]float64{
		"llm_probe_request_failures_total": before.sum("llm_probe_request_failures_total"),
		"llm_probe_warmup_requests_total":  before.sum("llm_probe_warmup_requests_total"),
		"llm_probe_consecutive_failures":   0,
		"llm_probe_up":                     1,
	} {
		if got := p.sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if bad := p.sum("llm_probe_slo_bad_events_total", success); bad != 0 {
		t.Errorf("%v bad events for success, want 0: the probes were late and succeeded", bad)
	}
	if bad := growthOf(before, p, "llm_probe_slo_bad_events_total", judged); bad < 1 {
		t.Errorf("%v bad events for the hang, want at least 1", bad)
	}
	for _, line := range []string{"probe failed", "restarted", "succeed again", "cannot be read"} {
		if found := d.log.with(line); len(found) > 0 {
			t.Errorf("the log says %q", found)
		}
	}
	t.Logf("answered %s after the engine went on; %v probes of the hang were bad",
		time.Since(resumed).Round(time.Second), growthOf(before, p, "llm_probe_slo_bad_events_total", judged))
}

func growthOf(before, after page, name string, labels ...string) float64 {
	return growth{before, after}.of(name, labels...)
}
