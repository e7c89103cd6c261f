package model

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// Fit is a model of a server, found from a run on it.
type Fit struct {
	Model      vllmsim.Model `json:"model"`            // its times in nanoseconds
	Turnaround time.Duration `json:"turnaround"`       // of the client that measured, in nanoseconds
	Parameters []Parameter   `json:"parameters"`       // of the model, with their errors
	Steps      int           `json:"steps"`            // of the engine that were made out
	Used       int           `json:"steps_used"`       // of them, whose time is known and served the fit
	Residual   float64       `json:"residual_seconds"` // mean absolute difference between a step and the model's
	Step       float64       `json:"step_seconds"`     // mean time of a step, to hold the residual against
	Notes      []string      `json:"notes,omitempty"`  // what the run could not tell, in sentences
}

// Parameter is one parameter of a fitted model.
type Parameter struct {
	Name  string            `json:"name"`           // as a flag of probetool simulate: "per-prefill"
	Unit  string            `json:"unit,omitempty"` // "s", "s/token", "s/request", "requests" or "tokens"; async has none, and is 1 or 0
	Value float64           `json:"value"`          // where the run does not tell: 0 of a cost, and of a limit more than any run reaches
	Error experiment.Figure `json:"standard_error"` // NaN where there is none
	Note  string            `json:"note,omitempty"` // why the run does not tell; empty: it does
}

// Known reports whether the run tells the parameter.
func (p Parameter) Known() bool { return p.Note == "" }

// fewSteps is how many steps a fit needs.
const fewSteps = 50

// FitModel finds the model of the server that a run was on. Tokens that arrive together are of one engine step, so the
// run tells how long each step took, how many requests decoded in it and which prompts ended in it. It fails if the
// run shows too few steps: it needs requests that decode beside each other, one token an event.
func FitModel(run *experiment.Run, summarize func(*experiment.Run) experiment.Summary) (*Fit, error) {
	var traces []*trace
	for i := range run.Levels {
		if t := traceLevel(run, i); t != nil {
			traces = append(traces, t)
		}
	}
	f := &Fit{}
	for _, t := range traces {
		f.Steps += len(t.steps)
	}
	budget, budgetNote := findBudget(traces)
	steps := observed(traces, budget)
	if len(steps) < fewSteps {
		return nil, fmt.Errorf("%d of %d engine steps could be told apart, which is too few for a model: it needs at least %d, of requests that send one token an event", len(steps), f.Steps, fewSteps)
	}
	woken, noIntake := wokenBy(traces, budget), "no request met an idle server alone"
	if prefills(steps) < fewSteps/5 && len(woken) > 0 {
		f.Notes = append(f.Notes, "hardly a step had prefill beside decoding, so the costs of prefill and admission are from the TTFT of requests that met an idle server, and hold the way there as well; levels of more concurrency tell them apart")
		for _, w := range woken {
			if w.steps == 1 {
				steps = append(steps, w.observation)
			}
		}
		woken, noIntake = nil, notApart
	}
	s := solve(steps)
	f.Used, f.Residual, f.Step = len(steps), meanAbsolute(s.residuals), meanTime(steps)
	f.costs(s)
	f.intake(woken, noIntake)
	f.limits(run, traces, budget)
	f.budget(budget, budgetNote)
	f.Turnaround = turnaround(run)
	f.Model.Window = time.Millisecond
	return f, f.scheduling(run, traces, summarize)
}

// ample is a KV cache that never binds.
const ample = 1 << 30

// observed lists the steps whose time is known, under a budget.
func observed(traces []*trace, budget int) (all []observation) {
	for _, t := range traces {
		t.prefill(budget)
		all = append(all, t.busy()...)
	}
	return all
}

func wokenBy(traces []*trace, budget int) (all []woken) {
	for _, t := range traces {
		all = append(all, t.idle(budget)...)
	}
	return all
}

// prefills counts the steps that had prefill.
func prefills(steps []observation) (n int) {
	for _, s := range steps {
		if s.work.Prefill > 0 {
			n++
		}
	}
	return n
}

func meanTime(steps []observation) (mean float64) {
	for _, s := range steps {
		mean += s.seconds / float64(len(steps))
	}
	return mean
}

// Bounds of the budgets that are tried: from vLLM's smallest in use to more than any.
const smallestBudget, largestBudget = 128, 1 << 17

