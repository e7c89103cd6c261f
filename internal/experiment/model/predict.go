package model

import (
	"context"
	"errors"
	"fmt"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// Prediction is a level as it was measured and as a fitted model has it.
type Prediction struct {
	Level  experiment.Level `json:"level"`
	TTFT50 Pair             `json:"ttft_p50_seconds"`
	TTFT95 Pair             `json:"ttft_p95_seconds"`
	ITL50  Pair             `json:"itl_p50_seconds"`
	ITL95  Pair             `json:"itl_p95_seconds"`
	Rate   Pair             `json:"output_tokens_per_second"`
}

// Pair is a figure as measured and as predicted.
type Pair struct {
	Measured  experiment.Figure `json:"measured"`
	Predicted experiment.Figure `json:"predicted"`
}

// Ratio is predicted over measured.
func (p Pair) Ratio() float64 { return float64(p.Predicted / p.Measured) }

// Predict simulates the plan of a run on the fitted model, level by level. Levels that the run cut short are
// predicted as they were planned.
func (f *Fit) Predict(run *experiment.Run, summarize func(*experiment.Run) experiment.Summary) ([]Prediction, error) {
	if len(run.Levels) == 0 {
		return nil, errors.New("the run has no levels")
	}
	plan := run.Plan
	plan.Levels = plan.Levels[:len(run.Levels)]
	simulated, err := Simulate(context.Background(), plan, Virtual{Model: f.Model, Turnaround: f.Turnaround}, nil)
	if err != nil {
		return nil, fmt.Errorf("simulating the run: %w", err)
	}
	measured, predicted := summarize(run), summarize(simulated)
	var all []Prediction
	for i, m := range measured.Levels {
		p := predicted.Levels[i]
		pair := func(figure func(experiment.LevelSummary) experiment.Estimate) Pair {
			return Pair{Measured: figure(m).Value, Predicted: figure(p).Value}
		}
		all = append(all, Prediction{
			Level:  m.Level,
			TTFT50: pair(func(l experiment.LevelSummary) experiment.Estimate { return l.TTFT.P50 }),
			TTFT95: pair(func(l experiment.LevelSummary) experiment.Estimate { return l.TTFT.P95 }),
			ITL50:  pair(func(l experiment.LevelSummary) experiment.Estimate { return l.ITL.P50 }),
			ITL95:  pair(func(l experiment.LevelSummary) experiment.Estimate { return l.ITL.P95 }),
			Rate:   pair(func(l experiment.LevelSummary) experiment.Estimate { return l.OutputRate }),
		})
	}
	return all, nil
}
