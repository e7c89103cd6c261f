package vllmsim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Errors that end a stream, or that [Engine.Submit] returns.
var (
	ErrClosed     = errors.New("engine is closed")
	ErrEngineDead = errors.New("engine died")
)

// blockSize is the size of a KV cache block in tokens: vLLM's default on a GPU.
const blockSize = 16

// Engine is a scheduler in the manner of vLLM's: first come, first served; running requests first, then
// admissions while the token budget of the step lasts; long prompts prefilled in chunks. Requests reserve the
// KV cache that they may need, so nothing is ever preempted. An idle engine does not step.
type Engine struct {
	model Model
	wake  chan struct{} // holds one element if something changed since the loop looked
	done  chan struct{} // closed when the loop has ended

	mu      sync.Mutex
	waiting []*task
	paused  bool
	slow    float64
	dead    error // why the loop ends
	stats   Stats // as of the last step

	running []*task // the loop's own
	kvUsed  int     // blocks reserved by running requests; the loop's own
}

// task is a request on its way through the engine.
type task struct {
	Request
	stream    *Stream
	timings   Timings
	computed  int // prompt tokens done, cached ones included
	generated int
	chunk     int // prompt tokens computed by the step under way
}

// NewEngine starts an engine. Close ends it.
func NewEngine(m Model) *Engine {
	e := &Engine{
		model: m,
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		slow:  1,
		stats: newStats(),
	}
	go e.run()
	return e
}

// Submit queues a request. Cancelling ctx aborts it.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	if r.PromptTokens < 1 || r.OutputTokens < 1 {
		return nil, fmt.Errorf("request for %d output tokens after %d prompt tokens: both must be positive", r.OutputTokens, r.PromptTokens)
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = r.OutputTokens
	}
	if r.FinishReason == "" {
		r.FinishReason = "length"
	}
	r.CachedTokens = min(r.CachedTokens, r.PromptTokens-1) // the last token is always computed
	t := &task{Request: r, stream: newStream(ctx), computed: r.CachedTokens}
	t.timings.Arrived = time.Now()

	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead != nil {
		return nil, e.dead
	}
	e.waiting = append(e.waiting, t)
	e.poke()
	return t.stream, nil
}

// Queued is the number of requests that wait to be scheduled right now, whatever the last step knew.
func (e *Engine) Queued() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}

// Stats is what the engine has done, as of its last step.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats.clone()
}

// SetPaused stops or resumes stepping. A paused engine still accepts requests.
func (e *Engine) SetPaused(paused bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = paused
	e.poke()
}

// SetSlowdown multiplies the time of every later step.
func (e *Engine) SetSlowdown(factor float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.slow = factor
}

// Err is [ErrEngineDead] or [ErrClosed] once the engine has ended.
func (e *Engine) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dead
}

// Kill ends the engine as a crash would: every stream fails with [ErrEngineDead].
func (e *Engine) Kill() { e.end(ErrEngineDead) }

// Close ends the engine: every stream fails with [ErrClosed].
func (e *Engine) Close() { e.end(ErrClosed) }

func (e *Engine) end(why error) {
	e.mu.Lock()
	if e.dead == nil {
		e.dead = why
	}
	e.poke()
	e.mu.Unlock()
	<-e.done
}

func (e *Engine) poke() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// run steps for as long as there is work. The end of a step is the start of the next, so that the cost of
// simulating does not slow the simulated engine.
func (e *Engine) run() {
	defer close(e.done)
	defer e.failAll()
	for {
		if !e.waitFor(e.hasWork) {
			return
		}
		start := time.Now()
		for e.busy() {
			if !e.sleepUntil(start.Add(e.model.Window)) {
				return
			}
			step := e.plan(start)
			end := start.Add(step.time)
			if !e.sleepUntil(end) || !e.waitFor(e.mayStep) {
				return
			}
			if now := time.Now(); now.Sub(end) > step.time { // it was paused, or the machine was
				end = now
			}
			e.finish(step, end)
			start = end
		}
	}
}

// waitFor blocks until the condition holds, and reports whether the engine is still alive.
func (e *Engine) waitFor(condition func() bool) bool {
	for {
		e.mu.Lock()
		dead, ok := e.dead != nil, condition()
		e.mu.Unlock()
		if dead {
			return false
		}
		if ok {
			return true
		}
		<-e.wake
	}
}

func (e *Engine) mayStep() bool { return !e.paused }

func (e *Engine) hasWork() bool { return !e.paused && (len(e.waiting) > 0 || len(e.running) > 0) }

func (e *Engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting) > 0 || len(e.running) > 0
}

