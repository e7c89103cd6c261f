package web

import (
	"errors"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/quantile"
	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// maxGaps bounds the gaps that are kept of one result.
const maxGaps = 2048

// record is a result as it is kept: bounded, and never changed once it can be seen.
type record struct {
	// Gaps, Early and Body are those of the newest results only. Without the former two the methods of Result cannot
	// tell what is known of a latency: what they told is below.
	prober.Result
	events int // token events

	// Latencies that are known well enough to be recorded, else 0; of the gaps, percentiles of those that are.
	ttft, ttfa, tpot, duration time.Duration
	itlP50, itlP95, itlMax     time.Duration
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
		rec.itlP50, rec.itlP95, rec.itlMax = quantile.NearestRank(gaps, 0.5), quantile.NearestRank(gaps, 0.95), gaps[len(gaps)-1]
	}
	rec.ttft, rec.ttfa, rec.tpot, rec.duration = sound(res.TTFT()), sound(res.TTFA()), sound(res.TPOT()), sound(res.Duration())
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

// sound is a latency that may be recorded, else 0.
func sound(l prober.Latency, known bool) time.Duration {
	if !known || !l.Sound() {
		return 0
	}
	return l.Value
}

// split tells where the time to first token went: in the engine's queue, in prefill, and outside the engine
// (network, HTTP, tokenizer). It is known only where the server sent its own account.
func (rec *record) split() (queue, prefill, outside time.Duration, known bool) {
	if rec.ttft == 0 || rec.Server == nil {
		return 0, 0, 0, false
	}
	return rec.Server.Queue, rec.Server.Prefill, max(0, rec.ttft-rec.Server.Queue-rec.Server.Prefill), true
}

// measured reports whether the result is a success that measures.
func (rec *record) measured() bool { return rec.ttft > 0 && !rec.Warmup }

// speed is the output tokens a second of this one stream; 0: unknown.
func (rec *record) speed() float64 {
	if rec.duration == 0 {
		return 0
	}
	return float64(rec.OutputTokens) / rec.duration.Seconds()
}
