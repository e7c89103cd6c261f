package chart

import (
	"flag"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

var update = flag.Bool("update", false, "write the golden files anew, to be looked at in a browser")

// golden compares with a file of testdata, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	goldenfile.Check(t, path, got, *update)
}

// lines breaks a drawing into a line for each element, so that a difference can be read.
func elements(svg string) string { return strings.ReplaceAll(svg, "><", ">\n<") + "\n" }

// smallChart has one of everything: a level not to be trusted, one without a value, closed and open intervals, an
// objective, the operating point and the knee.
func smallChart() *Chart {
	nan := math.NaN()
	c := &Chart{Title: "A <latency>", X: LevelAxis("requests in flight", []float64{1, 2, 4, 8}), Spread: true}
	p := Panel{Height: PanelHeight, Bounds: []Bound{{"TTFT p95 ≤ 1 s", 1}}, Lines: []Line{
		{Name: "p50", Class: "ttft1", Points: []Point{
			{X: 1, Y: 0.1, Low: 0.09, High: 0.12, Interval: true, Doubted: true},
			{X: 2, Y: 0.2, Low: 0.1, High: 0.3, Interval: true},
			Missing(4),
			{X: 8, Y: 0.4, Low: 0.4, High: 0.4, Interval: true},
		}},
		{Name: "p95", Class: "ttft2", Points: []Point{
			{X: 1, Y: 0.2, Low: nan, High: nan, Interval: true, Doubted: true},
			{X: 2, Y: 0.5, Low: 0.4, High: nan, Interval: true},
			{X: 4, Y: 1.5, Low: 1.2, High: 1.7, Interval: true},
			{X: 8, Y: 2, Low: 1, High: 90, Interval: true},
		}},
	}}
	p.Y = LatencyAxis(p.Values())
	c.Panels = []Panel{p}
	c.Marks = []Mark{{"operating point", "operating", 2, true}, {"knee", "knee", 4, false}}
	c.Hits = []Hit{{X: 1, From: nan, To: nan, Text: "c=1 & more", Doubted: true}, {X: 2, From: nan, To: nan, Text: "c=2"}}
	return c
}

func TestDrawing(t *testing.T) {
	t.Run("a chart in the page", func(t *testing.T) { golden(t, "small.svg.txt", elements(smallChart().draw(""))) })
	t.Run("panels over time", func(t *testing.T) {
		c := &Chart{Title: "Queue at 4/s", X: TimeAxis(0, 20), Panels: []Panel{
			{Height: 100, Y: LinearAxis([]float64{12}, humanize.Exact), Lines: []Line{
				{Name: "waiting", Class: "waiting", Area: true, Plain: true, Points: []Point{{X: 0, Y: 0}, {X: 10, Y: 12, Label: "peak 12"}, {X: 20, Y: 0}}},
			}},
			{Title: "requests sent per second", Height: 40, Y: LinearAxis([]float64{5}, humanize.Exact), Bars: []Bar{{0, 1, 4}, {1, 2, 5}}},
		}, Shades: []Shade{{"sending ends", 10, 20}}}
		golden(t, "time.svg.txt", elements(c.draw("")))
	})
	t.Run("dots", func(t *testing.T) {
		c := &Chart{Title: "TTFT", X: TimeAxis(0, 5), Panels: []Panel{{Height: 60, Y: LinearAxis([]float64{0.4}, humanize.Chosen), Dots: []Dots{
			{Name: "answered", Class: "ttft2", At: [][2]float64{{0, 0.1}, {1, 0.4}, {2, math.NaN()}}},
			{Name: "failed", Class: "failed", Cross: true, At: [][2]float64{{3, 0.2}}},
		}}}}
		golden(t, "dots.svg.txt", elements(c.draw("")))
	})
	t.Run("nothing", func(t *testing.T) {
		c := &Chart{Title: "TTFT", X: LevelAxis("load", nil), Panels: []Panel{{Height: 100, Y: LatencyAxis(nil), Lines: []Line{{Points: []Point{Missing(1)}}}}}}
		if got := c.draw(""); !strings.Contains(got, "nothing was measured") {
			t.Error(got)
		}
	})
}

