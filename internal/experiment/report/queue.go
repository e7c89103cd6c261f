package report

import (
	"fmt"
	"math"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// Bounds on what is drawn of a queue, which may have been watched for hours.
const (
	maxSamples  = 460 // one a pixel
	maxColumns  = 64  // that tell exact values
	maxArrivals = 120 // bars
	maxRows     = 20  // of a table
	arrivalRoom = 44.0
)

// queueCharts lists a chart of the queue over time for each level of an open loop, and for those of a closed loop
// where requests waited. All have the same axes, so that they can be compared, unless their times are too different.
func queueCharts(levels []level, name namer) []*chart.Chart {
	var shown []*level
	var counts, rates []float64
	over, least := 0.0, math.Inf(1)
	for i := range levels {
		l := &levels[i]
		if len(l.queue) == 0 || !chart.Finite(l.over()) || l.over() <= 0 || l.Level.Closed() && !l.waited() {
			continue
		}
		shown = append(shown, l)
		for _, q := range l.queue {
			counts = append(counts, q.Running, q.Waiting)
		}
		rates = append(rates, l.Level.Rate)
		for _, b := range l.arrivals(l.over()) {
			rates = append(rates, b.Y)
		}
		over, least = max(over, l.over()), min(least, l.over())
	}
	count, rate := chart.LinearAxis(counts, humanize.Exact), chart.LinearAxis(rates, humanize.Exact)
	rate.Ticks = []float64{0, rate.High}
	var all []*chart.Chart
	for _, l := range shown {
		end := over
		if least < over/3 {
			end = l.over()
		}
		all = append(all, l.queueChart(name(l.Level), end, count, rate))
	}
	return all
}

// waited reports whether more requests waited, in the mean, than those that are about to be admitted.
func (l *level) waited() bool {
	var waiting mean
	for _, q := range l.queue {
		waiting.add(q.Waiting)
	}
	return waiting.value() > max(1, float64(l.Level.Concurrency)/20)
}

func (l *level) queueChart(name string, end float64, count, rate chart.Axis) *chart.Chart {
	c := &chart.Chart{Name: fmt.Sprintf("queue-%d", l.Index+1), Title: "Queue at " + name, X: chart.TimeAxis(0, end)}
	c.X.Name = "time since the first request of the level"
	counts := chart.Panel{Height: 140, Y: count, Lines: []chart.Line{
		l.queueLine("running", func(q experiment.QueueSample) float64 { return q.Running }),
		l.queueLine("waiting", func(q experiment.QueueSample) float64 { return q.Waiting }),
	}}
	counts.Lines[1].Area = true
	arrivals := chart.Panel{Title: "requests sent per second", Height: arrivalRoom, Y: rate, Bars: l.arrivals(end)}
	if sent := l.sent(); l.Level.Rate > 0 && sent > 0 {
		arrivals.Lines = []chart.Line{{
			Name: "asked for " + humanize.Exact(l.Level.Rate) + "/s", Class: "asked", Plain: true,
			Points: []chart.Point{{X: 0, Y: l.Level.Rate}, {X: sent, Y: l.Level.Rate}},
		}}
	}
	c.Panels = []chart.Panel{counts, arrivals}
	if sent, ended := l.sent(), l.ended(); chart.Finite(sent) && chart.Finite(ended) {
		c.Marks = []chart.Mark{{Class: "sent", X: sent}}
		c.Shades = []chart.Shade{{Name: "sending ends, then drains for " + humanize.Seconds(max(ended-sent, 0)), From: sent, To: ended}}
	}
	tellTime(c, l, end)
	return c
}

// queueLine is a gauge of the server over the level, its peak named.
func (l *level) queueLine(name string, of func(experiment.QueueSample) float64) chart.Line {
	out := chart.Line{Name: name, Class: name, Plain: true, Format: humanize.Exact}
	stride := (len(l.queue) + maxSamples - 1) / maxSamples
	peak := -1
	for i := 0; i < len(l.queue); i += stride {
		// Of several samples the highest is shown, so that no peak is lost.
		q := chart.Missing(l.since(l.queue[i].At))
		for _, s := range l.queue[i:min(i+stride, len(l.queue))] {
			q.Y = fmax(q.Y, of(s))
		}
		if q.X < 0 {
			continue
		}
		out.Points = append(out.Points, q)
		if chart.Finite(q.Y) && (peak < 0 || q.Y > out.Points[peak].Y) {
			peak = len(out.Points) - 1
		}
	}
	if peak >= 0 && out.Points[peak].Y > 0 {
		out.Name += ", peak " + humanize.Exact(out.Points[peak].Y)
		out.Points[peak].Label = out.Name
	}
	return out
}

// arrivals counts the requests sent in each second, or in each few seconds of a long level.
func (l *level) arrivals(end float64) []chart.Bar {
	step := max(chart.ClockStep(end/maxArrivals), 1)
	counts := make([]float64, int(end/step)+1)
	for _, r := range l.requests {
		if at := r.started; !r.warmup && at >= 0 && at <= end {
			counts[int(at/step)]++
		}
	}
	var all []chart.Bar
	for i, n := range counts {
		if n > 0 {
			all = append(all, chart.Bar{From: float64(i) * step, To: float64(i+1) * step, Y: n / step})
		}
	}
	return all
}

// tellTime gives the chart its tooltips and its table: the mean of each stretch of time.
func tellTime(c *chart.Chart, l *level, end float64) {
	c.Table.Head = []string{"time", "running (mean)", "waiting (mean)", "waiting (most)", "sent per second"}
	for _, r := range l.stretches(min(end, l.over()), maxColumns) {
		c.Hits = append(c.Hits, chart.Hit{X: (r.from + r.to) / 2, From: r.from, To: r.to, Text: r.row.Tooltip(c.Table.Head)})
	}
	for _, r := range l.stretches(min(end, l.over()), maxRows) {
		c.Table.Rows = append(c.Table.Rows, r.row)
	}
}

// stretch is some seconds of a level and what is told of them.
type stretch struct {
	from, to float64
	row      chart.Row
}

func (l *level) stretches(end float64, most int) []stretch {
	step := max(chart.ClockStep(end/float64(most)), 1)
	var all []stretch
	for from := 0.0; from < end && len(all) < 2*most; from += step {
		to := min(from+step, end)
		running, waiting, highest := mean{}, mean{}, math.NaN()
		for _, q := range l.queue {
			if at := l.since(q.At); at >= from && at < to {
				running.add(q.Running)
				waiting.add(q.Waiting)
				highest = fmax(highest, q.Waiting)
			}
		}
		sent := 0.0
		for _, r := range l.requests {
			if at := r.started; !r.warmup && at >= from && at < to {
				sent++
			}
		}
		all = append(all, stretch{from, to, chart.Row{
			Name: fmt.Sprintf("%s – %s", chart.TickClock(from), chart.TickClock(round(to))),
			Cells: []chart.Cell{
				{Value: humanize.Number(running.value())},
				{Value: humanize.Number(waiting.value())},
				{Value: humanize.Number(highest)},
				{Value: humanize.Number(sent / (to - from))},
			},
		}})
	}
	return all
}

// round is a number to a tenth.
func round(v float64) float64 { return math.Round(10*v) / 10 }

// mean is a mean of what is known.
type mean struct{ sum, n float64 }

func (m *mean) add(v float64) {
	if chart.Finite(v) {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m *mean) value() float64 { return m.sum / m.n }
