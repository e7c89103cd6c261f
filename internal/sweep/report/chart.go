package report

import (
	"math"
	"slices"
	"strings"
)

// chart is panels one below another over the same x axis. It says what is drawn; draw.go knows how.
type chart struct {
	name   string // of its file, without chart- and .svg; made of numbers and our own words only
	title  string
	Note   string // a sentence below it, on the page
	x      axis
	spread bool // points stand away from the left and right edge
	panels []panel
	marks  []mark
	shades []shade
	hits   []hit
	Table  table
}

// panel is a drawing with a y axis of its own.
type panel struct {
	title  string // above it, where there are several
	height float64
	y      axis
	lines  []line
	bars   []bar
	dots   []dots
	bounds []bound
}

// line is points joined from left to right.
type line struct {
	name   string               // beside its last point and in the legend
	class  string               // its colour
	area   bool                 // filled down to the axis
	thin   bool                 // says less than the others
	plain  bool                 // without a marker at each point
	format func(float64) string // exact, for tables and tooltips
	points []point
}

// point is one value. A coordinate that is NaN is not drawn and breaks the line; a bound that is NaN is open.
type point struct {
	x, y      float64
	low, high float64
	interval  bool   // low and high mean something
	doubted   bool   // not to be trusted
	label     string // beside the point
	ring      bool   // it is the operating point
	of        int    // index of its level
}

// bar is a column from 0 to y.
type bar struct{ from, to, y float64 }

// dots are many points in one colour.
type dots struct {
	name, class string
	cross       bool
	at          [][2]float64
}

// bound is a horizontal line: an objective.
type bound struct {
	name string
	y    float64
}

// mark is a value on the x axis that matters.
type mark struct {
	name, class string
	x           float64
	band        bool // as broad as a level
}

// shade is a part of the x axis that is set off, with its name.
type shade struct {
	name     string
	from, to float64
}

// hit is a part of the x axis that tells exact values when it is pointed at.
type hit struct {
	x        float64
	from, to float64 // NaN: half way to its neighbours
	text     string  // lines
	doubted  bool    // its tick says that it is not to be trusted
}

// table is the exact values of a chart.
type table struct {
	Head []string
	Rows []row
}

// row is a row of a table: what it is about, and a cell for each further head.
type row struct {
	Name    string
	Doubted bool
	Cells   []cell
}

// cell is a value and, smaller, its interval.
type cell struct{ Value, Interval string }

// values lists what the y axis of a panel should have room for. An interval that goes far beyond all values does not
// press them together: its end is beyond the edge then.
func (p *panel) values() []float64 {
	var all []float64
	for _, l := range p.lines {
		for _, q := range l.points {
			if finite(q.y) {
				all = append(all, q.y)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	low, high := slices.Min(all), slices.Max(all)
	for _, l := range p.lines {
		for _, q := range l.points {
			if !q.interval || !finite(q.y) {
				continue
			}
			if finite(q.low) && q.low >= low/2 {
				all = append(all, q.low)
			}
			if finite(q.high) && q.high <= high*1.25 {
				all = append(all, q.high)
			}
		}
	}
	for _, b := range p.bounds {
		if b.near(high) {
			all = append(all, b.y)
		}
	}
	return all
}

// near reports whether a bound can be shown in a chart whose highest value is high without pressing it flat.
func (b bound) near(high float64) bool { return finite(b.y) && b.y <= 3*high }

// doubted reports whether any point of the chart is not to be trusted.
func (c *chart) doubted() bool {
	return c.any(func(p point) bool { return p.doubted && finite(p.y) })
}

// any reports whether any point of the chart's lines is such.
func (c *chart) any(such func(point) bool) bool {
	for i := range c.panels {
		for _, l := range c.panels[i].lines {
			if slices.ContainsFunc(l.points, such) {
				return true
			}
		}
	}
	return false
}

// empty reports whether there is nothing to draw.
func (c *chart) empty() bool {
	for i := range c.panels {
		for _, d := range c.panels[i].dots {
			if len(d.at) > 0 {
				return false
			}
		}
		if len(c.panels[i].bars) > 0 {
			return false
		}
	}
	return !c.any(func(p point) bool { return finite(p.x) && finite(p.y) })
}

// missing is a point that is not drawn.
func missing(x float64) point { return point{x: x, y: math.NaN()} }

// tooltip writes a row, a line for each cell.
func (r *row) tooltip(head []string) string {
	var b strings.Builder
	b.WriteString(r.Name)
	if r.Doubted {
		b.WriteString("  ⚠ not to be trusted")
	}
	for i, c := range r.Cells {
		if c.Value == "" || i+1 >= len(head) {
			continue
		}
		b.WriteString("\n" + head[i+1] + ": " + c.Value)
		if c.Interval != "" {
			b.WriteString("  (" + c.Interval + ")")
		}
	}
	return b.String()
}
