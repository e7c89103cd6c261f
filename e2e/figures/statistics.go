// Package figures makes of measured values what documents report: statistics, tables, and the tables' places.
package figures

import (
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/internal/quantile"
)

// Median is NaN of nothing.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile is by nearest rank; NaN of nothing.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return quantile.NearestRank(slices.Sorted(slices.Values(values)), q)
}

// Mean is NaN of nothing.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
