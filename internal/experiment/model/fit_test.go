package model

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// fitPlan separates all costs: prompts of several lengths, some alone.
func fitPlan() experiment.Plan {
	p := experiment.Plan{Warmup: 2, Settle: time.Minute, Seed: 5}
	for _, prompt := range []int{128, 512, 3000} {
		for _, concurrency := range []int{1, 6, 48} {
			p.Levels = append(p.Levels, experiment.Level{Concurrency: concurrency, PromptTokens: prompt, OutputTokens: 96, Requests: 10 + 4*concurrency})
		}
	}
	p.Levels = append(p.Levels,
		experiment.Level{Concurrency: 96, PromptTokens: 256, OutputTokens: 128, Requests: 400},
		experiment.Level{Rate: 3, Arrival: prober.Poisson, PromptTokens: 512, OutputTokens: 64, Requests: 200},
	)
	return p
}

func fitModel() vllmsim.Model {
	m := vllmsim.DefaultModel()
	m.RunningCap, m.KVTokens = 60, 44_800
	return m
}

// shaken is a run whose tokens arrive a little late, as they do from a real server: each by a time of its own.
func shaken(run *experiment.Run, mean time.Duration) *experiment.Run {
	random := rand.New(rand.NewPCG(11, 2))
	for i := range run.Requests {
		r := &run.Requests[i]
		at := r.FirstToken
		late := func() time.Duration { return time.Duration(random.ExpFloat64() * float64(mean)) }
		last := at.Add(late())
		r.FirstToken = last
		for g, gap := range r.Gaps {
			at = at.Add(gap)
			arrived := at.Add(late())
			r.Gaps[g] = max(0, arrived.Sub(last)).Round(time.Microsecond)
			last = last.Add(r.Gaps[g])
		}
		r.LastToken = last
	}
	return run
}

func fitted(t *testing.T, plan experiment.Plan, m vllmsim.Model) (*Fit, *experiment.Run) {
	t.Helper()
	run := shaken(simulated(t, t.Context(), plan, Virtual{Model: m, Turnaround: 2 * time.Millisecond}), 100*time.Microsecond)
	f, err := FitModel(run, analyze.Summarize)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Parameters {
		t.Logf("%-14s %12.6g ± %-12.4g %s %s", p.Name, p.Value, p.Error, p.Unit, p.Note)
	}
	t.Logf("%d of %d steps, residual %.3g of %.3g; %q", f.Used, f.Steps, f.Residual, f.Step, f.Notes)
	return f, run
}

func TestFitRecoversTheModel(t *testing.T) {
	for _, async := range []bool{true, false} {
		m := fitModel()
		m.Async = async
		f, run := fitted(t, fitPlan(), m)
		for _, c := range []struct {
			name string
			want float64
		}{
			{"base", m.Base.Seconds()},
			{"per-decode", m.PerDecode.Seconds()},
			{"per-context", m.PerContext.Seconds()},
			{"per-prefill", m.PerPrefill.Seconds()},
			{"per-admission", m.PerAdmission.Seconds()},
			{"per-intake", m.PerIntake.Seconds()},
			{"running-cap", 60},
			{"kv-tokens", 14.5 * (3000 + 96)}, // fourteen of the longest requests fit
			{"token-budget", 2048},
			{"async", map[bool]float64{true: 1}[async]},
		} {
			p := f.parameter(t, c.name)
			bound := 1e-9
			if p.Error.Known() {
				bound = 3 * float64(p.Error)
			}
			if !p.Known() || !(math.Abs(p.Value-c.want) <= bound) || p.Error.Known() && float64(p.Error) > 0.05*c.want {
				t.Errorf("async %v: %s is %.6g ± %.2g (%s), want %.6g", async, c.name, p.Value, p.Error, p.Note, c.want)
			}
		}
		if got := f.Turnaround; got != 2*time.Millisecond {
			t.Errorf("turnaround is %v", got)
		}
		predictions, err := f.Predict(run, analyze.Summarize)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range predictions {
			for what, pair := range map[string]Pair{"TTFT p50": p.TTFT50, "ITL p50": p.ITL50, "ITL p95": p.ITL95, "rate": p.Rate} {
				if off := math.Abs(pair.Ratio() - 1); !(off < 0.04) {
					t.Errorf("async %v, %s: %s was %.4g, predicted %.4g", async, p.Level, what, pair.Measured, pair.Predicted)
				}
			}
		}
	}
}

func (f *Fit) parameter(t *testing.T, name string) Parameter {
	t.Helper()
	for _, p := range f.Parameters {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no parameter %s", name)
	return Parameter{}
}

func TestFitSaysWhatItCannotTell(t *testing.T) {
	m := fitModel()
	m.RunningCap, m.TokenBudget = 256, 8192
	alone := experiment.Level{Concurrency: 1, PromptTokens: 512, OutputTokens: 64, Requests: 20}
	several := experiment.Level{Concurrency: 12, PromptTokens: 512, OutputTokens: 64, Requests: 100}
	for _, c := range []struct {
		name    string
		levels  []experiment.Level
		unknown []string
		note    string
	}{
		{
			"one request at a time",
			[]experiment.Level{alone},
			[]string{"per-decode", "per-context", "per-admission", "per-intake", "running-cap", "kv-tokens", "token-budget", "async"},
			"from the TTFT of requests that met an idle server",
		},
		{
			"prompts of one length",
			[]experiment.Level{alone, several},
			[]string{"per-context", "per-admission", "per-intake", "running-cap", "kv-tokens", "token-budget", "async"},
			"prefill and admission are not to be told apart",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, run := fitted(t, experiment.Plan{Levels: c.levels, Seed: 1}, m)
			var unknown []string
			for _, p := range f.Parameters {
				if !p.Known() {
					unknown = append(unknown, p.Name)
				}
			}
			if diff := cmp.Diff(c.unknown, unknown); diff != "" {
				t.Errorf("unknown (-want +got):\n%s", diff)
			}
			if !strings.Contains(strings.Join(f.Notes, "\n"), c.note) {
				t.Errorf("notes: %q", f.Notes)
			}
			predictions, err := f.Predict(run, analyze.Summarize)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range predictions { // the same shape as was measured is predicted all the same
				for what, pair := range map[string]Pair{"TTFT p50": p.TTFT50, "ITL p50": p.ITL50, "rate": p.Rate} {
					if off := math.Abs(pair.Ratio() - 1); !(off < 0.05) {
						t.Errorf("%s: %s was %.4g, predicted %.4g", p.Level, what, pair.Measured, pair.Predicted)
					}
				}
			}
		})
	}
}

