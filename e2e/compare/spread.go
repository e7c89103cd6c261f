//go:build linux

package main

import "github.com/llm-prober/llm_prober/e2e/figures"

// spread is what the tables tell of a latency, in milliseconds. All clients' percentiles are taken from their single
// values, since they differ in how they take their own.
type spread struct{ Mean, P50, P99 float64 }

func spreadOf(values []float64) spread {
	return spread{figures.Mean(values), figures.Quantile(values, 0.5), figures.Quantile(values, 0.99)}
}

func (s spread) minus(t spread) spread { return spread{s.Mean - t.Mean, s.P50 - t.P50, s.P99 - t.P99} }
