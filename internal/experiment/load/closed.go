package load

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// runClosed keeps as many requests in flight as the level says: an answer's end sends the next request. It returns
// when all have ended.
func (l *level) runClosed(ctx context.Context, start time.Time) {
	var begun atomic.Int64
	var senders sync.WaitGroup
	var over sync.Once
	for place := range l.Concurrency {
		first := start.Add(time.Duration(place) * experiment.FillEvery)
		senders.Go(func() {
			l.sendInTurn(ctx, start, first, &begun)
			over.Do(func() { l.enter(experiment.Answering) })
		})
	}
	senders.Wait()
}

// sendInTurn sends one request after another, the first when it is due, until the level is over.
func (l *level) sendInTurn(ctx context.Context, start, due time.Time, begun *atomic.Int64) {
	for failures := 0; ; {
		if l.Duration > 0 && due.Sub(start) >= l.Duration || l.Requests > 0 && begun.Add(1) > int64(l.Requests) {
			return
		}
		res := l.send(ctx, due, false)
		if res == nil || ctx.Err() != nil {
			return
		}
		due = res.Ended
		if failures = failuresAfter(failures, res); failures > 0 {
			due = due.Add(experiment.PauseAfter(failures))
		}
	}
}

func failuresAfter(before int, res *prober.Result) int {
	if res.OK() {
		return 0
	}
	return before + 1
}
