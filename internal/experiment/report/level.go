package report

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
)

// level is all that is known of a level that was begun.
type level struct {
	*experiment.LevelSummary
	experiment.LevelRun
	requests []seen // in the order in which they were started, warm-up included
	queue    []experiment.QueueSample
}

// seen is what is drawn of a request. Times are in seconds since the level's start.
type seen struct {
	started, ended            float64
	ttft                      float64 // in seconds; NaN if it is not known
	warmup, abandoned, failed bool
}

// levelsOf puts together what is known of each level. What names a level that there is not is left out.
func levelsOf(run *experiment.Run, summary *experiment.Summary) []level {
	var all []level
	at := map[int]int{}
	for i := range summary.Levels {
		s := &summary.Levels[i]
		if s.Index >= 0 && s.Index < len(run.Levels) {
			at[s.Index] = len(all)
			all = append(all, level{LevelSummary: s, LevelRun: run.Levels[s.Index]})
		}
	}
	for _, q := range run.Queue {
		if l, is := at[q.Level]; is {
			all[l].queue = append(all[l].queue, q)
		}
	}
	for i := range all {
		all[i].see(run.Each(all[i].Index))
		slices.SortStableFunc(all[i].queue, func(a, b experiment.QueueSample) int { return a.At.Compare(b.At) })
	}
	return all
}

// see keeps what is drawn of requests.
func (l *level) see(requests iter.Seq[*experiment.Request]) {
	for r := range requests {
		if r.Started.IsZero() {
			continue
		}
		s := seen{l.since(r.Started), l.since(r.Ended), math.NaN(), r.Warmup, r.Abandoned, !r.Abandoned && !r.OK()}
		if ttft, known := r.TTFT(); known {
			s.ttft = ttft.Value.Seconds()
		}
		l.requests = append(l.requests, s)
	}
	slices.SortStableFunc(l.requests, func(a, b seen) int { return cmp.Compare(a.started, b.started) })
}

// since is a time as seconds since the level's start.
func (l *level) since(t time.Time) float64 {
	if t.IsZero() || l.Start.IsZero() {
		return math.NaN()
	}
	return t.Sub(l.Start).Seconds()
}

// sent is when the last request was sent, in seconds since the level's start.
func (l *level) sent() float64 {
	for _, r := range slices.Backward(l.requests) {
		if !r.warmup {
			return r.started
		}
	}
	return math.NaN()
}

// ended is when the last answer ended, in seconds since the level's start.
func (l *level) ended() float64 {
	last := l.since(l.LevelRun.End)
	for _, r := range l.requests {
		if !r.warmup {
			last = fmax(last, r.ended)
		}
	}
	return last
}

// fmax is the larger of two numbers, of which one may be unknown.
func fmax(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

// over is the end of what there is to see of the level, in seconds since its start: the last answer, and the queue
// empty again.
func (l *level) over() float64 {
	over := l.ended()
	if empty := l.since(l.Empty); chart.Finite(empty) {
		return fmax(over, empty)
	}
	if len(l.queue) > 0 {
		over = fmax(over, l.since(l.queue[len(l.queue)-1].At))
	}
	return over
}
