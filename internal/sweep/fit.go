package sweep

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

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
	Name  string  `json:"name"`           // as a flag of probetool simulate: "per-prefill"
	Unit  string  `json:"unit,omitempty"` // "s", "s/token", "s/request", "requests" or "tokens"; async has none, and is 1 or 0
	Value float64 `json:"value"`          // where the run does not tell: 0 of a cost, and of a limit more than any run reaches
	Error Figure  `json:"standard_error"` // NaN where there is none
	Note  string  `json:"note,omitempty"` // why the run does not tell; empty: it does
}

// Known reports whether the run tells the parameter.
func (p Parameter) Known() bool { return p.Note == "" }

// fewSteps is how many steps a fit needs.
const fewSteps = 50

// FitModel finds the model of the server that a run was on. Tokens that arrive together are of one engine step, so the
// run tells how long each step took, how many requests decoded in it and which prompts ended in it. It fails if the
// run shows too few steps: it needs requests that decode beside each other, one token an event.
func FitModel(run *Run) (*Fit, error) {
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
	woken := wokenBy(traces, budget)
	if prefills(steps) < fewSteps/5 && len(woken) > 0 {
		f.Notes = append(f.Notes, "hardly a step had prefill beside decoding, so the costs of prefill and admission are from the TTFT of requests that met an idle server, and hold the way there as well; levels of more concurrency tell them apart")
		for _, w := range woken {
			steps = append(steps, w.observation)
		}
		woken = nil
	}
	s := solve(steps)
	f.Used, f.Residual, f.Step = len(steps), meanAbsolute(s.residuals), meanTime(steps)
	f.costs(s)
	f.intake(woken)
	f.runningCap(traces, budget)
	f.budget(budget, budgetNote)
	f.Turnaround = turnaround(run)
	f.Model.KVTokens = ample
	f.Model.Window = time.Millisecond
	f.scheduling(traces)
	return f, nil
}

// ample is a KV cache that never binds: where the real one does, the running cap has it.
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
		f.Parameters = append(f.Parameters, Parameter{p.name, p.unit, s.value[p.cost], Figure(err), s.status[p.cost]})
	}
	if s.status[costAdmission] == notApart {
		f.Notes = append(f.Notes, "prefill and admission are not to be told apart, since all prompts were equally long: the cost of admission is in that of prefill, and a prediction for other lengths will be off; add levels of another prompt length")
	}
}

// intake finds what a prompt token takes on its way to the scheduler: how much longer the TTFT of requests that met an
// idle server was than their step, and how that grows with the prompt. What does not grow is the network's.
func (f *Fit) intake(all []woken) {
	p := Parameter{Name: "per-intake", Unit: "s/token", Error: Figure(math.NaN()), Note: "no requests with prompts of several lengths met an idle server"}
	var extra []observation
	lengths := map[int]bool{}
	for _, w := range all {
		lengths[w.prompt] = true
		extra = append(extra, observation{w.seconds - f.Model.StepTime(w.work).Seconds(), vllmsim.Work{Prefill: w.prompt}})
	}
	if len(lengths) > 1 {
		values, errs, _ := robust(extra, []cost{costBase, costPrefill})
		if p.Note = ""; values[1] > significant*errs[1] {
			p.Value, p.Error = values[1], Figure(errs[1])
		} else {
			p.Note = notSeen
		}
	}
	f.Model.PerIntake = time.Duration(math.Round(p.Value * float64(time.Second)))
	f.Parameters = append(f.Parameters, p)
}

// runningCap finds how many requests run at once: the most that did, if others waited meanwhile though the step had tokens left.
func (f *Fit) runningCap(traces []*trace, budget int) {
	const fewSteps, nearly = 20, 0.9
	most := 0
	for _, t := range traces {
		for _, s := range t.steps {
			most = max(most, s.running())
		}
	}
	waited, full := 0, 0
	for _, t := range traces {
		for _, s := range t.steps {
			if s.waiting == 0 || float64(s.work.Prefill+s.work.Decoding) >= nearly*float64(budget) {
				continue
			}
			waited++
			if float64(s.running()) >= nearly*float64(most) {
				full++
			}
		}
	}
	p := Parameter{Name: "running-cap", Unit: "requests", Value: float64(most), Error: Figure(math.NaN())}
	if full < fewSteps || 2*full < waited {
		p.Value, p.Note = unbounded, fmt.Sprintf("requests hardly waited for a place; at least %d", most)
	}
	f.Model.RunningCap = int(p.Value)
	f.Parameters = append(f.Parameters, p)
}

// unbounded is a running cap that no experiment reaches.
const unbounded = 1 << 16

func (f *Fit) budget(budget int, note string) {
	f.Model.TokenBudget = budget
	f.Parameters = append(f.Parameters, Parameter{Name: "token-budget", Unit: "tokens", Value: float64(budget), Error: Figure(math.NaN()), Note: note})
}

// turnaround is what the client needed in closed loops, from an answer's end to the next request.
func turnaround(run *Run) time.Duration {
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
	slices.Sort(all)
	return time.Duration(stat.Quantile(0.5, stat.Empirical, all, nil) * float64(time.Second))
}

// scheduling finds whether steps are composed ahead: then a request joins not the step after the one under way when it
// came, but the one after that.
func (f *Fit) scheduling(traces []*trace) {
	const fewArrivals, clearly = 20, 3
	next, afterNext := 0, 0
	for _, t := range traces {
		n, a := t.joined(f.Model.TokenBudget, f.Model.RunningCap)
		next, afterNext = next+n, afterNext+a
	}
	f.Model.Async = afterNext > next
	p := Parameter{Name: "async", Error: Figure(math.NaN())}
	if f.Model.Async {
		p.Value = 1
	}
	switch {
	case next+afterNext < fewArrivals:
		p.Note = "hardly a request came while others decoded"
	case max(next, afterNext) < clearly*min(next, afterNext):
		p.Note = fmt.Sprintf("not clear: %d requests joined the step after the one under way, and %d the next", next, afterNext)
	}
	f.Parameters = append(f.Parameters, p)
}
