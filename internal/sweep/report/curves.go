package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/sweep"
)

// curves makes the charts of families of levels.
type curves struct{ objectives []sweep.Objective }

// charts lists the charts of a family: each figure against what varies, and for a load, latency against throughput.
func (d *curves) charts(f *family) []*chart {
	rate := func() []*chart {
		return d.chartsOf(f, "throughput", "Output tokens per second", throughput(), func(v []float64) axis { return linearAxis(v, short) })
	}
	var shown []latency
	of := func(l latency) []*chart {
		shown = append(shown, l)
		return d.chartsOf(f, l.kind, l.title, d.figures(l, len(f.curves) > 1), latencyAxis)
	}
	var all []*chart
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
		asked := slices.ContainsFunc(d.objectives, func(o sweep.Objective) bool { return o.Indicator == l.indicator })
		if asked && !slices.ContainsFunc(shown, func(s latency) bool { return s.indicator == l.indicator }) {
			all = append(all, of(l)...)
		}
	}
	return all
}

// chartsOf is the chart of some figures; of a family of several curves a chart for each figure.
func (d *curves) chartsOf(f *family, kind, title string, figures []figure, y func([]float64) axis) []*chart {
	if len(f.curves) == 1 {
		return []*chart{d.against(f, kind, title, figures, y)}
	}
	var all []*chart
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

func (d *curves) tradeoffs(f *family) []*chart {
	return []*chart{d.tradeoff(f, ttft()), d.tradeoff(f, itl())}
}

// against is the chart of figures against what varies: a line for each figure or, of several curves, for each curve.
func (d *curves) against(f *family, kind, title string, figures []figure, y func([]float64) axis) *chart {
	c := &chart{name: f.kind + "-" + kind, title: title, x: levelAxis(f.axis, f.values()), spread: true, marks: f.marks()}
	p := panel{height: panelHeight, bounds: d.bounds(figures)}
	p.lines = f.lines(drawn(f, figures), func(c *curve, of figure, l *sweep.LevelSummary) point {
		q := newPoint(f.value(l.Level), of.of(l), l)
		q.ring = len(f.curves) > 1 && c.best(l.Index)
		return q
	})
	p.y = y(p.values())
	c.panels = []panel{p}
	tellByValue(c, f, p.lines)
	c.name += f.suffix()
	return c
}

// lines is a line for each figure or, of several curves, for each curve; point is what a level becomes.
func (f *family) lines(figures []figure, point func(*curve, figure, *sweep.LevelSummary) point) []line {
	var all []line
	for _, of := range figures {
		for i := range f.curves {
			c := &f.curves[i]
			l := line{name: of.name, class: of.class, thin: of.thin, format: of.format}
			if len(f.curves) > 1 {
				l.name, l.class = c.name, c.class
			}
			for _, level := range c.levels {
				l.points = append(l.points, point(c, of, level))
			}
			all = append(all, l)
		}
	}
	if len(all) == 1 {
		all[0].name = "" // the title names it
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
				if finite(a) && finite(b) && math.Abs(a-b) > 0.03*math.Max(a, b) {
					return false
				}
			}
		}
		return true
	})
}

// newPoint is a figure of a level as a point.
func newPoint(x float64, e sweep.Estimate, level *sweep.LevelSummary) point {
	return point{
		x: x, y: float64(e.Value), low: float64(e.Low), high: float64(e.High), interval: true,
		doubted: len(level.Doubts) > 0, of: level.Index,
	}
}

// bounds lists the objectives that the figures are about.
func (d *curves) bounds(figures []figure) []bound {
	var all []bound
	for _, o := range d.objectives {
		for _, f := range figures {
			if f.indicator == o.Indicator && f.quantile == o.Quantile {
				all = append(all, bound{objective(o), o.Threshold.Seconds()})
			}
		}
	}
	return all
}

// marks are the operating point and the knee of a family's only curve.
func (f *family) marks() []mark {
	if len(f.curves) != 1 {
		return nil
	}
	c := &f.curves[0]
	var all []mark
	for _, l := range c.levels {
		x, best, knee := f.value(l.Level), c.best(l.Index), c.knee(l.Index)
		switch {
		case best && knee:
			all = append(all, mark{"operating point, knee", "operating", x, true})
		case best:
			all = append(all, mark{"operating point", "operating", x, true})
		case knee:
			all = append(all, mark{"knee", "knee", x, false})
		}
	}
	return all
}

// tradeoff is the chart of a latency against throughput, its points named by their load.
func (d *curves) tradeoff(f *family, of latency) *chart {
	c := &chart{
		name:  f.kind + "-" + of.kind + "-against-throughput" + f.suffix(),
		title: indicatorName(of.indicator) + " against throughput",
		Note:  "Each point is a load. Where the line turns upwards, more load buys waiting instead of tokens.",
	}
	high := d.quantile(of)
	figures := []figure{of.figure(0.5, of.class+"1"), of.figure(high, of.class+"2")}
	if len(f.curves) > 1 || high == 0.5 {
		figures = figures[1:]
		c.title += ", " + percentile(high)
	}
	p := panel{height: panelHeight, bounds: d.bounds(figures)}
	var rates []float64
	p.lines = f.lines(figures, func(c *curve, of figure, l *sweep.LevelSummary) point {
		q := newPoint(float64(l.OutputRate.Value), of.of(l), l)
		q.interval = false
		if of.quantile == high {
			q.label, q.ring = short(f.value(l.Level)), c.best(l.Index)
			if c.knee(l.Index) {
				q.label += " knee"
			}
		}
		rates = append(rates, q.x)
		return q
	})
	c.x = linearAxis(rates, short)
	c.x.name = "output tokens per second"
	p.y = latencyAxis(p.values())
	c.panels = []panel{p}
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
