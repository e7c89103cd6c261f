package web

import (
	"errors"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// maxGaps bounds the gaps that are kept of one result.
const maxGaps = 2048

// record is a result as it is kept: bounded, and never changed once it can be seen.
type record struct {
	prober.Result               // Gaps, Early and Body only while young
	events        int           // token events; the gaps may be gone
	itlP50        time.Duration // of the recordable gaps; 0 where there are none
	itlP95        time.Duration
	itlMax        time.Duration

	ttft, ttfa, tpot, duration recorded
	gapsCut                    bool // more gaps came than were kept
}

// newRecord keeps what the page may show of a result.
func newRecord(res *prober.Result) *record {
	rec := &record{Result: *res}
	probe := *res.Probe
	probe.RequestID = scrub.Text(probe.RequestID, maxID)
	rec.Probe = &probe
	if res.Err != nil {
		rec.Err = errors.New(scrub.Text(res.Err.Error(), maxError)) // the original may hold on to a response
	}
	rec.Body = scrub.Text(res.Body, maxBody)
	rec.Model = scrub.Text(res.Model, maxName)
	rec.RemoteAddr = scrub.Text(res.RemoteAddr, maxName)
	rec.FinishReason = scrub.Text(res.FinishReason, maxWord)
	if !res.FirstToken.IsZero() {
		rec.events = len(res.Gaps) + 1
	}
	var gaps []time.Duration
	for l := range res.ITL() {
		if l.Sound() {
			gaps = append(gaps, l.Value)
		}
	}
	if len(gaps) > 0 {
		slices.Sort(gaps)
		rec.itlP50, rec.itlP95, rec.itlMax = rank(gaps, 0.50), rank(gaps, 0.95), gaps[len(gaps)-1]
	}
	rec.ttft, rec.ttfa, rec.tpot, rec.duration = newRecorded(res.TTFT()), newRecorded(res.TTFA()), newRecorded(res.TPOT()), newRecorded(res.Duration())
	rec.gapsCut = len(res.Gaps) > maxGaps
	rec.Gaps = slices.Clone(res.Gaps[:min(len(res.Gaps), maxGaps)])
	rec.Early = slices.Clone(res.Early[:min(len(res.Early), maxGaps+1)])
	return rec
}

// thin is the record without what takes much room.
func (rec *record) thin() *record {
	t := *rec
	t.Gaps, t.Early = nil, nil
	t.Body = scrub.Text(rec.Body, maxThin)
	if rec.Err != nil {
		t.Err = errors.New(scrub.Text(rec.errText(), maxThin))
	}
	return &t
}

// errText is why the probe failed; empty: it did not.
func (rec *record) errText() string {
	if rec.Err == nil {
		return ""
	}
	return rec.Err.Error()
}

// recorded is a latency of a result if it is known well enough to be recorded.
type recorded struct {
	value time.Duration
	known bool
}

func newRecorded(l prober.Latency, known bool) recorded { return recorded{l.Value, known && l.Sound()} }

// TTFT is the time to first token if it was recorded.
func (rec *record) TTFT() (d time.Duration, known bool) { return rec.ttft.value, rec.ttft.known }

// TTFA is the time to first answer if it was recorded.
func (rec *record) TTFA() (d time.Duration, known bool) { return rec.ttfa.value, rec.ttfa.known }

// TPOT is the time per output token if it was recorded.
func (rec *record) TPOT() (d time.Duration, known bool) { return rec.tpot.value, rec.tpot.known }

// Duration is the request duration if it was recorded.
func (rec *record) Duration() (d time.Duration, known bool) {
	return rec.duration.value, rec.duration.known
}

// split tells where the time to first token went: in the engine's queue, in prefill, and outside the engine
// (network, HTTP, tokenizer). It is known only where the server sent its own account.
func (rec *record) split() (queue, prefill, outside time.Duration, known bool) {
	ttft, ok := rec.TTFT()
	if !ok || rec.Server == nil {
		return 0, 0, 0, false
	}
	return rec.Server.Queue, rec.Server.Prefill, max(0, ttft-rec.Server.Queue-rec.Server.Prefill), true
}

// measured reports whether the result is a success that measures.
func (rec *record) measured() bool {
	_, ok := rec.TTFT()
	return ok && !rec.Warmup
}

// speed is the output tokens a second of this one stream.
func (rec *record) speed() (perSecond float64, known bool) {
	d, ok := rec.Duration()
	if !ok || d <= 0 {
		return 0, false
	}
	return float64(rec.OutputTokens) / d.Seconds(), true
}

// rank is the q-quantile of sorted durations by nearest rank.
func rank(sorted []time.Duration, q float64) time.Duration {
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// median is the middle of durations in any order; 0 of none.
func median(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	return rank(slices.Sorted(slices.Values(ds)), 0.5)
}
