package report

import (
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// tellByValue gives a chart of figures against what varies its table and its tooltips: a row for each level of the only
// curve, or for each value that several curves have.
func tellByValue(c *chart.Chart, f *family, lines []chart.Line) {
	c.Table.Head = append([]string{f.axis}, heads(lines, c.Title)...)
	for _, x := range c.X.Ticks {
		for n := 0; ; n++ { // a level may have been measured several times
			r, any := chart.Row{Name: f.nameAt(x)}, false
			for i := range lines {
				q, is := nth(&lines[i], x, n)
				any = any || is
				r.Cells = append(r.Cells, cellOf(&lines[i], q, is))
				r.Doubted = r.Doubted || is && q.Doubted
			}
			if !any {
				break
			}
			c.Table.Rows = append(c.Table.Rows, r)
			if n == 0 {
				c.Hits = append(c.Hits, chart.Hit{X: x, From: math.NaN(), To: math.NaN(), Text: r.Tooltip(c.Table.Head), Doubted: r.Doubted})
			}
		}
	}
}

// tellByLevel does the same for latency against throughput: a row for each level.
func tellByLevel(c *chart.Chart, f *family) {
	lines := c.Panels[0].Lines
	c.Table.Head = append([]string{f.axis, "output tokens per second"}, heads(lines, c.Title)...)
	for i, cu := range f.curves {
		for j, level := range cu.levels {
			r := chart.Row{Name: f.name(level.Level), Doubted: len(level.Doubts) > 0}
			r.Cells = append(r.Cells, newCell(level.OutputRate, humanize.Number))
			for at := range lines {
				own := len(f.curves) == 1 || at%len(f.curves) == i
				r.Cells = append(r.Cells, cellOf(&lines[at], lines[at].Points[min(j, len(lines[at].Points)-1)], own))
			}
			c.Table.Rows = append(c.Table.Rows, r)
			if x := float64(level.OutputRate.Value); chart.Finite(x) {
				c.Hits = append(c.Hits, chart.Hit{X: x, From: math.NaN(), To: math.NaN(), Text: r.Tooltip(c.Table.Head)})
			}
		}
	}
	slices.SortStableFunc(c.Hits, func(a, b chart.Hit) int {
		switch {
		case a.X < b.X:
			return -1
		case a.X > b.X:
			return 1
		}
		return 0
	})
}

func heads(lines []chart.Line, title string) []string {
	var all []string
	for _, l := range lines {
		if l.Name == "" {
			l.Name = title
		}
		all = append(all, l.Name)
	}
	return all
}

// nameAt is the name of a level by what varies.
func (f *family) nameAt(x float64) string {
	for _, c := range f.curves {
		for _, l := range c.levels {
			if f.value(l.Level) == x {
				return f.name(l.Level)
			}
		}
	}
	return humanize.Exact(x)
}

// nth is the nth point of a line at a place of the x axis.
func nth(l *chart.Line, x float64, n int) (chart.Point, bool) {
	for _, q := range l.Points {
		if q.X == x {
			if n == 0 {
				return q, true
			}
			n--
		}
	}
	return chart.Point{}, false
}

func cellOf(l *chart.Line, q chart.Point, is bool) chart.Cell {
	if !is {
		return chart.Cell{}
	}
	return newCell(experiment.Estimate{Value: experiment.Figure(q.Y), Low: experiment.Figure(q.Low), High: experiment.Figure(q.High)}, l.Format)
}

func newCell(e experiment.Estimate, format func(float64) string) chart.Cell {
	c := chart.Cell{Value: format(float64(e.Value))}
	if e.Value.Known() {
		c.Interval = interval(e, format)
	}
	return c
}
