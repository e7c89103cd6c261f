package analyze

import (
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// measured is the time over which the rates of a level are taken: from the first request sent to the last token of a
// success, ramp and drain included. It is 0 if nothing succeeded.
func (v *view) measured() time.Duration {
	if len(v.ok) == 0 {
		return 0
	}
	first, last := time.Duration(math.MaxInt64), never
	for _, r := range v.sent {
		at := r.sent
		if at == never {
			at = r.started
		}
		first = min(first, at)
	}
	for _, r := range v.ok {
		last = max(last, r.lastToken)
	}
	return max(0, last-first)
}

// perSecond is a count over the measured time; unknown where there is none.
func (v *view) perSecond(count int) experiment.Figure {
	if seconds := v.measured().Seconds(); seconds > 0 {
		return experiment.Figure(float64(count) / seconds)
	}
	return experiment.Figure(math.NaN())
}

// outputRate is the output tokens of the successes over the measured time. Ramp and drain belong to it and are as
// they are; what is by chance is the rate between them, so the interval is, in proportion, that of the steady rate.
func (v *view) outputRate(steady experiment.Estimate) experiment.Estimate {
	tokens := 0
	for _, r := range v.ok {
		tokens += int(r.outputTokens)
	}
	rate := v.perSecond(tokens)
	return interval(rate, rate*steady.Low/steady.Value, rate*steady.High/steady.Value)
}

// steadyRate is the output tokens a second while the level was full and settled, by when they came.
func (v *view) steadyRate() experiment.Estimate {
	from, to, ok := v.steady()
	if !ok || len(v.ok) == 0 {
		return experiment.Unknown()
	}
	tokens := v.tokens(from, to, 1)[0]
	rate := experiment.Figure(tokens / (to - from).Seconds())
	chance := v.rateOfWindows(from, to)
	if v.level.Closed() {
		chance = v.rateOfSlots()
	}
	return interval(rate, rate*chance.Low/chance.Value, rate*chance.High/chance.Value)
}

// rateOfWindows is a rate whose interval is from the means of windows: as long as a request, and shorter where there
// would be too few.
func (v *view) rateOfWindows(from, to time.Duration) experiment.Estimate {
	length := to - from
	count := min(maxBlocks, max(minBlocks, int(length/max(1, v.meanTime()))))
	return meanOf(v.tokens(from, to, count), slices.Repeat([]float64{length.Seconds() / float64(count)}, count))
}

// rateOfSlots is the rate of one request in flight, with an interval from blocks of requests. Where a closed loop's
// requests keep step, tokens come in bursts: windows differ by where they cut them, while the time that a request
// takes, which is what sets the rate of a full closed loop (Little 1961), hardly does. The first wave is left out, and
// the last, which ran while the level emptied, if two remain.
func (v *view) rateOfSlots() experiment.Estimate {
	full := v.ended[min(v.level.Concurrency, len(v.ended)):]
	if last := len(full) - v.level.Concurrency; last >= 2*v.level.Concurrency {
		full = full[:last]
	}
	blocks := blocked(full, v.inFlight)
	tokens, seconds := make([]float64, len(blocks)), make([]float64, len(blocks))
	for i, block := range blocks {
		for _, r := range block {
			if r.ok() {
				tokens[i] += float64(r.outputTokens)
			}
			seconds[i] += (r.ended - r.started).Seconds()
		}
	}
	return meanOf(tokens, seconds)
}

// tokens counts the output tokens that came in each of some windows of equal length between two times. Those of
// failed requests do not count.
func (v *view) tokens(from, to time.Duration, windows int) []float64 {
	counts, length := make([]float64, windows), to-from
	for _, r := range v.sent {
		if r.reason != "" {
			continue
		}
		r.eachToken(func(at time.Duration, n float64) {
			if since := at - from; since >= 0 && since < length {
				counts[min(windows-1, int(float64(windows)*float64(since)/float64(length)))] += n
			}
		})
	}
	return counts
}