// sleepUntil sleeps, and reports whether the engine is still alive.
func (e *Engine) sleepUntil(deadline time.Time) bool {
	if time.Until(deadline) <= 0 { // a model without delays, or a late step
		return e.Err() == nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-e.wake:
			if e.Err() != nil {
				return false
			}
		}
	}
}

// step is what one engine step does.
type step struct {
	time     time.Duration
	decoding []*task
	prefill  []*task
}

// plan composes a step: running requests first, then those that wait, while budget, slots and cache last.
func (e *Engine) plan(start time.Time) step {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropAborted()
	var s step
	budget, prefillTokens, admitted := e.model.TokenBudget, 0, 0
	prefill := func(t *task) {
		t.chunk = min(t.PromptTokens-t.computed, budget)
		budget -= t.chunk
		prefillTokens += t.chunk
		s.prefill = append(s.prefill, t)
	}
	for _, t := range e.running {
		switch {
		case t.generated > 0:
			budget--
			s.decoding = append(s.decoding, t)
		case budget > 0:
			prefill(t)
		}
	}
	for len(e.waiting) > 0 && budget > 0 && e.admits(e.waiting[0]) {
		t := e.waiting[0]
		e.waiting = e.waiting[1:]
		e.running = append(e.running, t)
		e.kvUsed += t.blocks()
		t.timings.Scheduled = start
		if t.timings.Arrived.After(start) { // within the window
			t.timings.Scheduled = t.timings.Arrived
		}
		e.stats.admit(t)
		admitted++
		prefill(t)
	}
	s.time = time.Duration(float64(e.model.stepTime(len(s.decoding), prefillTokens, admitted)) * e.slow)
	return s
}

// admits reports whether a waiting request may start. One that is larger than the cache runs alone.
func (e *Engine) admits(t *task) bool {
	fits := e.kvUsed+t.blocks() <= e.model.KVTokens/blockSize || len(e.running) == 0
	return len(e.running) < e.model.RunningCap && fits
}

// blocks is how much KV cache the request may need.
func (t *task) blocks() int { return (t.PromptTokens + t.MaxTokens + blockSize - 1) / blockSize }

// used is how much KV cache the request fills now.
func (t *task) used() int { return (t.computed + t.generated + blockSize - 1) / blockSize }

// dropAborted forgets the requests whose callers have gone. vLLM counts them nowhere.
func (e *Engine) dropAborted() {
	e.waiting = keep(e.waiting, func(t *task) bool { return t.stream.ctx.Err() == nil })
	e.running = keep(e.running, func(t *task) bool {
		if t.stream.ctx.Err() == nil {
			return true
		}
		e.kvUsed -= t.blocks()
		return false
	})
}

func keep(tasks []*task, wanted func(*task) bool) []*task {
	kept := tasks[:0]
	for _, t := range tasks {
		if wanted(t) {
			kept = append(kept, t)
		}
	}
	clear(tasks[len(kept):])
	return kept
}

// finish delivers the tokens of a step that ends now, and publishes what the engine is doing.
func (e *Engine) finish(s step, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dropAborted()
	tokens := 0
	for _, t := range s.prefill {
		t.computed += t.chunk
		if t.computed == t.PromptTokens {
			t.timings.FirstToken = now
			e.stats.firstToken(t, now)
			tokens += t.PromptTokens
			tokens += e.emit(t, now)
		}
	}
	for _, t := range s.decoding {
		tokens += e.emit(t, now)
	}
	e.running = keep(e.running, func(t *task) bool {
		if t.generated < t.OutputTokens {
			return true
		}
		e.kvUsed -= t.blocks()
		e.stats.finished(t)
		return false
	})
	if tokens > 0 {
		e.stats.IterationTokens.observe(float64(tokens))
	}
	e.publish()
}

// emit delivers one token to the request and returns how many that were: none if its caller has gone.
func (e *Engine) emit(t *task, now time.Time) int {
	if t.stream.ctx.Err() != nil {
		return 0
	}
	if t.generated > 0 {
		e.stats.InterToken.observe(now.Sub(t.timings.LastToken).Seconds())
	}
	t.generated++
	t.timings.LastToken = now
	e.stats.GenerationTokens++
	t.stream.deliver(Event{Token: t.generated, At: now, Last: t.generated == t.OutputTokens}, t.timings)
	return 1
}

// publish sets the gauges. vLLM makes them once a step, so those of a hung engine stand still.
func (e *Engine) publish() {
	used := 0
	for _, t := range e.running {
		used += t.used()
	}
	e.stats.Steps++
	e.stats.Running = len(e.running)
	e.stats.Waiting = len(e.waiting)
	e.stats.KVUsage = min(1, float64(used)/float64(e.model.KVTokens/blockSize))
}

func (e *Engine) failAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range append(e.waiting, e.running...) {
		t.stream.fail(e.dead)
	}
	e.waiting, e.running = nil, nil
}
