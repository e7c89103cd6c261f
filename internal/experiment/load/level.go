package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// level is one level at work.
type level struct {
	*Runner
	experiment.Level
	index int

	missed  int
	contact contact
	meter   *meter // nil until the load begins
}

// run prepares the level, warms it up, puts the load on, and waits until all is answered and the queue has drained.
func (l *level) run(ctx context.Context) (went experiment.LevelRun) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.contact = contact{busy: l.answering, lost: func(failures int, in time.Duration) {
		l.keep.noted(fmt.Sprintf("the server is lost: %d requests in a row got no connection, over %s; no further level is run", failures, in.Round(time.Second)))
		cancel(errLost)
	}}

	l.enter(experiment.Preparing)
	if err := l.prober.Prepare(ctx, l.Shape()); err != nil {
		now := l.clock.at(time.Now())
		went.Start, went.End, went.Cut = now, now, experiment.CutBy(ctx)
		if went.Cut == "" && unreachable(err) {
			l.contact.isLost = true
			went.Cut = experiment.CutLost
		}
		if went.Cut == "" {
			went.Cut = experiment.CutUnfit
		}
		if went.Cut != experiment.CutInterrupted {
			l.keep.noted(fmt.Sprintf("level %s: %s: %v", l.Level, went.Cut, err))
		}
		return went
	}
	l.modelFacts()

	l.enter(experiment.WarmingUp)
	failed := l.warmUp(ctx)
	start := time.Now().Add(lead)
	went.Start = l.clock.at(start)
	if failed != nil && ctx.Err() == nil {
		went.End, went.Cut = went.Start, experiment.CutWarmup
		l.keep.noted(fmt.Sprintf("level %s: no request of the warm-up succeeded (%v): the level is not run", l.Level, failed.Err))
		return went
	}

	l.meter = newMeter()
	l.keep.entered(l.index, experiment.Loading, went.Start)
	l.sampler.record(l.index, l.keep)
	if l.Closed() {
		l.runClosed(ctx, start)
	} else {
		l.runOpen(ctx, start)
	}
	went.End = l.clock.at(time.Now())
	went.Missed = l.missed
	if went.Cut = experiment.CutBy(ctx); went.Cut == "" {
		l.enter(experiment.Settling)
		l.sampler.settle(ctx, l.plan.Settle)
	}
	l.sampler.record(-1, nil)
	return went
}

// lead is how long before a request is due its making begins.
const lead = 20 * time.Millisecond

// enter tells that the level has come to a phase.
func (l *level) enter(phase experiment.Phase) { l.keep.entered(l.index, phase, l.clock.at(time.Now())) }

// lost is errLost once the server is lost.
func (l *level) lost() error { return l.contact.err() }

// warmUp sends the requests that measure nothing, as many at once as the level has in flight, and returns the last
// failure if none has succeeded.
func (l *level) warmUp(ctx context.Context) (failed *prober.Result) {
	var mu sync.Mutex
	left, succeeded := l.plan.Warmup, false
	var senders sync.WaitGroup
	for range l.plan.WarmupAtOnce(l.Level) {
		senders.Go(func() {
			for {
				mu.Lock()
				more := left > 0
				left--
				mu.Unlock()
				if !more || ctx.Err() != nil {
					return
				}
				res := l.send(ctx, time.Time{}, true)
				if res == nil {
					return
				}
				mu.Lock()
				if res.OK() {
					succeeded = true
				} else if !res.Abandoned {
					failed = res
				}
				mu.Unlock()
			}
		})
	}
	senders.Wait()
	if succeeded {
		return nil
	}
	return failed
}

// send sends one request when it is due, and hands it over when it has ended. It returns nil if the level ended
// before it was due.
func (l *level) send(ctx context.Context, due time.Time, warmup bool) *prober.Result {
	res, err := l.prober.Send(ctx, prober.Order{Workload: l.Shape(), Scheduled: due, Warmup: warmup})
	if err != nil {
		return nil
	}
	l.contact.note(res)
	l.keep.request(l.clock.request(l.index, res))
	if !warmup {
		l.meter.note(res)
	}
	return res
}

// account fills in what only the whole level tells. It runs where the run may be read.
func (l *level) account(went *experiment.LevelRun, run *experiment.Run) {
	if l.meter == nil {
		return
	}
	requests := run.Measured(l.index)
	var last time.Time
	for r := range requests {
		if r.Ended.After(last) {
			last = r.Ended
		}
	}
	if !last.IsZero() {
		went.End = last
	}
	went.Empty = run.Emptied(l.index)
	went.Client = l.meter.client(requests)
}
