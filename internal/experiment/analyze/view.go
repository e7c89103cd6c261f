package analyze

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// view is one level of a run, sorted out. Warm-up is not in it. Times are since the level's start.
type view struct {
	index int
	level experiment.Level
	run   experiment.LevelRun
	start time.Time

	ended []*request // every request but abandoned ones, by start
	sent  []*request // those too
	ok    []*request // successes, by start
	queue []experiment.QueueSample

	generated int // output tokens, those of the warm-up and of failed requests too

	inFlight float64 // how many requests ran beside each other: the length of a block
}

// newView sorts out a level that was begun.
func newView(run *experiment.Run, index int) *view {
	v := &view{index: index, level: run.Plan.Levels[index], run: run.Levels[index]}
	in := reader{start: v.run.Start}
	for r := range run.Each(index) {
		v.generated += r.OutputTokens
		if !r.Warmup {
			v.sent = append(v.sent, in.request(r))
		}
	}
	v.start = in.start
	v.sort()
	v.queue = queueOf(run, v)
	return v
}

func (v *view) sort() {
	slices.SortStableFunc(v.sent, func(a, b *request) int { return cmp.Compare(a.started, b.started) })
	for _, r := range v.sent {
		if !r.abandoned {
			v.ended = append(v.ended, r)
		}
		if r.ok() {
			v.ok = append(v.ok, r)
		}
	}
	v.inFlight = float64(v.level.Concurrency)
	if first, last := v.span(); !v.level.Closed() && last > first {
		v.inFlight = inFlight(v.sent, first, last)
	}
}

// sample is the values of a latency of the level.
func (v *view) sample(indicator experiment.Indicator) sample {
	first, after := v.wave()
	return v.measure(first, after, indicator)
}

// measure makes the sample of a latency of the first wave of a closed loop and the successes after it, which are in
// the order of their starts.
func (v *view) measure(wave, after []*request, indicator experiment.Indicator) sample {
	n := 0
	for _, r := range v.ok {
		n += valuesOf(r, indicator)
	}
	s := newSample(n)
	latencies(wave, indicator, s.add)
	s.endWave()
	for _, block := range blocked(after, v.inFlight) {
		latencies(block, indicator, s.add)
		s.endBlock()
	}
	s.sort()
	return s
}

// valuesOf is how many values of a latency a request has at most.
func valuesOf(r *request, indicator experiment.Indicator) int {
	if indicator == experiment.ITL {
		return len(r.gaps)
	}
	return 1
}

// wave splits the successes into those of the first wave, which a closed loop sends all at once, and those after it.
func (v *view) wave() (first, after []*request) {
	n := min(v.level.Concurrency, len(v.ok))
	return v.ok[:n], v.ok[n:]
}

// span is from the first request started to the last one ended.
func (v *view) span() (first, last time.Duration) {
	for _, r := range v.sent {
		last = max(last, r.ended)
	}
	if len(v.sent) > 0 {
		first = v.sent[0].started
	}
	return first, last
}

// steady is the time during which the level was full and settled. Of a closed loop: from when every request of the
// first wave, which was sent all at once, had ended, to when the last request was sent. Of an open loop: from one
// mean duration after the first request was sent, for only then as many end as start. Not ok: it was never full.
func (v *view) steady() (from, to time.Duration, ok bool) {
	if len(v.sent) < 2 {
		return from, to, false
	}
	to = v.sent[len(v.sent)-1].started
	if !v.level.Closed() {
		from = v.sent[0].started + v.meanTime()
	} else if len(v.sent) > v.level.Concurrency {
		for _, r := range v.sent[:v.level.Concurrency] {
			from = max(from, r.ended)
		}
	} else {
		return from, to, false
	}
	return from, to, to > from
}

// meanTime is how long a request took from its start to its end.
func (v *view) meanTime() time.Duration {
	var total time.Duration
	for _, r := range v.sent {
		total += r.ended - r.started
	}
	return total / time.Duration(max(1, len(v.sent)))
}

// inFlight is how many requests were in flight between two times, in the mean.
func inFlight(requests []*request, from, to time.Duration) float64 {
	var busy time.Duration
	for _, r := range requests {
		busy += max(0, min(r.ended, to)-max(r.started, from))
	}
	return busy.Seconds() / (to - from).Seconds()
}

// queueOf lists the queue samples of a level, from its first request due until the queue was seen empty.
func queueOf(run *experiment.Run, v *view) []experiment.QueueSample {
	_, last := v.span()
	end := v.start.Add(last)
	if v.run.Empty.After(end) {
		end = v.run.Empty
	}
	var samples []experiment.QueueSample
	for _, s := range run.Queue {
		if s.Level == v.index && !s.At.Before(v.run.Start) && !s.At.After(end) {
			samples = append(samples, s)
		}
	}
	slices.SortStableFunc(samples, func(a, b experiment.QueueSample) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return samples
}

// peak is the highest value of a gauge; NaN if the server showed none.
func peak(samples []experiment.QueueSample, gauge func(experiment.QueueSample) float64) experiment.Figure {
	highest := math.NaN()
	for _, s := range samples {
		if value := gauge(s); math.IsNaN(highest) || value > highest {
			highest = value
		}
	}
	return experiment.Figure(highest)
}

// meanCount is the mean of a count of the successes for which the server sent one.
func meanCount(requests []*request, count func(*request) int32) experiment.Figure {
	sum, n := 0, 0
	for _, r := range requests {
		if c := count(r); c >= 0 {
			sum, n = sum+int(c), n+1
		}
	}
	return experiment.Figure(float64(sum) / float64(n))
}

// reasons counts the failures by reason.
func (v *view) reasons() map[string]int {
	counts := make(map[string]int)
	for _, r := range v.ended {
		if r.reason != "" {
			counts[string(r.reason)]++
		}
	}
	return counts
}

// suspects counts the reasons to doubt a success.
func (v *view) suspects() map[string]int {
	counts := make(map[string]int)
	for _, r := range v.ok {
		for _, name := range r.suspect.Names() {
			counts[name]++
		}
	}
	return counts
}
