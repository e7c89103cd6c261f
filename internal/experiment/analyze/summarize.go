package analyze

import (
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// Summarize makes the figures of a run, the doubts about them, and the operating points for its plan's objectives.
// It does not change the run. The requests of one level at a time are in memory, if the run was opened.
func Summarize(run *experiment.Run) experiment.Summary {
	levels := make([]experiment.LevelSummary, min(len(run.Levels), len(run.Plan.Levels)))
	for i := range levels {
		levels[i] = newView(run, i).summarize(run)
	}
	s := experiment.Summary{Levels: levels, Operating: operate(levels, run.Plan.SLOs, run.Facts.Before)}
	if !run.Left.None() {
		left := *run.Left
		s.Left = &left
	}
	return s
}

func (v *view) summarize(run *experiment.Run) experiment.LevelSummary {
	steady := v.steadyRate()
	l := experiment.LevelSummary{
		Index: v.index, Level: v.level,
		Requests: len(v.ended), Failed: len(v.ended) - len(v.ok), Missed: v.run.Missed,
		Reasons: v.reasons(), Suspects: v.suspects(),

		PromptTokens: meanCount(v.ok, func(r *request) int32 { return r.promptTokens }),
		OutputTokens: meanCount(v.ok, func(r *request) int32 { return r.outputTokens }),
		CachedTokens: meanCount(v.ok, func(r *request) int32 { return r.cachedTokens }),

		OutputRate: v.outputRate(steady), SteadyRate: steady,
		RequestRate: v.perSecond(len(v.ok)), Goodput: v.goodput(run.Plan.SLOs),

		InFlight:    experiment.Figure(math.NaN()),
		PeakRunning: peak(v.queue, func(s experiment.QueueSample) float64 { return s.Running }),
		PeakWaiting: peak(v.queue, func(s experiment.QueueSample) float64 { return s.Waiting }),
		Drain:       v.drain(),
		Client:      v.run.Client,
	}
	if from, to, ok := v.steady(); ok {
		l.InFlight = experiment.Figure(inFlight(v.sent, from, to))
	}
	l.Verdicts = slices.Repeat([]experiment.Verdict{{}}, len(run.Plan.SLOs))
	for indicator, into := range map[experiment.Indicator]*experiment.Distribution{
		experiment.TTFT: &l.TTFT, experiment.TTFTFromSchedule: &l.TTFTFromSchedule, experiment.ITL: &l.ITL,
		experiment.TPOT: &l.TPOT, experiment.Duration: &l.Duration,
	} {
		s := v.sample(indicator) // one at a time is in memory
		*into = s.describe()
		for i, objective := range run.Plan.SLOs {
			if objective.Indicator == indicator {
				l.Verdicts[i] = v.verdict(objective, s)
			}
		}
	}
	l.Doubts, l.Notes = v.doubt(&l, run)
	return l
}

// goodput is the requests a second that by themselves held every objective.
func (v *view) goodput(objectives []experiment.Objective) experiment.Figure {
	if len(objectives) == 0 {
		return experiment.Figure(math.NaN())
	}
	good := 0
	var res result
	for _, r := range v.ok {
		held := true
		for _, objective := range objectives {
			held = held && heldBy(objective, res.of(r))
		}
		if held {
			good++
		}
	}
	return v.perSecond(good)
}

// drain is the time from the last request sent to the last answer's end.
func (v *view) drain() experiment.Figure {
	if len(v.sent) == 0 {
		return experiment.Figure(math.NaN())
	}
	_, end := v.span()
	return experiment.Figure((end - v.sent[len(v.sent)-1].started).Seconds())
}
