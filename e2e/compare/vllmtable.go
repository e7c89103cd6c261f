//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/e2e/figures"
)

// vllmRow is a line of the table: one figure of every client.
type vllmRow struct {
	name   string
	format string
	of     func(vllmFigures) float64
}

func vllmRows() []vllmRow {
	return []vllmRow{
		{"TTFT median, ms", "%.2f", func(f vllmFigures) float64 { return f.TTFT.P50 }},
		{"ITL median, ms", "%.2f", func(f vllmFigures) float64 { return f.ITL.P50 }},
		{"TPOT median, ms", "%.2f", func(f vllmFigures) float64 { return f.TPOT.P50 }},
		{"output, tok/s", "%.1f", func(f vllmFigures) float64 { return f.Throughput }},
		{"TTFT mean, ms", "%.2f", func(f vllmFigures) float64 { return f.TTFT.Mean }},
		{"TTFT mean by vLLM, ms", "%.2f", func(f vllmFigures) float64 { return f.ServerTTFT }},
		{"TTFT mean, less vLLM's, ms", "%.2f", func(f vllmFigures) float64 { return f.TTFT.Mean - f.ServerTTFT }},
		{"ITL mean, ms", "%.2f", func(f vllmFigures) float64 { return f.ITL.Mean }},
		{"ITL mean by vLLM, ms", "%.2f", func(f vllmFigures) float64 { return f.ServerITL }},
		{"ITL mean, to vLLM's", "%.3f", func(f vllmFigures) float64 { return f.ITL.Mean / f.ServerITL }},
	}
}

// vllmTable has medians over the rounds; in brackets, the ratio to ours.
func vllmTable(all []vllmFigures) string {
	var loads, names []string
	for _, f := range all {
		if !slices.Contains(loads, f.Load) {
			loads = append(loads, f.Load)
		}
	}
	for _, c := range clients() {
		if slices.ContainsFunc(all, func(f vllmFigures) bool { return f.Client == c.Name }) {
			names = append(names, c.Name)
		}
	}
	var t figures.Table
	t.Header(append([]string{"load", "figure"}, names...)...)
	for _, load := range loads {
		for _, row := range vllmRows() {
			cells := []string{load, row.name}
			ours := math.NaN()
			for i, name := range names {
				value := medianOf(all, load, name, row.of)
				if i == 0 {
					ours = value
				}
				cell := fmt.Sprintf(row.format, value)
				if i > 0 {
					cell += fmt.Sprintf(" (%.3f)", value/ours)
				}
				cells = append(cells, cell)
			}
			t.Row(cells...)
		}
	}
	return t.String() + "\n" + vllmChecks(all)
}

func medianOf(all []vllmFigures, load, client string, of func(vllmFigures) float64) float64 {
	var values []float64
	for _, f := range all {
		if f.Load == load && f.Client == client {
			values = append(values, of(f))
		}
	}
	return figures.Median(values)
}

// vllmChecks says whether all did the same.
func vllmChecks(all []vllmFigures) string {
	failed := 0
	shortest, longest := math.Inf(1), math.Inf(-1)
	for _, f := range all {
		failed += f.Failed
		shortest, longest = min(shortest, f.PromptTokens), max(longest, f.PromptTokens)
	}
	return fmt.Sprintf("Failed requests: %d. Prompt tokens a request, mean of each run: %.2f to %.2f.\n", failed, shortest, longest)
}
