package sweep

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// How figures are written in sentences and tables.

// latency writes seconds with three digits: "2.18 s", "91.3 ms"; an unknown one as "?".
func latency(seconds float64) string {
	switch size := math.Abs(seconds); {
	case math.IsNaN(seconds):
		return "?"
	case math.IsInf(seconds, 0):
		return "∞"
	case size >= 0.9995:
		return digits(seconds) + " s"
	case size >= 0.0009995 || size == 0:
		return digits(seconds*1e3) + " ms"
	}
	return digits(seconds*1e6) + " µs"
}

// digits writes a number with three digits, more only if they are before the point; an unknown one as "?".
func digits(x float64) string {
	if math.IsNaN(x) {
		return "?"
	}
	decimals := 0
	for size := math.Abs(x); size > 0 && size < 99.95 && decimals < 9; size *= 10 {
		decimals++
	}
	return strconv.FormatFloat(x, 'f', decimals, 64)
}

// count writes a number and its noun: "1 request", "2 successes".
func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// tally writes counts by name, the highest first: "3 timeout, 1 tls".
func tally(counts map[string]int) string {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(names, ", ")
}