// farther is a run whose requests took longer on their way to the server.
func farther(run *experiment.Run, by time.Duration) *experiment.Run {
	for i := range run.Requests {
		run.Requests[i].Sent = run.Requests[i].Sent.Add(-by)
	}
	return run
}

// accounted is a run whose requests carry the server's own account.
func accounted(run *experiment.Run, queue, prefill time.Duration) *experiment.Run {
	for i := range run.Requests {
		run.Requests[i].Server = &prober.ServerTimings{Queue: queue, Prefill: prefill}
	}
	return run
}

func TestFitOfTheTimeOutsideTheEngine(t *testing.T) {
	m := fitModel() // alone: 2.5 ms of intake and a step of 92 ms for 512 tokens
	loop := func(concurrency, prompt, requests int) experiment.Level {
		return experiment.Level{Concurrency: concurrency, PromptTokens: prompt, OutputTokens: 64, Requests: requests}
	}
	oneLength := []experiment.Level{loop(1, 512, 20), loop(12, 512, 100)}
	twoLengths := append([]experiment.Level{loop(1, 128, 20), loop(20, 128, 200)}, oneLength...)
	const way = 5 * time.Millisecond
	for _, c := range []struct {
		name   string
		levels []experiment.Level
		change func(run *experiment.Run) *experiment.Run
		want   float64 // per-intake in µs a token; 0: unknown
		note   string  // of the parameter or the fit; empty: none is about the time outside
	}{
		{
			"all of it, where prompts have one length", oneLength,
			func(run *experiment.Run) *experiment.Run { return farther(run, way) },
			4.9 + 5000.0/512, "the prompts that met an idle server all had 512 tokens, so that intake is all the time outside the engine: 7.5",
		},
		{
			"beside the server's own account", oneLength,
			func(run *experiment.Run) *experiment.Run { return accounted(farther(run, way), 0, 92*time.Millisecond) },
			4.9 + 5000.0/512, "ms (median by the server's own account: 7.5",
		},
		{"only what grows with the prompt, where lengths differ", twoLengths, func(run *experiment.Run) *experiment.Run { return run }, 4.9, ""},
		{
			"and a word about what does not", twoLengths,
			func(run *experiment.Run) *experiment.Run { return farther(run, way) },
			4.9, "outside the engine a request takes 5.0",
		},
		{
			"not of requests that the server says waited", oneLength,
			func(run *experiment.Run) *experiment.Run {
				return accounted(farther(run, way), 2*time.Millisecond, 92*time.Millisecond)
			},
			0, "no request met an idle server alone",
		},
		{"nor of requests beside others", oneLength[1:], func(run *experiment.Run) *experiment.Run { return run }, 0, "no request met an idle server alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := simulated(t, t.Context(), experiment.Plan{Levels: c.levels, Seed: 1}, Virtual{Model: m, Turnaround: 2 * way})
			f, err := FitModel(c.change(run), analyze.Summarize)
			if err != nil {
				t.Fatal(err)
			}
			p := f.parameter(t, "per-intake")
			if got := 1e6 * p.Value; !(math.Abs(got-c.want) <= 0.02) || p.Known() != (c.want > 0) {
				t.Errorf("per-intake is %.4g µs (%q), want %.4g", got, p.Note, c.want)
			}
			about := []string{p.Note}
			for _, note := range f.Notes {
				if strings.Contains(note, "outside the engine") {
					about = append(about, note)
				}
			}
			if got := strings.TrimSpace(strings.Join(about, "\n")); !strings.Contains(got, c.note) || (got == "") != (c.note == "") {
				t.Errorf("note: %q, want %q", got, c.note)
			}
			predictions, err := f.Predict(run, analyze.Summarize)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range predictions { // of one length, whatever the way, the TTFT alone is as it was measured
				if len(c.levels) == 2 && c.want > 0 && c.levels[i].Concurrency == 1 && !(math.Abs(p.TTFT50.Ratio()-1) < 0.005) {
					t.Errorf("%s: TTFT was %.5g, predicted %.5g", p.Level, p.TTFT50.Measured, p.TTFT50.Predicted)
				}
			}
		})
	}
}

func TestFitNeedsSteps(t *testing.T) {
	run := simulated(t, t.Context(), experiment.Plan{Levels: []experiment.Level{{Concurrency: 4, PromptTokens: 512, OutputTokens: 2, Requests: 40}}}, Virtual{Model: fitModel()})
	_, err := FitModel(run, analyze.Summarize)
	if err == nil || !strings.Contains(err.Error(), "engine steps could be told apart, which is too few for a model") {
		t.Errorf("error: %v", err)
	}
}
