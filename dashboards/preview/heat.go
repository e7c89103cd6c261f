package main

import (
	"image/color"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// heat draws a heatmap of native histograms, or of classic ones.
func (r *recording) heat(c draw.Canvas, p *panel) error {
	columns := histograms(p.Answers[0])
	low, high, most := math.Inf(1), 0.0, 0.0
	for _, h := range columns {
		for _, b := range h.buckets {
			if b.count > 0 && b.low > 0 {
				low, high, most = min(low, b.low), max(high, b.high), max(most, b.count)
			}
		}
	}
	if most == 0 {
		write(c, c.Center(), "no data", 11, "#999999", -0.5, false)
		return nil
	}
	chart := r.chart(p.Panel.FieldConfig.Defaults.Unit)
	chart.Y.Scale = plot.LogScale{}
	chart.Y.Min, chart.Y.Max = low/1.3, high*1.3
	unit := p.Panel.FieldConfig.Defaults.Unit
	chart.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		var ticks []plot.Tick
		for decade := math.Pow(10, math.Floor(math.Log10(low))); decade <= high; decade *= 10 {
			for _, m := range []float64{1, 2, 5} {
				if v := decade * m; v >= low && v <= high {
					ticks = append(ticks, plot.Tick{Value: v, Label: format(v, unit, nil)})
				}
			}
		}
		return ticks
	})
	chart.Add(cells{columns, most})
	r.mark(chart)
	chart.Draw(c)
	return nil
}

// histograms makes one histogram a time of an answer: the native ones as they are, classic ones from the differences
// of their cumulative buckets.
func histograms(answer []series) []histogram {
	counts := map[float64]map[float64]float64{} // by time, by upper bound
	for _, s := range answer {
		if len(s.Histograms) > 0 {
			return s.Histograms
		}
		bound, err := strconv.ParseFloat(s.Metric["le"], 64)
		if err != nil || math.IsInf(bound, 0) {
			continue
		}
		for _, p := range s.Values {
			if counts[p.time] == nil {
				counts[p.time] = map[float64]float64{}
			}
			counts[p.time][bound] = p.value
		}
	}
	var all []histogram
	for t, byBound := range counts {
		h := histogram{time: t}
		var bounds []float64
		for bound := range byBound {
			bounds = append(bounds, bound)
		}
		slices.Sort(bounds)
		for i := 1; i < len(bounds); i++ {
			h.buckets = append(h.buckets, bucket{bounds[i-1], bounds[i], byBound[bounds[i]] - byBound[bounds[i-1]]})
		}
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b histogram) int { return int(a.time - b.time) })
	return all
}

// cells are the cells of a heatmap.
type cells struct {
	columns []histogram
	most    float64
}

// Plot implements plot.Plotter.
func (h cells) Plot(c draw.Canvas, chart *plot.Plot) {
	x, y := chart.Transforms(&c)
	width := math.Inf(1)
	for i := 1; i < len(h.columns); i++ {
		width = min(width, h.columns[i].time-h.columns[i-1].time)
	}
	for _, column := range h.columns {
		for _, b := range column.buckets {
			if b.count <= 0 || b.low <= 0 {
				continue
			}
			cell := vg.Rectangle{
				Min: vg.Point{X: max(c.Min.X, x(column.time-width)), Y: y(b.low)},
				Max: vg.Point{X: x(column.time), Y: max(y(b.high)-0.3, y(b.low)+1.8)},
			}
			fill(c, cell, hot(math.Sqrt(b.count/h.most)))
		}
	}
}

// hot goes from pale blue over yellow to red.
func hot(part float64) color.RGBA {
	stops := []color.RGBA{{171, 217, 233, 255}, {116, 173, 209, 255}, {254, 224, 144, 255}, {253, 174, 97, 255}, {244, 109, 67, 255}, {165, 0, 38, 255}}
	at := math.Round(part*30) / 30 * float64(len(stops)-1)
	i := min(int(at), len(stops)-2)
	mix := func(a, b uint8) uint8 { return uint8(float64(a) + (float64(b)-float64(a))*(at-float64(i))) }
	a, b := stops[i], stops[i+1]
	return color.RGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 255}
}
