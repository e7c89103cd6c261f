package experiment

import (
	"fmt"
	"math"

	"github.com/llm-prober/llm_prober/internal/bound"
)

// Numbers of stored files have passed through other hands. They come in here, those of requests through
// [prober.ResultJSON]: what is not finite, negative where that
// means nothing, or larger than anything that can be measured is refused, so that no figure is made of it.

// The bounds of what can be measured.
const (
	mostTokens  = 1 << 24 // of a request; no model has so long a context
	mostSeconds = 1e8     // three years
	mostCount   = 1 << 40
	mostLevels  = 10_000
	mostRate    = 1e9 // a second
)

// plausible refuses a sample that no server can have shown. NaN is what it did not show.
func (s *QueueSample) plausible(levels int) error {
	if err := bound.InOrder(0, bound.Moment{Name: "time", At: s.At}); err != nil {
		return err
	}
	all := []bound.Quantity{{Name: "level", Value: float64(s.Level), Low: 0, High: float64(levels - 1)}}
	for i, v := range s.values() {
		if !math.IsNaN(*v) {
			all = append(all, bound.Quantity{Name: queueColumns()[3+i], Value: *v, Low: 0, High: 1e18})
		}
	}
	return bound.Quantities(all...)
}

// plausible refuses a run.json that no run has written.
func (j *runJSON) plausible() error {
	if j.Version > FormVersion {
		return fmt.Errorf("it is of version %d, and this program knows %d", j.Version, FormVersion)
	}
	if len(j.Levels) > len(j.Plan.Levels) || len(j.Plan.Levels) > mostLevels {
		return fmt.Errorf("%d levels were begun of the plan's %d; it has at most %d", len(j.Levels), len(j.Plan.Levels), mostLevels)
	}
	for i, l := range j.Plan.Levels {
		if err := l.plausible(); err != nil {
			return fmt.Errorf("level %d of the plan: %w", i, err)
		}
	}
	for i, l := range j.Levels {
		if err := l.plausible(); err != nil {
			return fmt.Errorf("level %d: %w", i, err)
		}
	}
	b := j.Facts.Before
	if b == nil {
		b = &Load{}
	}
	p := &j.Plan
	return bound.Quantities(
		bound.Quantity{Name: "warmup", Value: float64(p.Warmup), Low: 0, High: mostCount},
		bound.Quantity{Name: "timeout_seconds", Value: p.Timeout.Seconds(), Low: 0, High: mostSeconds},
		bound.Quantity{Name: "stall_timeout_seconds", Value: p.StallTimeout.Seconds(), Low: 0, High: mostSeconds},
		bound.Quantity{Name: "settle_seconds", Value: p.Settle.Seconds(), Low: 0, High: mostSeconds},
		bound.Quantity{Name: "max_model_len", Value: float64(j.Facts.MaxContext), Low: 0, High: mostCount},
		bound.Quantity{Name: "load_before.seconds", Value: b.Seconds, Low: 0, High: mostSeconds},
		bound.Quantity{Name: "load_before.running", Value: b.Running, Low: 0, High: mostCount},
		bound.Quantity{Name: "load_before.waiting", Value: b.Waiting, Low: 0, High: mostCount},
		bound.Quantity{Name: "load_before.output_tokens_per_second", Value: b.OutputTokensPerSecond, Low: 0, High: mostCount},
		bound.Quantity{Name: "load_before.prompt_tokens_per_second", Value: b.PromptTokensPerSecond, Low: 0, High: mostCount},
	)
}

func (l Level) plausible() error {
	return bound.Quantities(
		bound.Quantity{Name: "concurrency", Value: float64(l.Concurrency), Low: 0, High: mostCount},
		bound.Quantity{Name: "rate", Value: l.Rate, Low: 0, High: mostRate},
		bound.Quantity{Name: "max_in_flight", Value: float64(l.MaxInFlight), Low: 0, High: mostCount},
		bound.Quantity{Name: "prompt_tokens", Value: float64(l.PromptTokens), Low: 0, High: mostTokens},
		bound.Quantity{Name: "output_tokens", Value: float64(l.OutputTokens), Low: 0, High: mostTokens},
		bound.Quantity{Name: "requests", Value: float64(l.Requests), Low: 0, High: mostCount},
		bound.Quantity{Name: "duration_seconds", Value: l.Duration.Seconds(), Low: 0, High: mostSeconds},
	)
}

func (l *LevelRun) plausible() error {
	for _, m := range []bound.Moment{{Name: "start", At: l.Start}, {Name: "end", At: l.End}, {Name: "empty", At: l.Empty}} {
		if err := bound.InOrder(0, m); err != nil {
			return err
		}
	}
	c := &l.Client
	return bound.Quantities(
		bound.Quantity{Name: "missed", Value: float64(l.Missed), Low: 0, High: mostCount},
		bound.Quantity{Name: "cpu_seconds", Value: c.CPUSeconds, Low: 0, High: mostCount},
		bound.Quantity{Name: "max_rss_bytes", Value: float64(c.MaxRSSBytes), Low: 0, High: math.MaxInt64},
		bound.Quantity{Name: "start_delay_p99_seconds", Value: c.StartDelayP99, Low: -mostSeconds, High: mostSeconds},
		bound.Quantity{Name: "read_delay_max_seconds", Value: c.ReadDelayMax, Low: 0, High: mostSeconds},
		bound.Quantity{Name: "late_ttft_ratio", Value: c.LateTTFTRatio, Low: 0, High: 1},
		bound.Quantity{Name: "late_gaps_ratio", Value: c.LateGapsRatio, Low: 0, High: 1},
		bound.Quantity{Name: "gomaxprocs", Value: float64(c.GoMaxProcs), Low: 0, High: mostCount},
		bound.Quantity{Name: "load_average", Value: c.LoadAverage, Low: 0, High: mostCount},
	)
}
