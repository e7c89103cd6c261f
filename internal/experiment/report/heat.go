package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// heat is a table of one figure over a grid of levels, its cells the darker the higher the figure.
type heat struct {
	Title, Axis string
	Head        []string
	Rows        []heatRow
}

type heatRow struct {
	Name  string
	Cells []heatCell
}

type heatCell struct {
	Class   string // h0 to h9, by the logarithm of the value
	Value   string
	Doubted bool
	Held    string // ✔ or ✖, where there are objectives
}

// heats lists the heat tables of a family of several curves.
func heats(f *family) []heat {
	return []heat{
		f.heat("Output tokens per second", throughput()[0]), f.heat("TTFT p95", ttft().figure(0.95, "")), f.heat("ITL p95", itl().figure(0.95, "")),
	}
}

func (f *family) heat(title string, of figure) heat {
	h := heat{Title: title, Axis: strings.TrimSuffix(f.axis, " (concurrency)")}
	xs := chart.Positive(f.values())
	slices.Sort(xs)
	xs = slices.Compact(xs)
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range f.curves {
		for _, l := range c.levels {
			if v := float64(of.of(l).Value); chart.Finite(v) && v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	for _, x := range xs {
		h.Head = append(h.Head, humanize.Exact(x))
	}
	for _, c := range f.curves {
		r := heatRow{Name: c.name}
		for _, x := range xs {
			at := slices.IndexFunc(c.levels, func(l *experiment.LevelSummary) bool { return f.value(l.Level) == x })
			if at < 0 {
				r.Cells = append(r.Cells, heatCell{})
				continue
			}
			r.Cells = append(r.Cells, newHeatCell(c.levels[at], of, low, high))
		}
		h.Rows = append(h.Rows, r)
	}
	return h
}

func newHeatCell(l *experiment.LevelSummary, of figure, low, high float64) heatCell {
	v := float64(of.of(l).Value)
	c := heatCell{Value: of.format(v), Doubted: len(l.Doubts) > 0}
	if chart.Finite(v) && v > 0 && high > low {
		c.Class = fmt.Sprintf("h%d", int(math.Round(9*math.Log(v/low)/math.Log(high/low))))
	}
	if len(l.Verdicts) > 0 {
		c.Held = "✔"
		if slices.ContainsFunc(l.Verdicts, func(v experiment.Verdict) bool { return !v.Held }) {
			c.Held = "✖"
		}
	}
	return c
}
