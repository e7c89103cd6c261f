package prober

import (
	"math/bits"
	"time"
)

// Reason says in one word why a probe failed. The set is closed: it becomes a label value.
type Reason string

// Reasons of failure. Which fault has which reason is told in docs/definitions.md.
const (
	ReasonDNS           Reason = "dns"
	ReasonConnect       Reason = "connect"
	ReasonTLS           Reason = "tls"
	ReasonHTTPStatus    Reason = "http_status"
	ReasonRateLimited   Reason = "rate_limited"
	ReasonOverloaded    Reason = "overloaded"
	ReasonAuth          Reason = "auth"
	ReasonModelNotFound Reason = "model_not_found"
	ReasonBadRequest    Reason = "bad_request"
	ReasonContentType   Reason = "content_type"
	ReasonTimeout       Reason = "timeout"
	ReasonStalled       Reason = "stalled"
	ReasonTruncated     Reason = "truncated"
	ReasonMalformed     Reason = "malformed"
	ReasonTooLarge      Reason = "too_large"
	ReasonServerError   Reason = "server_error"
	ReasonEmptyOutput   Reason = "empty_output"
	ReasonConnReset     Reason = "conn_reset"
	ReasonInternal      Reason = "internal"
)

// Reasons lists every reason, so that a counter of each can exist before the first failure.
func Reasons() []Reason {
	return []Reason{
		ReasonDNS, ReasonConnect, ReasonTLS, ReasonHTTPStatus, ReasonRateLimited, ReasonOverloaded, ReasonAuth,
		ReasonModelNotFound, ReasonBadRequest, ReasonContentType, ReasonTimeout, ReasonStalled, ReasonTruncated,
		ReasonMalformed, ReasonTooLarge, ReasonServerError, ReasonEmptyOutput, ReasonConnReset, ReasonInternal,
	}
}

// Suspect is a set of reasons to doubt a success: its shape or its measurement is off.
type Suspect uint16

// Reasons to doubt a success. docs/definitions.md tells when each is set and which samples it withholds.
const (
	SuspectPromptLength  Suspect = 1 << iota // usage.prompt_tokens is not what was asked
	SuspectShortOutput                       // fewer tokens than asked
	SuspectLongOutput                        // cut at twice the asked length: no duration, no TPOT
	SuspectCachedPrompt                      // the server says that it had part of the prompt cached
	SuspectCoalesced                         // a proxy buffers the stream: no ITL, no TPOT
	SuspectReaderLate                        // the prober read too late to know some latency well enough
	SuspectUsageMismatch                     // usage and the stream disagree
	SuspectNoDone                            // finish_reason came, [DONE] did not
	SuspectContentType                       // an event stream under another content type
	SuspectFieldRefused                      // the server refused a field; sent again without it
	SuspectDegenerate                        // one character, over and over
	SuspectOtherModel                        // the stream names another model than the request
	SuspectFinishReason                      // all tokens came, under a finish_reason that nobody knows
)

var suspectNames = [...]string{
	"prompt_length", "short_output", "long_output", "cached_prompt", "coalesced", "reader_late",
	"usage_mismatch", "no_done", "content_type", "field_refused", "degenerate", "other_model", "finish_reason",
}

// SuspectNames lists the name of every reason to doubt, as used for the label "reason".
func SuspectNames() []string { return suspectNames[:] }

// Has reports whether s contains every reason in t.
func (s Suspect) Has(t Suspect) bool { return s&t == t }

// Names lists the reasons in s.
func (s Suspect) Names() []string {
	names := make([]string, 0, bits.OnesCount16(uint16(s)))
	for i, name := range suspectNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// TokenSource says where a count of output tokens comes from.
type TokenSource string

// Sources of an output token count.
const (
	FromUsage  TokenSource = "usage"  // the server's own count
	FromChunks TokenSource = "chunks" // token events, where the server sends no usable count
)

// Result is the outcome of one probe: time stamps and counts, nothing derived that a reader could derive
// differently. A zero time means that the probe did not get that far. All stamps carry a monotonic reading.
type Result struct {
	*Probe

	// Reason is empty for a success. Err is its cause in words, without secrets and bounded in length.
	Reason Reason
	Err    error
	// Abandoned: the prober gave the probe up (shutdown, target removed), or found that the server cannot run the
	// workload (then Err says why) and did not send it. Nobody's failure; counts nowhere.
	Abandoned bool
	Suspect   Suspect

	RemoteAddr string
	Status     int       // HTTP status, 0 if none came
	Body       string    // start of an error body, scrubbed, at most 2 KiB of valid UTF-8
	CertExpiry time.Time // zero without TLS
	// CertNotBefore is since when the certificate that ends then is valid.
	CertNotBefore time.Time

	DialStart  time.Time // DNS, TCP and TLS begin
	Connected  time.Time // the connection is ready to be written to
	Sent       time.Time // first byte of the request written; TTFT and duration count from here
	Headers    time.Time
	FirstToken time.Time
	// FirstAnswer is the first event that is not reasoning; zero unless reasoning came first. AnswerToken is its index
	// among the token events.
	FirstAnswer time.Time
	AnswerToken int
	LastToken   time.Time
	Ended       time.Time

	// Gaps are the times between neighbouring token events, in order.
	Gaps []time.Duration
	// FirstTokens is how many tokens of OutputTokens had been generated with the first token event: those that it
	// carried, 1 unless a count says otherwise, and reasoning that was counted and never streamed.
	FirstTokens int

	// ReadDelay is the longest time that bytes with a token event had been in the kernel before they were read.
	// KernelStamps tells whether it could be known (Linux).
	ReadDelay    time.Duration
	KernelStamps bool

	// Early is how much earlier than their stamps the token events may have come, by index from 0, the first; nil if
	// all stamps are exact.
	Early []time.Duration
	// SentLate is how much later than Sent the request may have left.
	SentLate time.Duration

	Model        string // the model the request named
	FinishReason string
	PromptTokens int // by the server's count; -1 where it sent none
	CachedTokens int // by the server's count; -1 where it sent none
	OutputTokens int
	TokenSource  TokenSource

	// Server holds the server's own account of this request, if it sent one.
	Server *ServerTimings
}

// ServerTimings is vLLM's per-request account of where time went (--enable-per-request-metrics).
type ServerTimings struct {
	Queue   time.Duration // from arrival in the engine to being scheduled
	Prefill time.Duration // from being scheduled to the first token
}

// OK reports whether the probe succeeded.
func (r *Result) OK() bool { return r.Reason == "" && !r.Abandoned }

// ConnectTime is how long DNS, TCP and TLS took; unknown if no connection came about.
func (r *Result) ConnectTime() (d time.Duration, known bool) {
	if r.Connected.IsZero() {
		return 0, false
	}
	return r.Connected.Sub(r.DialStart), true
}
