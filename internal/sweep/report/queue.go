package report

import (
	"fmt"
	"math"

	"github.com/llm-prober/llm_prober/internal/sweep"
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
func queueCharts(levels []level, name namer) []*chart {
	var shown []*level
	var counts, rates []float64
	over, least := 0.0, math.Inf(1)
	for i := range levels {
		l := &levels[i]
		if len(l.queue) == 0 || !finite(l.over()) || l.over() <= 0 || l.Level.Closed() && !l.waited() {
			continue
		}
		shown = append(shown, l)
		for _, q := range l.queue {
			counts = append(counts, q.Running, q.Waiting)
		}
		rates = append(rates, l.Level.Rate)
		for _, b := range l.arrivals(l.over()) {
			rates = append(rates, b.y)
		}
		over, least = max(over, l.over()), min(least, l.over())
	}
	count, rate := linearAxis(counts, short), linearAxis(rates, short)
	rate.ticks = []float64{0, rate.high}
	var all []*chart
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

func (l *level) queueChart(name string, end float64, count, rate axis) *chart {
	c := &chart{name: fmt.Sprintf("queue-%d", l.Index+1), title: "Queue at " + name, x: timeAxis(0, end)}
	c.x.name = "time since the first request of the level"
	counts := panel{height: 140, y: count, lines: []line{
		l.queueLine("running", func(q sweep.QueueSample) float64 { return q.Running }),
		l.queueLine("waiting", func(q sweep.QueueSample) float64 { return q.Waiting }),
	}}
	counts.lines[1].area = true
	arrivals := panel{title: "requests sent per second", height: arrivalRoom, y: rate, bars: l.arrivals(end)}
	if sent := l.sent(); l.Level.Rate > 0 && sent > 0 {
		arrivals.lines = []line{{
			name: "asked for " + short(l.Level.Rate) + "/s", class: "asked", plain: true,
			points: []point{{x: 0, y: l.Level.Rate}, {x: sent, y: l.Level.Rate}},
		}}
	}
	c.panels = []panel{counts, arrivals}
	if sent, ended := l.sent(), l.ended(); finite(sent) && finite(ended) {
		c.marks = []mark{{class: "sent", x: sent}}
		c.shades = []shade{{name: "sending ends, then drains for " + formatSeconds(max(ended-sent, 0)), from: sent, to: ended}}
	}
	tellTime(c, l, end)
	return c
}

// queueLine is a gauge of the server over the level, its peak named.
func (l *level) queueLine(name string, of func(sweep.QueueSample) float64) line {
	out := line{name: name, class: name, plain: true, format: short}
	stride := (len(l.queue) + maxSamples - 1) / maxSamples
	peak := -1
	for i := 0; i < len(l.queue); i += stride {
		// Of several samples the highest is shown, so that no peak is lost.
		q := missing(l.since(l.queue[i].At))
		for _, s := range l.queue[i:min(i+stride, len(l.queue))] {
			q.y = fmax(q.y, of(s))
		}
		if q.x < 0 {
			continue
		}
		out.points = append(out.points, q)
		if finite(q.y) && (peak < 0 || q.y > out.points[peak].y) {
			peak = len(out.points) - 1
		}
	}
	if peak >= 0 && out.points[peak].y > 0 {
		out.name += ", peak " + short(out.points[peak].y)
		out.points[peak].label = out.name
	}
	return out
}

// arrivals counts the requests sent in each second, or in each few seconds of a long level.
func (l *level) arrivals(end float64) []bar {
	step := max(clockStep(end/maxArrivals), 1)
	counts := make([]float64, int(end/step)+1)
	for _, r := range l.requests {
		if at := r.started; !r.warmup && at >= 0 && at <= end {
			counts[int(at/step)]++
		}
	}
	var all []bar
	for i, n := range counts {
		if n > 0 {
			all = append(all, bar{float64(i) * step, float64(i+1) * step, n / step})
		}
	}
	return all
}

// tellTime gives the chart its tooltips and its table: the mean of each stretch of time.
func tellTime(c *chart, l *level, end float64) {
	c.Table.Head = []string{"time", "running (mean)", "waiting (mean)", "waiting (most)", "sent per second"}
	for _, r := range l.stretches(min(end, l.over()), maxColumns) {
		c.hits = append(c.hits, hit{x: (r.from + r.to) / 2, from: r.from, to: r.to, text: r.row.tooltip(c.Table.Head)})
	}
	for _, r := range l.stretches(min(end, l.over()), maxRows) {
		c.Table.Rows = append(c.Table.Rows, r.row)
	}
}

// stretch is some seconds of a level and what is told of them.
type stretch struct {
	from, to float64
	row      row
}

func (l *level) stretches(end float64, most int) []stretch {
	step := max(clockStep(end/float64(most)), 1)
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
		all = append(all, stretch{from, to, row{
			Name: fmt.Sprintf("%s – %s", tickClock(from), tickClock(round(to))),
			Cells: []cell{
				{Value: formatRate(running.value())},
				{Value: formatRate(waiting.value())},
				{Value: formatRate(highest)},
				{Value: formatRate(sent / (to - from))},
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
	if finite(v) {
		m.sum, m.n = m.sum+v, m.n+1
	}
}

func (m *mean) value() float64 { return m.sum / m.n }
