package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/quantile"
)

const (
	maxDots     = 2000   // of a strip
	maxAllDots  = 40_000 // of all strips of a run, which may have a hundred levels
	maxFailures = 400    // drawn of a strip
	stripHeight = 96.0
)

// stripCharts lists a chart of the requests over time for each level: warming up, bursts and failures show there.
func stripCharts(levels []level, name namer) []*chart.Chart {
	var all []*chart.Chart
	most := min(maxDots, maxAllDots/max(len(levels), 1))
	for i := range levels {
		if l := &levels[i]; len(l.requests) > 0 && !l.Start.IsZero() {
			all = append(all, l.stripChart(name(l.Level), most))
		}
	}
	return all
}

func (l *level) stripChart(name string, most int) *chart.Chart {
	c := &chart.Chart{Name: fmt.Sprintf("requests-%d", l.Index+1), Title: "TTFT of each request, " + name}
	if len(l.Doubts) > 0 {
		c.Title += " ⚠"
	}
	good := chart.Dots{Name: "answered", Class: "ttft2"}
	warm := chart.Dots{Name: "warm-up", Class: "arrivals"}
	bad := chart.Dots{Name: "failed", Class: "failed", Cross: true}
	given := chart.Dots{Name: "given up by us", Class: "arrivals", Cross: true}
	end := l.ended()
	for _, r := range l.requests {
		switch {
		case r.abandoned:
			given.At = append(given.At, [2]float64{r.started, r.ended - r.started})
		case r.failed:
			bad.At = append(bad.At, [2]float64{r.started, max(r.ended-r.started, 1e-4)})
		case r.warmup:
			warm.At = append(warm.At, [2]float64{r.started, r.ttft})
		default:
			good.At = append(good.At, [2]float64{r.started, r.ttft})
		}
	}
	begin := 0.0
	for _, at := range warm.At { // as far as it does not press the level together
		if at[0] < begin && at[0] > -end/5 {
			begin = at[0]
		}
	}
	warm.At = slices.DeleteFunc(warm.At, func(at [2]float64) bool { return at[0] < begin })
	var every int
	good.At, every = thin(good.At, most)
	bad.At, _ = thin(bad.At, min(most, maxFailures))
	given.At, _ = thin(given.At, min(most, maxFailures))
	if len(good.At) < 300 {
		good.Class += " big"
		warm.Class += " big"
	}
	p := chart.Panel{Height: stripHeight, Dots: []chart.Dots{warm, good, given, bad}}
	p.Y = chart.LatencyAxis(heights(p.Dots))
	c.X = chart.TimeAxis(begin, max(fmax(end, 0), begin+1e-3))
	c.X.Name = "time since the first request of the level"
	c.Panels = []chart.Panel{p}
	c.Note = "A failed request is drawn as high as it took to fail."
	if len(bad.At) == 0 {
		c.Note = ""
	}
	if every > 1 {
		c.Note += fmt.Sprintf(" Of every %d requests the fastest and the slowest are drawn.", every)
	}
	if sent := l.sent(); chart.Finite(sent) && l.Cut == "" {
		c.Marks = []chart.Mark{{Name: "last one sent", Class: "sent", X: sent}}
	}
	if l.Cut != "" {
		c.Marks = []chart.Mark{{Name: "cut: " + clean(l.Cut), Class: "cut", X: fmax(end, 0)}}
	}
	tellRequests(c, l, end)
	return c
}

func heights(all []chart.Dots) []float64 {
	var ys []float64
	for _, d := range all {
		for _, at := range d.At {
			ys = append(ys, at[1])
		}
	}
	return ys
}

// thin keeps at most limit points: of every so many the lowest and the highest, so that what stands out remains.
func thin(all [][2]float64, limit int) (kept [][2]float64, every int) {
	if len(all) <= limit {
		return all, 1
	}
	every = 2 * int(math.Ceil(float64(len(all))/float64(limit)))
	for group := range slices.Chunk(all, every) {
		low, high := group[0], group[0]
		for _, at := range group {
			if at[1] < low[1] {
				low = at
			}
			if at[1] > high[1] || math.IsNaN(high[1]) {
				high = at
			}
		}
		kept = append(kept, low, high)
	}
	return kept, every
}

// tellRequests gives the strip its tooltips and its table: a row for each tenth of the level.
func tellRequests(c *chart.Chart, l *level, end float64) {
	c.Table.Head = []string{"started", "requests", "failed", "TTFT p50", "TTFT p95", "longest TTFT"}
	if !chart.Finite(end) || end <= 0 {
		return
	}
	const parts = 10
	type part struct {
		n, failed int
		ttft      []float64
	}
	var all [parts]part
	for _, r := range l.requests {
		if r.warmup || r.abandoned || r.started < 0 {
			continue
		}
		p := &all[min(int(parts*r.started/end), parts-1)]
		p.n++
		if r.failed {
			p.failed++
		}
		if chart.Finite(r.ttft) {
			p.ttft = append(p.ttft, r.ttft)
		}
	}
	for i, p := range all {
		slices.Sort(p.ttft)
		from, to := end*float64(i)/parts, end*float64(i+1)/parts
		r := chart.Row{Name: fmt.Sprintf("%.1f – %.1f s", from, to), Cells: []chart.Cell{
			{Value: humanize.Whole(p.n)},
			{Value: humanize.Whole(p.failed)},
		}}
		for _, q := range []float64{0.5, 0.95, 1} {
			text := humanize.Unknown
			if len(p.ttft) > 0 {
				text = humanize.Seconds(quantile.NearestRank(p.ttft, q))
			}
			r.Cells = append(r.Cells, chart.Cell{Value: text})
		}
		c.Table.Rows = append(c.Table.Rows, r)
		c.Hits = append(c.Hits, chart.Hit{X: (from + to) / 2, From: from, To: to, Text: r.Tooltip(c.Table.Head)})
	}
}
