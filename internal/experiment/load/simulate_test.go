package load_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/model"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// A run on the simulated server, through HTTP, and one on virtual time must show the same.
func TestSimulationIsWhatWouldBeMeasured(t *testing.T) {
	engine := vllmsim.DemoModel()
	engine.KVTokens, engine.Window = 1<<17, 700*time.Microsecond // no multiple of the time between the first requests
	p := plan(
		experiment.Level{Concurrency: 1, PromptTokens: 64, OutputTokens: 32, Requests: 10},
		experiment.Level{Concurrency: 12, PromptTokens: 256, OutputTokens: 32, Requests: 150},
		experiment.Level{Concurrency: 40, PromptTokens: 256, OutputTokens: 32, Requests: 200},
		experiment.Level{Rate: 15, Arrival: prober.Poisson, PromptTokens: 256, OutputTokens: 32, Requests: 150},
		experiment.Level{Rate: 30, Arrival: prober.Constant, PromptTokens: 256, OutputTokens: 32, Requests: 150, MaxInFlight: 20},
	)
	p.Warmup, p.Timeout = 3, 20*time.Second
	var measured experiment.Summary
	synctest.Test(t, func(t *testing.T) {
		run, _ := newLab(t, vllmsim.Config{Engine: engine, DisablePrefixCache: true}).measure(t, t.Context(), p)
		measured = analyze.Summarize(run)
	})
	run, err := model.Simulate(t.Context(), p, model.Virtual{Model: engine}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, l := range analyze.Summarize(run).Levels {
		m := measured.Levels[i]
		for _, c := range []struct {
			figure              string
			simulated, measured experiment.Figure
			within              float64 // of the measured
		}{
			{"requests", experiment.Figure(l.Requests), experiment.Figure(m.Requests), 0},
			{"missed", experiment.Figure(l.Missed), experiment.Figure(m.Missed), 0.05},
			{"TTFT p50", l.TTFT.P50.Value, m.TTFT.P50.Value, 0.02},
			{"TTFT p95", l.TTFT.P95.Value, m.TTFT.P95.Value, 0.02},
			{"TTFT from schedule p95", l.TTFTFromSchedule.P95.Value, m.TTFTFromSchedule.P95.Value, 0.02},
			{"ITL p50", l.ITL.P50.Value, m.ITL.P50.Value, 0.02},
			{"ITL p95", l.ITL.P95.Value, m.ITL.P95.Value, 0.02},
			{"duration p50", l.Duration.P50.Value, m.Duration.P50.Value, 0.02},
			{"output rate", l.OutputRate.Value, m.OutputRate.Value, 0.02},
			{"peak running", l.PeakRunning, m.PeakRunning, 0.2}, // the samples are at other moments
		} {
			if off := math.Abs(float64(c.simulated - c.measured)); !(off <= c.within*float64(c.measured)) {
				t.Errorf("%s: %s is %.6g, measured %.6g", l.Level, c.figure, c.simulated, c.measured)
			}
		}
	}
}
