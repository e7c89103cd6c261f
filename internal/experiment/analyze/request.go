package analyze

import (
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// request is what the figures of a level are made of, in little room: a level may have half a million. Times are since
// the level's start.
type request struct {
	scheduled, started, sent, firstToken, lastToken, ended time.Duration

	gaps  []time.Duration // between token events
	doubt *doubtful       // nil: all its time stamps are exact

	promptTokens, cachedTokens, outputTokens, firstTokens int32

	reason    prober.Reason
	suspect   prober.Suspect
	abandoned bool
}

// doubtful is the errors of time stamps, as a [prober.Result] has them.
type doubtful struct {
	early    []time.Duration
	sentLate time.Duration
}

// never is the time of what did not happen.
const never = time.Duration(-1 << 62)

// ok reports whether the request succeeded.
func (r *request) ok() bool { return r.reason == "" && !r.abandoned }

// eachToken calls a function with every token event: when it came and how many tokens it carried, in the mean where
// several came at once later than the first.
func (r *request) eachToken(visit func(at time.Duration, tokens float64)) {
	if r.firstToken == never {
		return
	}
	first := max(1, int(r.firstTokens))
	visit(r.firstToken, float64(first))
	each := float64(int(r.outputTokens)-first) / float64(len(r.gaps))
	at := r.firstToken
	for _, gap := range r.gaps {
		at += gap
		visit(at, each)
	}
}

// reader makes requests of a level from those of its run. It takes memory for many at a time.
type reader struct {
	start time.Time
	room  []request
	gaps  []time.Duration
}

const (
	roomRequests = 1 << 10
	roomGaps     = 1 << 14
)

func (in *reader) request(r *experiment.Request) *request {
	if in.start.IsZero() {
		in.start = r.Started
	}
	if len(in.room) == 0 {
		in.room = make([]request, roomRequests)
	}
	to := &in.room[0]
	in.room = in.room[1:]
	*to = request{
		scheduled: in.since(r.Scheduled), started: in.since(r.Started), sent: in.since(r.Sent),
		firstToken: in.since(r.FirstToken), lastToken: in.since(r.LastToken), ended: in.since(r.Ended),
		gaps: in.keep(r.Gaps), promptTokens: int32(r.PromptTokens), cachedTokens: int32(r.CachedTokens),
		outputTokens: int32(r.OutputTokens), firstTokens: int32(r.FirstTokens),
		reason: r.Reason, suspect: r.Suspect, abandoned: r.Abandoned,
	}
	if r.SentLate > 0 || len(r.Early) > 0 {
		to.doubt = &doubtful{r.Early, r.SentLate}
	}
	return to
}

func (in *reader) since(t time.Time) time.Duration {
	if t.IsZero() {
		return never
	}
	return t.Sub(in.start)
}

// keep copies gaps to where those of others are.
func (in *reader) keep(gaps []time.Duration) []time.Duration {
	n := len(gaps)
	if n == 0 {
		return nil
	}
	if n > len(in.gaps) {
		in.gaps = make([]time.Duration, max(n, roomGaps))
	}
	copy(in.gaps, gaps)
	kept := in.gaps[:n:n]
	in.gaps = in.gaps[n:]
	return kept
}

// result is a request as the prober has it, whose latencies are asked for.
type result struct {
	experiment.Request
	probe prober.Probe
}

// of makes it that of a request, until the next.
func (res *result) of(r *request) *experiment.Request {
	at := func(since time.Duration) time.Time {
		if since == never {
			return time.Time{}
		}
		return time.Unix(0, int64(since))
	}
	res.probe.Scheduled = at(r.scheduled)
	res.Result = prober.Result{
		Probe: &res.probe, Reason: r.reason, Abandoned: r.abandoned, Suspect: r.suspect,
		Sent: at(r.sent), FirstToken: at(r.firstToken), LastToken: at(r.lastToken), Gaps: r.gaps,
		FirstTokens: int(r.firstTokens), OutputTokens: int(r.outputTokens),
	}
	if r.doubt != nil {
		res.Early, res.SentLate = r.doubt.early, r.doubt.sentLate
	}
	return &res.Request
}

// latencies calls a function with the known values of a latency: one a request, or one a gap.
func latencies(requests []*request, indicator experiment.Indicator, visit func(prober.Latency)) {
	var res result
	for _, r := range requests {
		full := res.of(r)
		if indicator == experiment.ITL {
			for gap := range full.ITL() {
				visit(gap)
			}
		} else if l, known := full.Latency(indicator); known {
			visit(l)
		}
	}
}
