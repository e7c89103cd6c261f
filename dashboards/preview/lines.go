package main

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// line is one line of a chart.
type line struct {
	name   string
	style  style
	points []point
}

func (p *panel) allLines() []line {
	var all []line
	for i, answer := range p.Answers {
		for _, s := range answer {
			name := s.name(p.Panel.Targets[i].LegendFormat)
			all = append(all, line{name, p.style(name, len(all)), s.Values})
		}
	}
	return all
}

// lines draws a chart of lines, of areas that add up, or of bars that do.
func (r *recording) lines(c draw.Canvas, p *panel) error {
	all := p.allLines()
	if len(all) == 0 {
		write(c, c.Center(), "no data", 11, "#999999", -0.5, false)
		return nil
	}
	c.Min.Y += legend(c, all)
	chart := r.chart(p.Panel.FieldConfig.Defaults.Unit)
	chart.Y.Min, chart.Y.Max = 0, top(all, p)
	floor := map[float64]float64{}
	bars := p.Panel.FieldConfig.Defaults.Custom.DrawStyle == "bars"
	for _, l := range all {
		switch {
		case l.style.stacked && bars:
			chart.Add(stack{l, floor, true})
		case l.style.stacked:
			chart.Add(stack{l, floor, false})
		default:
			if err := r.plain(chart, l); err != nil {
				return err
			}
		}
	}
	if t := p.Panel.FieldConfig.Defaults.Thresholds; t != nil && p.Panel.FieldConfig.Defaults.Custom.AxisSoftMax > 0 {
		for _, s := range t.Steps {
			if s.Value != nil {
				chart.Add(limit{*s.Value, paint(s.Color)})
			}
		}
	}
	r.mark(chart)
	chart.Draw(c)
	return nil
}

// chart is an empty chart over the time of the recording.
func (r *recording) chart(unit string) *plot.Plot {
	chart := plot.New()
	chart.BackgroundColor = color.Transparent
	chart.X.Min, chart.X.Max = r.From, r.To
	chart.X.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		var ticks []plot.Tick
		step := 60 * math.Ceil((high-low)/60/6)
		// Not at the very left, where the other axis has its zero.
		for t := math.Ceil((low+(high-low)/25)/step) * step; t <= high; t += step {
			ticks = append(ticks, plot.Tick{Value: t, Label: clock(t)})
		}
		return ticks
	})
	chart.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		var ticks []plot.Tick
		step := round((high - low) / 5)
		for v := low; v <= high*1.001; v += step {
			ticks = append(ticks, plot.Tick{Value: v, Label: format(v, unit, nil)})
		}
		return ticks
	})
	for _, axis := range []*plot.Axis{&chart.X, &chart.Y} {
		axis.Tick.Label = face(8, "#777777", axis.Tick.Label.XAlign, false)
		axis.Tick.Length = 0
		axis.LineStyle.Width = 0
		axis.Padding = 1
	}
	chart.X.Tick.Label.YAlign, chart.X.Tick.Label.XAlign = -1, -0.5
	chart.Y.Tick.Label.XAlign, chart.Y.Tick.Label.YAlign = -1, -0.5
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.RGBA{230, 230, 230, 255}, color.RGBA{230, 230, 230, 255}
	chart.Add(grid)
	return chart
}

// round is the nearest of 1, 2 and 5 times a power of ten that is not below v.
func round(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power*1.001 {
			return m * power
		}
	}
	return 10 * power
}

// top is the end of the axis: the highest value, of a stack the highest sum.
func top(all []line, p *panel) float64 {
	high, sums := 0.0, map[float64]float64{}
	for _, l := range all {
		for _, point := range l.points {
			if math.IsNaN(point.value) || math.IsInf(point.value, 0) {
				continue
			}
			v := point.value
			if l.style.stacked {
				sums[point.time] += v
				v = sums[point.time]
			}
			high = max(high, v)
		}
	}
	high = max(high, p.Panel.FieldConfig.Defaults.Custom.AxisSoftMax)
	if m := p.Panel.FieldConfig.Defaults.Max; m != nil {
		high = *m
	}
	if high == 0 {
		return 1
	}
	return high * 1.03
}

