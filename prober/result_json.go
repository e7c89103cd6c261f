package prober

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/bound"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// ResultJSON is the one JSON form of a [Result]: that of `probetool probe --json`, of the lines of requests.jsonl and of
// the API's results, which add fields of their own. Names are stable. Times are RFC 3339 in UTC on the wall clock as it
// was set at the start of the probe, durations are in seconds, both to the microsecond. What did not happen or is not
// known is absent.
type ResultJSON struct {
	Target     string   `json:"target,omitempty"`
	Workload   string   `json:"workload,omitempty"`
	RequestID  string   `json:"request_id"`
	Warmup     bool     `json:"warmup,omitempty"`
	Success    bool     `json:"success"` // derived: no reason and not abandoned
	Reason     Reason   `json:"reason,omitempty"`
	Error      string   `json:"error,omitempty"`
	Abandoned  bool     `json:"abandoned,omitempty"`
	Suspect    []string `json:"suspect,omitempty"`
	Status     int      `json:"http_status,omitempty"`
	Body       string   `json:"body,omitempty"`
	RemoteAddr string   `json:"remote_address,omitempty"`
	Model      string   `json:"model,omitempty"`

	Scheduled     time.Time `json:"scheduled"`
	Started       time.Time `json:"started"`
	DialStart     time.Time `json:"dial_start,omitzero"`
	Connected     time.Time `json:"connected,omitzero"`
	Sent          time.Time `json:"sent,omitzero"`
	Headers       time.Time `json:"headers,omitzero"`
	FirstToken    time.Time `json:"first_token,omitzero"`
	FirstAnswer   time.Time `json:"first_answer,omitzero"`
	LastToken     time.Time `json:"last_token,omitzero"`
	Ended         time.Time `json:"ended"`
	CertExpiry    time.Time `json:"certificate_expiry,omitzero"`
	CertNotBefore time.Time `json:"certificate_not_before,omitzero"`

	AnswerToken int       `json:"answer_token,omitempty"` // index of the event at first_answer
	Gaps        []float64 `json:"gaps_seconds,omitempty"`
	// Early is how much earlier than their stamps token events may have come, by their index from 0; those that are
	// absent have exact stamps. SentLate is how much later than sent the request may have left.
	Early     map[int]float64 `json:"early_seconds,omitempty"`
	SentLate  float64         `json:"sent_late_seconds,omitempty"`
	ReadDelay *float64        `json:"read_delay_seconds,omitempty"`

	// Derived from the above; absent where they are not known, or not well enough to be recorded. Not read.
	StartDelay float64  `json:"start_delay_seconds"`
	Connect    *float64 `json:"connect_seconds,omitempty"`
	TTFT       *float64 `json:"ttft_seconds,omitempty"`
	TTFA       *float64 `json:"ttfa_seconds,omitempty"`
	TPOT       *float64 `json:"tpot_seconds,omitempty"`
	Duration   *float64 `json:"duration_seconds,omitempty"`

	PromptTokens *int        `json:"prompt_tokens,omitempty"`
	CachedTokens *int        `json:"cached_prompt_tokens,omitempty"`
	OutputTokens int         `json:"output_tokens"`
	FirstTokens  int         `json:"first_tokens,omitempty"`
	TokenSource  TokenSource `json:"token_source,omitempty"`
	FinishReason string      `json:"finish_reason,omitempty"`
	Queue        *float64    `json:"server_queue_seconds,omitempty"`
	Prefill      *float64    `json:"server_prefill_seconds,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r *Result) MarshalJSON() ([]byte, error) { return json.Marshal(r.JSON()) }

// UnmarshalJSON implements json.Unmarshaler. The error says what cannot have been measured.
func (r *Result) UnmarshalJSON(data []byte) error {
	var j ResultJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	read, err := j.Result()
	if err == nil {
		*r = *read
	}
	return err
}

// OnClock puts every time of the probe on the wall clock as it was set at a moment, whatever became of it later: in UTC
// and without monotonic readings, so that their differences stay what they were once they have been written.
func (r *Result) OnClock(set time.Time) {
	probe := *r.Probe
	r.Probe = &probe
	for _, t := range []*time.Time{
		&r.Scheduled, &r.Started, &r.DialStart, &r.Connected, &r.Sent, &r.Headers, &r.FirstToken, &r.FirstAnswer, &r.LastToken, &r.Ended,
	} {
		if !t.IsZero() {
			*t = set.Add(t.Sub(set)).Round(0).UTC()
		}
	}
}

// JSON is the result's JSON form.
func (r *Result) JSON() ResultJSON {
	at := *r
	at.OnClock(r.Started)
	j := ResultJSON{
		Target: r.Target, RequestID: r.RequestID, Warmup: r.Warmup, Success: r.OK(), Reason: r.Reason, Abandoned: r.Abandoned,
		Suspect: r.Suspect.Names(), Status: r.Status, Body: r.Body, RemoteAddr: r.RemoteAddr, Model: r.Model,
		Scheduled: whole(at.Scheduled), Started: whole(at.Started), DialStart: whole(at.DialStart), Connected: whole(at.Connected),
		Sent: whole(at.Sent), Headers: whole(at.Headers), FirstToken: whole(at.FirstToken), FirstAnswer: whole(at.FirstAnswer),
		LastToken: whole(at.LastToken), Ended: whole(at.Ended), CertExpiry: whole(r.CertExpiry.UTC()), CertNotBefore: whole(r.CertNotBefore.UTC()),
		AnswerToken: r.AnswerToken, SentLate: inSeconds(r.SentLate), ReadDelay: secondsIf(r.ReadDelay, r.KernelStamps),
		StartDelay: inSeconds(r.StartDelay()), Connect: secondsIf(r.ConnectTime()),
		TTFT: secondsIfSound(r.TTFT()), TTFA: secondsIfSound(r.TTFA()), TPOT: secondsIfSound(r.TPOT()), Duration: secondsIfSound(r.Duration()),
		PromptTokens: countIf(r.PromptTokens), CachedTokens: countIf(r.CachedTokens), OutputTokens: r.OutputTokens,
		FirstTokens: r.FirstTokens, TokenSource: r.TokenSource, FinishReason: r.FinishReason,
	}
	if r.Workload != nil {
		j.Workload = r.Workload.Name
	}
	if r.Err != nil {
		j.Error = scrub.Text(r.Err.Error(), maxBody)
	}
	if len(r.Gaps) > 0 {
		j.Gaps = make([]float64, len(r.Gaps))
	}
	for i, gap := range r.Gaps {
		j.Gaps[i] = inSeconds(gap)
	}
	for i, early := range r.Early {
		if early = early.Round(time.Microsecond); early > 0 {
			if j.Early == nil {
				j.Early = make(map[int]float64)
			}
			j.Early[i] = inSeconds(early)
		}
	}
	if r.Server != nil {
		j.Queue, j.Prefill = secondsIf(r.Server.Queue, true), secondsIf(r.Server.Prefill, true)
	}
	return j
}

// Result is what the form was made of. Of the workload only the name is known. The error says what cannot have been
// measured: every number of a file passes its bounds here.
func (j *ResultJSON) Result() (*Result, error) {
	if err := j.plausible(); err != nil {
		return nil, err
	}
	r := &Result{
		Probe: &Probe{
			Target: scrub.Text(j.Target, maxBody), Workload: &Workload{Name: scrub.Text(j.Workload, maxBody)}, RequestID: scrub.Text(j.RequestID, maxBody),
			Warmup: j.Warmup, Scheduled: j.Scheduled, Started: j.Started,
		},
		Reason: Reason(scrub.Text(string(j.Reason), maxFinish)), Abandoned: j.Abandoned, Status: j.Status, Body: scrub.Text(j.Body, maxBody),
		RemoteAddr: scrub.Text(j.RemoteAddr, maxBody), Model: scrub.Text(j.Model, maxBody), CertExpiry: j.CertExpiry, CertNotBefore: j.CertNotBefore,
		DialStart: j.DialStart, Connected: j.Connected, Sent: j.Sent, Headers: j.Headers, FirstToken: j.FirstToken,
		FirstAnswer: j.FirstAnswer, AnswerToken: j.AnswerToken, LastToken: j.LastToken, Ended: j.Ended,
		FirstTokens: j.FirstTokens, SentLate: duration(j.SentLate), KernelStamps: j.ReadDelay != nil, ReadDelay: duration(orZero(j.ReadDelay)),
		FinishReason: scrub.Text(j.FinishReason, maxFinish), PromptTokens: orUnknown(j.PromptTokens), CachedTokens: orUnknown(j.CachedTokens),
		OutputTokens: j.OutputTokens, TokenSource: TokenSource(scrub.Text(string(j.TokenSource), maxFinish)),
	}
	if j.Error != "" {
		r.Err = errors.New(scrub.Text(j.Error, maxBody))
	}
	for _, name := range j.Suspect {
		i := slices.Index(suspectNames[:], name)
		if i < 0 {
			return nil, fmt.Errorf("suspect has %q, which is no reason to doubt", scrub.Text(name, maxFinish))
		}
		r.Suspect |= 1 << i
	}
	if len(j.Gaps) > 0 {
		r.Gaps = make([]time.Duration, len(j.Gaps))
	}
	for i, gap := range j.Gaps {
		r.Gaps[i] = duration(gap)
	}
	if len(j.Early) > 0 {
		r.Early = make([]time.Duration, len(j.Gaps)+1)
	}
	for token, early := range j.Early {
		r.Early[token] = duration(early)
	}
	if j.Queue != nil || j.Prefill != nil {
		r.Server = &ServerTimings{Queue: duration(orZero(j.Queue)), Prefill: duration(orZero(j.Prefill))}
	}
	return r, nil
}

// The bounds of what can be measured of one probe.
const (
	mostTokens  = 1 << 24 // no model has so long a context
	mostSeconds = 1e8     // three years
	// clockSlack is by how much two clocks may disagree: the kernel stamps what arrives, the process what it sends.
	clockSlack = time.Millisecond
)

// plausible refuses what cannot have been measured.
func (j *ResultJSON) plausible() error {
	if j.Scheduled.IsZero() || j.Started.IsZero() || j.Ended.IsZero() {
		return errors.New("it has no time of scheduled, started or ended")
	}
	if j.Reason == "" && !j.Abandoned && !j.Warmup && (j.Sent.IsZero() || j.FirstToken.IsZero() || j.LastToken.IsZero()) {
		return errors.New("it succeeded without a time of sent, first_token or last_token")
	}
	for _, order := range [][]bound.Moment{
		{
			{Name: "started", At: j.Started},
			{Name: "dial_start", At: j.DialStart},
			{Name: "connected", At: j.Connected},
			{Name: "sent", At: j.Sent},
			{Name: "first_token", At: j.FirstToken},
			{Name: "first_answer", At: j.FirstAnswer},
			{Name: "last_token", At: j.LastToken},
			{Name: "ended", At: j.Ended},
		},
		{{Name: "started", At: j.Started}, {Name: "headers", At: j.Headers}, {Name: "ended", At: j.Ended}},
		{{Name: "scheduled", At: j.Scheduled}},
	} {
		if err := bound.InOrder(clockSlack, order...); err != nil {
			return err
		}
	}
	return j.plausibleNumbers()
}

func (j *ResultJSON) plausibleNumbers() error {
	took := j.Ended.Sub(j.Started).Seconds()
	longest := took + clockSlack.Seconds()
	err := bound.Quantities(
		bound.Quantity{Name: "http_status", Value: float64(j.Status), Low: 0, High: 999},
		bound.Quantity{Name: "answer_token", Value: float64(j.AnswerToken), Low: 0, High: float64(len(j.Gaps))},
		bound.Quantity{Name: "first_tokens", Value: float64(j.FirstTokens), Low: 0, High: mostTokens},
		bound.Quantity{Name: "output_tokens", Value: float64(j.OutputTokens), Low: 0, High: mostTokens},
		bound.Quantity{Name: "prompt_tokens", Value: float64(orUnknown(j.PromptTokens)), Low: -1, High: mostTokens},
		bound.Quantity{Name: "cached_prompt_tokens", Value: float64(orUnknown(j.CachedTokens)), Low: -1, High: mostTokens},
		bound.Quantity{Name: "server_queue_seconds", Value: orZero(j.Queue), Low: 0, High: mostSeconds},
		bound.Quantity{Name: "server_prefill_seconds", Value: orZero(j.Prefill), Low: 0, High: mostSeconds},
		bound.Quantity{Name: "read_delay_seconds", Value: orZero(j.ReadDelay), Low: 0, High: mostSeconds},
		bound.Quantity{Name: "started - scheduled", Value: j.Started.Sub(j.Scheduled).Seconds(), Low: -mostSeconds, High: mostSeconds},
		bound.Quantity{Name: "ended - started", Value: took, Low: -clockSlack.Seconds(), High: mostSeconds},
		bound.Quantity{Name: "sent_late_seconds", Value: j.SentLate, Low: 0, High: max(0, longest)},
	)
	for _, gap := range j.Gaps {
		if err == nil {
			err = bound.Quantities(bound.Quantity{Name: "a gap", Value: gap, Low: 0, High: longest})
		}
	}
	for token, early := range j.Early {
		if err == nil {
			err = bound.Quantities(
				bound.Quantity{Name: "a token of early_seconds", Value: float64(token), Low: 0, High: float64(len(j.Gaps))},
				bound.Quantity{Name: "a time of early_seconds", Value: early, Low: 0, High: longest},
			)
		}
	}
	return err
}

// whole is a time to the microsecond.
func whole(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Round(time.Microsecond)
}

// inSeconds is a duration in seconds, to the microsecond, so that a line of gaps stays short.
func inSeconds(d time.Duration) float64 {
	return float64(d.Round(time.Microsecond).Microseconds()) / 1e6
}

// duration undoes inSeconds.
func duration(s float64) time.Duration {
	return time.Duration(math.Round(s*1e6)) * time.Microsecond
}

// secondsIfSound is nil for a latency that is not known well enough to be recorded.
func secondsIfSound(l Latency, known bool) *float64 { return secondsIf(l.Value, known && l.Sound()) }

func secondsIf(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	s := inSeconds(d)
	return &s
}

func countIf(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}

func orZero(s *float64) float64 {
	if s == nil {
		return 0
	}
	return *s
}

func orUnknown(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}
