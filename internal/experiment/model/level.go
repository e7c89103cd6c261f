package model

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// virtualLevel is one level at work on virtual time.
type virtualLevel struct {
	*Simulator
	experiment.Level
	index  int
	origin time.Time // the simulation's time zero

	sim    *vllmsim.Simulation
	sent   []*experiment.Request     // by their id in the simulation
	open   []int                     // ids of those that have not ended, in the order in which they were sent
	refill func(*experiment.Request) // what the end of a request lets happen
	gauges vllmsim.StepEnd           // the last step
	sample time.Time                 // when the queue is looked at next; zero: not at all
}

// simulate warms the level up, puts the load on, and waits until all is answered and the queue has drained.
func (l *virtualLevel) simulate(ctx context.Context) (went experiment.LevelRun) {
	var err error
	if l.sim, err = vllmsim.NewSimulation(l.virtual.Model); err != nil {
		panic(err) // the model is valid: NewSimulator has asked
	}
	l.watcher.Entered(l.index, experiment.WarmingUp, l.now)
	l.warmUp(ctx)
	went.Start = l.now.Round(time.Microsecond)
	if ctx.Err() != nil {
		went.End, went.Cut = l.now, experiment.CutBy(ctx)
		return went
	}

	l.watcher.Entered(l.index, experiment.Loading, went.Start)
	l.sample = went.Start
	if l.Closed() {
		l.runClosed(ctx)
	} else {
		went.Missed = l.runOpen(ctx)
	}
	went.End, went.Cut = l.now, experiment.CutBy(ctx)
	l.watcher.Entered(l.index, experiment.Settling, l.now)
	if went.Cut == "" && !l.sample.After(l.now.Add(l.plan.Settle)) {
		l.gauges = vllmsim.StepEnd{} // nothing is left, however it ended
		l.look(l.sample.Add(1))
	}
	went.Empty = l.run.Emptied(l.index)
	return went
}

// warmUp sends the requests that measure nothing, as many at once as the level has in flight.
func (l *virtualLevel) warmUp(ctx context.Context) {
	left := l.plan.Warmup
	next := func(due time.Time) {
		if left--; left >= 0 {
			l.send(due, due, true)
		}
	}
	l.refill = func(ended *experiment.Request) { next(ended.Ended) }
	for range l.plan.WarmupAtOnce(l.Level) {
		next(l.now)
	}
	l.drive(ctx, func(func(time.Duration) bool) {}, nil)
}

// runClosed keeps as many requests in flight as the level says: an answer's end sends the next request.
func (l *virtualLevel) runClosed(ctx context.Context) {
	start, begun, over := l.now, 0, false
	failures := map[*experiment.Request]int{} // in a row, in the place of a request
	next := func(due, at time.Time, failed int) {
		if l.Duration > 0 && due.Sub(start) >= l.Duration || l.Requests > 0 && begun >= l.Requests {
			if !over {
				l.watcher.Entered(l.index, experiment.Answering, due)
			}
			over = true
			return
		}
		begun++
		failures[l.send(due, at, false)] = failed
	}
	l.refill = func(ended *experiment.Request) {
		due, failed := ended.Ended, 0
		if !ended.OK() {
			failed = failures[ended] + 1
			due = due.Add(experiment.PauseAfter(failed))
		}
		delete(failures, ended)
		next(due, due.Add(l.virtual.Turnaround), failed)
	}
	for place := range l.Concurrency {
		first := start
		if !l.virtual.AtOnce {
			first = start.Add(time.Duration(place) * experiment.FillEvery)
		}
		next(first, first, 0)
	}
	l.drive(ctx, func(func(time.Duration) bool) {}, nil)
}

// runOpen sends requests at their times, whatever becomes of those before, and returns how many were missed.
func (l *virtualLevel) runOpen(ctx context.Context) (missed int) {
	l.refill = func(*experiment.Request) {}
	start := l.now
	l.drive(ctx, l.run.Plan.Arrivals(l.index), func(at time.Duration) {
		due := start.Add(at)
		if l.MaxInFlight > 0 && len(l.open) >= l.MaxInFlight {
			missed++
			return
		}
		l.send(due, due, false)
	})
	return missed
}

