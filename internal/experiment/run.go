package experiment

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Run is all that was seen of an experiment: what a results directory holds.
type Run struct {
	Plan     Plan
	Facts    Facts
	Levels   []LevelRun // as many as were begun
	Requests []Request  // in the order in which they ended; none if they are Stored
	Queue    []QueueSample

	Stored *Stored  // of a run that was opened: where the requests are; nil: in Requests
	Left   *LeftOut // of a run that was read: what could not be used; nil: nothing
}

// Each tells the requests of a level, its warm-up included, in the order in which they ended. Those of a run that was
// opened are read each time, so that they need no memory but what the caller keeps of them.
func (run *Run) Each(level int) iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		if level < 0 || level >= len(run.Levels) {
			return
		}
		if run.Stored != nil {
			run.Stored.each(level, run.Left, yield)
			return
		}
		for i := range run.Requests {
			if r := &run.Requests[i]; r.Level == level && !yield(r) {
				return
			}
		}
	}
}

// Measured tells the requests of a level without its warm-up.
func (run *Run) Measured(level int) iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for r := range run.Each(level) {
			if !r.Warmup && !yield(r) {
				return
			}
		}
	}
}

// Emptied is when the server's queue was seen empty after the last request of a level was sent, and stayed so; zero
// if it was not.
func (run *Run) Emptied(level int) (at time.Time) {
	var last time.Time
	for r := range run.Measured(level) {
		if r.Sent.After(last) {
			last = r.Sent
		}
	}
	for _, s := range slices.Backward(run.Queue) {
		if s.Level != level || !s.At.After(last) || !s.Empty() {
			break
		}
		at = s.At
	}
	return at
}

// LevelRun is how a level went.
type LevelRun struct {
	Start time.Time `json:"start"`          // first request due, after the warm-up
	End   time.Time `json:"end,omitzero"`   // last answer ended
	Empty time.Time `json:"empty,omitzero"` // first sample after the last request was sent that saw nothing running and nothing waiting
	// Missed counts requests that were due and not sent, at the bound on an open loop.
	Missed int `json:"missed,omitempty"`
	// Cut says why the level ended before its time: "interrupted", "server lost"; empty: it did not.
	Cut    string `json:"cut,omitempty"`
	Client Client `json:"client"`
}

// What [LevelRun.Cut] says.
const (
	CutInterrupted = "interrupted"    // under way when the run was told to end
	CutLost        = "server lost"    // under way when the server was gone
	CutUnfit       = "not run"        // the server or the model cannot
	CutWarmup      = "warm-up failed" // nor was it run
)

// Stop is the cause to cancel a run's context with for another reason than that somebody wants it to end.
type Stop struct {
	Why string // as in [LevelRun.Cut]
	Err error
}

// Error implements error.
func (s *Stop) Error() string { return s.Why + ": " + s.Err.Error() }

// Unwrap returns the cause.
func (s *Stop) Unwrap() error { return s.Err }

// CutBy says why a context has ended; empty: it has not.
func CutBy(ctx context.Context) string {
	cause := context.Cause(ctx)
	var stop *Stop
	switch {
	case cause == nil:
		return ""
	case errors.As(cause, &stop):
		return stop.Why
	}
	return CutInterrupted
}

// Client is how the measuring process itself fared during a level.
type Client struct {
	CPUSeconds    float64 `json:"cpu_seconds"` // user and system
	MaxRSSBytes   int64   `json:"max_rss_bytes"`
	StartDelayP99 float64 `json:"start_delay_p99_seconds"`
	ReadDelayMax  float64 `json:"read_delay_max_seconds"`
	LateTTFTRatio float64 `json:"late_ttft_ratio"` // share of requests whose TTFT is withheld since we were late
	LateGapsRatio float64 `json:"late_gaps_ratio"` // share of gaps withheld
	KernelStamps  bool    `json:"kernel_stamps"`   // arrival times are the kernel's
	GoMaxProcs    int     `json:"gomaxprocs"`
	LoadAverage   float64 `json:"load_average,omitempty"` // of the machine, over the last minute, at the level's end
}

// QueueSample is what the server said of itself at one time. What it did not say is NaN.
type QueueSample struct {
	At      time.Time
	Level   int // the level under way, or the last
	Running float64
	Waiting float64

	KVUsage          float64 // 0 to 1
	PromptTokens     float64 // counters
	GenerationTokens float64
	Preemptions      float64
}

// Empty reports whether the server said that nothing was running and nothing waiting.
func (s QueueSample) Empty() bool { return s.Running == 0 && s.Waiting == 0 }

// SampleEvery is how often the queue is looked at: as the daemon does.
const SampleEvery = time.Second

// Facts are what is known of a run beside its figures, so that another can tell whether two may be compared.
type Facts struct {
	Tool    string    `json:"tool"` // name and version of the program that measured
	Host    string    `json:"host"` // operating system, architecture, processors of the client
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Virtual string    `json:"virtual,omitempty"` // the model, where it was no real server

	URL        string `json:"url,omitempty"`
	Engine     string `json:"engine,omitempty"` // vllm, sglang, …
	Version    string `json:"version,omitempty"`
	Model      string `json:"model,omitempty"`
	MaxContext int    `json:"max_model_len,omitempty"` // tokens
	// Server holds what else the server shows of its launch, such as block_size, cache_dtype, prefix_caching,
	// kv_cache_tokens.
	Server map[string]string `json:"server,omitempty"`
	// Before is the load that others put on the server just before the run.
	Before *Load `json:"load_before,omitempty"`
}

// Load is what a server was doing during some seconds, by its own count.
type Load struct {
	Seconds               float64 `json:"seconds"`
	Running               float64 `json:"running"` // mean
	Waiting               float64 `json:"waiting"` // mean
	OutputTokensPerSecond float64 `json:"output_tokens_per_second"`
	PromptTokensPerSecond float64 `json:"prompt_tokens_per_second"`
}

// String tells a load in words.
func (l *Load) String() string {
	return fmt.Sprintf("%.3g requests running and %.3g waiting, %.3g output tokens/s, over %.3g s", l.Running, l.Waiting, l.OutputTokensPerSecond, l.Seconds)
}
