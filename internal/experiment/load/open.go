package load

import (
	"context"
	"sync"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// runOpen sends requests at their times, whatever becomes of those before, and returns when all have ended. Times
// are absolute: a request that we send late delays no other, and what we were too late for is sent at once, with
// the delay on its record.
func (l *level) runOpen(ctx context.Context, start time.Time) {
	var requests sync.WaitGroup
	defer requests.Wait()
	defer l.enter(experiment.Answering)
	ahead := lead
	places := make(chan struct{}, max(1, l.MaxInFlight))
	if l.MaxInFlight > 0 {
		ahead = 0 // whether there is room is known when the request is due
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for at := range l.arrivals() {
		due := start.Add(at)
		timer.Reset(time.Until(due.Add(-ahead)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		if l.MaxInFlight == 0 {
			requests.Go(func() { l.send(ctx, due, false) })
			continue
		}
		select {
		case places <- struct{}{}:
			requests.Go(func() {
				l.send(ctx, due, false)
				<-places
			})
		default:
			l.missed++
		}
	}
}

// arrivals lists when requests are due; see [Plan.Arrivals].
func (l *level) arrivals() func(yield func(time.Duration) bool) {
	p := l.plan
	p.Levels = make([]experiment.Level, l.index+1)
	p.Levels[l.index] = l.Level
	return p.Arrivals(l.index)
}
