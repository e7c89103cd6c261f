package vllmsim

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Errors that end a stream, or that [Engine.Submit] returns.
var (
	ErrClosed     = errors.New("engine is closed")
	ErrEngineDead = errors.New("engine died")
)

// Engine runs the scheduler by the clock, for as many callers as there are.
type Engine struct {
	wake chan struct{} // holds one element if something changed since the loop looked
	done chan struct{} // closed when the loop has ended

	mu     sync.Mutex
	rules  scheduler
	paused bool
	dead   error // why the loop ends
}

// NewEngine starts an engine. Close ends it.
func NewEngine(m Model) *Engine {
	e := &Engine{
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
		rules: newScheduler(m),
	}
	e.rules.gone = func(t *task) bool { return t.stream.ctx.Err() != nil }
	e.rules.deliver = func(t *task, event Event) { t.stream.deliver(event, t.timings) }
	go e.run()
	return e
}

// Submit queues a request. Cancelling ctx aborts it. It fails if the KV cache could never hold the request.
func (e *Engine) Submit(ctx context.Context, r Request) (*Stream, error) {
	r, err := r.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &task{Request: r, stream: newStream(ctx)}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead != nil {
		return nil, e.dead
	}
	if err := e.rules.submit(t, time.Now()); err != nil {
		return nil, err
	}
	e.poke()
	return t.stream, nil
}

// Queued is the number of requests that wait to be scheduled right now, whatever the last step knew.
func (e *Engine) Queued() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.rules.incoming) + len(e.rules.waiting)
}

// Stats is what the engine has done, as of its last step.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rules.stats.clone()
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
	e.rules.slow = factor
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
	for e.waitFor(e.hasWork) {
		if e.sleepUntil(e.due()) && e.waitFor(e.mayStep) {
			e.advance()
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

func (e *Engine) hasWork() bool {
	_, do := e.rules.due()
	return do != nil
}

func (e *Engine) due() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, _ := e.rules.due()
	return at
}

// advance does what is due, at the time it was due; later if the engine was paused, or the machine was.
func (e *Engine) advance() {
	e.mu.Lock()
	defer e.mu.Unlock()
	at, do := e.rules.due()
	if late := time.Since(at); late > e.rules.patience() {
		e.rules.delay(late)
		at = at.Add(late)
	}
	do(at)
}

// sleepUntil reports whether the time has come: false if something changed before, so that something else may be
// due sooner.
func (e *Engine) sleepUntil(deadline time.Time) bool {
	wait := time.Until(deadline)
	if wait <= 0 { // a model without delays, or a late step
		return true
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.wake:
		return false
	}
}

func (e *Engine) failAll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, t := range slices.Concat(e.rules.incoming, e.rules.waiting, e.rules.running) {
		t.stream.fail(e.dead)
	}
	e.rules.incoming, e.rules.waiting, e.rules.running = nil, nil, nil
}
