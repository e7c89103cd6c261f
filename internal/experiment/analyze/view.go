package analyze

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// view is one level of a run, sorted out. Warm-up is not in it.
type view struct {
	index int
	level experiment.Level
	run   experiment.LevelRun

	ended []*experiment.Request // every request but abandoned ones, by start
	sent  []*experiment.Request // those too
	ok    []*experiment.Request // successes, by start
	queue []experiment.QueueSample

	generated int // output tokens, those of the warm-up and of failed requests too

	inFlight float64 // how many requests ran beside each other: the length of a block
	samples  map[experiment.Indicator]sample
}

// newView sorts out a level that was begun.
func newView(run *experiment.Run, index int) *view {
	v := &view{index: index, level: run.Plan.Levels[index], run: run.Levels[index]}
	v.sent = run.Of(index)
	for _, r := range v.sent {
		v.generated += r.OutputTokens
	}
	v.sent = slices.DeleteFunc(v.sent, func(r *experiment.Request) bool { return r.Warmup })
	v.sort()
	v.queue = queueOf(run, v)
	return v
}

func (v *view) sort() {
	slices.SortStableFunc(v.sent, func(a, b *experiment.Request) int { return a.Started.Compare(b.Started) })
	for _, r := range v.sent {
		if !r.Abandoned {
			v.ended = append(v.ended, r)
		}
		if r.OK() {
			v.ok = append(v.ok, r)
		}
	}
	v.inFlight = float64(v.level.Concurrency)
	if first, last := v.span(); !v.level.Closed() && last.After(first) {
		v.inFlight = inFlight(v.sent, first, last)
	}
	v.samples = make(map[experiment.Indicator]sample)
	first, after := v.wave()
	for _, indicator := range experiment.Indicators() {
		v.samples[indicator] = v.measure(first, after, indicator)
	}
}

// measure makes the sample of a latency of the first wave of a closed loop and the successes after it, which are in
// the order of their starts.
func (v *view) measure(wave, after []*experiment.Request, indicator experiment.Indicator) sample {
	blocks := blocked(after, v.inFlight)
	values := make([][]experiment.Span, len(blocks))
	for i, block := range blocks {
		values[i] = valuesOf(block, indicator)
	}
	return newSample(valuesOf(wave, indicator), values)
}

// wave splits the successes into those of the first wave, which a closed loop sends all at once, and those after it.
func (v *view) wave() (first, after []*experiment.Request) {
	n := min(v.level.Concurrency, len(v.ok))
	return v.ok[:n], v.ok[n:]
}

// valuesOf lists the known values of a latency: one a request, or one a gap.
func valuesOf(requests []*experiment.Request, indicator experiment.Indicator) []experiment.Span {
	var values []experiment.Span
	for _, r := range requests {
		if indicator == experiment.ITL {
			for i := range r.ITL() {
				values = append(values, r.Gap(i))
			}
		} else if value, known := r.Latency(indicator); known {
			values = append(values, value)
		}
	}
	return values
}

// span is from the first request started to the last one ended.
func (v *view) span() (first, last time.Time) {
	for _, r := range v.sent {
		if r.Ended.After(last) {
			last = r.Ended
		}
	}
	if len(v.sent) > 0 {
		first = v.sent[0].Started
	}
	return first, last
}

// steady is the time during which the level was full and settled. Of a closed loop: from when every request of the
// first wave, which was sent all at once, had ended, to when the last request was sent. Of an open loop: from one
// mean duration after the first request was sent, for only then as many end as start. Not ok: it was never full.
func (v *view) steady() (from, to time.Time, ok bool) {
	if len(v.sent) < 2 {
		return from, to, false
	}
	to = v.sent[len(v.sent)-1].Started
	if !v.level.Closed() {
		from = v.sent[0].Started.Add(v.meanTime())
	} else if len(v.sent) > v.level.Concurrency {
		for _, r := range v.sent[:v.level.Concurrency] {
			if r.Ended.After(from) {
				from = r.Ended
			}
		}
	} else {
		return from, to, false
	}
	return from, to, to.After(from)
}

// meanTime is how long a request took from its start to its end.
func (v *view) meanTime() time.Duration {
	var total time.Duration
	for _, r := range v.sent {
		total += r.Ended.Sub(r.Started)
	}
	return total / time.Duration(max(1, len(v.sent)))
}

// inFlight is how many requests were in flight between two times, in the mean.
func inFlight(requests []*experiment.Request, from, to time.Time) float64 {
	var busy time.Duration
	for _, r := range requests {
		start, end := r.Started, r.Ended
		if start.Before(from) {
			start = from
		}
		if end.After(to) {
			end = to
		}
		busy += max(0, end.Sub(start))
	}
	return busy.Seconds() / to.Sub(from).Seconds()
}

// queueOf lists the queue samples of a level, from its first request due until the queue was seen empty.
func queueOf(run *experiment.Run, v *view) []experiment.QueueSample {
	end := v.run.Empty
	if _, last := v.span(); end.Before(last) {
		end = last
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
func meanCount(requests []*experiment.Request, count func(*experiment.Request) int) experiment.Figure {
	sum, n := 0, 0
	for _, r := range requests {
		if c := count(r); c >= 0 {
			sum, n = sum+c, n+1
		}
	}
	return experiment.Figure(float64(sum) / float64(n))
}

// reasons counts the failures by reason.
func (v *view) reasons() map[string]int {
	counts := make(map[string]int)
	for _, r := range v.ended {
		if r.Reason != "" {
			counts[string(r.Reason)]++
		}
	}
	return counts
}

// suspects counts the reasons to doubt a success.
func (v *view) suspects() map[string]int {
	counts := make(map[string]int)
	for _, r := range v.ok {
		for _, name := range r.Suspect {
			counts[name]++
		}
	}
	return counts
}
