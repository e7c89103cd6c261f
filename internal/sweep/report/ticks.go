package report

import (
	"math"
	"strconv"
)

// finite reports whether a figure can be drawn and written.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// timeUnit is the unit that a time is written in, and how many seconds it has.
func timeUnit(v float64) (seconds float64, name string) {
	switch size := math.Abs(v); {
	case size >= 0.9995:
		return 1, "s"
	case size >= 0.9995e-3:
		return 1e-3, "ms"
	}
	return 1e-6, "µs"
}

// tickSeconds writes a round latency as short as it goes: 500 µs, 50 ms, 1.5 s.
func tickSeconds(v float64) string {
	if v == 0 {
		return "0"
	}
	unit, name := timeUnit(v)
	return short(v/unit) + nbsp + name
}

// short writes a round number without zeros after its last digit.
func short(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e12 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// tickClock writes a time since the start of a level: 30 s.
func tickClock(v float64) string { return short(v) + nbsp + "s" }

// tickMinutes does the same for a long level: 5 min.
func tickMinutes(v float64) string { return short(v/60) + nbsp + "min" }
