package report

import (
	"math"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// figure is a figure of a level that can be drawn against what varies.
type figure struct {
	kind   string // of file names
	name   string // beside a line
	class  string
	of     func(*experiment.LevelSummary) experiment.Estimate
	thin   bool
	format func(float64) string
	// indicator and quantile, where objectives can be about it
	indicator experiment.Indicator
	quantile  float64
}

// latency is a distribution of a level and how it is called.
type latency struct {
	indicator          experiment.Indicator
	kind, title, class string
	of                 func(*experiment.LevelSummary) *experiment.Distribution
}

func ttft() latency {
	return latency{experiment.TTFT, "ttft", "Time to first token", "ttft", func(l *experiment.LevelSummary) *experiment.Distribution { return &l.TTFT }}
}

func ttftFromSchedule() latency {
	return latency{experiment.TTFTFromSchedule, "ttft-from-schedule", "TTFT counted from when it was due", "ttft", func(l *experiment.LevelSummary) *experiment.Distribution { return &l.TTFTFromSchedule }}
}

func itl() latency {
	return latency{experiment.ITL, "itl", "Inter-token latency", "itl", func(l *experiment.LevelSummary) *experiment.Distribution { return &l.ITL }}
}

func tpot() latency {
	return latency{experiment.TPOT, "tpot", "Time per output token", "itl", func(l *experiment.LevelSummary) *experiment.Distribution { return &l.TPOT }}
}

func duration() latency {
	return latency{experiment.Duration, "duration", "Request duration", "duration", func(l *experiment.LevelSummary) *experiment.Distribution { return &l.Duration }}
}

func (l latency) figure(quantile float64, class string) figure {
	return figure{
		kind: l.kind + "-" + percentile(quantile), name: percentile(quantile), class: class, format: humanize.Seconds,
		of:        func(s *experiment.LevelSummary) experiment.Estimate { return l.estimate(s, quantile) },
		indicator: l.indicator, quantile: quantile,
	}
}

// estimate is a percentile of a level's latency: one that is always there, or one that an objective asked for.
func (l latency) estimate(s *experiment.LevelSummary, quantile float64) experiment.Estimate {
	d := l.of(s)
	known := map[float64]experiment.Estimate{0.5: d.P50, 0.9: d.P90, 0.95: d.P95, 0.99: d.P99}
	if e, is := known[quantile]; is && d.Count > 0 {
		return e
	}
	for _, v := range s.Verdicts {
		if v.Objective.Indicator == l.indicator && v.Objective.Quantile == quantile {
			return v.Estimate
		}
	}
	return only(nan())
}

// throughput lists the figures of the chart of output tokens per second.
func throughput() []figure {
	return []figure{
		{
			kind: "throughput", name: "whole level", class: "rate1", format: humanize.Number,
			of: func(l *experiment.LevelSummary) experiment.Estimate { return l.OutputRate },
		},
		{
			kind: "throughput-steady", name: "while full", class: "rate2", format: humanize.Number, thin: true,
			of: func(l *experiment.LevelSummary) experiment.Estimate { return l.SteadyRate },
		},
	}
}

// only is a figure without an interval.
func only(v experiment.Figure) experiment.Estimate {
	return experiment.Estimate{Value: v, Low: nan(), High: nan()}
}

func nan() experiment.Figure { return experiment.Figure(math.NaN()) }
