package experiment

import (
	"encoding/json"
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

	// Early is how many seconds before its time stamp a token event (0 is the first) may have come, because the client
	// read it late; SentLate is how many seconds after Sent the request may have left.
	Early    map[int]float64 `json:"early_seconds,omitempty"`
	SentLate float64         `json:"sent_late_seconds,omitempty"`

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

// early is how much earlier than its time stamp a token event may have come, in seconds.
func (r *Request) early(token int) float64 { return r.Early[token] }

// LateAt reports whether the time of a token event is not known to a millisecond.
func (r *Request) LateAt(token int) bool { return r.early(token) > LateTolerance }

// LeftLate reports the same of the time at which the request left.
func (r *Request) LeftLate() bool { return r.SentLate > LateTolerance }

// LateTolerance is the error that a time stamp may have, in seconds.
const LateTolerance = 1e-3

// Span is a latency in seconds with what it is at least and at most, since its time stamps have errors.
type Span struct{ Value, Least, Most float64 }

// Value is the latency of the request that an indicator names, in seconds; NaN where it is not known. ITL is not
// one value: see [Request.ITL].
func (r *Request) Value(i Indicator) float64 {
	s, known := r.Latency(i)
	if !known {
		return math.NaN()
	}
	return s.Value
}

// Latency is the latency that an indicator names, but ITL.
func (r *Request) Latency(i Indicator) (s Span, known bool) {
	last, smooth := len(r.Gaps), !r.suspect(prober.SuspectCoalesced)
	whole := !r.suspect(prober.SuspectLongOutput)
	switch after := r.OutputTokens - r.FirstTokens; {
	case !r.OK():
	case i == TTFT:
		return r.since(r.Sent, r.SentLate, r.FirstToken, 0), true
	case i == TTFTFromSchedule:
		return r.since(r.Scheduled, 0, r.FirstToken, 0), true
	case i == Duration && whole:
		return r.since(r.Sent, r.SentLate, r.LastToken, last), true
	case i == TPOT && whole && smooth && last > 0 && after > 0:
		s := newSpan(r.LastToken.Sub(r.FirstToken).Seconds(), r.early(0), r.early(last))
		n := float64(after)
		return Span{s.Value / n, s.Least / n, s.Most / n}, true
	}
	return s, false
}

// since is the time from an earlier event, which may have come late, to a token event.
func (r *Request) since(from time.Time, late float64, at time.Time, token int) Span {
	s := newSpan(at.Sub(from).Seconds(), 0, r.early(token))
	s.Least = max(0, s.Least-late)
	return s
}

// newSpan is the time between two events that may have come earlier than their stamps.
func newSpan(value, fromEarly, toEarly float64) Span {
	return Span{value, max(0, value-toEarly), value + fromEarly}
}

// Gap is the time between the token events i and i+1.
func (r *Request) Gap(i int) Span { return newSpan(r.Gaps[i], r.early(i), r.early(i+1)) }

// ITL lists the gaps in seconds: none of a request that failed or came through a proxy that buffers.
func (r *Request) ITL() []float64 {
	if !r.OK() || r.suspect(prober.SuspectCoalesced) {
		return nil
	}
	return r.Gaps
}

// UnmarshalJSON implements json.Unmarshaler. Runs of before 0.2 tell which token events were read late, but not how
// late: then an event may have come at any time since the one before it.
func (r *Request) UnmarshalJSON(data []byte) error {
	type plain Request
	line := struct {
		*plain
		Late     []int `json:"late_tokens"`
		SentLate bool  `json:"sent_late"`
	}{plain: (*plain)(r)}
	if err := json.Unmarshal(data, &line); err != nil {
		return err
	}
	if len(line.Late) > 0 {
		r.Early = make(map[int]float64, len(line.Late))
	}
	for _, token := range line.Late {
		if token == 0 {
			r.Early[0] = max(0, r.FirstToken.Sub(r.Sent).Seconds())
		} else if token > 0 && token <= len(r.Gaps) {
			r.Early[token] = r.Gaps[token-1]
		}
	}
	if line.SentLate {
		r.SentLate = max(0, r.FirstToken.Sub(r.Sent).Seconds())
	}
	return nil
}

// EachToken calls a function with every token event: when it came and how many tokens it carried, in the mean where
// several came at once later than the first.
func (r *Request) EachToken(visit func(at time.Time, tokens float64)) {
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

// Microseconds is a duration in seconds, rounded so that a line of gaps stays short.
func Microseconds(d time.Duration) float64 { return math.Round(d.Seconds()*1e6) / 1e6 }

// MaxError bounds the words of an error that are kept, in bytes.
const MaxError = 500