// send sends a request, now or later, that was due at a time.
func (l *virtualLevel) send(due, at time.Time, warmup bool) *experiment.Request {
	id := len(l.sent)
	sent := &experiment.Request{
		Level: l.index,
		Result: prober.Result{
			Probe:     &prober.Probe{RequestID: fmt.Sprintf("%d-%d", l.index, id), Warmup: warmup, Scheduled: due, Started: at},
			DialStart: at, Connected: at, Sent: at, PromptTokens: l.PromptTokens,
		},
	}
	l.sent = append(l.sent, sent)
	l.open = append(l.open, id)
	r := vllmsim.Request{PromptTokens: l.PromptTokens, OutputTokens: l.OutputTokens}
	if err := l.sim.Submit(at.Sub(l.origin), id, r); err != nil {
		panic(err) // the lengths have been checked, and nothing is sent in the past
	}
	return sent
}

// drive goes on until no request is left: it calls arrive at each of the arrivals, which are counted from now.
func (l *virtualLevel) drive(ctx context.Context, arrivals iter.Seq[time.Duration], arrive func(time.Duration)) {
	next, stop := iter.Pull(arrivals)
	defer stop()
	start := l.now
	at, more := next()
	for ctx.Err() == nil {
		limit, expires := l.expiry()
		arrives := more && !start.Add(at).After(limit)
		if arrives {
			limit = start.Add(at)
		}
		step, stepped := l.sim.NextBefore(limit.Sub(l.origin))
		if stepped {
			limit = l.origin.Add(step.At)
		}
		if !stepped && !arrives && !expires {
			return
		}
		l.look(limit)
		switch {
		case stepped:
			l.take(step)
		case arrives:
			arrive(at)
			if at, more = next(); !more {
				l.watcher.Entered(l.index, experiment.Answering, l.now)
			}
		default:
			l.expire()
		}
	}
	l.abandon()
}

// look lets time pass, and looks at the queue once a second until then.
func (l *virtualLevel) look(until time.Time) {
	for !l.sample.IsZero() && l.sample.Before(until) {
		s := experiment.QueueSample{
			At: l.sample, Level: l.index,
			Running: float64(l.gauges.Running), Waiting: float64(l.gauges.Waiting), KVUsage: l.gauges.KVUsage,
			PromptTokens: l.prompt, GenerationTokens: l.generated,
		}
		l.run.Queue = append(l.run.Queue, s)
		l.watcher.Sampled(s)
		l.now, l.sample = l.sample, l.sample.Add(experiment.SampleEvery)
	}
	if until.After(l.now) {
		l.now = until
	}
}

// take hands out the tokens of a step that ends now.
func (l *virtualLevel) take(step vllmsim.StepEnd) {
	l.gauges = step
	l.gauges.Tokens = nil
	for _, token := range step.Tokens {
		r := l.sent[token.Request]
		if token.Number == 1 {
			r.Headers, r.FirstToken, r.FirstTokens = l.now, l.now, 1
			l.prompt += float64(r.PromptTokens)
		} else {
			r.Gaps = append(r.Gaps, l.now.Sub(r.LastToken))
		}
		r.LastToken = l.now
		r.OutputTokens++
		l.generated++
		if token.Last {
			l.ended(token.Request, l.now)
		}
	}
}

// ended keeps a request that is over.
func (l *virtualLevel) ended(id int, at time.Time) {
	r := l.sent[id]
	r.Ended = at
	l.open = slices.DeleteFunc(l.open, func(other int) bool { return other == id })
	stored := experiment.Request{Level: r.Level, Result: experiment.AsStored(r.Result)}
	l.run.Requests = append(l.run.Requests, stored)
	l.watcher.Ended(&stored)
	l.refill(r)
}

// expiry is when the first of the open requests runs out of time; far away if none does.
func (l *virtualLevel) expiry() (at time.Time, expires bool) {
	at = l.origin.Add(math.MaxInt64)
	if l.plan.Timeout > 0 && len(l.open) > 0 {
		return l.sent[l.eldest()].Started.Add(l.plan.Timeout), true
	}
	return at, false
}

// eldest is the open request that was started first.
func (l *virtualLevel) eldest() (id int) {
	return slices.MinFunc(l.open, func(a, b int) int { return l.sent[a].Started.Compare(l.sent[b].Started) })
}

// expire ends the request that has run out of time.
func (l *virtualLevel) expire() {
	id := l.eldest()
	r := l.sent[id]
	r.Reason, r.Err = prober.ReasonTimeout, fmt.Errorf("no end after %v", l.plan.Timeout)
	l.sim.Abort(id)
	l.ended(id, l.now)
}

// abandon gives up what is under way.
func (l *virtualLevel) abandon() {
	l.refill = func(*experiment.Request) {}
	for _, id := range slices.Clone(l.open) {
		l.sent[id].Abandoned = true
		l.ended(id, l.now)
	}
}
