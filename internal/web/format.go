package web

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// formatDuration writes a latency with three significant digits: 0.35 ms, 19.8 ms, 872 ms, 2.18 s.
func formatDuration(d time.Duration) string {
	unit, name := float64(time.Millisecond), "ms"
	if math.Abs(float64(d)) >= 999.5*float64(time.Millisecond) {
		unit, name = float64(time.Second), "s"
	}
	return significant(float64(d)/unit) + "\u00a0" + name
}

// significant writes three digits, and no more than two after the point.
func significant(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// formatAge writes how long something has been so: 8 s, 3 min 20 s, 2 h 5 min, 3 d 4 h.
func formatAge(d time.Duration) string {
	s := max(0, int(d/time.Second))
	switch {
	case s < 60:
		return fmt.Sprintf("%d\u00a0s", s)
	case s < 3600:
		return two(s/60, "min", s%60, "s")
	case s < 86400:
		return two(s/3600, "h", s%3600/60, "min")
	}
	return two(s/86400, "d", s%86400/3600, "h")
}

func two(a int, unitA string, b int, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d\u00a0%s", a, unitA)
	}
	return fmt.Sprintf("%d\u00a0%s\u00a0%d\u00a0%s", a, unitA, b, unitB)
}

// formatClock writes a time of day, and the day if it is another one.
func formatClock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// formatNumber writes a gauge: whole numbers whole, others with one digit; a dash for what is not known.
func formatNumber(v *float64) string {
	switch {
	case v == nil:
		return "–"
	case *v == math.Trunc(*v):
		return strconv.FormatFloat(*v, 'f', 0, 64)
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}

// formatPercent writes a ratio as a percentage; a dash for what is not known.
func formatPercent(ratio *float64) string {
	if ratio == nil {
		return "–"
	}
	return strconv.FormatFloat(100**ratio, 'f', 0, 64) + "\u00a0%"
}

// formatCount writes a number and its noun: 1 probe, 2 probes.
func formatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
