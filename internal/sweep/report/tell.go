package report

import (
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/internal/sweep"
)

// tellByValue gives a chart of figures against what varies its table and its tooltips: a row for each level of the only
// curve, or for each value that several curves have.
func tellByValue(c *chart, f *family, lines []line) {
	c.Table.Head = append([]string{f.axis}, heads(lines, c.title)...)
	for _, x := range c.x.ticks {
		for n := 0; ; n++ { // a level may have been measured several times
			r, any := row{Name: f.nameAt(x)}, false
			for i := range lines {
				q, is := lines[i].nth(x, n)
				any = any || is
				r.Cells = append(r.Cells, lines[i].cell(q, is))
				r.Doubted = r.Doubted || is && q.doubted
			}
			if !any {
				break
			}
			c.Table.Rows = append(c.Table.Rows, r)
			if n == 0 {
				c.hits = append(c.hits, hit{x: x, from: math.NaN(), to: math.NaN(), text: r.tooltip(c.Table.Head), doubted: r.Doubted})
			}
		}
	}
}

// tellByLevel does the same for latency against throughput: a row for each level.
func tellByLevel(c *chart, f *family) {
	lines := c.panels[0].lines
	c.Table.Head = append([]string{f.axis, "output tokens per second"}, heads(lines, c.title)...)
	for i, cu := range f.curves {
		for j, level := range cu.levels {
			r := row{Name: f.name(level.Level), Doubted: len(level.Doubts) > 0}
			r.Cells = append(r.Cells, newCell(level.OutputRate, exactRate))
			for at := range lines {
				own := len(f.curves) == 1 || at%len(f.curves) == i
				r.Cells = append(r.Cells, lines[at].cell(lines[at].points[min(j, len(lines[at].points)-1)], own))
			}
			c.Table.Rows = append(c.Table.Rows, r)
			if x := float64(level.OutputRate.Value); finite(x) {
				c.hits = append(c.hits, hit{x: x, from: math.NaN(), to: math.NaN(), text: r.tooltip(c.Table.Head)})
			}
		}
	}
	slices.SortStableFunc(c.hits, func(a, b hit) int {
		switch {
		case a.x < b.x:
			return -1
		case a.x > b.x:
			return 1
		}
		return 0
	})
}

func heads(lines []line, title string) []string {
	var all []string
	for _, l := range lines {
		if l.name == "" {
			l.name = title
		}
		all = append(all, l.name)
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
	return short(x)
}

// nth is the nth point of a line at a place of the x axis.
func (l *line) nth(x float64, n int) (point, bool) {
	for _, q := range l.points {
		if q.x == x {
			if n == 0 {
				return q, true
			}
			n--
		}
	}
	return point{}, false
}

func (l *line) cell(q point, is bool) cell {
	if !is {
		return cell{}
	}
	return newCell(sweep.Estimate{Value: sweep.Figure(q.y), Low: sweep.Figure(q.low), High: sweep.Figure(q.high)}, l.format)
}

func newCell(e sweep.Estimate, format func(float64) string) cell {
	c := cell{Value: format(float64(e.Value))}
	if e.Value.Known() {
		c.Interval = interval(e, format)
	}
	return c
}
