//go:build linux

package main

import (
	"math"
	"slices"
	"strings"
)

// table is a Markdown table.
type table struct{ strings.Builder }

func (t *table) header(cells ...string) {
	t.row(cells...)
	for i := range cells {
		cells[i] = "---"
	}
	t.row(cells...)
}

func (t *table) row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is by nearest rank.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
