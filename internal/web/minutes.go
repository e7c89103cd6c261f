package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/quantile"
)

const (
	hour             = 60 // minutes that are kept
	samplesPerMinute = 64 // more probes a minute than this overwrite the oldest
)

// minute sums up the probes of a workload that ended in one minute. What is not known is 0.
type minute struct {
	start    time.Time
	probes   int // successes that measure
	failures int

	// Medians over the probes.
	ttft, itl, itlP95, connect, duration time.Duration
	speed                                float64 // output tokens a second of one stream

	split                   int           // probes whose server told where the time went
	queue, prefill, outside time.Duration // means over those: means add up, medians do not
}

// lastHour holds the last hour of a workload, minute by minute.
type lastHour struct {
	done [hour]minute // by minute of the hour
	open minuteSamples
}

// minuteSamples are the probes of a minute that is not over.
type minuteSamples struct {
	minute
	ttfts, itls, itlP95s, connects, durations samples[time.Duration]
	speeds                                    samples[float64]
	queueSum, prefillSum, outsideSum          time.Duration
}

func (m *lastHour) add(rec *record) {
	// A result of an earlier minute (the clock went back, or two ended out of order) counts in the open one.
	if at := rec.Ended.Truncate(time.Minute); at.After(m.open.start) {
		m.close()
		m.open.start = at
	}
	m.open.add(rec)
}

func (m *lastHour) close() {
	if m.open.start.IsZero() {
		return
	}
	m.done[m.open.start.Minute()] = m.open.sum()
	m.open = minuteSamples{}
}

// last lists the minutes of the last hour that saw a probe, oldest first.
func (m *lastHour) last(now time.Time) []minute {
	oldest := now.Truncate(time.Minute).Add(-(hour - 1) * time.Minute)
	list := make([]minute, 0, hour)
	for _, mi := range m.done {
		if !mi.start.Before(oldest) {
			list = append(list, mi)
		}
	}
	if !m.open.start.Before(oldest) {
		// A minute that a clock gone back reopened is told once.
		list = slices.DeleteFunc(list, func(mi minute) bool { return mi.start.Equal(m.open.start) })
		list = append(list, m.open.sum())
	}
	slices.SortFunc(list, func(a, b minute) int { return a.start.Compare(b.start) })
	return list
}

func (o *minuteSamples) add(rec *record) {
	if !rec.OK() {
		o.failures++
		return
	}
	if !rec.measured() {
		return
	}
	i := o.probes % samplesPerMinute
	o.probes++
	connect, _ := rec.ConnectTime()
	o.ttfts.put(i, rec.ttft)
	o.itls.put(i, rec.itlP50)
	o.itlP95s.put(i, rec.itlP95)
	o.connects.put(i, connect)
	o.durations.put(i, rec.duration)
	o.speeds.put(i, rec.speed())
	if queue, prefill, outside, ok := rec.split(); ok {
		o.split++
		o.queueSum += queue
		o.prefillSum += prefill
		o.outsideSum += outside
	}
}

func (o *minuteSamples) sum() minute {
	m := o.minute
	m.ttft, m.itl, m.itlP95, m.connect, m.duration = o.ttfts.median(), o.itls.median(), o.itlP95s.median(), o.connects.median(), o.durations.median()
	m.speed = o.speeds.median()
	if o.split > 0 {
		n := time.Duration(o.split)
		m.queue, m.prefill, m.outside = o.queueSum/n, o.prefillSum/n, o.outsideSum/n
	}
	return m
}

// samples are values of one kind, of which only those above 0 are known.
type samples[T cmp.Ordered] []T

// put writes a known value in the place of sample i, or appends it where fewer came before.
func (s *samples[T]) put(i int, v T) {
	var zero T
	switch {
	case v <= zero:
	case i < len(*s):
		(*s)[i] = v
	default:
		*s = append(*s, v)
	}
}

// median is 0 of no samples.
func (s samples[T]) median() T {
	if len(s) == 0 {
		var zero T
		return zero
	}
	return quantile.NearestRank(slices.Sorted(slices.Values(s)), 0.5)
}
