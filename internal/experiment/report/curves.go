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

// curves makes the charts of families of levels.
type curves struct{ objectives []experiment.Objective }

// charts lists the charts of a family: each figure against what varies, and for a load, latency against throughput.
func (d *curves) charts(f *family) []*chart.Chart {
	rate := func() []*chart.Chart {
		return d.chartsOf(f, "throughput", "Output tokens per second", throughput(), func(v []float64) chart.Axis { return chart.LinearAxis(v, humanize.Exact) })
	}
	var shown []latency
	of := func(l latency) []*chart.Chart {
		shown = append(shown, l)
		return d.chartsOf(f, l.kind, l.title, d.figures(l, len(f.curves) > 1), chart.LatencyAxis)
	}
	var all []*chart.Chart
	switch f.kind {
	case "load":
		all = slices.Concat(rate(), of(ttft()), of(itl()), d.tradeoffs(f), of(duration()))
	case "rate":
		all = slices.Concat(rate(), of(ttft()), of(ttftFromSchedule()), of(itl()), d.tradeoffs(f))
	case "prompt":
		all = slices.Concat(of(ttft()), of(itl()), rate())
	default:
		all = slices.Concat(of(ttft()), of(duration()), rate())
	}
	for _, l := range []latency{ttftFromSchedule(), itl(), tpot(), duration()} { // whatever else there are objectives for
		asked := slices.ContainsFunc(d.objectives, func(o experiment.Objective) bool { return o.Indicator == l.indicator })
		if asked && !slices.ContainsFunc(shown, func(s latency) bool { return s.indicator == l.indicator }) {
			all = append(all, of(l)...)
		}
	}
	return all
}

// chartsOf is the chart of some figures; of a family of several curves a chart for each figure.
func (d *curves) chartsOf(f *family, kind, title string, figures []figure, y func([]float64) chart.Axis) []*chart.Chart {
	if len(f.curves) == 1 {
		return []*chart.Chart{d.against(f, kind, title, figures, y)}
	}
	var all []*chart.Chart
	for _, of := range figures {
		if !of.thin {
			all = append(all, d.against(f, of.kind, strings.TrimSuffix(title+", "+of.name, ", whole level"), []figure{of}, y))
		}
	}
	return all
}

// figures lists the percentiles that are drawn of a latency: p50, p95 and, unless each has a chart of its own, p99;
// and those that there are objectives for.
func (d *curves) figures(l latency, apart bool) []figure {
	all := []figure{l.figure(0.5, l.class+"1"), l.figure(0.95, l.class+"2")}
	if !apart {
		all = append(all, l.figure(0.99, l.class+"3"))
	}
	for _, o := range d.objectives {
		has := slices.ContainsFunc(all, func(f figure) bool { return f.quantile == o.Quantile })
		if o.Indicator == l.indicator && !has {
			all = append(all, l.figure(o.Quantile, l.class+"3"))
		}
	}
	return all
}

func (d *curves) tradeoffs(f *family) []*chart.Chart {
	return []*chart.Chart{d.tradeoff(f, ttft()), d.tradeoff(f, itl())}
}

// against is the chart of figures against what varies: a line for each figure or, of several curves, for each curve.
func (d *curves) against(f *family, kind, title string, figures []figure, y func([]float64) chart.Axis) *chart.Chart {
	c := &chart.Chart{Name: f.kind + "-" + kind, Title: title, X: chart.LevelAxis(f.axis, f.values()), Spread: true, Marks: f.marks()}
	p := chart.Panel{Height: chart.PanelHeight, Bounds: d.bounds(figures)}
	p.Lines = f.lines(drawn(f, figures), func(c *curve, of figure, l *experiment.LevelSummary) chart.Point {
		q := newPoint(f.value(l.Level), of.of(l), l)
		q.Ring = len(f.curves) > 1 && c.best(l.Index)
		return q
	})
	p.Y = y(p.Values())
	c.Panels = []chart.Panel{p}
	tellByValue(c, f, p.Lines)
	c.Name += f.suffix()
	return c
}

// lines is a line for each figure or, of several curves, for each curve; point is what a level becomes.
func (f *family) lines(figures []figure, point func(*curve, figure, *experiment.LevelSummary) chart.Point) []chart.Line {
	var all []chart.Line
	for _, of := range figures {
		for i := range f.curves {
			c := &f.curves[i]
			l := chart.Line{Name: of.name, Class: of.class, Thin: of.thin, Format: of.format}
			if len(f.curves) > 1 {
				l.Name, l.Class = c.name, c.class
			}
			for _, level := range c.levels {
				l.Points = append(l.Points, point(c, of, level))
			}
			all = append(all, l)
		}
	}
	if len(all) == 1 {
		all[0].Name = "" // the title names it
	}
	return all
}

