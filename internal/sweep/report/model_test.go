package report

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/llm-prober/llm_prober/internal/sweep"
	"github.com/llm-prober/llm_prober/prober"
)

// A server of the tests: one step at a time, first come, first served, with a cap on what runs and a budget of
// prefill tokens a step. It makes runs that look like those of a real one.
const (
	runningCap = 106
	budget     = 2048
)

func stepTime(decoding, prefill, admitted int) time.Duration {
	return time.Duration((19.65 + 0.352*float64(decoding) + 0.131*float64(prefill) + 6.09*float64(admitted)) * float64(time.Millisecond))
}

func began() time.Time { return time.Date(2026, 11, 29, 20, 0, 0, 0, time.UTC) }

// modelRun runs a plan on the model.
func modelRun(plan sweep.Plan) *sweep.Run {
	run := &sweep.Run{Plan: plan, Facts: sweep.Facts{
		Tool: "probetool test", Host: "linux/amd64, 2 processors", Began: began(), URL: "http://user:secret@10.0.0.1:8000?key=secret",
		Engine: "vllm", Version: "0.27.0", Model: "qwen3.5-4b", MaxContext: 32768,
		Server: map[string]string{"block_size": "16", "prefix_caching": "off"},
	}}
	now := began()
	for i := range plan.Levels {
		now = runLevel(run, i, now).Add(5 * time.Second)
	}
	run.Facts.Ended = now
	return run
}

// user is a request on its way through the model.
type user struct {
	r      *sweep.Request
	prompt int // tokens still to prefill
	tokens int
}

func runLevel(run *sweep.Run, index int, start time.Time) time.Time {
	l := run.Plan.Levels[index]
	rng := rand.New(rand.NewPCG(run.Plan.Seed, uint64(index)))
	var requests []*sweep.Request
	var waiting, running []*user
	due := start
	send := func(at time.Time, warm bool) {
		r := &sweep.Request{
			Level: index, ID: fmt.Sprint(index, "-", len(requests)), Warmup: warm, Status: 200,
			Scheduled: at, Started: at, Connected: at.Add(200 * time.Microsecond), Sent: at.Add(300 * time.Microsecond),
			FirstTokens: 1, PromptTokens: l.PromptTokens,
		}
		requests = append(requests, r)
		waiting = append(waiting, &user{r: r, prompt: l.PromptTokens})
	}
	more := func(at time.Time) bool {
		return (l.Requests == 0 || len(requests) < l.Requests) && (l.Duration == 0 || at.Sub(start) < l.Duration)
	}
	for range l.Concurrency {
		send(start, false)
	}
	now, sampled := start, start
	for {
		for !l.Closed() && more(due) && !due.After(now) {
			send(due, false)
			gap := 1 / l.Rate
			if l.Arrival == prober.Poisson {
				gap *= rng.ExpFloat64()
			}
			due = due.Add(time.Duration(gap * float64(time.Second)))
		}
		for !sampled.After(now) {
			run.Queue = append(run.Queue, sweep.QueueSample{At: sampled, Level: index, Running: float64(len(running)), Waiting: float64(len(waiting))})
			sampled = sampled.Add(time.Second)
		}
		if len(waiting)+len(running) == 0 {
			if l.Closed() || !more(due) {
				break
			}
			now = due
			continue
		}
		left, admitted, prefill, decoding := budget, 0, 0, 0
		for len(waiting) > 0 && len(running) < runningCap && left > 0 {
			running, waiting = append(running, waiting[0]), waiting[1:]
			admitted++
			left -= min(left, running[len(running)-1].prompt)
		}
		left = budget
		var first []*user
		for _, u := range running {
			if u.prompt == 0 {
				decoding++
				continue
			}
			n := min(left, u.prompt)
			u.prompt, left, prefill = u.prompt-n, left-n, prefill+n
			if u.prompt == 0 {
				first = append(first, u)
			}
		}
		took := stepTime(decoding, prefill, admitted)
		took += time.Duration(float64(took) * 0.02 * rng.NormFloat64())
		before := now
		now = now.Add(took)
		var still []*user
		ended := 0
		for _, u := range running {
			switch {
			case u.prompt > 0:
			case u.tokens == 0 && len(first) > 0 && first[0] == u:
				first = first[1:]
				u.r.FirstToken, u.tokens = now, 1
			default:
				u.r.Gaps = append(u.r.Gaps, now.Sub(maxTime(u.r.LastToken, maxTime(u.r.FirstToken, before))).Seconds())
				u.tokens++
			}
			u.r.LastToken = now
			if u.tokens == l.OutputTokens {
				u.r.OutputTokens, u.r.Ended = u.tokens, now.Add(200*time.Microsecond)
				ended++
				continue
			}
			still = append(still, u)
		}
		running = still
		for range ended {
			if l.Closed() && more(now) {
				send(now.Add(200*time.Microsecond), false)
			}
		}
	}
	for _, r := range requests {
		run.Requests = append(run.Requests, *r)
	}
	run.Levels = append(run.Levels, sweep.LevelRun{Start: start, End: now, Empty: now.Add(time.Second), Client: sweep.Client{
		CPUSeconds: 1.2, MaxRSSBytes: 80 << 20, StartDelayP99: 0.0004, ReadDelayMax: 0.002, KernelStamps: true, GoMaxProcs: 2, LoadAverage: 0.4,
	}})
	return now
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// concurrencyPlan is the concurrency sweep of so many seconds a level.
func concurrencyPlan(seconds int, levels ...int) sweep.Plan {
	p := newPlan("concurrency")
	for _, c := range levels {
		p.Levels = append(p.Levels, sweep.Level{Concurrency: c, PromptTokens: 512, OutputTokens: 128, Duration: time.Duration(seconds) * time.Second})
	}
	return p
}

func newPlan(name string) sweep.Plan {
	return sweep.Plan{
		Name: name, Warmup: 5, Timeout: 2 * time.Minute, StallTimeout: 30 * time.Second, Settle: 2 * time.Minute, Seed: 42,
		SLOs: []sweep.Objective{
			{Indicator: sweep.TTFT, Quantile: 0.95, Threshold: time.Second},
			{Indicator: sweep.ITL, Quantile: 0.95, Threshold: 250 * time.Millisecond},
		},
	}
}

func ratePlan(seconds int, rates ...float64) sweep.Plan {
	p := newPlan("rate")
	for _, r := range rates {
		p.Levels = append(p.Levels, sweep.Level{Rate: r, Arrival: prober.Poisson, PromptTokens: 512, OutputTokens: 128, Requests: int(r * float64(seconds))})
	}
	return p
}

// lengthsPlan varies the prompt and the output.
func lengthsPlan(requests int) sweep.Plan {
	p := newPlan("lengths")
	for _, n := range []int{128, 512, 1024, 2048, 8192} {
		p.Levels = append(p.Levels, sweep.Level{Concurrency: 4, PromptTokens: n, OutputTokens: 128, Requests: requests})
	}
	for _, n := range []int{32, 512} {
		p.Levels = append(p.Levels, sweep.Level{Concurrency: 4, PromptTokens: 512, OutputTokens: n, Requests: requests})
	}
	return p
}

func gridPlan(seconds int) sweep.Plan {
	p := newPlan("grid")
	for _, prompt := range []int{128, 512, 2048} {
		for _, c := range []int{1, 4, 16, 64} {
			p.Levels = append(p.Levels, sweep.Level{Concurrency: c, PromptTokens: prompt, OutputTokens: 64, Duration: time.Duration(seconds) * time.Second})
		}
	}
	return p
}
