package sweep

import "math"

// Summarize makes the figures of a run, the doubts about them, and the operating points for its plan's objectives.
// It does not change the run. The requests of one level at a time are in memory, if the run was opened.
func Summarize(run *Run) Summary {
	levels := make([]LevelSummary, min(len(run.Levels), len(run.Plan.Levels)))
	for i := range levels {
		levels[i] = newView(run, i).summarize(run)
	}
	s := Summary{Levels: levels, Operating: operate(levels, run.Plan.SLOs, run.Facts.Before)}
	if !run.Left.None() {
		left := *run.Left
		s.Left = &left
	}
	return s
}

func (v *view) summarize(run *Run) LevelSummary {
	steady := v.steadyRate()
	l := LevelSummary{
		Index: v.index, Level: v.level,
		Requests: len(v.ended), Failed: len(v.ended) - len(v.ok), Missed: v.run.Missed,
		Reasons: v.reasons(), Suspects: v.suspects(),

		PromptTokens: meanCount(v.ok, func(r *Request) int { return r.PromptTokens }),
		OutputTokens: meanCount(v.ok, func(r *Request) int { return r.OutputTokens }),
		CachedTokens: meanCount(v.ok, func(r *Request) int { return r.CachedTokens }),

		TTFT:             v.samples[TTFT].describe(),
		TTFTFromSchedule: v.samples[TTFTFromSchedule].describe(),
		ITL:              v.samples[ITL].describe(),
		TPOT:             v.samples[TPOT].describe(),
		Duration:         v.samples[Duration].describe(),

		OutputRate: v.outputRate(steady), SteadyRate: steady,
		RequestRate: v.perSecond(len(v.ok)), Goodput: v.goodput(run.Plan.SLOs),

		InFlight:    Figure(math.NaN()),
		PeakRunning: peak(v.queue, func(s QueueSample) float64 { return s.Running }),
		PeakWaiting: peak(v.queue, func(s QueueSample) float64 { return s.Waiting }),
		Drain:       v.drain(),
		Client:      v.run.Client,
	}
	if from, to, ok := v.steady(); ok {
		l.InFlight = Figure(inFlight(v.sent, from, to))
	}
	for _, objective := range run.Plan.SLOs {
		l.Verdicts = append(l.Verdicts, v.verdict(objective))
	}
	l.Doubts, l.Notes = v.doubt(&l, run)
	return l
}

// goodput is the requests a second that by themselves held every objective.
func (v *view) goodput(objectives []Objective) Figure {
	if len(objectives) == 0 {
		return Figure(math.NaN())
	}
	good := 0
	for _, r := range v.ok {
		held := true
		for _, objective := range objectives {
			held = held && heldBy(objective, r)
		}
		if held {
			good++
		}
	}
	return v.perSecond(good)
}

// drain is the time from the last request sent to the last answer's end.
func (v *view) drain() Figure {
	if len(v.sent) == 0 {
		return Figure(math.NaN())
	}
	_, end := v.span()
	return Figure(end.Sub(v.sent[len(v.sent)-1].Started).Seconds())
}
