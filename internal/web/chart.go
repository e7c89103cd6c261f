package web

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
)

// chart is columns of latencies. Its drawing is 600 wide and 100 high and is stretched to the room there is; all text
// is beside it.
type chart struct {
	Title  string
	Top    string // value at the upper edge; empty: nothing is drawn
	Layers []layer
	Lines  []reference
	Axis   []string // below it, from left to right
	Label  string   // in words, for who cannot see it
	Tall   bool
}

// layer is all columns of one kind as one path.
type layer struct {
	key
	Path string
}

// reference is a value that the columns are compared with.
type reference struct {
	key
	Y float64 // from above
}

// key explains a colour. Without a name it is not explained.
type key struct{ Class, Name, Value, Note string }

const (
	chartWidth  = 600.0
	chartHeight = 100.0
)

// column adds a rectangle that begins y above the ground and is h high.
func (l *layer) column(x, y, width, h float64) {
	l.Path += fmt.Sprintf("M%.1f %.1fh%.1fv%.1fh-%.1fz", x, chartHeight-y, width, -h, width)
}

// height is where a latency ends in a chart of which the upper edge is top.
func height(d, top time.Duration) float64 { return chartHeight * d.Seconds() / top.Seconds() }

// stack is what a minute's column is made of, from the bottom up.
type stack struct {
	class, name string
	of          func(minute) time.Duration
}

func charts(w *workloadView, now time.Time) []chart {
	ttft := []stack{{"ttft", "median", func(m minute) time.Duration {
		if m.split > 0 {
			return 0
		}
		return m.ttft
	}}}
	if hasSplit(w.minutes) {
		ttft = append([]stack{
			{"queue", "queue", func(m minute) time.Duration { return m.queue }},
			{"prefill", "prefill", func(m minute) time.Duration { return m.prefill }},
			{"outside", "outside", func(m minute) time.Duration { return m.outside }},
		}, ttft...)
	}
	decode := []stack{
		{"decode", "median", func(m minute) time.Duration { return m.itl }},
		{"decode95", "95th", func(m minute) time.Duration { return max(0, m.itlP95-m.itl) }},
	}
	return []chart{
		newChart("First token", ttft, w.minutes, usual(w.minutes, func(m minute) time.Duration { return m.ttft }), now),
		newChart("Between tokens", decode, w.minutes, usual(w.minutes, func(m minute) time.Duration { return m.itl }), now),
	}
}

func hasSplit(minutes []minute) bool {
	for _, m := range minutes {
		if m.split > 0 {
			return true
		}
	}
	return false
}

func newChart(title string, stacks []stack, minutes []minute, usually time.Duration, now time.Time) chart {
	c := chart{Title: title, Axis: axis(now)}
	most := highest(stacks, minutes)
	if most == 0 {
		return c
	}
	top := niceTop(most)
	c.Top, c.Label = humanize.Chosen(top.Seconds()), fmt.Sprintf("%s, last hour, at most %s", title, humanize.Duration(most))
	const place = chartWidth / hour
	first := now.Truncate(time.Minute).Add(-(hour - 1) * time.Minute)
	layers := []layer{{key: key{Class: "failed", Name: "failed"}}}
	for _, s := range stacks {
		layers = append(layers, layer{key: key{Class: s.class, Name: s.name}})
	}
	for _, m := range minutes {
		x := place * m.start.Sub(first).Minutes()
		if m.failures > 0 {
			layers[0].column(x, 0, place-1.5, chartHeight)
		}
		var y float64
		for i, s := range stacks {
			if h := height(s.of(m), top); h > 0 {
				layers[i+1].column(x, y, place-1.5, h)
				y += h
			}
		}
	}
	c.Layers = slices.DeleteFunc(layers, func(l layer) bool { return l.Path == "" })
	if usually > 0 {
		c.Lines = []reference{{key{Class: "usual", Name: "usual " + humanize.Duration(usually)}, chartHeight - height(usually, top)}}
	}
	return c
}

func highest(stacks []stack, minutes []minute) time.Duration {
	var most time.Duration
	for _, m := range minutes {
		var sum time.Duration
		for _, s := range stacks {
			sum += s.of(m)
		}
		most = max(most, sum)
	}
	return most
}

// niceTop is the next 1, 1.5, 2, 3, 5 or 7 times a power of ten.
func niceTop(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(float64(d))))
	for _, f := range []float64{1, 1.5, 2, 3, 5, 7} {
		if f*power >= float64(d) {
			return time.Duration(f * power)
		}
	}
	return time.Duration(10 * power)
}

// axis is the time of day at each quarter of the hour that is shown.
func axis(now time.Time) []string {
	var times []string
	for _, ago := range []time.Duration{60, 45, 30, 15} {
		times = append(times, now.UTC().Add(-ago*time.Minute).Format("15:04"))
	}
	return append(times, "now")
}
