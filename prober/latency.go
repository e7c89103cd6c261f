package prober

import (
	"iter"
	"time"
)

// Latency is a time between two events, with its error: the truth lies between Least and Most. The error is that of
// the two time stamps; see [Result.Early] and [Result.SentLate].
type Latency struct {
	Value       time.Duration
	Least, Most time.Duration
}

const (
	// SoundError is an error that every recorded latency may have, and that the time stamp of an event may have before
	// the event counts as read late.
	SoundError = time.Millisecond
	// soundShare is the share of a latency that its error may be: one in 50 is 2 %, less than half the width of a
	// bucket of a native histogram with the factor 1.1.
	soundShare = 50
)

// Error is how far the truth may be from Value.
func (l Latency) Error() time.Duration { return max(l.Value-l.Least, l.Most-l.Value) }

// Sound reports whether the latency may be recorded: its error is at most 1 ms or 2 % of it, whichever is larger.
func (l Latency) Sound() bool { return l.Error() <= max(SoundError, l.Value/soundShare) }

// per divides a latency by a count.
func (l Latency) per(n int) Latency {
	by := time.Duration(n)
	return Latency{l.Value / by, l.Least / by, l.Most / by}
}

// latency is the time from one event to a later one. The first may have come fromEarly before its stamp or fromLate
// after it, the second toEarly before.
func latency(value, fromEarly, fromLate, toEarly time.Duration) Latency {
	return Latency{Value: value, Least: max(0, value-toEarly-fromLate), Most: value + fromEarly}
}

// early is how much earlier than its stamp a token event may have come.
func (r *Result) early(token int) time.Duration {
	if token < len(r.Early) {
		return r.Early[token]
	}
	return 0
}

// Late reports whether the time stamp of a token event has so large an error that the event counts as read late.
func (r *Result) Late(token int) bool { return r.early(token) > SoundError }

// fromSent is the time from the first byte of the request to a token event.
func (r *Result) fromSent(at time.Time, token int) Latency {
	return latency(at.Sub(r.Sent), 0, r.SentLate, r.early(token))
}

// TTFT is the time to first token. It is unknown for a probe that failed.
func (r *Result) TTFT() (l Latency, known bool) {
	if !r.OK() {
		return l, false
	}
	return r.fromSent(r.FirstToken, 0), true
}

// TTFTFromSchedule is the time from when the probe was due to the first token. It is unknown for a probe that failed.
func (r *Result) TTFTFromSchedule() (l Latency, known bool) {
	if !r.OK() {
		return l, false
	}
	return latency(r.FirstToken.Sub(r.Scheduled), 0, 0, r.early(0)), true
}

// TTFA is the time to first answer: known only where reasoning came first and an answer followed.
func (r *Result) TTFA() (l Latency, known bool) {
	if !r.OK() || r.FirstAnswer.IsZero() {
		return l, false
	}
	return r.fromSent(r.FirstAnswer, r.AnswerToken), true
}

// Gap is the time between the token events i and i+1.
func (r *Result) Gap(i int) Latency {
	return latency(r.Gaps[i], r.early(i), 0, r.early(i+1))
}

// ITL lists the inter-token latencies, in order: none of a probe that failed or came through a proxy that buffers.
func (r *Result) ITL() iter.Seq[Latency] {
	return func(yield func(Latency) bool) {
		if !r.OK() || r.Suspect.Has(SuspectCoalesced) {
			return
		}
		for i := range r.Gaps {
			if !yield(r.Gap(i)) {
				return
			}
		}
	}
}

// TPOT is the time per output token after the first event. It is unknown for a probe that failed, was cut or came
// through a proxy that buffers, and where no token followed the first event.
func (r *Result) TPOT() (l Latency, known bool) {
	after := r.OutputTokens - r.FirstTokens
	if !r.OK() || len(r.Gaps) == 0 || after <= 0 || r.Suspect&(SuspectCoalesced|SuspectLongOutput) != 0 {
		return l, false
	}
	return latency(r.LastToken.Sub(r.FirstToken), r.early(0), 0, r.early(len(r.Gaps))).per(after), true
}

// ToLastToken is the time from the first byte of the request to the last token event of a probe that succeeded, also
// where the answer was cut there.
func (r *Result) ToLastToken() (l Latency, known bool) {
	if !r.OK() {
		return l, false
	}
	return r.fromSent(r.LastToken, len(r.Gaps)), true
}

// Duration is the time from the first byte of the request to the last token event. It is unknown for a probe that
// failed or was cut.
func (r *Result) Duration() (l Latency, known bool) {
	if r.Suspect.Has(SuspectLongOutput) {
		return l, false
	}
	return r.ToLastToken()
}

// Bursts tells from the gaps of a stream so far whether a proxy buffers it. The zero value has seen none.
type Bursts struct{ gaps, tiny int }

const (
	// tinyGap is a gap that no engine has between two steps; a proxy that buffers has little else.
	tinyGap = 100 * time.Microsecond
	// tinyAtMost is what a tiny gap may have been, since its stamps have errors. No engine is as fast as that.
	tinyAtMost = 500 * time.Microsecond
	// minGaps is how many gaps it takes to tell a proxy that buffers from chance.
	minGaps = 8
)

// Add takes in a gap and what it is at most. Tokens that were read late come in bursts too, but may have come apart.
func (b *Bursts) Add(gap, most time.Duration) {
	b.gaps++
	if gap < tinyGap && most < tinyAtMost {
		b.tiny++
	}
}

// Coalesced reports whether the stream comes in bursts: at least 8 gaps, more than half of them under 0.1 ms.
func (b *Bursts) Coalesced() bool { return b.gaps >= minGaps && 2*b.tiny > b.gaps }

// doubtful reports whether any latency of the result is not sound.
func (r *Result) doubtful() bool {
	for l := range r.ITL() {
		if !l.Sound() {
			return true
		}
	}
	for _, latency := range []func() (Latency, bool){r.TTFT, r.TTFA, r.TPOT, r.Duration} {
		if l, known := latency(); known && !l.Sound() {
			return true
		}
	}
	return false
}
