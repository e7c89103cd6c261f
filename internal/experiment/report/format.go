package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
)

const (
	unknown = "–"      // a figure that is not known
	nbsp    = "\u00a0" // keeps a number and its unit on one line
)

// digits writes n significant digits, whole numbers in full: 0.352, 19.8, 872, 12345.
func digits(v float64, n int) string {
	if v == 0 {
		return "0"
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64) // 0.9999 has a digit more than 1.00
	after := n - 1 - int(math.Floor(math.Log10(math.Abs(rounded))))
	return strconv.FormatFloat(v, 'f', min(max(after, 0), 9), 64)
}

// formatSeconds writes a latency with three significant digits: 352 µs, 19.8 ms, 872 ms, 2.18 s.
func formatSeconds(v float64) string { return formatTime(v, 3) }

// exactSeconds writes a latency with four significant digits, for tables and tooltips.
func exactSeconds(v float64) string { return formatTime(v, 4) }

func formatTime(v float64, n int) string {
	switch {
	case !chart.Finite(v):
		return unknown
	case v == 0:
		return "0" + nbsp + "s"
	}
	unit, name := chart.TimeUnit(v)
	return digits(v/unit, n) + nbsp + name
}

// formatRate writes a rate or a mean with three significant digits.
func formatRate(v float64) string { return orUnknown(v, 3) }

// exactRate writes a rate or a mean with four significant digits.
func exactRate(v float64) string { return orUnknown(v, 4) }

func orUnknown(v float64, n int) string {
	if !chart.Finite(v) {
		return unknown
	}
	return digits(v, n)
}

// formatMean writes a mean that is nearly always a whole number: 512, 511.7.
func formatMean(v float64) string {
	if !chart.Finite(v) {
		return unknown
	}
	return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
}

// formatPercent writes a ratio: 0.96 as 96 %.
func formatPercent(ratio float64) string {
	if !chart.Finite(ratio) {
		return unknown
	}
	if p := 100 * ratio; p != 0 && math.Abs(p) < 10 {
		return strings.TrimSuffix(strconv.FormatFloat(p, 'f', 1, 64), ".0") + nbsp + "%"
	}
	return strconv.FormatFloat(100*ratio, 'f', 0, 64) + nbsp + "%"
}

// formatBytes writes a size of memory.
func formatBytes(n int64) string {
	if n <= 0 {
		return unknown
	}
	return digits(float64(n)/(1<<20), 3) + nbsp + "MiB"
}

// interval writes the 95 % confidence interval of an estimate; a bound that the data do not give is left open.
func interval(e experiment.Estimate, format func(float64) string) string {
	low, high := chart.Finite(float64(e.Low)), chart.Finite(float64(e.High))
	switch {
	case low && high:
		from, to := format(float64(e.Low)), format(float64(e.High))
		if number, unit, is := strings.Cut(from, nbsp); is && strings.HasSuffix(to, nbsp+unit) { // once is enough
			from = number
		}
		return from + " – " + to
	case low:
		return "≥ " + format(float64(e.Low))
	case high:
		return "≤ " + format(float64(e.High))
	}
	return ""
}

// formatCount writes a number and its noun: 1 level, 2 levels.
func formatCount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

// thousands writes a count with a thin space every three digits.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// formatSpan writes how long something took: 45 s, 3 min 20 s, 2 h 5 min.
func formatSpan(d time.Duration) string {
	s := max(0, int(d.Round(time.Second)/time.Second))
	switch {
	case s < 60:
		return fmt.Sprintf("%d%ss", s, nbsp)
	case s < 3600:
		return two(s/60, "min", s%60, "s")
	}
	return two(s/3600, "h", s%3600/60, "min")
}

func two(a int, unitA string, b int, unitB string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s%s", a, nbsp, unitA)
	}
	return fmt.Sprintf("%d%s%s%s%d%s%s", a, nbsp, unitA, nbsp, b, nbsp, unitB)
}

// objective writes an objective: TTFT p95 ≤ 1 s.
func objective(o experiment.Objective) string {
	return fmt.Sprintf("%s %s ≤ %s", indicatorName(o.Indicator), percentile(o.Quantile), chart.TickSeconds(o.Threshold.Seconds()))
}

// percentile writes a quantile: 0.95 as p95.
func percentile(q float64) string { return "p" + chart.Short(100*q) }

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
