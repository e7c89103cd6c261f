package chart

import (
	"math"
	"strconv"
)

const nbsp = "\u00a0" // keeps a number and its unit on one line

// Finite reports whether a figure can be drawn and written.
func Finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// TimeUnit is the unit that a time is written in, and how many seconds it has.
func TimeUnit(v float64) (seconds float64, name string) {
	switch size := math.Abs(v); {
	case size >= 0.9995:
		return 1, "s"
	case size >= 0.9995e-3:
		return 1e-3, "ms"
	}
	return 1e-6, "µs"
}

// TickSeconds writes a round latency as short as it goes: 500 µs, 50 ms, 1.5 s.
func TickSeconds(v float64) string {
	if v == 0 {
		return "0"
	}
	unit, name := TimeUnit(v)
	return Short(v/unit) + nbsp + name
}

// Short writes a round number without zeros after its last digit.
func Short(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e12 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// TickClock writes a time since the start of a level: 30 s.
func TickClock(v float64) string { return Short(v) + nbsp + "s" }

// tickMinutes does the same for a long level: 5 min.
func tickMinutes(v float64) string { return Short(v/60) + nbsp + "min" }
