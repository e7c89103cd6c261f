package model

import (
	"context"
	"fmt"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// Two articles measured Qwen3.5-4B on one A10 under vLLM 0.27 with EvalScope 1.9.1, and asked the questions that this
// project began with. They are its seeds: their experiments are plans here, and their figures a table, so that the
// model of a server can be held against a real one.

// SeedTurnaround is what EvalScope is taken to need from an answer's end to its next request: TTFT and rate at one
// request at a time leave a few milliseconds of each 2.6 s.
const SeedTurnaround = 8 * time.Millisecond

// seedArrivals is the seed of the arrivals. They decide how long the queue gets near the limit: of sixteen seeds, the
// drain at 8 requests/s lasts from 10 to 25 s. This one is near the article's.
const seedArrivals = 10

// SeedExperiment is an experiment of the articles.
type SeedExperiment struct {
	Name string
	Plan experiment.Plan
	rows []seedRow
}

// SeedResult is such an experiment on a model.
type SeedResult struct {
	Name    string
	Run     *experiment.Run
	Summary experiment.Summary
	Rows    []SeedRow
}

// SeedRow is a published figure beside the model's.
type SeedRow struct {
	Level     experiment.Level  `json:"level"`
	Figure    string            `json:"figure"` // "TTFT p50"
	Unit      string            `json:"unit"`   // "s", "tok/s" or "requests"
	Published float64           `json:"published"`
	Ours      experiment.Figure `json:"ours"`
	Tolerance float64           `json:"tolerance"`        // how far off the ratio may be, 0.1 of 10 %; 0 where the article gives no figure but a word
	Remark    string            `json:"remark,omitempty"` // the article's word, or why the figure is what it is
}

// Ratio is ours over the published figure; NaN or infinite where that is 0.
func (r SeedRow) Ratio() float64 { return float64(r.Ours) / r.Published }

// seedRow is where a published figure is found in a summary.
type seedRow struct {
	level     int
	published float64
	figure    seedFigure
	remark    string
}

// seedFigure is a figure that the articles give.
type seedFigure struct {
	name, unit string
	tolerance  float64
	of         func(experiment.LevelSummary) experiment.Figure
}

// measured is how close the model must come to a figure.
const measured = 0.1

// The figures of the articles.
func outputRate() seedFigure {
	return seedFigure{"output tokens a second", "tok/s", measured, func(l experiment.LevelSummary) experiment.Figure { return l.OutputRate.Value }}
}

func ttft50() seedFigure {
	return seedFigure{"TTFT p50", "s", measured, func(l experiment.LevelSummary) experiment.Figure { return l.TTFT.P50.Value }}
}

func ttft95() seedFigure {
	return seedFigure{"TTFT p95", "s", measured, func(l experiment.LevelSummary) experiment.Figure { return l.TTFT.P95.Value }}
}

func itl50() seedFigure {
	return seedFigure{"ITL p50", "s", measured, func(l experiment.LevelSummary) experiment.Figure { return l.ITL.P50.Value }}
}

func itl95() seedFigure {
	return seedFigure{"ITL p95", "s", measured, func(l experiment.LevelSummary) experiment.Figure { return l.ITL.P95.Value }}
}

func duration50() seedFigure {
	return seedFigure{"duration p50", "s", measured, func(l experiment.LevelSummary) experiment.Figure { return l.Duration.P50.Value }}
}

func drain() seedFigure {
	return seedFigure{"drain after the last request", "s", measured, func(l experiment.LevelSummary) experiment.Figure { return l.Drain }}
}

func peakRunning() seedFigure {
	return seedFigure{"most running", "requests", measured, func(l experiment.LevelSummary) experiment.Figure { return l.PeakRunning }}
}

func peakWaiting() seedFigure {
	return seedFigure{"most waiting", "requests", measured, func(l experiment.LevelSummary) experiment.Figure { return l.PeakWaiting }}
}

// SeedExperiments lists the experiments of the articles, each with the options that they give.
func SeedExperiments() []SeedExperiment {
	return []SeedExperiment{seedConcurrency(), seedPromptLength(), seedOutputLength(), seedArrivalRate()}
}

func seedPlan(name string, warmup int, levels ...experiment.Level) experiment.Plan {
	return experiment.Plan{
		Name: name, Levels: levels, Warmup: warmup, Seed: seedArrivals,
		Timeout: 120 * time.Second, Settle: 2 * time.Minute,
	}
}

func seedConcurrency() SeedExperiment {
	var levels []experiment.Level
	for c := 1; c <= 256; c *= 2 {
		levels = append(levels, experiment.Level{Concurrency: c, PromptTokens: 512, OutputTokens: 128, Requests: 2048, Duration: 120 * time.Second})
	}
	const one, sixtyFour, most, tooMany = 0, 6, 7, 8 // indices of 1, 64, 128 and 256
	return SeedExperiment{"concurrency", seedPlan("concurrency", 5, levels...), []seedRow{
		{one, 49, outputRate(), ""},
		{one, 0.091, ttft50(), ""},
		{one, 0.0198, itl50(), ""},
		{sixtyFour, 855, outputRate(), ""},
		{sixtyFour, 0.872, ttft50(), "three steps of prefill: the one under way, the one composed, its own"},
		{most, 890, outputRate(), ""},
		{most, 2.18, ttft50(), ""},
		{most, 8.29, ttft95(), ""},
		{most, 0.055, itl50(), ""},
		{tooMany, 877, outputRate(), ""},
		{tooMany, 19.0, ttft50(), ""},
		{tooMany, 25.4, ttft95(), ""},
		{tooMany, 0.055, itl50(), ""},
		{tooMany, 0.317, itl95(), ""},
	}}
}

func seedPromptLength() SeedExperiment {
	var levels []experiment.Level
	for _, tokens := range []int{128, 512, 1024, 2048, 8192} {
		levels = append(levels, experiment.Level{Concurrency: 4, PromptTokens: tokens, OutputTokens: 128, Requests: 128})
	}
	const short, long = 0, 4
	return SeedExperiment{"prompt length", seedPlan("prompt-length", 5, levels...), []seedRow{
		{short, 0.118, ttft50(), ""},
		{short, 0.0210, itl50(), ""},
		{long, 2.338, ttft50(), "its own prefill, after most of another's"},
		{long, 0.0231, itl50(), ""},
		{long, 0.2869, itl95(), ""},
	}}
}

func seedOutputLength() SeedExperiment {
	var levels []experiment.Level
	for _, tokens := range []int{32, 128, 512} {
		levels = append(levels, experiment.Level{Concurrency: 4, PromptTokens: 512, OutputTokens: tokens, Requests: 128})
	}
	const short, long = 0, 2
	return SeedExperiment{"output length", seedPlan("output-length", 5, levels...), []seedRow{
		{short, 0.308, ttft50(), ""},
		{short, 0.96, duration50(), ""},
		{short, 133.3, outputRate(), ""},
		{long, 0.306, ttft50(), ""},
		{long, 11.12, duration50(), ""},
		{long, 184.2, outputRate(), ""},
	}}
}

func seedArrivalRate() SeedExperiment {
	var levels []experiment.Level
	for _, rate := range []float64{2, 4, 8, 12} {
		levels = append(levels, experiment.Level{Rate: rate, Arrival: prober.Poisson, PromptTokens: 512, OutputTokens: 128, Requests: int(120 * rate)})
	}
	const two, four, eight, twelve = 0, 1, 2, 3
	none := peakWaiting()
	none.tolerance = 0
	return SeedExperiment{"arrival rate", seedPlan("arrival-rate", 16, levels...), []seedRow{
		{two, 0, none, "no queue"},
		{two, 2.8, drain(), ""},
		{four, 0, none, "no queue"},
		{eight, 110, peakWaiting(), "more than 110 at its peak"},
		{eight, 20.8, drain(), ""},
		{twelve, 110, peakRunning(), "about 110"},
		{twelve, 79.5, drain(), ""},
	}}
}

// SimulateSeeds runs the articles' experiments on a model, and puts its figures beside the published ones. It fills a
// closed loop as the articles' client does.
func SimulateSeeds(ctx context.Context, virtual Virtual, summarize func(*experiment.Run) experiment.Summary) ([]SeedResult, error) {
	virtual.AtOnce = true
	var results []SeedResult
	for _, e := range SeedExperiments() {
		run, err := Simulate(ctx, e.Plan, virtual, nil)
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("simulating the experiment on %s: %w", e.Name, context.Cause(ctx))
		}
		r := SeedResult{Name: e.Name, Run: run, Summary: summarize(run)}
		for _, row := range e.rows {
			l := r.Summary.Levels[row.level]
			r.Rows = append(r.Rows, SeedRow{
				Level: l.Level, Figure: row.figure.name, Unit: row.figure.unit, Published: row.published,
				Ours: row.figure.of(l), Tolerance: row.figure.tolerance, Remark: row.remark,
			})
		}
		results = append(results, r)
	}
	return results, nil
}
