package sweep

import (
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// Request is one request of a run, a line of requests.jsonl. Times are on a clock that is the wall clock at the
// start of the run and does not step with it later. A zero time means that the request did not get that far.
type Request struct {
	Level  int    `json:"level"` // index into the plan's levels
	ID     string `json:"request_id"`
	Warmup bool   `json:"warmup,omitempty"`

	Reason  prober.Reason `json:"reason,omitempty"` // why it failed; empty: it did not
	Error   string        `json:"error,omitempty"`
	Status  int           `json:"http_status,omitempty"`
	Suspect []string      `json:"suspect,omitempty"`
	// Abandoned: given up by us, when the run was interrupted. Neither a success nor a failure.
	Abandoned bool `json:"abandoned,omitempty"`

	Scheduled  time.Time `json:"scheduled"` // when it was due; of a closed loop, when the one before it ended
	Started    time.Time `json:"started"`
	Connected  time.Time `json:"connected,omitzero"`
	Sent       time.Time `json:"sent,omitzero"` // first byte of the request written: TTFT counts from here
	Headers    time.Time `json:"headers,omitzero"`
	FirstToken time.Time `json:"first_token,omitzero"`
	LastToken  time.Time `json:"last_token,omitzero"`
	Ended      time.Time `json:"ended"`
	// Gaps are the seconds between neighbouring token events, to the microsecond.
	Gaps []float64 `json:"gaps_seconds,omitempty"`

	// Late lists the token events (0 is the first) whose time is not known, because the client read them too late;
	// SentLate tells the same of Sent.
	Late     []int `json:"late_tokens,omitempty"`
	SentLate bool  `json:"sent_late,omitempty"`

	FirstTokens  int `json:"first_tokens,omitempty"` // tokens in the first event
	OutputTokens int `json:"output_tokens"`
	PromptTokens int `json:"prompt_tokens"`        // by the server's count; -1 where it sent none
	CachedTokens int `json:"cached_prompt_tokens"` // by the server's count; -1 where it sent none

	ServerQueue   *float64 `json:"server_queue_seconds,omitempty"` // by the server's own account, if it sent one
	ServerPrefill *float64 `json:"server_prefill_seconds,omitempty"`
}

// OK reports whether the request succeeded.
func (r *Request) OK() bool { return r.Reason == "" && !r.Abandoned }

// suspect reports whether there is a reason to doubt the request.
func (r *Request) suspect(reason prober.Suspect) bool {
	return slices.ContainsFunc(reason.Names(), func(name string) bool { return slices.Contains(r.Suspect, name) })
}

// late reports whether the time of a token event is unknown.
func (r *Request) late(token int) bool {
	_, is := slices.BinarySearch(r.Late, token)
	return is
}

// Value is the latency of the request that an indicator names, in seconds; NaN where it is not known. ITL is not
// one value: see [Request.ITL].
func (r *Request) Value(i Indicator) float64 {
	switch i {
	case TTFT:
		return r.ttft(r.Sent, r.SentLate)
	case TTFTFromSchedule:
		return r.ttft(r.Scheduled, false)
	case TPOT:
		return r.tpot()
	case Duration:
		return r.duration()
	}
	return math.NaN()
}

func (r *Request) ttft(from time.Time, late bool) float64 {
	if !r.OK() || late || r.late(0) {
		return math.NaN()
	}
	return r.FirstToken.Sub(from).Seconds()
}

func (r *Request) tpot() float64 {
	after := r.OutputTokens - r.FirstTokens
	if !r.OK() || len(r.Gaps) == 0 || after <= 0 || r.late(0) || r.late(len(r.Gaps)) ||
		r.suspect(prober.SuspectLongOutput|prober.SuspectCoalesced) {
		return math.NaN()
	}
	return r.LastToken.Sub(r.FirstToken).Seconds() / float64(after)
}

func (r *Request) duration() float64 {
	if !r.OK() || r.SentLate || r.late(len(r.Gaps)) || r.suspect(prober.SuspectLongOutput) {
		return math.NaN()
	}
	return r.LastToken.Sub(r.Sent).Seconds()
}

// ITL lists the gaps in seconds whose both ends are known: none of a request that failed or came through a proxy
// that buffers.
func (r *Request) ITL() []float64 {
	if !r.OK() || r.suspect(prober.SuspectCoalesced) {
		return nil
	}
	if len(r.Late) == 0 {
		return r.Gaps
	}
	known := make([]float64, 0, len(r.Gaps))
	for i, gap := range r.Gaps {
		if !r.late(i) && !r.late(i+1) {
			known = append(known, gap)
		}
	}
	return known
}
