// Package humanize writes figures as people read them, in sentences and tables.
package humanize

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Latency writes seconds with three digits: "2.18 s", "91.3 ms"; an unknown one as "?".
func Latency(seconds float64) string {
	switch size := math.Abs(seconds); {
	case math.IsNaN(seconds):
		return "?"
	case math.IsInf(seconds, 0):
		return "∞"
	case size >= 0.9995:
		return Digits(seconds) + " s"
	case size >= 0.0009995 || size == 0:
		return Digits(seconds*1e3) + " ms"
	}
	return Digits(seconds*1e6) + " µs"
}

// Digits writes a number with three digits, more only if they are before the point; an unknown one as "?".
func Digits(x float64) string {
	if math.IsNaN(x) {
		return "?"
	}
	decimals := 0
	for size := math.Abs(x); size > 0 && size < 99.95 && decimals < 9; size *= 10 {
		decimals++
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// Count writes a number and its noun: "1 request", "2 successes".
func Count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Tally writes counts by name, the highest first: "3 timeout, 1 tls".
func Tally(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(names, ", ")
}
