//go:build linux

package main

import (
	"math"
	"slices"
)

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is by nearest rank; NaN of nothing. All clients' percentiles are taken with it from their single values,
// since they differ in how they take their own.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// mean is NaN of nothing.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// spread is what the tables tell of a latency, in milliseconds.
type spread struct{ Mean, P50, P99 float64 }

func spreadOf(values []float64) spread {
	return spread{mean(values), quantile(values, 0.5), quantile(values, 0.99)}
}

func (s spread) minus(t spread) spread { return spread{s.Mean - t.Mean, s.P50 - t.P50, s.P99 - t.P99} }
