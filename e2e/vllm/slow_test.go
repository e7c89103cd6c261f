//go:build vllm

package vllm

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestLongAnswer: an answer of half a minute is old, never silent, and nothing is wrong with it.
func TestLongAnswer(t *testing.T) {
	s := startServer(t)
	throttle(t, s)
	d := configured(t, fmt.Sprintf(`
global: {interval: 5s, timeout: 2m, stall_timeout: 10s, warmup: 0}
workloads: [{name: long, prompt_tokens: 64, output_tokens: 3500, max_in_flight: 1}]
targets: [{name: tiny, url: %q}]
slos:
  - {name: judged, indicator: itl_max, threshold: 2s, objective: 99}
  - {name: first, indicator: ttft, threshold: 2s, objective: 99}
  - {name: success, indicator: success, objective: 99}
`, s.url))
	var age, silence, standstill float64 // the longest seen
	eventually(t, 4*time.Minute, "an answer has ended", func() bool {
		p := d.metrics(t)
		age = max(age, p.sum("llm_probe_oldest_in_flight_seconds"))
		silence = max(silence, p.sum("llm_probe_silence_seconds"))
		if p.sum("llm_probe_oldest_in_flight_seconds") > 3 {
			standstill = max(standstill, float64(time.Now().UnixMilli())/1e3-p.sum("llm_server_last_change_timestamp_seconds"))
		}
		return p.sum("llm_probe_requests_total") >= 1
	})
	p := d.metrics(t)
	t.Logf("an answer of %.0f s; longest silence %.2f s, longest standstill of the server's metrics %.2f s", age, silence, standstill)
	if age < 30 {
		t.Errorf("the answer took %.0f s, want at least 30: the test has shown nothing", age)
	}
	if silence > 2 || standstill > 4 {
		t.Errorf("silence of %.2f s and standstill of %.2f s while tokens arrive", silence, standstill)
	}
	for _, name := range []string{"llm_probe_request_failures_total", "llm_probe_slo_bad_events_total"} {
		if got := p.sum(name); got != 0 {
			t.Errorf("%s is %v, want 0", name, got)
		}
	}
	if judged := p.sum("llm_probe_slo_events_total"); judged+p.sum("llm_probe_slo_unjudged_total") < 3 {
		t.Errorf("%v SLO events, want one of each SLO", judged)
	}
}

// throttle gives the engine a fifth of the time, until the test ends.
func throttle(t *testing.T, s *server) {
	t.Helper()
	pids := s.engine(t)
	send := func(sig syscall.Signal) {
		for _, pid := range pids {
			_ = syscall.Kill(pid, sig)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		defer send(syscall.SIGCONT)
		for {
			send(syscall.SIGCONT)
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return
			}
			send(syscall.SIGSTOP)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
}

// TestQueue: a probe that waits in the queue of a busy server is silent and healthy. The server says why.
func TestQueue(t *testing.T) {
	s := startServer(t, "--max-num-seqs=2")
	d := configured(t, fmt.Sprintf(`
global: {interval: 2s, timeout: 1m, warmup: 1}
workloads: [{name: short, prompt_tokens: 64, output_tokens: 16}]
targets: [{name: tiny, url: %q}]
slos: [{name: judged, indicator: ttft, threshold: 40s, objective: 99}]
`, s.url))
	eventually(t, time.Minute, "a probe has ended", func() bool { return d.metrics(t).sum("llm_probe_requests_total") >= 1 })
	occupy(t, s, 4, 1500)
	var silence, waiting, standstill float64
	began := time.Now()
	eventually(t, 2*time.Minute, "the queue was watched for half a minute", func() bool {
		p := d.metrics(t)
		silence, waiting = max(silence, p.sum("llm_probe_silence_seconds")), max(waiting, p.sum("llm_server_requests_waiting"))
		if time.Since(began) > 5*time.Second {
			standstill = max(standstill, float64(time.Now().UnixMilli())/1e3-p.sum("llm_server_last_change_timestamp_seconds"))
		}
		return time.Since(began) > 30*time.Second && p.sum("llm_probe_requests_total") >= 6
	})
	p := d.metrics(t)
	t.Logf("longest silence %.1f s, most requests waiting %v, longest standstill of the server's metrics %.1f s", silence, waiting, standstill)
	if silence < 1 || waiting < 1 {
		t.Errorf("silence %.1f s, %v waiting: the test has shown nothing", silence, waiting)
	}
	if standstill > 4 {
		t.Errorf("the server's metrics stood still for %.1f s while it worked", standstill)
	}
	for _, name := range []string{"llm_probe_request_failures_total", "llm_probe_slo_bad_events_total"} {
		if got := p.sum(name); got != 0 {
			t.Errorf("%s is %v, want 0", name, got)
		}
	}
	queued := 0
	for _, r := range d.results(t) {
		if r.TTFT == nil || *r.TTFT < 1 {
			continue
		}
		queued++
		if *r.Outside < 0 || *r.Outside > 0.5 || *r.Queue < 0.7**r.TTFT {
			t.Errorf("%s: TTFT %.2f s = queue %.2f + prefill %.2f + outside %.2f: want the queue to make the most of it", r.RequestID, *r.TTFT, *r.Queue, *r.Prefill, *r.Outside)
		}
	}
	if queued == 0 {
		t.Error("no probe waited for a second")
	}
	t.Logf("%d probes waited for over a second, by the server's account in its queue", queued)
}

// occupy keeps n requests of others at the server until the test ends.
func occupy(t *testing.T, s *server, n, tokens int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	body := fmt.Sprintf(`{"model":"tiny","prompt":"a","max_tokens":%d,"ignore_eos":true}`, tokens)
	var users sync.WaitGroup
	for range n {
		users.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				if resp, err := http.DefaultClient.Do(req); err == nil {
					resp.Body.Close()
				}
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		users.Wait()
	})
}
