package web

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
)

// chart is the last hour of one latency, a column a minute. Its drawing is 600 wide (10 a minute) and 100
// high and is stretched to the room there is; all text is beside it.
type chart struct {
	Title, Note string
	Top         string // value at the upper edge
	Layers      []layer
	UsualY      float64 // height of the usual value's line; 0: none
	Times       []string
	Legend      []legend
	Empty       bool
	Label       string // in words, for who cannot see it
}

// layer is all columns of one kind as one path.
type layer struct{ Class, Path string }

type legend struct{ Class, Name string }

const (
	chartWidth  = 600.0
	chartHeight = 100.0
)

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
	c := chart{Title: title, Times: axis(now)}
	top := niceTop(highest(stacks, minutes))
	c.Empty = top == 0
	first := now.Truncate(time.Minute).Add(-(hour - 1) * time.Minute)
	paths := make([]strings.Builder, len(stacks))
	var failures strings.Builder
	for _, m := range minutes {
		x := chartWidth / hour * m.start.Sub(first).Minutes()
		if m.failures > 0 {
			column(&failures, x, 0, chartHeight)
		}
		var y float64
		for i, s := range stacks {
			if d := s.of(m); d > 0 && top > 0 {
				h := chartHeight * d.Seconds() / top.Seconds()
				column(&paths[i], x, y, h)
				y += h
			}
		}
	}
	if failures.Len() > 0 {
		c.Layers = append(c.Layers, layer{"failed", failures.String()})
		c.Legend = append(c.Legend, legend{"failed", "failed"})
	}
	for i, s := range stacks {
		if paths[i].Len() > 0 {
			c.Layers = append(c.Layers, layer{s.class, paths[i].String()})
			c.Legend = append(c.Legend, legend{s.class, s.name})
		}
	}
	if top > 0 {
		c.Top = humanize.Round(top.Seconds())
		c.Label = fmt.Sprintf("%s, last hour, at most %s", title, humanize.Duration(highest(stacks, minutes)))
	}
	if usually > 0 && top > 0 {
		c.UsualY = chartHeight * (1 - usually.Seconds()/top.Seconds())
		c.Legend = append(c.Legend, legend{"usual", "usual " + humanize.Duration(usually)})
	}
	return c
}

// column adds a minute's rectangle that begins y above the ground and is h high.
func column(b *strings.Builder, x, y, h float64) {
	width := chartWidth/hour - 1.5
	fmt.Fprintf(b, "M%.1f %.1fh%.1fv%.1fh-%.1fz", x, chartHeight-y, width, -h, width)
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
