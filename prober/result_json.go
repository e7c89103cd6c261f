package prober

import (
	"encoding/json"
	"time"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// resultJSON is a result as JSON. Names are stable; durations are in seconds, counted from the first byte of the
// request where nothing else is said; what is not known is absent.
type resultJSON struct {
	Target     string   `json:"target"`
	Workload   string   `json:"workload"`
	RequestID  string   `json:"request_id"`
	Success    bool     `json:"success"`
	Abandoned  bool     `json:"abandoned,omitempty"`
	Reason     Reason   `json:"reason,omitempty"`
	Error      string   `json:"error,omitempty"`
	Suspect    []string `json:"suspect,omitempty"`
	Warmup     bool     `json:"warmup,omitempty"`
	Model      string   `json:"model,omitempty"`
	RemoteAddr string   `json:"remote_address,omitempty"`
	Status     int      `json:"http_status,omitempty"`
	Body       string   `json:"body,omitempty"`

	Scheduled time.Time `json:"scheduled"`
	Started   time.Time `json:"started"`
	Sent      time.Time `json:"sent,omitzero"`

	StartDelay float64   `json:"start_delay_seconds"`
	Connect    *float64  `json:"connect_seconds,omitempty"` // DNS, TCP and TLS; before the first byte of the request
	Headers    *float64  `json:"headers_seconds,omitempty"`
	FirstToken *float64  `json:"first_token_seconds,omitempty"`
	LastToken  *float64  `json:"last_token_seconds,omitempty"`
	Ended      *float64  `json:"ended_seconds,omitempty"`
	Gaps       []float64 `json:"gaps_seconds,omitempty"`
	// Early is how much earlier token events may have come, by their index; those that are absent came then.
	Early    map[int]float64 `json:"early_seconds,omitempty"`
	SentLate float64         `json:"sent_late_seconds,omitempty"` // how much later than sent the request may have left

	TTFT     *float64 `json:"ttft_seconds,omitempty"`
	TTFA     *float64 `json:"ttfa_seconds,omitempty"`
	TPOT     *float64 `json:"tpot_seconds,omitempty"`
	Duration *float64 `json:"duration_seconds,omitempty"`

	Queue     *float64 `json:"server_queue_seconds,omitempty"`
	Prefill   *float64 `json:"server_prefill_seconds,omitempty"`
	ReadDelay *float64 `json:"read_delay_seconds,omitempty"`

	PromptTokens *int        `json:"prompt_tokens,omitempty"`
	CachedTokens *int        `json:"cached_prompt_tokens,omitempty"`
	OutputTokens int         `json:"output_tokens"`
	TokenSource  TokenSource `json:"token_source,omitempty"`
	FinishReason string      `json:"finish_reason,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r *Result) MarshalJSON() ([]byte, error) {
	j := resultJSON{
		Target: r.Target, Workload: r.Workload.Name, RequestID: r.RequestID, Success: r.OK(), Abandoned: r.Abandoned,
		Reason: r.Reason, Suspect: r.Suspect.Names(), Warmup: r.Warmup, Model: r.Model, RemoteAddr: r.RemoteAddr,
		Status: r.Status, Body: r.Body, Scheduled: r.Scheduled, Started: r.Started, Sent: r.Sent,
		StartDelay: r.StartDelay().Seconds(),
		Connect:    secondsIf(r.ConnectTime()),
		Headers:    r.sinceSent(r.Headers), FirstToken: r.sinceSent(r.FirstToken), LastToken: r.sinceSent(r.LastToken), Ended: r.sinceSent(r.Ended),
		TTFT: secondsIfSound(r.TTFT()), TTFA: secondsIfSound(r.TTFA()), TPOT: secondsIfSound(r.TPOT()), Duration: secondsIfSound(r.Duration()),
		SentLate:     r.SentLate.Seconds(),
		ReadDelay:    secondsIf(r.ReadDelay, r.KernelStamps),
		PromptTokens: countIf(r.PromptTokens), CachedTokens: countIf(r.CachedTokens),
		OutputTokens: r.OutputTokens, TokenSource: r.TokenSource, FinishReason: r.FinishReason,
	}
	if r.Err != nil {
		j.Error = scrub.Text(r.Err.Error(), maxBody)
	}
	for _, gap := range r.Gaps {
		j.Gaps = append(j.Gaps, gap.Seconds())
	}
	for i, early := range r.Early {
		if early > 0 {
			if j.Early == nil {
				j.Early = make(map[int]float64)
			}
			j.Early[i] = early.Seconds()
		}
	}
	if r.Server != nil {
		j.Queue, j.Prefill = secondsIf(r.Server.Queue, true), secondsIf(r.Server.Prefill, true)
	}
	return json.Marshal(j)
}

// sinceSent is nil for what did not happen, or happened when nothing had been sent.
func (r *Result) sinceSent(t time.Time) *float64 {
	return secondsIf(t.Sub(r.Sent), !t.IsZero() && !r.Sent.IsZero())
}

// secondsIfSound is nil for a latency that is not known well enough to be recorded.
func secondsIfSound(l Latency, known bool) *float64 { return secondsIf(l.Value, known && l.Sound()) }

func secondsIf(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	s := d.Seconds()
	return &s
}

func countIf(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