// findBudget finds the token budget: the power of two that explains the times of the steps best. The note tells if a
// larger one explains them as well.
func findBudget(traces []*trace) (budget int, note string) {
	least := 0
	for _, t := range traces {
		least = max(least, t.leastBudget())
	}
	loss := func(budget int) float64 { return meanAbsolute(solve(observed(traces, budget)).residuals) }
	budget = largestBudget
	endless := loss(budget)
	best := endless
	for candidate := smallestBudget; candidate < largestBudget; candidate *= 2 {
		if candidate < least {
			continue
		}
		if l := loss(candidate); l < best {
			budget, best = candidate, l
		}
	}
	const clearly = 0.9
	if !(best < clearly*endless) {
		return largestBudget, fmt.Sprintf("no prompt was seen to be cut; at least %d", least)
	}
	return budget, ""
}

// costs takes over what a step costs.
func (f *Fit) costs(s solution) {
	for _, p := range []struct {
		cost cost
		name string
		unit string
		into *time.Duration
	}{
		{costBase, "base", "s", &f.Model.Base},
		{costPrefill, "per-prefill", "s/token", &f.Model.PerPrefill},
		{costDecode, "per-decode", "s/request", &f.Model.PerDecode},
		{costContext, "per-context", "s/token", &f.Model.PerContext},
		{costAdmission, "per-admission", "s/request", &f.Model.PerAdmission},
	} {
		*p.into = time.Duration(math.Round(s.value[p.cost] * float64(time.Second)))
		err := s.err[p.cost]
		if s.status[p.cost] != "" {
			err = math.NaN()
		}
		f.Parameters = append(f.Parameters, Parameter{p.name, p.unit, s.value[p.cost], experiment.Figure(err), s.status[p.cost]})
	}
	if s.status[costAdmission] == notApart {
		f.Notes = append(f.Notes, "prefill and admission are not to be told apart, since all prompts were equally long: the cost of admission is in that of prefill, and a prediction for other lengths will be off; add levels of another prompt length")
	}
}

// intake finds what a prompt token takes on its way to the scheduler: how much longer the TTFT of requests that met an
// idle server alone was than their step, and how that grows with the prompt. Of prompts of one length all of it counts
// as intake, which is right for that length. The note is for a run without such requests.
func (f *Fit) intake(all []woken, note string) {
	var outside []observation
	var lengths []int
	var ttft, account []float64
	for _, w := range all {
		if !w.alone {
			continue
		}
		engine := f.Model.StepTime(w.work) + time.Duration(w.steps-1)*f.Model.Base
		outside = append(outside, observation{w.seconds - engine.Seconds(), vllmsim.Work{Prefill: w.request.prompt}})
		lengths, ttft = append(lengths, w.request.prompt), append(ttft, w.seconds)
		if r := w.request.Server; r != nil {
			account = append(account, w.seconds-(r.Queue+r.Prefill).Seconds())
		}
	}
	p := Parameter{Name: "per-intake", Unit: "s/token", Error: experiment.Figure(math.NaN()), Note: note}
	if len(outside) > 0 {
		oneLength := slices.Min(lengths) == slices.Max(lengths)
		kept := []cost{costPrefill, costBase}
		if oneLength {
			kept = kept[:1]
		}
		values, errs, _ := robust(outside, kept)
		if p.Note = notSeen; values[0] > significant*errs[0] {
			p.Value, p.Error, p.Note = values[0], experiment.Figure(errs[0]), ""
		}
		switch {
		case oneLength && p.Known():
			f.Notes = append(f.Notes, intakeOfOneLength(lengths[0], p.Value, account))
		case !oneLength && values[1] > max(significant*errs[1], worthAWord*median(ttft)):
			f.Notes = append(f.Notes, fmt.Sprintf("outside the engine a request takes %s however short its prompt (HTTP, network, hops between processes): the model does not have that, and predicts a TTFT that much too low", humanize.Seconds(values[1])))
		}
	}
	f.Model.PerIntake = time.Duration(math.Round(p.Value * float64(time.Second)))
	f.Parameters = append(f.Parameters, p)
}

// worthAWord is the part of the TTFT on an idle server that the model may miss without a word.
const worthAWord = 0.05

// intakeOfOneLength tells what intake means if all prompts had one length, beside the time outside the engine by the
// server's own account of each request, where it gave one.
func intakeOfOneLength(prompt int, perToken float64, account []float64) string {
	text := fmt.Sprintf("the prompts that met an idle server all had %d tokens, so that intake is all the time outside the engine: %s", prompt, humanize.Seconds(perToken*float64(prompt)))
	if len(account) > 0 {
		text += fmt.Sprintf(" (median by the server's own account: %s)", humanize.Seconds(median(account)))
	}
	return text + "; it holds for that length, and a prediction for others will be off; add a level of 1 in flight with another prompt length"
}

// median sorts the values.
func median(values []float64) float64 {
	slices.Sort(values)
	return stat.Quantile(0.5, stat.Empirical, values, nil)
}

