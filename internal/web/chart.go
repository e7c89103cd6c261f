package web

import (
	"fmt"
	"html/template"
	"time"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// columns is a chart with the texts beside it.
type columns struct {
	Title, Top, Label string
	Keys              []chart.Key
	Drawing           template.HTML // empty: there is nothing to draw
	Axis              []string      // below it, from left to right
	Tall              bool
}

// draw takes over a chart of latencies in seconds. The label tells it to who cannot see it.
func (c *columns) draw(drawn *chart.Columns, label string) {
	c.Top, c.Label, c.Keys, c.Drawing = humanize.Chosen(drawn.High), label, drawn.Keys(), drawn.Inline(label)
}

// stack is what a minute's column is made of, from the bottom up.
type stack struct {
	class, name string
	of          func(minute) time.Duration
}

func charts(w *workloadView, now time.Time) []columns {
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
	return []columns{
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

func newChart(title string, stacks []stack, minutes []minute, usually time.Duration, now time.Time) columns {
	c := columns{Title: title, Axis: axis(now)}
	most := highest(stacks, minutes)
	if most == 0 {
		return c
	}
	classes := []chart.Key{{Class: "failed", Name: "failed"}}
	for _, s := range stacks {
		classes = append(classes, chart.Key{Class: s.class, Name: s.name})
	}
	drawn := chart.NewColumns(most.Seconds(), classes...)
	const place, width = 1.0 / hour, 0.85 / hour
	first := now.Truncate(time.Minute).Add(-(hour - 1) * time.Minute)
	for _, m := range minutes {
		x := place * m.start.Sub(first).Minutes()
		if m.failures > 0 {
			drawn.Add(0, x, width, 0, drawn.High)
		}
		var from float64
		for i, s := range stacks {
			to := from + s.of(m).Seconds()
			drawn.Add(i+1, x, width, from, to)
			from = to
		}
	}
	if usually > 0 {
		drawn.Mark(usually.Seconds(), chart.Key{Class: "usual", Name: "usual " + humanize.Duration(usually)})
	}
	c.draw(drawn, fmt.Sprintf("%s, last hour, at most %s", title, humanize.Duration(most)))
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

// axis is the time of day at each quarter of the hour that is shown.
func axis(now time.Time) []string {
	var times []string
	for _, ago := range []time.Duration{60, 45, 30, 15} {
		times = append(times, now.UTC().Add(-ago*time.Minute).Format("15:04"))
	}
	return append(times, "now")
}
