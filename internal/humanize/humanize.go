// Package humanize writes figures for people, on the status page, in the tool's output, in tables and in reports: the
// same value reads the same everywhere.
//
// The rule: three significant digits, and the unit by the size of the value, so that the digits before the point are at
// most three; whole numbers and counts in full, with commas from five digits on. Trailing zeros tell how exact a measured
// figure is; one that was chosen has none. A figure that is not known is [Unknown].
//
// Between a number and its unit is a plain space, so that what is printed on a terminal can be searched and copied;
// [NoBreak] is for pages.
package humanize

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Unknown stands for a figure that is not known.
const Unknown = "–"

// unit is a scale of a quantity: what it is divided by.
type unit struct {
	size float64
	name string
}

// Duration writes a measured time: 35.2 ns, 352 µs, 19.8 ms, 872 ms, 2.18 s, 120 s.
func Duration(d time.Duration) string { return Seconds(d.Seconds()) }

// Seconds is Duration of seconds.
func Seconds(v float64) string {
	return scaled(v, func(v float64) string { return digits(v, 3) })
}

// Chosen writes a time that was chosen, such as a threshold or a tick of a chart, in full: 500 µs, 50 ms, 1.5 s.
func Chosen(seconds float64) string { return scaled(seconds, Exact) }

func scaled(seconds float64, write func(float64) string) string {
	switch size := math.Abs(seconds); {
	case size == 0:
		return "0 s"
	case size < 0.9995e-9:
		return "< 1 ns"
	}
	return inUnits(seconds, write, []unit{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}})
}

// inUnits writes a value in the largest unit of which it is at least one, when rounded; else in the last.
func inUnits(v float64, write func(float64) string, units []unit) string {
	if !finite(v) {
		return Number(v)
	}
	u := units[len(units)-1]
	for _, larger := range units {
		if math.Abs(v) >= 0.9995*larger.size {
			u = larger
			break
		}
	}
	return write(v/u.size) + " " + u.name
}

// Number writes a rate, a mean, a gauge: 0.352, 2.80, 19.8, 872, 12,345; a whole number without a fraction.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return Unknown
	case math.IsInf(v, 1):
		return "∞"
	case math.IsInf(v, -1):
		return "-∞"
	case v == math.Trunc(v):
		return digits(v, 1)
	}
	return digits(v, 3)
}

// Exact writes a number that was chosen, such as a rate or a tick of a chart, in full: 1.25, 12.375, 2048.
func Exact(v float64) string {
	if !finite(v) {
		return Number(v)
	}
	return trimmed(digits(v, 6))
}

// digits writes n significant digits, and all of those before the point.
func digits(v float64, n int) string {
	if math.Abs(v) < 1e-9 {
		return "0"
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', n-1, 64), 64) // 0.9999 is 1.00
	after := n - 1 - int(math.Floor(math.Log10(math.Abs(rounded))))
	return grouped(strconv.FormatFloat(v, 'f', min(max(after, 0), 9), 64))
}

// trimmed leaves out zeros at the end of a fraction.
func trimmed(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// grouped puts commas between every three digits before the point, if they are five or more.
func grouped(s string) string {
	whole, fraction, _ := strings.Cut(s, ".")
	if len(strings.TrimPrefix(whole, "-")) < 5 {
		return s
	}
	for i := len(whole) - 3; i > 0 && whole[i-1] != '-'; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

// Share writes a ratio as a percentage, with two significant digits of what it is away from 0 or from 100 %, so that
// what is nearly all does not read as all: 0.052 %, 5.2 %, 52 %, 96.4 %, 99.95 %.
func Share(ratio float64) string {
	if !finite(ratio) {
		return Unknown
	}
	percent := 100 * ratio
	away := min(math.Abs(percent), math.Abs(percent-100))
	after := 0
	if away > 1e-9 {
		after = min(max(1-int(math.Floor(math.Log10(away)+1e-9)), 0), 9)
	}
	return trimmed(strconv.FormatFloat(percent, 'f', after, 64)) + " %"
}

// Count writes a number of things: 1 probe, 2 probes, 12,345 successes.
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return Whole(n) + " " + noun
}

// Tally writes counts by name, the highest first: 3 timeout, 1 tls.
func Tally(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = Whole(counts[name]) + " " + name
	}
	return strings.Join(names, ", ")
}

// Whole writes a count: 12,345. A negative one is not known.
func Whole(n int) string {
	if n < 0 {
		return Unknown
	}
	return grouped(strconv.Itoa(n))
}

// Bytes writes a size of memory or of a file: 512 B, 1.50 KiB, 128 MiB. One that is not above 0 is not known.
func Bytes(n int64) string {
	if n <= 0 {
		return Unknown
	}
	return inUnits(float64(n), Number, []unit{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}, {1, "B"}})
}

// Span writes how long something has lasted, in two units at most and without what is less: 8 s, 3 min 20 s, 2 h 5 min,
// 3 d 4 h.
func Span(d time.Duration) string {
	s := max(0, int(d/time.Second))
	switch {
	case s < 60:
		return two(s, "s", 0, "")
	case s < 3600:
		return two(s/60, "min", s%60, "s")
	case s < 86400:
		return two(s/3600, "h", s%3600/60, "min")
	}
	return two(s/86400, "d", s%86400/3600, "h")
}

// Setting writes a time span that was chosen, such as an interval or a timeout: 15 s, 2 min, 1.5 s, 250 ms.
func Setting(d time.Duration) string {
	if d%time.Second == 0 {
		return Span(d)
	}
	return Chosen(d.Seconds())
}

// Range writes the bounds of a figure, with the unit once if it is that of both: 580 to 660 ms, 980 ms to 1.02 s.
func Range(low, high float64, write func(float64) string) string {
	from, to := write(low), write(high)
	if number, unit, is := strings.Cut(from, " "); is && strings.HasSuffix(to, " "+unit) {
		from = number
	}
	return from + " to " + to
}

func two(a int, unitA string, b int, unitB string) string {
	text := strconv.Itoa(a) + " " + unitA
	if b != 0 {
		text += " " + strconv.Itoa(b) + " " + unitB
	}
	return text
}

// NoBreak keeps each number on one line with what follows it, its unit or what is counted, by no-break spaces.
func NoBreak(text string) string {
	var b strings.Builder
	var before rune
	for i, r := range text {
		if r == ' ' && unicode.IsDigit(before) && i+1 < len(text) && !unicode.IsDigit(rune(text[i+1])) {
			b.WriteRune('\u00a0')
		} else {
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
