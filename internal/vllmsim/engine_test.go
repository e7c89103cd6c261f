package vllmsim

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// measured is what a client saw.
type measured struct {
	mu        sync.Mutex
	tokens    int
	ttft, gap []time.Duration
	durations []time.Duration
	lastEnd   time.Time
}

// run sends one request and reads it to its end, or until ctx is done.
func (m *measured) run(ctx context.Context, t *testing.T, e *Engine, r Request) {
	start := time.Now()
	stream, err := e.Submit(ctx, r)
	if err != nil {
		t.Error(err)
		return
	}
	last := start
	for {
		event, err := stream.Next(ctx)
		if err != nil {
			return
		}
		m.mu.Lock()
		m.tokens++
		if event.Token == 1 {
			m.ttft = append(m.ttft, event.At.Sub(start))
		} else {
			m.gap = append(m.gap, event.At.Sub(last))
		}
		last = event.At
		if event.Last {
			m.durations = append(m.durations, event.At.Sub(start))
			m.lastEnd = event.At
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
	}
}

// closedLoop keeps a number of requests in progress: new ones start for a time, or until enough have been sent.
// It returns when all have ended.
func closedLoop(t *testing.T, e *Engine, concurrency int, r Request, d time.Duration, requests int64) *measured {
	t.Helper()
	m := &measured{}
	var sent atomic.Int64
	deadline := time.Now().Add(d)
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for time.Now().Before(deadline) && sent.Add(1) <= requests {
				m.run(t.Context(), t, e, r)
				time.Sleep(turnaround)
			}
		})
	}
	wg.Wait()
	return m
}

// turnaround is what a benchmark client in Python needs from the end of an answer to its next request.
const turnaround = 8 * time.Millisecond

// percentile is the nearest rank, in seconds.
func percentile(all []time.Duration, p float64) float64 {
	slices.Sort(all)
	return all[max(0, int(math.Ceil(p*float64(len(all))))-1)].Seconds()
}

// unknown is a value that was not measured.
const unknown = 0

// near wants a value within 10 % of what was measured on the real server.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if d := got/want - 1; want != unknown && math.Abs(d) > 0.10 {
		t.Errorf("%s: %.4g, on the real server %.4g: off by %+.0f %%", what, got, want, 100*d)
	}
}

// onEngine runs a subtest with an engine in a bubble of virtual time.
func onEngine(t *testing.T, name string, m Model, f func(*testing.T, *Engine)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := NewEngine(m)
			defer e.Close()
			f(t, e)
		})
	})
}

// The tables below are measurements of Qwen3.5-4B on one A10 under vLLM 0.27; times in seconds.

func TestModelReproducesConcurrencySweep(t *testing.T) {
	for _, row := range []struct {
		concurrency                        int
		rate, ttft50, ttft95, gap50, gap95 float64 // rate in tokens a second
	}{
		{1, 49, .091, unknown, .0198, unknown},
		{64, 855, .872, unknown, unknown, unknown},
		{128, 890, 2.18, 8.29, .055, unknown},
		{256, 877, 19.0, 25.4, .055, .317},
	} {
		onEngine(t, fmt.Sprint(row.concurrency), DefaultModel(), func(t *testing.T, e *Engine) {
			start := time.Now()
			m := closedLoop(t, e, row.concurrency, Request{PromptTokens: 512, OutputTokens: 128}, 2*time.Minute, math.MaxInt64)
			near(t, "tokens a second", float64(m.tokens)/time.Since(start).Seconds(), row.rate)
			near(t, "TTFT p50", percentile(m.ttft, .50), row.ttft50)
			near(t, "TTFT p95", percentile(m.ttft, .95), row.ttft95)
			near(t, "gap p50", percentile(m.gap, .50), row.gap50)
			near(t, "gap p95", percentile(m.gap, .95), row.gap95)
		})
	}
}

func TestModelReproducesPromptLengths(t *testing.T) {
	for _, row := range []struct {
		prompt               int
		ttft50, gap50, gap95 float64
	}{
		{128, .118, .0210, unknown},
		{8192, 2.338, .0231, .2869},
	} {
		onEngine(t, fmt.Sprint(row.prompt), DefaultModel(), func(t *testing.T, e *Engine) {
			m := closedLoop(t, e, 4, Request{PromptTokens: row.prompt, OutputTokens: 128}, time.Hour, 128)
			near(t, "TTFT p50", percentile(m.ttft, .50), row.ttft50)
			near(t, "gap p50", percentile(m.gap, .50), row.gap50)
			near(t, "gap p95", percentile(m.gap, .95), row.gap95)
		})
	}
}

func TestModelReproducesOutputLengths(t *testing.T) {
	for _, row := range []struct {
		output                   int
		ttft50, duration50, rate float64
	}{
		{32, .308, .96, 133.3},
		{512, .306, 11.12, 184.2},
	} {
		onEngine(t, fmt.Sprint(row.output), DefaultModel(), func(t *testing.T, e *Engine) {
			start := time.Now()
			m := closedLoop(t, e, 4, Request{PromptTokens: 512, OutputTokens: row.output}, time.Hour, 128)
			near(t, "TTFT p50", percentile(m.ttft, .50), row.ttft50)
			near(t, "duration p50", percentile(m.durations, .50), row.duration50)
			near(t, "tokens a second", float64(m.tokens)/time.Since(start).Seconds(), row.rate)
		})
	}
}

func TestModelReproducesArrivalRates(t *testing.T) {
	for _, row := range []struct {
		rate             float64 // requests a second
		requests         int
		drain            float64 // from the last start to the last end
		waiting, running [2]int  // range of their peaks
	}{
		{2, 240, 2.8, [2]int{0, 5}, [2]int{5, 30}},
		{4, 480, unknown, [2]int{0, 10}, [2]int{20, 60}},
		{8, 960, 20.8, [2]int{98, 135}, [2]int{109, 109}},
		{12, 1440, 79.5, [2]int{500, 700}, [2]int{109, 109}},
	} {
		onEngine(t, fmt.Sprint(row.rate), DefaultModel(), func(t *testing.T, e *Engine) {
			o := openLoop(t, e, row.rate, row.requests)
			near(t, "drain", o.lastEnd.Sub(o.lastStart).Seconds(), row.drain)
			between(t, "peak of waiting", o.waiting, row.waiting)
			between(t, "peak of running", o.running, row.running)
		})
	}
}

func between(t *testing.T, what string, got int, want [2]int) {
	t.Helper()
	if got < want[0] || got > want[1] {
		t.Errorf("%s: %d, want %d to %d", what, got, want[0], want[1])
	}
}

// arrivalSeed gives arrivals that are typical: at 8 requests a second, other seeds drain in 13 to 25 s.
const arrivalSeed = 14

// open is what an open loop showed.
type open struct {
	*measured
	lastStart        time.Time
	waiting, running int // peaks
}

// openLoop sends requests at random times, whether or not the earlier ones have ended.
func openLoop(t *testing.T, e *Engine, rate float64, requests int) open {
	t.Helper()
	o := open{measured: &measured{}}
	random := rand.New(rand.NewPCG(arrivalSeed, 1))
	var wg sync.WaitGroup
	at := time.Now()
	for range requests {
		at = at.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		time.Sleep(time.Until(at))
		wg.Go(func() { o.run(t.Context(), t, e, Request{PromptTokens: 512, OutputTokens: 128}) })
		s := e.Stats()
		o.waiting, o.running = max(o.waiting, s.Waiting), max(o.running, s.Running)
	}
	o.lastStart = at
	wg.Wait()
	return o
}
