package sweep

import (
	"math"
	"time"
)

// measured is the time over which the rates of a level are taken: from the first request sent to the last token of a
// success, ramp and drain included. It is 0 if nothing succeeded.
func (v *view) measured() time.Duration {
	var first, last time.Time
	for _, r := range v.sent {
		at := r.Sent
		if at.IsZero() {
			at = r.Started
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
	}
	for _, r := range v.ok {
		if r.LastToken.After(last) {
			last = r.LastToken
		}
	}
	return max(0, last.Sub(first))
}

// perSecond is a count over the measured time; unknown where there is none.
func (v *view) perSecond(count int) Figure {
	if seconds := v.measured().Seconds(); seconds > 0 {
		return Figure(float64(count) / seconds)
	}
	return Figure(math.NaN())
}

// outputRate is the output tokens of the successes over the measured time. Ramp and drain belong to it and are as
// they are; what is by chance is the rate between them, so the interval is, in proportion, that of the steady rate.
func (v *view) outputRate(steady Estimate) Estimate {
	tokens := 0
	for _, r := range v.ok {
		tokens += r.OutputTokens
	}
	rate := v.perSecond(tokens)
	return Estimate{rate, rate * steady.Low / steady.Value, rate * steady.High / steady.Value}
}

// steadyRate is the output tokens a second while the level was full and settled, by when they came. Its interval is
// from the means of windows that are as long as a request at least.
func (v *view) steadyRate() Estimate {
	from, to, ok := v.steady()
	if !ok || len(v.ok) == 0 {
		return unknown()
	}
	length := to.Sub(from)
	count := min(maxBlocks, int(length/max(1, v.meanTime())))
	if count < 1 {
		return unknown()
	}
	tokens, seconds := make([]float64, count), make([]float64, count)
	for i := range seconds {
		seconds[i] = length.Seconds() / float64(count)
	}
	for _, r := range v.sent {
		if r.Reason == "" {
			r.eachToken(func(at time.Time, n float64) {
				if since := at.Sub(from); since >= 0 && since < length {
					tokens[min(count-1, int(float64(count)*float64(since)/float64(length)))] += n
				}
			})
		}
	}
	return meanOf(tokens, seconds)
}

// eachToken calls a function with every token event: when it came and how many tokens it carried, in the mean where
// several came at once later than the first.
func (r *Request) eachToken(visit func(at time.Time, tokens float64)) {
	if r.FirstToken.IsZero() {
		return
	}
	first := max(1, r.FirstTokens)
	visit(r.FirstToken, float64(first))
	each := float64(r.OutputTokens-first) / float64(len(r.Gaps))
	at := r.FirstToken
	for _, gap := range r.Gaps {
		at = at.Add(time.Duration(gap * float64(time.Second)))
		visit(at, each)
	}
}
