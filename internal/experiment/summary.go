package experiment

import (
	"encoding/json"
	"math"
)

// Summary is the figures of a run. Latencies are in seconds.
type Summary struct {
	Levels    []LevelSummary `json:"levels"`
	Operating []Operating    `json:"operating_points,omitempty"` // one for each load curve
	Left      *LeftOut       `json:"left_out,omitempty"`         // lines of the results that are in no figure; nil: none
}

// Figure is a figure that may be unknown: then it is NaN, in JSON null and in CSV empty.
type Figure float64

// Known reports whether the figure is known.
func (f Figure) Known() bool { return !math.IsNaN(float64(f)) }

// MarshalJSON implements json.Marshaler.
func (f Figure) MarshalJSON() ([]byte, error) {
	if !f.Known() || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(f))
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *Figure) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*f = Figure(math.NaN())
		return nil
	}
	return json.Unmarshal(data, (*float64)(f))
}

// Estimate is a figure with its 95 % confidence interval. A bound that the data do not give is NaN, in JSON null:
// the p99 of 100 requests has no upper one.
type Estimate struct {
	Value Figure `json:"value"`
	Low   Figure `json:"low"`
	High  Figure `json:"high"`
	// Least and Most are what the figure of these very requests is at least and at most, since the times of tokens that
	// were read late are known with an error. The interval includes that error.
	Least Figure `json:"least"`
	Most  Figure `json:"most"`
}

// Distribution describes one latency.
type Distribution struct {
	Count int      `json:"count"`
	Mean  Estimate `json:"mean"`
	P50   Estimate `json:"p50"`
	P90   Estimate `json:"p90"`
	P95   Estimate `json:"p95"`
	P99   Estimate `json:"p99"`
	Min   Figure   `json:"min"`
	Max   Figure   `json:"max"`
}

// LevelSummary is the figures of one level. Warm-up is in none of them.
type LevelSummary struct {
	Index int   `json:"index"`
	Level Level `json:"level"`

	// In the order in which they should be looked at.
	Requests int            `json:"requests"` // ended, whatever the outcome
	Failed   int            `json:"failed"`
	Missed   int            `json:"missed,omitempty"`
	Reasons  map[string]int `json:"failures,omitempty"` // by reason
	Suspects map[string]int `json:"suspect,omitempty"`  // by reason

	PromptTokens Figure `json:"prompt_tokens_mean"`
	OutputTokens Figure `json:"output_tokens_mean"`
	CachedTokens Figure `json:"cached_prompt_tokens_mean"` // NaN where the server does not count

	TTFT             Distribution `json:"ttft_seconds"`
	TTFTFromSchedule Distribution `json:"ttft_from_schedule_seconds"`
	ITL              Distribution `json:"itl_seconds"`
	TPOT             Distribution `json:"tpot_seconds"`
	Duration         Distribution `json:"duration_seconds"`

	// OutputRate is the output tokens of all successes over the time from the first request sent to the last token,
	// ramp and drain included, as other clients report it. SteadyRate counts only while the level was full and settled:
	// from the end of its first wave (one mean duration in an open loop) to when the last request was sent.
	OutputRate  Estimate `json:"output_tokens_per_second"`
	SteadyRate  Estimate `json:"steady_output_tokens_per_second"`
	RequestRate Figure   `json:"requests_per_second"`
	// Goodput is the requests a second that held every objective by themselves; NaN without objectives.
	Goodput Figure `json:"goodput_requests_per_second"`
	// Verdicts are on the plan's objectives, in their order.
	Verdicts []Verdict `json:"objectives,omitempty"`

	InFlight    Figure `json:"in_flight_mean"` // requests, while the level was full and settled
	PeakRunning Figure `json:"peak_running"`   // by the server's gauges; NaN if unknown
	PeakWaiting Figure `json:"peak_waiting"`
	// Drain is the time from the last request sent to the last answer's end, in seconds.
	Drain Figure `json:"drain_seconds"`

	Client Client  `json:"client"`
	Doubts []Doubt `json:"doubts,omitempty"` // empty: the level is to be trusted
	Notes  []Doubt `json:"notes,omitempty"`  // findings that do not make the figures wrong
}

// Verdict is whether a level holds an objective. For it a request that failed, or was due and not sent, is slower
// than any bound, so the estimate may be above the same percentile of the successes, and infinite (in JSON null).
type Verdict struct {
	Objective Objective `json:"objective"` // in JSON as "ttft_p95=1s"
	Estimate  Estimate  `json:"estimate_seconds"`
	Held      bool      `json:"held"` // false also where the figure is unknown
	Sure      bool      `json:"sure"` // the whole interval says so
}

// Doubt is a reason not to trust a level, or a finding about it.
type Doubt struct {
	Kind string `json:"kind"` // one of the kinds of package analyze
	Text string `json:"text"` // with the figures, and what to do
}

// Operating is the operating point on one load curve: levels that differ in their load alone.
type Operating struct {
	Curve      string   `json:"curve"`      // "closed loop, 512+128"
	Levels     []int    `json:"levels"`     // indices of its levels, by rising load
	Objectives []string `json:"objectives"` // as given: "ttft_p95=1s"

	// Best is the index of the highest level that holds every objective, with all levels below it; -1: none does.
	Best int `json:"best"`
	// Sure: the confidence intervals hold them as well.
	Sure bool `json:"sure"`
	// Bracketed: a higher level was measured that does not hold. Without it there is no ceiling to name.
	Bracketed bool `json:"bracketed"`
	// Next is the load to measure next to know more; empty: the bracket is narrow enough.
	Next string `json:"next,omitempty"`
	// Knee is the index of the level from which on more load brings next to no more throughput; -1: throughput was
	// still rising at the highest level.
	Knee int `json:"knee"`
	// Peak is the highest output rate of all levels, tokens a second.
	Peak Estimate `json:"peak_output_tokens_per_second"`
	// Headroom is what remains above the load that the server had before the run; nil if that is not known.
	Headroom *Headroom `json:"headroom,omitempty"`
	// Text says all of it in a few sentences.
	Text string `json:"text"`
}

// Headroom compares the load that a server has with its operating point.
type Headroom struct {
	Today Load   `json:"today"`
	Used  Figure `json:"used_ratio"` // of the output rate at the operating point
}

// Unknown is an estimate of which nothing is known.
func Unknown() Estimate {
	nan := Figure(math.NaN())
	return Estimate{nan, nan, nan, nan, nan}
}
