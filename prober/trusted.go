package prober

import "time"

// Trusted gives the latencies of a result, with the same definitions, from every stamp that may be relied on.
//
// The methods of [Result] withhold all latencies of a probe whose reader was late for one token: a prober sends few
// probes and is seldom late. An experiment that keeps hundreds of streams going is late for a token or two of most
// requests, and would lose these requests, the slow ones first; it takes Trusted.
type Trusted struct{ r *Result }

// Trusted judges r stamp by stamp.
func (r *Result) Trusted() Trusted { return Trusted{r} }

// token reports whether the time of a token event may be relied on.
func (t Trusted) token(i int) bool { return !tokenList(t.r.LateTokens).has(i) }

// Suspect is the reasons to doubt the result. A probe whose reader was late is judged here for what the gaps between
// its other tokens say: that a proxy buffers.
func (t Trusted) Suspect() Suspect {
	if _, smooth := t.gaps(); t.r.OK() && !smooth {
		return t.r.Suspect | SuspectCoalesced
	}
	return t.r.Suspect
}

// TTFT is the time to first token. It is unknown for a probe that failed, and where the first token or the request
// was late.
func (t Trusted) TTFT() (d time.Duration, known bool) {
	if !t.r.OK() || t.r.SentLate || !t.token(0) {
		return 0, false
	}
	return t.r.FirstToken.Sub(t.r.Sent), true
}

// TTFA is the time to first answer: known only where reasoning came first and an answer followed.
func (t Trusted) TTFA() (d time.Duration, known bool) {
	if !t.r.OK() || t.r.FirstAnswer.IsZero() || t.r.SentLate || !t.token(t.r.AnswerToken) {
		return 0, false
	}
	return t.r.FirstAnswer.Sub(t.r.Sent), true
}

// Gap is Result.Gaps[i], the time between the token events i and i+1; unknown if one of them was late.
func (t Trusted) Gap(i int) (d time.Duration, known bool) {
	return t.r.Gaps[i], t.token(i) && t.token(i+1)
}

// ITL lists the inter-token latencies that may be relied on, in order: none of a probe that failed or came through a
// proxy that buffers, and not those before and after a token that was late.
func (t Trusted) ITL() []time.Duration {
	gaps, _ := t.gaps()
	return gaps
}

// gaps lists the gaps that may be recorded. known is false where none may, whether or not there are any.
func (t Trusted) gaps() (gaps []time.Duration, known bool) {
	if !t.r.OK() || t.r.Suspect.Has(SuspectCoalesced) {
		return nil, false
	}
	if len(t.r.LateTokens) == 0 {
		return t.r.Gaps, true
	}
	gaps = make([]time.Duration, 0, len(t.r.Gaps))
	for i := range t.r.Gaps {
		if gap, known := t.Gap(i); known {
			gaps = append(gaps, gap)
		}
	}
	if coalesced(gaps) { // of a probe that was read late, nobody has told yet
		return nil, false
	}
	return gaps, true
}

// TPOT is the time per output token after the first event. It is unknown for a probe that failed, was cut or came
// through a proxy that buffers, where no token followed the first event, and where the first or the last was late.
func (t Trusted) TPOT() (d time.Duration, known bool) {
	after := t.r.OutputTokens - t.r.FirstTokens
	_, smooth := t.gaps()
	ends := t.token(0) && t.token(len(t.r.Gaps))
	if !smooth || !ends || len(t.r.Gaps) == 0 || after <= 0 || t.r.Suspect.Has(SuspectLongOutput) {
		return 0, false
	}
	return t.r.LastToken.Sub(t.r.FirstToken) / time.Duration(after), true
}

// Duration is the time from the first byte of the request to the last token event. It is unknown for a probe that
// failed or was cut, and where the last token or the request was late.
func (t Trusted) Duration() (d time.Duration, known bool) {
	if !t.r.OK() || t.r.Suspect.Has(SuspectLongOutput) || t.r.SentLate || !t.token(len(t.r.Gaps)) {
		return 0, false
	}
	return t.r.LastToken.Sub(t.r.Sent), true
}
