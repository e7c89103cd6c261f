package main

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/load"
	"github.com/llm-prober/llm_prober/prober"
)

// answered is a success with a TTFT and gaps of 10 ms.
func answered(ttft time.Duration) *experiment.Request {
	at := time.Now()
	return &experiment.Request{Result: prober.Result{
		Probe:  &prober.Probe{RequestID: "probe-A", Scheduled: at, Started: at},
		Status: 200, Sent: at, FirstToken: at.Add(ttft), LastToken: at.Add(ttft + 20*time.Millisecond), Ended: at.Add(time.Second), Gaps: []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}, FirstTokens: 1, OutputTokens: 3,
	}}
}

// shown is what remains of a terminal's bytes: lines that were overwritten included, bars and colours left out.
func shown(raw string) []string {
	raw = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`).ReplaceAllString(raw, "")
	var lines []string
	for _, line := range regexp.MustCompile(`[\r\n]+`).Split(raw, -1) {
		line = regexp.MustCompile(`[ ]*[0-9]+%.*$`).ReplaceAllString(line, "")
		if line = strings.TrimRight(line, " "); line != "" && (len(lines) == 0 || lines[len(lines)-1] != line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// The line that moves tells how far the level is and what it is like; failures stand above it as they happen.
func TestProgressOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := experiment.Plan{Levels: []experiment.Level{{Concurrency: 4, PromptTokens: 512, OutputTokens: 3, Duration: 10 * time.Second}}}
		runner, err := load.NewRunner(plan, load.Server{Target: prober.Target{Name: "t", URL: &url.URL{Scheme: "http", Host: "h"}}})
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		p := newProgress(&out, false, 1)
		p.tty = true
		p.runner = runner
		run := &experiment.Run{Plan: plan, Levels: []experiment.LevelRun{{Start: time.Now(), End: time.Now().Add(11 * time.Second)}}, Facts: experiment.Facts{URL: "http://h", Engine: "vllm", Version: "0.32.0"}}
		p.Began(run)
		p.LevelBegan(0, run)
		p.Entered(0, experiment.WarmingUp, time.Now())
		p.draw()
		p.Entered(0, experiment.Loading, time.Now())
		p.Ended(answered(100 * time.Millisecond))
		p.Ended(answered(1500 * time.Millisecond))
		p.Ended(answered(1700 * time.Millisecond))
		time.Sleep(4 * time.Second)
		p.draw()
		failed := &experiment.Request{Result: prober.Result{
			Probe:  &prober.Probe{RequestID: "probe-B"},
			Reason: prober.ReasonTimeout, Err: errors.New("no end after 5m0s"), Ended: time.Now(),
		}}
		p.Ended(failed)
		p.draw()
		p.Entered(0, experiment.Answering, time.Now())
		p.draw()
		p.Entered(0, experiment.Settling, time.Now())
		p.Sampled(experiment.QueueSample{Running: 3, Waiting: 2})
		p.draw()
		p.LevelEnded(0, run)
		p.stop()
		want := []string{
			"probetool: http://h is vllm 0.32.0",
			"1/1 c=4: warming up, 0 in flight, p50 TTFT –, ITL –, 0 tok/s",
			"1/1 c=4: 6 s left, 0 in flight, p50 TTFT 1.50 s, ITL 10.0 ms, 0 tok/s",
			"probetool: " + failed.Ended.Local().Format("15:04:05") + ", c=4: request probe-B failed (timeout): no end after 5m0s",
			"1/1 c=4: 6 s left, 0 in flight, p50 TTFT 1.50 s, ITL 10.0 ms, 1 failed, 0 tok/s",
			"1/1 c=4: last answers, 0 in flight, p50 TTFT 1.50 s, ITL 10.0 ms, 1 failed, 0 tok/s",
			"1/1 c=4: queue drains (3 running, 2 waiting), 0 in flight, p50 TTFT 1.50 s, ITL 10.0 ms, 1 failed, 0 tok/s",
			"probetool: level 1 of 1, c=4, 512+3: 4 requests in 11.0 s, p50 TTFT 1.50 s, ITL 10.0 ms, 1 failed, 0.818 tok/s",
		}
		if d := cmp.Diff(want, shown(out.String())); d != "" {
			t.Errorf("(-want +got):\n%s\n%q", d, out.String())
		}
	})
}

// What the prober logs is told if it is news: neither failures, which are told anyway, nor what is of no matter.
func TestProgressLogger(t *testing.T) {
	var out strings.Builder
	p := newProgress(&out, true, 1)
	logger := p.logger()
	for _, line := range [][]any{
		{"level", "info", "msg", "prompt length is corrected by the server's usage"},
		{"level", "warn", "msg", "probe failed", "err", "x"},
		{"level", "warn", "msg", "probe is suspect", "reason", "reader_late"},
		{"level", "warn", "target", "t", "msg", "the server refuses a field, sending without it", "workload", "512+128", "field", "cache_salt", "err", "HTTP status 400"},
	} {
		if err := logger.Log(line...); err != nil {
			t.Fatal(err)
		}
	}
	want := "probetool: the server refuses a field, sending without it; workload: 512+128; field: cache_salt; err: HTTP status 400\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