// plain adds a line, with gaps where it has no number.
func (r *recording) plain(chart *plot.Plot, l line) error {
	var part plotter.XYs
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		drawn, err := plotter.NewLine(part)
		if err != nil {
			return err
		}
		drawn.Color, drawn.Width = paint(l.style.color), vg.Points(1.3)
		if l.style.dashed {
			drawn.Dashes, drawn.Width = []vg.Length{vg.Points(4), vg.Points(3)}, vg.Points(1)
		}
		chart.Add(drawn)
		part = nil
		return nil
	}
	for i, point := range l.points {
		if i > 0 && point.time-l.points[i-1].time > 3*spacing(l.points) || math.IsNaN(point.value) || math.IsInf(point.value, 0) {
			if err := flush(); err != nil {
				return err
			}
		}
		if !math.IsNaN(point.value) && !math.IsInf(point.value, 0) {
			part = append(part, plotter.XY{X: point.time, Y: min(point.value, chart.Y.Max)})
		}
	}
	return flush()
}

// spacing is the usual time between two points.
func spacing(points []point) float64 {
	least := math.Inf(1)
	for i := 1; i < len(points); i++ {
		least = min(least, points[i].time-points[i-1].time)
	}
	return least
}

// stack is a line on top of others, the place below it filled.
type stack struct {
	line
	floor map[float64]float64 // by time: where the line below it ends; raised by drawing
	bars  bool
}

// Plot implements plot.Plotter.
func (s stack) Plot(c draw.Canvas, chart *plot.Plot) {
	x, y := chart.Transforms(&c)
	step := spacing(s.points)
	area := pale(paint(s.style.color), 0.75)
	var low, high []vg.Point
	flush := func() {
		slices.Reverse(low)
		c.FillPolygon(area, append(high, low...))
		low, high = nil, nil
	}
	for i, p := range s.points {
		if math.IsNaN(p.value) {
			flush()
			continue
		}
		from, to := y(s.floor[p.time]), y(s.floor[p.time]+p.value)
		s.floor[p.time] += p.value
		if s.bars {
			fill(c, vg.Rectangle{Min: vg.Point{X: x(p.time - step*0.45), Y: from}, Max: vg.Point{X: x(p.time + step*0.45), Y: to}}, area)
			continue
		}
		if i > 0 && p.time-s.points[i-1].time > 3*step {
			flush()
		}
		low, high = append(low, vg.Point{X: x(p.time), Y: from}), append(high, vg.Point{X: x(p.time), Y: to})
	}
	flush()
}

// limit is a dashed line across a chart.
type limit struct {
	value float64
	color color.RGBA
}

// Plot implements plot.Plotter.
func (l limit) Plot(c draw.Canvas, chart *plot.Plot) {
	_, y := chart.Transforms(&c)
	c.StrokeLine2(draw.LineStyle{Color: l.color, Width: 1, Dashes: []vg.Length{6, 4}}, c.Min.X, y(l.value), c.Max.X, y(l.value))
}

// mark adds the events.
func (r *recording) mark(chart *plot.Plot) {
	for _, e := range r.Events {
		chart.Add(events{e, paint(e.IconColor)})
	}
}

type events struct {
	event
	color color.RGBA
}

// Plot implements plot.Plotter.
func (e events) Plot(c draw.Canvas, chart *plot.Plot) {
	x, _ := chart.Transforms(&c)
	last := math.Inf(-1)
	for _, s := range e.Series {
		for _, p := range s.Values {
			at := p.time
			if e.UseValueForTime {
				at = p.value / 1000
			}
			// Times that are close together are one event that lasts: its start is drawn.
			lasts := math.Abs(at-last) <= 90
			last = at
			if lasts || at < chart.X.Min || at > chart.X.Max {
				continue
			}
			c.StrokeLine2(draw.LineStyle{Color: e.color, Width: 1, Dashes: []vg.Length{2, 2}}, x(at), c.Min.Y, x(at), c.Max.Y)
		}
	}
}

// legend writes the names of the lines below the chart and returns the height that it took.
func legend(c draw.Canvas, all []line) vg.Length {
	const height, mark = 11, 10
	x, y := c.Min.X+mark, vg.Length(0)
	type entry struct {
		at vg.Point
		line
	}
	var entries []entry
	for _, l := range all {
		width := face(8, "text", left, false).Width(l.name) + mark + 10
		if x+width > c.Max.X && x > c.Min.X+mark {
			x, y = c.Min.X+mark, y+height
		}
		entries = append(entries, entry{vg.Point{X: x, Y: y}, l})
		x += width
	}
	for _, e := range entries {
		at := vg.Point{X: e.at.X, Y: c.Min.Y + y - e.at.Y + height/2}
		fill(c, vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - 1}, Max: vg.Point{X: at.X + mark - 3, Y: at.Y + 1}}, paint(e.style.color))
		write(c, vg.Point{X: at.X + mark, Y: at.Y}, e.name, 8, "text", left, false)
	}
	return y + height + 2
}
