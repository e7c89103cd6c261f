//go:build linux

package main

import (
	"fmt"
	"math"

	"github.com/llm-prober/llm_prober/e2e/figures"
)

// cell is what the runs of one client at one number of streams come to: medians.
type cell struct {
	streams int
	client  string
	runs    []clientFigures
}

func (c cell) median(of func(clientFigures) float64) float64 {
	var values []float64
	for _, r := range c.runs {
		if v := of(r); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return figures.Median(values)
}

// cells groups runs, in the order of the table of clients.
func cells(all []clientFigures) (grouped []cell) {
	var levels []int
	runs := map[cellKey][]clientFigures{}
	for _, f := range all {
		if len(levels) == 0 || levels[len(levels)-1] != f.Streams {
			levels = append(levels, f.Streams)
		}
		key := cellKey{f.Streams, f.Client}
		runs[key] = append(runs[key], f)
	}
	for _, streams := range levels {
		for _, c := range clients() {
			if of := runs[cellKey{streams, c.Name}]; len(of) > 0 {
				grouped = append(grouped, cell{streams, c.Name, of})
			}
		}
	}
	return grouped
}

type cellKey struct {
	streams int
	client  string
}

// clientTables are the errors of TTFT, those of ITL, and the cost.
func clientTables(all []clientFigures) string {
	var ttft, itl, cost figures.Table
	ttft.Header("streams", "client", "TTFT served, mean / p99", "reported, mean / p99", "error of mean", "error of p99", "of mean, to ours", "of p99, to ours")
	itl.Header("streams", "client", "ITL served, mean / p50 / p99", "reported, mean / p50 / p99", "error of mean", "error of p50", "error of p99",
		"error of mean, a role chunk counted as a token", "failed requests")
	cost.Header("streams", "client", "streams in flight, mean", "CPU, s", "from the first request on, s", "peak MB", "CPU, to ours", "from the first request on, to ours", "MB, to ours")
	ours := cell{}
	for _, c := range cells(all) {
		if c.client == clients()[0].Name {
			ours = c
		}
		ttft.Row(append([]string{fmt.Sprint(c.streams), c.client}, ttftCells(c, ours)...)...)
		itl.Row(append([]string{fmt.Sprint(c.streams), c.client}, itlCells(c)...)...)
		cost.Row(append([]string{fmt.Sprint(c.streams), c.client}, costCells(c, ours)...)...)
	}
	return "Time to first token, ms:\n\n" + ttft.String() + "\nInter-token latency, ms:\n\n" + itl.String() + "\nCost:\n\n" + cost.String()
}

func ttftCells(c, ours cell) []string {
	off := func(f clientFigures) spread { return f.TTFT.minus(f.ServedTTFT) }
	mean := func(f clientFigures) float64 { return off(f).Mean }
	p99 := func(f clientFigures) float64 { return off(f).P99 }
	return []string{
		fmt.Sprintf("%.1f / %.1f", c.median(func(f clientFigures) float64 { return f.ServedTTFT.Mean }), c.median(func(f clientFigures) float64 { return f.ServedTTFT.P99 })),
		fmt.Sprintf("%.1f / %.1f", c.median(func(f clientFigures) float64 { return f.TTFT.Mean }), c.median(func(f clientFigures) float64 { return f.TTFT.P99 })),
		signed(c.median(mean)), signed(c.median(p99)), ratio(c, ours, mean), ratio(c, ours, p99),
	}
}

func itlCells(c cell) []string {
	three := func(of func(clientFigures) spread) string {
		part := func(pick func(spread) float64) float64 {
			return c.median(func(f clientFigures) float64 { return pick(of(f)) })
		}
		return fmt.Sprintf("%.2f / %.2f / %.2f", part(func(s spread) float64 { return s.Mean }),
			part(func(s spread) float64 { return s.P50 }), part(func(s spread) float64 { return s.P99 }))
	}
	failed := 0
	for _, r := range c.runs {
		failed += r.Failed
	}
	return []string{
		three(func(f clientFigures) spread { return f.ServedITL }), three(func(f clientFigures) spread { return f.ITL }),
		signed(c.median(func(f clientFigures) float64 { return f.ITL.minus(f.ServedITL).Mean })),
		signed(c.median(func(f clientFigures) float64 { return f.ITL.minus(f.ServedITL).P50 })),
		signed(c.median(func(f clientFigures) float64 { return f.ITL.minus(f.ServedITL).P99 })),
		signed(c.median(func(f clientFigures) float64 { return f.ITL.minus(f.OwnITL).Mean })),
		fmt.Sprint(failed),
	}
}

func costCells(c, ours cell) []string {
	cpu := func(f clientFigures) float64 { return f.CPU }
	running := func(f clientFigures) float64 { return f.CPURunning }
	mb := func(f clientFigures) float64 { return f.PeakMB }
	return []string{
		fmt.Sprintf("%.0f", c.median(func(f clientFigures) float64 { return f.InFlight })),
		fmt.Sprintf("%.2f", c.median(cpu)), fmt.Sprintf("%.2f", c.median(running)), fmt.Sprintf("%.0f", c.median(mb)),
		ratio(c, ours, cpu), ratio(c, ours, running), ratio(c, ours, mb),
	}
}

// signed is a difference, with as many digits as a thousandth of a millisecond takes.
func signed(v float64) string { return fmt.Sprintf("%+.3f", v) }

// ratio compares sizes, whatever their signs.
func ratio(c, ours cell, of func(clientFigures) float64) string {
	if len(ours.runs) == 0 || ours.streams != c.streams {
		return "–"
	}
	r := math.Abs(c.median(of)) / math.Abs(ours.median(of))
	if r >= 10 {
		return fmt.Sprintf("%.0f", r)
	}
	return fmt.Sprintf("%.2f", r)
}
