//go:build vllm

package vllm

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestCrash kills the engine in mid stream and starts the server again.
func TestCrash(t *testing.T) {
	s := startServer(t)
	d := configured(t, fmt.Sprintf(`
global: {interval: 1s, timeout: 20s, warmup: 3}
workloads: [{name: chat, prompt_tokens: 64, output_tokens: 1000}]
targets: [{name: tiny, url: %q}]
`, s.url))
	eventually(t, 2*time.Minute, "two probes have succeeded", func() bool {
		p := d.metrics(t)
		return p.sum("llm_probe_requests_total") >= 2 && p.sum("llm_probe_warmup_requests_total") == 3
	})
	eventually(t, time.Minute, "a stream is under way", func() bool {
		flights := d.inFlight(t)
		return len(flights) > 0 && flights[0].Events > 100
	})
	killed := time.Now()
	s.signalEngine(t, syscall.SIGKILL)
	checkCrash(t, s, d, killed)
	s.start(t)
	checkRestart(t, d, time.Now())
}

func checkCrash(t *testing.T, s *server, d *daemon, killed time.Time) {
	t.Helper()
	var p page
	eventually(t, time.Minute, "the server refuses connections", func() bool {
		p = d.metrics(t)
		return p.sum("llm_probe_request_failures_total", `reason="connect"`) >= 2 && p.sum("llm_server_up") == 0
	})
	results := d.results(t)
	slices.Reverse(results) // the oldest first
	var reasons []string
	for _, r := range results {
		if r.Ended.Before(killed) {
			continue
		}
		if r.Success {
			t.Errorf("%s ended %s after the kill as a success", r.RequestID, r.Ended.Sub(killed))
			continue
		}
		if len(reasons) == 0 {
			t.Logf("the first failure came %s after the kill: %s: %s", r.Ended.Sub(killed).Round(time.Millisecond), r.Reason, r.Error)
		}
		reasons = append(reasons, r.Reason)
	}
	t.Logf("reasons in order: %v", reasons)
	// The stream under way ends with an error in it; until the API server notices, it answers 500; then it is gone.
	order := []string{"server_error", "http_status", "overloaded", "conn_reset", "connect"}
	if len(reasons) == 0 || reasons[0] != "server_error" || !slices.IsSortedFunc(reasons, func(a, b string) int {
		return slices.Index(order, a) - slices.Index(order, b)
	}) || slices.ContainsFunc(reasons, func(r string) bool { return !slices.Contains(order, r) }) {
		t.Errorf("reasons %v, want server_error first, then in order of %v", reasons, order)
	}
	failed := p.sum("llm_probe_request_failures_total")
	for name, want := range map[string]float64{
		"llm_probe_consecutive_failures": failed, "llm_probe_up": 0, "llm_server_up": 0, "llm_server_healthy": 0,
	} {
		if got := p.sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if bad := p.sum("llm_probe_slo_bad_events_total", success); bad != failed {
		t.Errorf("%v bad events for success, want one for each of %v failures", bad, failed)
	}
	checkLog(t, d, map[string]int{"probe failed": 1, "probes succeed again": 0, "metrics cannot be read": 1, "restarted": 0})
	eventually(t, time.Minute, "vLLM has ended", func() bool {
		select {
		case <-s.exited:
			return true
		default:
			return false
		}
	})
}

func checkRestart(t *testing.T, d *daemon, back time.Time) {
	t.Helper()
	eventually(t, time.Minute, "the warm-up after the restart is over", func() bool {
		return d.metrics(t).sum("llm_probe_warmup_requests_total") == 6
	})
	before := d.metrics(t)
	eventually(t, time.Minute, "five probes more have succeeded", func() bool {
		return d.metrics(t).sum("llm_probe_requests_total") >= before.sum("llm_probe_requests_total")+5
	})
	after := d.metrics(t)
	for name, want := range map[string]float64{
		"llm_probe_request_failures_total": before.sum("llm_probe_request_failures_total"),
		"llm_probe_warmup_requests_total":  6,
		"llm_probe_consecutive_failures":   0,
		"llm_probe_up":                     1, "llm_server_up": 1, "llm_server_healthy": 1,
	} {
		if got := after.sum(name); got != want {
			t.Errorf("%s is %v after the restart, want %v", name, got, want)
		}
	}
	if started := after.sum("llm_server_start_time_seconds"); started > float64(back.Unix()) || started < float64(back.Add(-startLimit).Unix()) {
		t.Errorf("llm_server_start_time_seconds is %v, want that of the new process, healthy at %v", started, back.Unix())
	}
	checkLog(t, d, map[string]int{
		"probe failed": 1, "probes succeed again": 1, "metrics cannot be read": 1, "metrics can be read again": 1,
		"the server was restarted": 1, "the server has restarted, warming up": 1,
	})
	unwarmed := 0
	for _, r := range d.results(t) {
		if r.Success && !r.Warmup && r.Started.Before(firstWarmup(d.results(t), back)) && r.Ended.After(back) {
			unwarmed++
		}
	}
	t.Logf("%d probes were measured before the restart was known", unwarmed)
}

// firstWarmup is when the warm-up after the restart began.
func firstWarmup(results []result, back time.Time) (first time.Time) {
	for _, r := range results {
		if r.Warmup && r.Started.After(back.Add(-5*time.Second)) {
			first = r.Started // they come newest first
		}
	}
	return first
}

// checkLog counts lines of the log by a text in them.
func checkLog(t *testing.T, d *daemon, want map[string]int) {
	t.Helper()
	for text, n := range want {
		if found := d.log.with(text); len(found) != n {
			t.Errorf("the log has %d lines with %q, want %d: %q", len(found), text, n, found)
		}
	}
}
