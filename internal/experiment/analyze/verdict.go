package analyze

import (
	"math"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/quantile"
)

// verdict judges an objective on a level. A request that failed, or was due and not sent, was slower than any bound.
func (v *view) verdict(o experiment.Objective, s sample) experiment.Verdict {
	bad, all := len(v.ended)-len(v.ok)+v.run.Missed, len(v.ended)+v.run.Missed
	verdict := experiment.Verdict{Objective: o, Estimate: experiment.Unknown()}
	if len(v.ok) == 0 {
		verdict.Sure = bad > 0
		return verdict
	}
	quantile := o.Quantile * float64(all) / float64(len(v.ok)) // of the successes alone
	if quantile > 1+1e-9 {
		verdict.Sure = true
		verdict.Estimate.Value = experiment.Figure(math.Inf(1))
		return verdict
	}
	verdict.Estimate = s.percentile(min(1, quantile))
	threshold := experiment.Figure(o.Threshold.Seconds())
	verdict.Held = verdict.Estimate.Value <= threshold
	if verdict.Held {
		verdict.Sure = verdict.Estimate.High <= threshold
	} else {
		verdict.Sure = verdict.Estimate.Low > threshold
	}
	return verdict
}

// heldBy reports whether a request by itself holds the objective: of its gaps, the percentile by nearest rank. What
// is not known of a request is not held.
func heldBy(o experiment.Objective, r *experiment.Request) bool {
	if o.Indicator != experiment.ITL {
		l, known := r.Latency(o.Indicator)
		return known && l.Value <= o.Threshold
	}
	gaps, within := 0, 0
	for gap := range r.ITL() {
		if gaps++; gap.Value <= o.Threshold {
			within++
		}
	}
	return gaps > 0 && within >= quantile.Rank(gaps, o.Quantile)
}
