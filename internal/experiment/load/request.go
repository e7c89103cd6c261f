package load

import (
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// clock tells times as the wall clock was set when the run began, whatever becomes of it later.
type clock struct{ began time.Time } // with its monotonic reading

// at converts a time with a monotonic reading; zero stays zero.
func (c clock) at(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return c.began.Add(t.Sub(c.began)).Round(0).UTC()
}

// request makes the record of a request that has ended.
func (c clock) request(level int, res *prober.Result) *experiment.Request {
	r := &experiment.Request{
		Level: level, ID: res.RequestID, Warmup: res.Warmup,
		Reason: res.Reason, Status: res.Status, Suspect: res.Suspect.Names(), Abandoned: res.Abandoned,
		Scheduled: c.at(res.Scheduled), Started: c.at(res.Started), Connected: c.at(res.Connected), Sent: c.at(res.Sent),
		Headers: c.at(res.Headers), FirstToken: c.at(res.FirstToken), LastToken: c.at(res.LastToken), Ended: c.at(res.Ended),
		SentLate:    experiment.Microseconds(res.SentLate),
		FirstTokens: res.FirstTokens, OutputTokens: res.OutputTokens, PromptTokens: res.PromptTokens, CachedTokens: res.CachedTokens,
	}
	if len(r.Suspect) == 0 {
		r.Suspect = nil
	}
	if res.Err != nil {
		r.Error = strings.ToValidUTF8(res.Err.Error()[:min(len(res.Err.Error()), experiment.MaxError)], "")
	}
	if len(res.Gaps) > 0 {
		r.Gaps = make([]float64, len(res.Gaps))
		for i, gap := range res.Gaps {
			r.Gaps[i] = experiment.Microseconds(gap)
		}
	}
	for token, early := range res.Early {
		if early >= time.Microsecond {
			if r.Early == nil {
				r.Early = make(map[int]float64)
			}
			r.Early[token] = experiment.Microseconds(early)
		}
	}
	if res.Server != nil {
		queue, prefill := experiment.Microseconds(res.Server.Queue), experiment.Microseconds(res.Server.Prefill)
		r.ServerQueue, r.ServerPrefill = &queue, &prefill
	}
	return r
}