func TestFileHasBothItsColours(t *testing.T) {
	file := string(smallChart().File())
	for _, want := range []string{`xmlns="http://www.w3.org/2000/svg"`, "prefers-color-scheme: dark", "stroke: #3b7dd8", "stroke: #5b97ea"} {
		if !strings.Contains(file, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestAxes(t *testing.T) {
	tests := []struct {
		name      string
		axis      Axis
		log       bool
		low, high float64
		ticks     []float64
	}{
		{"latencies that differ little start at 0", LatencyAxis([]float64{0.3, 0.306, 0.32}), false, 0, 0.4, []float64{0, 0.1, 0.2, 0.3, 0.4}},
		{"latencies that differ by much are logarithmic", LatencyAxis([]float64{0.02, 0.317}), true, 0.02, 0.5, []float64{0.02, 0.05, 0.1, 0.2, 0.5}},
		{"over many decades with fewer ticks", LatencyAxis([]float64{0.091, 25.4}), true, 0.05, 50, []float64{0.1, 0.3, 1, 3, 10, 30}},
		{"what is not known has no part", LatencyAxis([]float64{math.NaN(), math.Inf(1), -1, 0, 0.03}), false, 0, 0.03, []float64{0, 0.01, 0.02, 0.03}},
		{"no value", LatencyAxis(nil), false, 0, 1, []float64{0, 0.25, 0.5, 0.75, 1}},
		{"throughput", LinearAxis([]float64{49, 855, 890}, humanize.Exact), false, 0, 1000, []float64{0, 250, 500, 750, 1000}},
		{"loads that double", LevelAxis("", []float64{256, 1, 64, 1}), true, 1, 256, []float64{1, 64, 256}},
		{"rates", LevelAxis("", []float64{2, 4, 8, 12}), false, 0, 12, []float64{2, 4, 8, 12}},
		{"one load", LevelAxis("", []float64{4}), false, 4, 4, []float64{4}},
		{"ratios near 1", RatioAxis([]float64{0.98, 1.02}), true, 0.8, 1.25, []float64{0.8, 0.9, 1, 1.1, 1.25}},
		{"ratios far from 1", RatioAxis([]float64{0.4, 3}), true, 0.2, 5, []float64{0.2, 0.5, 1, 2, 5}},
		{"ratios beyond reason", RatioAxis([]float64{1e-9, 1e9}), true, 0.001, 1000, []float64{0.001, 0.01, 0.1, 1, 10, 100, 1000}},
		{"two minutes", TimeAxis(0, 120), false, 0, 120, []float64{0, 15, 30, 45, 60, 75, 90, 105, 120}},
		{"with a warm-up before", TimeAxis(-3, 60), false, -3, 60, []float64{0, 10, 20, 30, 40, 50, 60}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := test.axis
			if a.log != test.log || !near(a.Low, test.low) || !near(a.High, test.high) {
				t.Errorf("logarithmic %t, %g to %g; want %t, %g to %g", a.log, a.Low, a.High, test.log, test.low, test.high)
			}
			if diff := cmp.Diff(test.ticks, a.Ticks, cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func TestAxisPlaces(t *testing.T) {
	log := Axis{log: true, Low: 1, High: 16}
	for v, want := range map[float64]float64{1: 0, 4: 0.5, 16: 1, 100: 1, 0.5: 0} {
		if got := log.at(v); !near(got, want) {
			t.Errorf("%g lies at %g, want %g", v, got, want)
		}
	}
	if log.shows(0) || log.shows(math.NaN()) || log.shows(math.Inf(1)) {
		t.Error("shows what has no place")
	}
}