// suffix tells apart the file names of families in the same respect.
func (f *family) suffix() string {
	if f.number == 0 {
		return ""
	}
	return fmt.Sprintf("-%d", f.number+1)
}

// drawn leaves out a figure that would only be drawn over the first.
func drawn(f *family, figures []figure) []figure {
	return slices.DeleteFunc(slices.Clone(figures), func(of figure) bool {
		if !of.thin {
			return false
		}
		for _, c := range f.curves {
			for _, l := range c.levels {
				a, b := float64(figures[0].of(l).Value), float64(of.of(l).Value)
				if chart.Finite(a) && chart.Finite(b) && math.Abs(a-b) > 0.03*math.Max(a, b) {
					return false
				}
			}
		}
		return true
	})
}

// newPoint is a figure of a level as a point.
func newPoint(x float64, e experiment.Estimate, level *experiment.LevelSummary) chart.Point {
	return chart.Point{
		X: x, Y: float64(e.Value), Low: float64(e.Low), High: float64(e.High), Interval: true,
		Doubted: len(level.Doubts) > 0, Of: level.Index,
	}
}

// bounds lists the objectives that the figures are about.
func (d *curves) bounds(figures []figure) []chart.Bound {
	var all []chart.Bound
	for _, o := range d.objectives {
		for _, f := range figures {
			if f.indicator == o.Indicator && f.quantile == o.Quantile {
				all = append(all, chart.Bound{Name: objective(o), Y: o.Threshold.Seconds()})
			}
		}
	}
	return all
}

// marks are the operating point and the knee of a family's only curve.
func (f *family) marks() []chart.Mark {
	if len(f.curves) != 1 {
		return nil
	}
	c := &f.curves[0]
	var all []chart.Mark
	for _, l := range c.levels {
		x, best, knee := f.value(l.Level), c.best(l.Index), c.knee(l.Index)
		switch {
		case best && knee:
			all = append(all, chart.Mark{Name: "operating point, knee", Class: "operating", X: x, Band: true})
		case best:
			all = append(all, chart.Mark{Name: "operating point", Class: "operating", X: x, Band: true})
		case knee:
			all = append(all, chart.Mark{Name: "knee", Class: "knee", X: x, Band: false})
		}
	}
	return all
}

// tradeoff is the chart of a latency against throughput, its points named by their load.
func (d *curves) tradeoff(f *family, of latency) *chart.Chart {
	c := &chart.Chart{
		Name:  f.kind + "-" + of.kind + "-against-throughput" + f.suffix(),
		Title: indicatorName(of.indicator) + " against throughput",
		Note:  "Each point is a load. Where the line turns upwards, more load buys waiting instead of tokens.",
	}
	high := d.quantile(of)
	figures := []figure{of.figure(0.5, of.class+"1"), of.figure(high, of.class+"2")}
	if len(f.curves) > 1 || high == 0.5 {
		figures = figures[1:]
		c.Title += ", " + percentile(high)
	}
	p := chart.Panel{Height: chart.PanelHeight, Bounds: d.bounds(figures)}
	var rates []float64
	p.Lines = f.lines(figures, func(c *curve, of figure, l *experiment.LevelSummary) chart.Point {
		q := newPoint(float64(l.OutputRate.Value), of.of(l), l)
		q.Interval = false
		if of.quantile == high {
			q.Label, q.Ring = humanize.Exact(f.value(l.Level)), c.best(l.Index)
			if c.knee(l.Index) {
				q.Label += " knee"
			}
		}
		rates = append(rates, q.X)
		return q
	})
	c.X = chart.LinearAxis(rates, humanize.Exact)
	c.X.Name = "output tokens per second"
	p.Y = chart.LatencyAxis(p.Values())
	c.Panels = []chart.Panel{p}
	tellByLevel(c, f)
	return c
}

// quantile is the percentile of a latency that there is an objective for, else the p95.
func (d *curves) quantile(of latency) float64 {
	for _, o := range d.objectives {
		if o.Indicator == of.indicator {
			return o.Quantile
		}
	}
	return 0.95
}
