package web

import (
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/quantile"
)

// Part is a part of a request that can be slow.
type Part string

// Parts. The first three add up to the time to first token.
const (
	PartQueue   Part = "queue"
	PartPrefill Part = "prefill"
	PartOutside Part = "outside" // of the engine: network, HTTP server, tokenizer
	PartTTFT    Part = "ttft"    // as a whole, where the server does not tell the parts
	PartDecode  Part = "decode"  // inter-token latency
	PartConnect Part = "connect" // DNS, TCP, TLS
)

// A part is slow when its recent value is above slowRatio times the usual one and above it by a floor: below
// the floor, a ratio is noise. The usual value is the lower quartile of the minutes of the last hour, so that
// three quarters of an hour of slowness do not pass for usual. These are for the eye; alerts have rules of
// their own.
const (
	slowRatio    = 1.5
	usualMinutes = 5 // minutes with probes that are needed to call anything usual
	recentAtMost = time.Minute
	recentCount  = 5 // the recent probes: those of the last minute, but this many at least
)

// indicator is a value that each minute has and that is compared with its usual one.
type indicator struct {
	part  Part
	floor time.Duration
	of    func(minute) time.Duration // 0: unknown
}

func indicators() []indicator {
	return []indicator{
		{PartTTFT, 50 * time.Millisecond, func(m minute) time.Duration { return m.ttft }},
		{PartDecode, 5 * time.Millisecond, func(m minute) time.Duration { return m.itl }},
		{PartConnect, 50 * time.Millisecond, func(m minute) time.Duration { return m.connect }},
	}
}

// slowPart says that a part takes longer than it usually does.
type slowPart struct {
	part       Part
	now, usual time.Duration
	since      time.Time // start of the first minute of the ones without a break
}

// usual is what an indicator is like when nothing is wrong; 0 if too little is known.
func usual(minutes []minute, of func(minute) time.Duration) time.Duration {
	var ds []time.Duration
	for _, m := range minutes {
		if d := of(m); d > 0 {
			ds = append(ds, d)
		}
	}
	if len(ds) < usualMinutes {
		return 0
	}
	return lowerQuartile(ds)
}

func lowerQuartile(ds []time.Duration) time.Duration {
	return quantile.NearestRank(slices.Sorted(slices.Values(ds)), 0.25)
}

// findSlow compares the recent results with the hour that they end.
func findSlow(recent recentProbes, minutes []minute) []slowPart {
	var found []slowPart
	for _, ind := range indicators() {
		was := usual(minutes, ind.of)
		now := ind.of(recent.minute)
		limit := max(time.Duration(slowRatio*float64(was)), was+ind.floor)
		if was == 0 || now <= limit {
			continue
		}
		s := slowPart{part: ind.part, now: now, usual: was, since: slowSince(minutes, ind.of, limit)}
		if s.part == PartTTFT {
			s = grewMost(s, recent, minutes)
		}
		found = append(found, s)
	}
	return found
}

// slowSince is the start of the oldest minute from which on every minute was above the limit.
func slowSince(minutes []minute, of func(minute) time.Duration, limit time.Duration) time.Time {
	var since time.Time
	for _, m := range slices.Backward(minutes) {
		switch d := of(m); {
		case d == 0:
		case d <= limit:
			return since
		default:
			since = m.start
		}
	}
	return since
}

// grewMost names the part of a slow time to first token that grew most.
func grewMost(s slowPart, recent recentProbes, minutes []minute) slowPart {
	if recent.split == 0 {
		return s
	}
	parts := []indicator{
		{part: PartQueue, of: func(m minute) time.Duration { return m.queue }},
		{part: PartPrefill, of: func(m minute) time.Duration { return m.prefill }},
		{part: PartOutside, of: func(m minute) time.Duration { return m.outside }},
	}
	with := slices.DeleteFunc(slices.Clone(minutes), func(m minute) bool { return m.split == 0 })
	if len(with) < usualMinutes {
		return s
	}
	var most time.Duration
	for _, p := range parts {
		ds := make([]time.Duration, len(with)) // a 0 counts: a queue is often empty
		for i, m := range with {
			ds[i] = p.of(m)
		}
		was := lowerQuartile(ds)
		if grew := p.of(recent.minute) - was; grew > most {
			most = grew
			s.part, s.now, s.usual = p.part, p.of(recent.minute), was
		}
	}
	return s
}

// recentProbes sums up the recent successes of a workload: the numbers that are shown large.
type recentProbes struct {
	minute
	last time.Time
}

func recentOf(results []*record) recentProbes {
	var o minuteSamples
	var last time.Time
	for _, rec := range results {
		if !rec.measured() {
			continue
		}
		if last.IsZero() {
			last = rec.Ended
		}
		if o.probes >= samplesPerMinute || o.probes >= recentCount && last.Sub(rec.Ended) > recentAtMost {
			break
		}
		o.add(rec)
	}
	return recentProbes{o.sum(), last}
}
