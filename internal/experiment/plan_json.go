package experiment

import (
	"encoding/json"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// planJSON is a plan as run.json has it; durations are in seconds.
type planJSON struct {
	Name         string      `json:"name"`
	Warmup       int         `json:"warmup"`
	Timeout      float64     `json:"timeout_seconds"`
	StallTimeout float64     `json:"stall_timeout_seconds"`
	Settle       float64     `json:"settle_seconds"`
	Seed         uint64      `json:"seed"`
	SLOs         []Objective `json:"slos,omitempty"`
	Levels       []Level     `json:"levels"`
}

// MarshalJSON implements json.Marshaler.
func (p Plan) MarshalJSON() ([]byte, error) {
	return json.Marshal(planJSON{p.Name, p.Warmup, p.Timeout.Seconds(), p.StallTimeout.Seconds(), p.Settle.Seconds(), p.Seed, p.SLOs, p.Levels})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Plan) UnmarshalJSON(data []byte) error {
	var j planJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*p = Plan{j.Name, j.Levels, j.Warmup, fromSeconds(j.Timeout), fromSeconds(j.StallTimeout), fromSeconds(j.Settle), j.Seed, j.SLOs}
	return nil
}

// levelJSON is a level as run.json and summary.json have it.
type levelJSON struct {
	Concurrency  int            `json:"concurrency,omitempty"`
	Rate         float64        `json:"rate,omitempty"` // requests a second
	Arrival      prober.Arrival `json:"arrival,omitempty"`
	MaxInFlight  int            `json:"max_in_flight,omitempty"`
	PromptTokens int            `json:"prompt_tokens"`
	OutputTokens int            `json:"output_tokens"`
	Requests     int            `json:"requests,omitempty"`
	Duration     float64        `json:"duration_seconds,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (l Level) MarshalJSON() ([]byte, error) {
	return json.Marshal(levelJSON{l.Concurrency, l.Rate, l.Arrival, l.MaxInFlight, l.PromptTokens, l.OutputTokens, l.Requests, l.Duration.Seconds()})
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Level) UnmarshalJSON(data []byte) error {
	var j levelJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*l = Level{j.Concurrency, j.Rate, j.Arrival, j.MaxInFlight, j.PromptTokens, j.OutputTokens, j.Requests, fromSeconds(j.Duration)}
	return nil
}

// fromSeconds is a duration of so many, to the nanosecond.
func fromSeconds(s float64) time.Duration { return time.Duration(s*1e9 + 0.5) }
