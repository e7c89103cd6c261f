package report

import (
	"flag"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
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
func smallChart() *chart {
	nan := math.NaN()
	c := &chart{title: "A <latency>", x: levelAxis("requests in flight", []float64{1, 2, 4, 8}), spread: true}
	p := panel{height: panelHeight, bounds: []bound{{"TTFT p95 ≤ 1 s", 1}}, lines: []line{
		{name: "p50", class: "ttft1", points: []point{
			{x: 1, y: 0.1, low: 0.09, high: 0.12, interval: true, doubted: true},
			{x: 2, y: 0.2, low: 0.1, high: 0.3, interval: true},
			missing(4),
			{x: 8, y: 0.4, low: 0.4, high: 0.4, interval: true},
		}},
		{name: "p95", class: "ttft2", points: []point{
			{x: 1, y: 0.2, low: nan, high: nan, interval: true, doubted: true},
			{x: 2, y: 0.5, low: 0.4, high: nan, interval: true},
			{x: 4, y: 1.5, low: 1.2, high: 1.7, interval: true},
			{x: 8, y: 2, low: 1, high: 90, interval: true},
		}},
	}}
	p.y = latencyAxis(p.values())
	c.panels = []panel{p}
	c.marks = []mark{{"operating point", "operating", 2, true}, {"knee", "knee", 4, false}}
	c.hits = []hit{{x: 1, from: nan, to: nan, text: "c=1 & more", doubted: true}, {x: 2, from: nan, to: nan, text: "c=2"}}
	return c
}

func TestDrawing(t *testing.T) {
	t.Run("a chart in the page", func(t *testing.T) { golden(t, "small.svg.txt", elements(smallChart().draw(""))) })
	t.Run("panels over time", func(t *testing.T) {
		c := &chart{title: "Queue at 4/s", x: timeAxis(0, 20), panels: []panel{
			{height: 100, y: linearAxis([]float64{12}, short), lines: []line{
				{name: "waiting", class: "waiting", area: true, plain: true, points: []point{{x: 0, y: 0}, {x: 10, y: 12, label: "peak 12"}, {x: 20, y: 0}}},
			}},
			{title: "requests sent per second", height: 40, y: linearAxis([]float64{5}, short), bars: []bar{{0, 1, 4}, {1, 2, 5}}},
		}, shades: []shade{{"sending ends", 10, 20}}}
		golden(t, "time.svg.txt", elements(c.draw("")))
	})
	t.Run("dots", func(t *testing.T) {
		c := &chart{title: "TTFT", x: timeAxis(0, 5), panels: []panel{{height: 60, y: linearAxis([]float64{0.4}, tickSeconds), dots: []dots{
			{name: "answered", class: "ttft2", at: [][2]float64{{0, 0.1}, {1, 0.4}, {2, math.NaN()}}},
			{name: "failed", class: "failed", cross: true, at: [][2]float64{{3, 0.2}}},
		}}}}
		golden(t, "dots.svg.txt", elements(c.draw("")))
	})
	t.Run("nothing", func(t *testing.T) {
		c := &chart{title: "TTFT", x: levelAxis("load", nil), panels: []panel{{height: 100, y: latencyAxis(nil), lines: []line{{points: []point{missing(1)}}}}}}
		if got := c.draw(""); !strings.Contains(got, "nothing was measured") {
			t.Error(got)
		}
	})
}

func TestFileHasBothItsColours(t *testing.T) {
	file := string(smallChart().file())
	for _, want := range []string{`xmlns="http://www.w3.org/2000/svg"`, "prefers-color-scheme: dark", "stroke: #3b7dd8", "stroke: #5b97ea"} {
		if !strings.Contains(file, want) {
			t.Errorf("no %s", want)
		}
	}
}

func TestAxes(t *testing.T) {
	tests := []struct {
		name      string
		axis      axis
		log       bool
		low, high float64
		ticks     []float64
	}{
		{"latencies that differ little start at 0", latencyAxis([]float64{0.3, 0.306, 0.32}), false, 0, 0.4, []float64{0, 0.1, 0.2, 0.3, 0.4}},
		{"latencies that differ by much are logarithmic", latencyAxis([]float64{0.02, 0.317}), true, 0.02, 0.5, []float64{0.02, 0.05, 0.1, 0.2, 0.5}},
		{"over many decades with fewer ticks", latencyAxis([]float64{0.091, 25.4}), true, 0.05, 50, []float64{0.1, 0.3, 1, 3, 10, 30}},
		{"what is not known has no part", latencyAxis([]float64{math.NaN(), math.Inf(1), -1, 0, 0.03}), false, 0, 0.03, []float64{0, 0.01, 0.02, 0.03}},
		{"no value", latencyAxis(nil), false, 0, 1, []float64{0, 0.25, 0.5, 0.75, 1}},
		{"throughput", linearAxis([]float64{49, 855, 890}, short), false, 0, 1000, []float64{0, 250, 500, 750, 1000}},
		{"loads that double", levelAxis("", []float64{256, 1, 64, 1}), true, 1, 256, []float64{1, 64, 256}},
		{"rates", levelAxis("", []float64{2, 4, 8, 12}), false, 0, 12, []float64{2, 4, 8, 12}},
		{"one load", levelAxis("", []float64{4}), false, 4, 4, []float64{4}},
		{"ratios near 1", ratioAxis([]float64{0.98, 1.02}), true, 0.8, 1.25, []float64{0.8, 0.9, 1, 1.1, 1.25}},
		{"ratios far from 1", ratioAxis([]float64{0.4, 3}), true, 0.2, 5, []float64{0.2, 0.5, 1, 2, 5}},
		{"ratios beyond reason", ratioAxis([]float64{1e-9, 1e9}), true, 0.001, 1000, []float64{0.001, 0.01, 0.1, 1, 10, 100, 1000}},
		{"two minutes", timeAxis(0, 120), false, 0, 120, []float64{0, 15, 30, 45, 60, 75, 90, 105, 120}},
		{"with a warm-up before", timeAxis(-3, 60), false, -3, 60, []float64{0, 10, 20, 30, 40, 50, 60}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := test.axis
			if a.log != test.log || !near(a.low, test.low) || !near(a.high, test.high) {
				t.Errorf("logarithmic %t, %g to %g; want %t, %g to %g", a.log, a.low, a.high, test.log, test.low, test.high)
			}
			if diff := cmp.Diff(test.ticks, a.ticks, cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func TestAxisPlaces(t *testing.T) {
	log := axis{log: true, low: 1, high: 16}
	for v, want := range map[float64]float64{1: 0, 4: 0.5, 16: 1, 100: 1, 0.5: 0} {
		if got := log.at(v); !near(got, want) {
			t.Errorf("%g lies at %g, want %g", v, got, want)
		}
	}
	if log.shows(0) || log.shows(math.NaN()) || log.shows(math.Inf(1)) {
		t.Error("shows what has no place")
	}
}

func TestTicks(t *testing.T) {
	for _, test := range []struct{ got, want string }{
		{tickSeconds(0.0005), "500 µs"},
		{tickSeconds(1.5), "1.5 s"},
		{tickClock(90), "90 s"},
		{tickMinutes(600), "10 min"},
		{short(1048576), "1048576"},
		{short(0.1 + 0.2), "0.3"},
	} {
		if got := strings.ReplaceAll(test.got, nbsp, " "); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
