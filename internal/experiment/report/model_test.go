package report

import (
	"context"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/model"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

func began() time.Time { return time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC) }

// modelRun is a run of a plan on a model of a server, as if it had been a real one.
func modelRun(plan experiment.Plan) *experiment.Run {
	run, err := model.Simulate(context.Background(), plan, model.Virtual{Model: vllmsim.DefaultModel(), Tool: "probetool test"}, nil)
	if err != nil {
		panic(err)
	}
	run.Facts = experiment.Facts{
		Tool: "probetool test", Host: "linux/amd64, 2 processors", Began: began(), Ended: began().Add(20 * time.Minute),
		URL: "http://user:secret@10.0.0.1:8000?key=secret", Engine: "vllm", Version: "0.27.0", Model: "qwen3.5-4b", MaxContext: 32768,
		Server: map[string]string{"block_size": "16", "prefix_caching": "off"},
	}
	for i := range run.Levels {
		run.Levels[i].Client = experiment.Client{
			CPUSeconds: 1.2, MaxRSSBytes: 80 << 20, StartDelayP99: 0.0004, ReadDelayMax: 0.002, KernelStamps: true, GoMaxProcs: 2, LoadAverage: 0.4,
		}
	}
	return run
}

// concurrencyPlan is the concurrency sweep of so many seconds a level.
func concurrencyPlan(seconds int, levels ...int) experiment.Plan {
	p := newPlan("concurrency")
	for _, c := range levels {
		p.Levels = append(p.Levels, experiment.Level{Concurrency: c, PromptTokens: 512, OutputTokens: 128, Duration: time.Duration(seconds) * time.Second})
	}
	return p
}

func newPlan(name string) experiment.Plan {
	return experiment.Plan{
		Name: name, Warmup: 5, Timeout: 2 * time.Minute, StallTimeout: 30 * time.Second, Settle: 2 * time.Minute, Seed: 42,
		SLOs: []experiment.Objective{
			{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second},
			{Indicator: experiment.ITL, Quantile: 0.95, Threshold: 250 * time.Millisecond},
		},
	}
}

func ratePlan(seconds int, rates ...float64) experiment.Plan {
	p := newPlan("rate")
	for _, r := range rates {
		p.Levels = append(p.Levels, experiment.Level{Rate: r, Arrival: prober.Poisson, PromptTokens: 512, OutputTokens: 128, Requests: int(r * float64(seconds))})
	}
	return p
}

// lengthsPlan varies the prompt and the output.
func lengthsPlan(requests int) experiment.Plan {
	p := newPlan("lengths")
	for _, n := range []int{128, 512, 1024, 2048, 8192} {
		p.Levels = append(p.Levels, experiment.Level{Concurrency: 4, PromptTokens: n, OutputTokens: 128, Requests: requests})
	}
	for _, n := range []int{32, 512} {
		p.Levels = append(p.Levels, experiment.Level{Concurrency: 4, PromptTokens: 512, OutputTokens: n, Requests: requests})
	}
	return p
}

func gridPlan(seconds int) experiment.Plan {
	p := newPlan("grid")
	for _, prompt := range []int{128, 512, 2048} {
		for _, c := range []int{1, 4, 16, 64} {
			p.Levels = append(p.Levels, experiment.Level{Concurrency: c, PromptTokens: prompt, OutputTokens: 64, Duration: time.Duration(seconds) * time.Second})
		}
	}
	return p
}
