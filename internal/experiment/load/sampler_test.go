package load_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/load"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// The queue is sampled once a second from a level's start until it has drained.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// One request at a time, 1 s each; two a second for 10 s.
		l := newLab(t, vllmsim.Config{Engine: vllmsim.Model{RunningCap: 1, TokenBudget: 1 << 20, KVTokens: 1 << 20, Base: 10 * time.Millisecond}})
		p := plan(experiment.Level{Rate: 2, Arrival: prober.Constant, Requests: 20, PromptTokens: 64, OutputTokens: 100}, experiment.Level{Concurrency: 1, Requests: 2})
		p.Timeout = time.Minute
		run, _ := l.measure(t, t.Context(), p)
		start := run.Levels[0].Start
		peak, tokens := 0.0, -1.0
		last := start
		for i, s := range run.Queue {
			if s.Level != 0 {
				continue
			}
			if gap := s.At.Sub(last); i > 0 && gap != time.Second {
				t.Errorf("%v between two samples", gap)
			}
			if s.At.Before(start) || s.GenerationTokens < tokens {
				t.Errorf("sample %+v", s)
			}
			last, peak, tokens = s.At, max(peak, s.Waiting), s.GenerationTokens
		}
		if peak < 8 || peak > 10 { // 20 sent in 9.5 s, 9 answered
			t.Errorf("%v waiting at the peak", peak)
		}
		end, empty := run.Levels[0].End.Sub(start), run.Levels[0].Empty.Sub(start)
		if end < 19*time.Second || end > 21*time.Second || empty < end || empty > end+time.Second {
			t.Errorf("all was answered after %v and the queue empty after %v", end, empty)
		}
		if next := run.Levels[1].Start; next.Before(run.Levels[0].Empty) {
			t.Errorf("the next level began %v before the queue was empty", run.Levels[0].Empty.Sub(next))
		}
	})
}

// What the server shows of itself.
func TestFacts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{MaxModelLen: 2048, Version: "0.32.0"})
		run, notes := l.measure(t, t.Context(), plan(experiment.Level{Concurrency: 1, Requests: 1}))
		got := run.Facts
		if !got.Ended.After(got.Began) {
			t.Errorf("it lasted from %v to %v", got.Began, got.Ended)
		}
		want := experiment.Facts{
			Tool: "probetool test", Host: got.Host, Began: got.Began, Ended: got.Ended,
			URL: "http://llm.example:8000", Engine: "vllm", Version: "0.32.0", Model: "tiny", MaxContext: 2048,
			Server: got.Server, Before: &experiment.Load{Seconds: 3},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got.Server["block_size"] != "16" || got.Server["cache_dtype"] != "auto" {
			t.Errorf("launch: %v", got.Server)
		}
		if told := notes.told(); told != nil {
			t.Errorf("told %q", told)
		}
	})
}

// A server that others use already: that is said, and nobody waits for a queue that need not drain.
func TestBusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, vllmsim.Config{})
		go l.sim.RunLoad(t.Context(), vllmsim.Load{Rate: 10, Period: time.Hour, PromptTokens: 64, OutputTokens: 50})
		time.Sleep(2 * time.Second)
		run, notes := l.measure(t, t.Context(), plan(experiment.Level{Concurrency: 1, Requests: 10}))
		before := run.Facts.Before
		if before == nil || before.Running < 2 || before.Running > 9 || before.OutputTokensPerSecond < 250 || before.OutputTokensPerSecond > 800 {
			t.Errorf("load before: %+v", before)
		}
		if told := notes.told(); len(told) != 1 {
			t.Errorf("told %q", told)
		}
		if took := run.Facts.Ended.Sub(run.Levels[0].End); took > 0 {
			t.Errorf("%v passed after the last answer", took)
		}
	})
}

// A server without a metrics page is measured all the same; that there is no queue curve is said once.
func TestNoMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*load.Server)
		told   []string
	}{
		"404": {func(*load.Server) {}, []string{`there will be no queue curve: the server answered "404 Not Found"`}},
		"off": {func(s *load.Server) { s.Relay.URL = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, vllmsim.Config{})
				handler := l.web.Handler
				l.web.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/metrics" {
						http.NotFound(w, r)
						return
					}
					handler.ServeHTTP(w, r)
				})
				server := l.server()
				c.change(&server)
				run, notes := measure(t, t.Context(), server, plan(experiment.Level{Concurrency: 2, Requests: 10}))
				if diff := cmp.Diff(c.told, notes.told()); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if n := len(measured(run, 0)); n != 10 || len(run.Queue) != 0 || !run.Levels[0].Empty.IsZero() || run.Facts.Model != "tiny" {
					t.Errorf("%d requests, %d samples, facts %+v", n, len(run.Queue), run.Facts)
				}
			})
		})
	}
}