// limits finds how many requests run at once, and what holds less than that many: a KV cache too small for requests
// of a level's size.
func (f *Fit) limits(run *experiment.Run, traces []*trace, budget int) {
	running := Parameter{Name: "running-cap", Unit: "requests", Error: experiment.Figure(math.NaN())}
	cache := Parameter{Name: "kv-tokens", Unit: "tokens", Value: ample, Error: experiment.Figure(math.NaN()), Note: "no request waited for room in the KV cache"}
	most := 0
	for _, t := range traces {
		most = max(most, t.mostRunning())
		running.Value = max(running.Value, float64(t.places(budget)))
	}
	if running.Value < float64(most) || most == 0 {
		running.Value, running.Note = unbounded, fmt.Sprintf("no request waited for a place; at least %d", most)
	}
	const fewer = 0.95
	for _, t := range traces {
		l := run.Plan.Levels[t.level]
		if places := float64(t.places(budget)); places > 0 && places < fewer*min(running.Value, float64(most)) {
			room := (places + 0.5) * float64(l.PromptTokens+l.OutputTokens) // one more does not fit
			cache.Value, cache.Note = min(cache.Value, math.Round(room)), ""
		}
	}
	for _, t := range traces { // each of these requests ran
		l := run.Plan.Levels[t.level]
		cache.Value = max(cache.Value, float64(l.PromptTokens+l.OutputTokens+15)) // whole blocks
	}
	f.Model.RunningCap, f.Model.KVTokens = int(running.Value), int(cache.Value)
	f.Parameters = append(f.Parameters, running, cache)
}

// unbounded is a running cap that no experiment reaches.
const unbounded = 1 << 16

func (f *Fit) budget(budget int, note string) {
	f.Model.TokenBudget = budget
	f.Parameters = append(f.Parameters, Parameter{Name: "token-budget", Unit: "tokens", Value: float64(budget), Error: experiment.Figure(math.NaN()), Note: note})
}

// turnaround is what the client needed in closed loops, from an answer's end to the next request.
func turnaround(run *experiment.Run) time.Duration {
	var all []float64
	for i := range run.Requests {
		r := &run.Requests[i]
		if !r.Warmup && r.Level < len(run.Plan.Levels) && run.Plan.Levels[r.Level].Closed() && r.Scheduled.After(run.Levels[r.Level].Start) && !r.Sent.IsZero() {
			all = append(all, r.Sent.Sub(r.Scheduled).Seconds())
		}
	}
	if len(all) == 0 {
		return 0
	}
	return time.Duration(median(all) * float64(time.Second))
}

// scheduling finds whether steps are composed ahead: then a request joins not the step after the one under way when it
// came, but the one after that. Where too few came in the middle of a step, what counts is which of the two predicts
// the TTFTs of the run better.
func (f *Fit) scheduling(run *experiment.Run, traces []*trace, summarize func(*experiment.Run) experiment.Summary) error {
	const fewArrivals, clearly = 20, 3
	next, afterNext := 0, 0
	for _, t := range traces {
		n, a := t.joined(f.Model.TokenBudget, f.Model.RunningCap)
		next, afterNext = next+n, afterNext+a
	}
	p := Parameter{Name: "async", Error: experiment.Figure(math.NaN())}
	switch {
	case next+afterNext < fewArrivals:
		var err error
		if f.Model.Async, p.Note, err = f.betterAsync(run, summarize); err != nil {
			return err
		}
	case max(next, afterNext) < clearly*min(next, afterNext):
		p.Note = fmt.Sprintf("not clear: %d requests joined the step after the one under way, and %d the next", next, afterNext)
		fallthrough
	default:
		f.Model.Async = afterNext > next
	}
	if f.Model.Async {
		p.Value = 1
	}
	f.Parameters = append(f.Parameters, p)
	return nil
}

// betterAsync tells whether asynchronous scheduling predicts the TTFTs of a run better, or that it is not clear.
func (f *Fit) betterAsync(run *experiment.Run, summarize func(*experiment.Run) experiment.Summary) (async bool, note string, err error) {
	const clearly = 2
	var off [2]float64
	for i := range off {
		f.Model.Async = i == 1
		predictions, err := f.Predict(run, summarize)
		if err != nil {
			return false, "", err
		}
		for _, p := range predictions {
			if ratio := p.TTFT50.Ratio(); ratio > 0 {
				off[i] += math.Abs(math.Log(ratio))
			}
		}
	}
	if max(off[0], off[1]) < clearly*min(off[0], off[1]) || max(off[0], off[1]) < 0.05 {
		note = "not clear: hardly a request came in the middle of a step, and both predict the run as well"
	}
	return off[1] < off[0], note, nil
}
