package experiment

import (
	"fmt"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// Plan is a finite experiment: levels of load, one after another. A zero value of a field means none, not a
// default.
type Plan struct {
	Name   string  // of the results directory
	Levels []Level // in the order in which they are run
	Warmup int     // requests before each level that measure nothing

	Timeout      time.Duration // of one request, connecting included
	StallTimeout time.Duration // without a token, once the first has come
	// Settle bounds the wait, after a level, for the server's queue to drain.
	Settle time.Duration
	Seed   uint64 // of Poisson arrivals; the request's own seed is the workload's

	SLOs []Objective // what the operating point must hold
}

// WarmupAtOnce is how many requests of a level's warm-up are in flight at a time: no more than the level has.
func (p *Plan) WarmupAtOnce(l Level) int {
	if l.Closed() {
		return min(p.Warmup, l.Concurrency)
	}
	return p.Warmup
}

// Level is one load: a closed loop if Concurrency is set, an open one if Rate is.
type Level struct {
	// Concurrency is how many requests are in flight at any time: an answer's end sends the next request.
	Concurrency int
	// Rate is how many requests a second are sent, whatever becomes of those before.
	Rate    float64
	Arrival prober.Arrival // of an open loop
	// MaxInFlight bounds an open loop: at so many, a request that is due is missed and counted. 0: no bound.
	MaxInFlight int

	PromptTokens int
	OutputTokens int

	// The level ends when Requests have been sent, or when Duration has passed since the first; what is in flight
	// then is waited for. One of the two may be 0, for no such limit.
	Requests int
	Duration time.Duration
}

// Closed reports whether the level is a closed loop.
func (l Level) Closed() bool { return l.Concurrency > 0 }

// Load names the load of a level: "c=64" of a closed loop, "8/s" of an open one.
func (l Level) Load() string {
	if l.Closed() {
		return fmt.Sprintf("c=%d", l.Concurrency)
	}
	return fmt.Sprintf("%g/s", l.Rate)
}

// Shape names the request of a level: "512+128" for its prompt and output tokens.
func (l Level) Shape() string { return fmt.Sprintf("%d+%d", l.PromptTokens, l.OutputTokens) }

// String names a level whole, as "c=64, 512+128".
func (l Level) String() string { return l.Load() + ", " + l.Shape() }

// Objective is a bound on a percentile of a latency, as "ttft_p95=1s".
type Objective struct {
	Indicator Indicator
	Quantile  float64 // 0.95 of p95
	Threshold time.Duration
}

// Indicator is a latency that an objective can bound.
type Indicator string

// The latencies, as docs/definitions.md defines them.
const (
	TTFT     Indicator = "ttft"
	ITL      Indicator = "itl" // over all gaps of all requests
	TPOT     Indicator = "tpot"
	Duration Indicator = "duration"
	// TTFTFromSchedule counts from when the request was due instead of when it was sent, so that a client or a
	// server that holds requests back cannot hide it.
	TTFTFromSchedule Indicator = "ttft_from_schedule"
)
