package web

import (
	"slices"
	"time"
)

const (
	hour             = 60 // minutes that are kept
	samplesPerMinute = 64 // more probes a minute than this overwrite the oldest
)

// minute sums up the probes of a series that ended in one minute. Durations are 0 where nothing is known.
type minute struct {
	start    time.Time
	probes   int // successes that measure
	failures int

	ttft, itl, itlP95, connect time.Duration // medians over the probes
	split                      int           // probes whose server told where the time went
	queue, prefill, outside    time.Duration // means over those: means add up, medians do not
}

// minutes holds the last hour of a series, minute by minute.
type minutes struct {
	done [hour]minute // by minute of the hour
	open openMinute
}

// openMinute gathers the samples of the minute that is not over.
type openMinute struct {
	minute
	ttfts, itls, itlP95s, connects   []time.Duration
	queueSum, prefillSum, outsideSum time.Duration
}

func (m *minutes) add(rec *record) {
	// A result of an earlier minute (the clock went back, or two ended out of order) counts in the open one.
	if at := rec.Ended.Truncate(time.Minute); at.After(m.open.start) {
		m.close()
		m.open.start = at
	}
	m.open.add(rec)
}

func (m *minutes) close() {
	if m.open.start.IsZero() {
		return
	}
	m.done[m.open.start.Minute()] = m.open.sum()
	o := &m.open
	*o = openMinute{ttfts: o.ttfts[:0], itls: o.itls[:0], itlP95s: o.itlP95s[:0], connects: o.connects[:0]}
}

// last lists the minutes of the last hour that saw a probe, oldest first.
func (m *minutes) last(now time.Time) []minute {
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

func (o *openMinute) add(rec *record) {
	if !rec.OK() {
		o.failures++
		return
	}
	if !rec.measured() {
		return
	}
	i := o.probes % samplesPerMinute
	o.probes++
	ttft, _ := rec.TTFT()
	put(&o.ttfts, i, ttft)
	if rec.itlP50 > 0 {
		put(&o.itls, i, rec.itlP50)
		put(&o.itlP95s, i, rec.itlP95)
	}
	if d, ok := rec.ConnectTime(); ok {
		put(&o.connects, i, d)
	}
	if queue, prefill, outside, ok := rec.split(); ok {
		o.split++
		o.queueSum += queue
		o.prefillSum += prefill
		o.outsideSum += outside
	}
}

// put writes sample i, or appends it where fewer came before.
func put(list *[]time.Duration, i int, d time.Duration) {
	if i < len(*list) {
		(*list)[i] = d
		return
	}
	*list = append(*list, d)
}

func (o *openMinute) sum() minute {
	m := o.minute
	m.ttft, m.itl, m.itlP95, m.connect = median(o.ttfts), median(o.itls), median(o.itlP95s), median(o.connects)
	if o.split > 0 {
		n := time.Duration(o.split)
		m.queue, m.prefill, m.outside = o.queueSum/n, o.prefillSum/n, o.outsideSum/n
	}
	return m
}
