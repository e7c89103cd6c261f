package prober

import (
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// record turns the results of one workload into log lines: one when it begins to fail, one when it recovers,
// and one when a reason to doubt it turns up; never one for each probe.
type record struct {
	logger log.Logger

	mu       sync.Mutex
	since    time.Time // of the first failure in a row; zero: not failing
	failures int
	doubted  map[string]time.Time // when each reason was told last
}

// doubtPause is how long a reason to doubt is not told again.
const doubtPause = time.Hour

// hints tell what a reason to doubt usually means.
var hints = map[string]string{
	"prompt_length":  "the prompt is not as long as asked; the next one is corrected",
	"short_output":   "the server ends answers early although ignore_eos and min_tokens are sent; ITL stays comparable, the duration does not",
	"long_output":    "the server ignores the length limit; see max_tokens_field",
	"cached_prompt":  "part of the prompt came from the prefix cache: TTFT is too good",
	"coalesced":      "tokens arrive in bursts: a proxy on the way buffers the stream; ITL and TPOT are not recorded",
	"reader_late":    "the prober was not given the processor in time; the latencies that it does not know well enough are not recorded",
	"usage_mismatch": "the server's numbers and its stream disagree, or one of them is impossible",
	"no_done":        "the stream ends without [DONE]",
	"content_type":   "an event stream under another content type",
	"degenerate":     "the answer repeats one character: the model may be broken",
	"other_model":    "the stream names another model than the request",
	"finish_reason":  "all tokens came, but the answer ended with a finish_reason that the prober does not know",
}

func (r *record) note(res *Result) {
	if res.Abandoned {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if res.OK() {
		if !r.since.IsZero() {
			level.Info(r.logger).Log("msg", "probes succeed again", "after", res.Ended.Sub(r.since).Round(time.Millisecond), "failures", r.failures)
		}
		r.since, r.failures = time.Time{}, 0
		r.doubt(res)
		return
	}
	r.failures++
	if r.since.IsZero() {
		r.since = res.Started
		level.Warn(r.logger).Log("msg", "probe failed", "reason", res.Reason, "err", scrub.Text(res.Err.Error(), maxBody), "request_id", res.RequestID)
	}
}

func (r *record) doubt(res *Result) {
	for _, reason := range res.Suspect.Names() {
		if last, told := r.doubted[reason]; hints[reason] == "" || told && res.Ended.Sub(last) < doubtPause {
			continue
		}
		if r.doubted == nil {
			r.doubted = map[string]time.Time{}
		}
		r.doubted[reason] = res.Ended
		level.Warn(r.logger).Log("msg", "probe is suspect", "reason", reason, "hint", hints[reason], "request_id", res.RequestID)
	}
}
