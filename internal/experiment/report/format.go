package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// formatMean writes a mean that is nearly always a whole number: 512, 511.7.
func formatMean(v float64) string {
	if !chart.Finite(v) {
		return humanize.Unknown
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// interval writes the 95 % confidence interval of an estimate; a bound that the data do not give is left open.
func interval(e experiment.Estimate, format func(float64) string) string {
	low, high := chart.Finite(float64(e.Low)), chart.Finite(float64(e.High))
	switch {
	case low && high:
		return humanize.Range(float64(e.Low), float64(e.High), format)
	case low:
		return "≥ " + format(float64(e.Low))
	case high:
		return "≤ " + format(float64(e.High))
	}
	return ""
}

// objective writes an objective: TTFT p95 ≤ 1 s.
func objective(o experiment.Objective) string {
	return fmt.Sprintf("%s %s ≤ %s", indicatorName(o.Indicator), percentile(o.Quantile), humanize.Chosen(o.Threshold.Seconds()))
}

// percentile writes a quantile: 0.95 as p95.
func percentile(q float64) string { return "p" + humanize.Exact(100*q) }

func indicatorName(i experiment.Indicator) string {
	names := map[experiment.Indicator]string{
		experiment.TTFT: "TTFT", experiment.ITL: "ITL", experiment.TPOT: "TPOT", experiment.Duration: "duration",
		experiment.TTFTFromSchedule: "TTFT from schedule",
	}
	if name, known := names[i]; known {
		return name
	}
	return clean(string(i))
}
