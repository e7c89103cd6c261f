package chart

import (
	"math"

	"github.com/llm-prober/llm_prober/internal/humanize"
)

// Finite reports whether a figure can be drawn.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// TickClock writes a time since the start of a level: 30 s.
func TickClock(v float64) string { return humanize.Exact(v) + " s" }

// tickMinutes does the same for a long level: 5 min.
func tickMinutes(v float64) string { return humanize.Exact(v/60) + " min" }
