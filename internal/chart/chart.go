package chart

import (
	"math"
	"slices"
	"strings"
)

// Chart is panels one below another over the same x axis. It says what is drawn; draw.go knows how.
type Chart struct {
	Name   string // of its file, without chart- and .svg; made of numbers and our own words only
	Title  string
	Note   string // a sentence below it, on the page
	X      Axis
	Spread bool // points stand away from the left and right edge
	Panels []Panel
	Marks  []Mark
	Shades []Shade
	Hits   []Hit
	Table  Table
}

// Panel is a drawing with a y axis of its own.
type Panel struct {
	Title  string // above it, where there are several
	Height float64
	Y      Axis
	Lines  []Line
	Bars   []Bar
	Dots   []Dots
	Bounds []Bound
}

// Line is points joined from left to right.
type Line struct {
	Name   string               // beside its last point and in the legend
	Class  string               // its colour
	Area   bool                 // filled down to the axis
	Thin   bool                 // says less than the others
	Plain  bool                 // without a marker at each point
	Format func(float64) string // for tables and tooltips
	Points []Point
}

// Point is one value. A coordinate that is NaN is not drawn and breaks the line; a bound that is NaN is open.
type Point struct {
	X, Y      float64
	Low, High float64
	Interval  bool   // low and high mean something
	Doubted   bool   // not to be trusted
	Label     string // beside the point
	Ring      bool   // it is the operating point
	Of        int    // index of its level
}

// Bar is a column from 0 to y.
type Bar struct{ From, To, Y float64 }

// Dots are many points in one colour.
type Dots struct {
	Name, Class string
	Cross       bool
	At          [][2]float64
}

// Bound is a horizontal line: an objective.
type Bound struct {
	Name string
	Y    float64
}

// Mark is a value on the x axis that matters.
type Mark struct {
	Name, Class string
	X           float64
	Band        bool // as broad as a level
}

// Shade is a part of the x axis that is set off, with its name.
type Shade struct {
	Name     string
	From, To float64
}

// Hit is a part of the x axis that tells exact values when it is pointed at.
type Hit struct {
	X        float64
	From, To float64 // NaN: half way to its neighbours
	Text     string  // lines
	Doubted  bool    // its tick says that it is not to be trusted
}

// Table is the exact values of a chart.
type Table struct {
	Head []string
	Rows []Row
}

// Row is a row of a table: what it is about, and a cell for each further head.
type Row struct {
	Name    string
	Doubted bool
	Cells   []Cell
}

// Cell is a value and, smaller, its interval.
type Cell struct{ Value, Interval string }

// Values lists what the y axis of a panel should have room for. An interval that goes far beyond all values does not
// press them together: its end is beyond the edge then.
func (p *Panel) Values() []float64 {
	var all []float64
	for _, l := range p.Lines {
		for _, q := range l.Points {
			if Finite(q.Y) {
				all = append(all, q.Y)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	low, high := slices.Min(all), slices.Max(all)
	for _, l := range p.Lines {
		for _, q := range l.Points {
			if !q.Interval || !Finite(q.Y) {
				continue
			}
			if Finite(q.Low) && q.Low >= low/2 {
				all = append(all, q.Low)
			}
			if Finite(q.High) && q.High <= high*1.25 {
				all = append(all, q.High)
			}
		}
	}
	for _, b := range p.Bounds {
		if b.near(high) {
			all = append(all, b.Y)
		}
	}
	return all
}

// near reports whether a bound can be shown in a chart whose highest value is high without pressing it flat.
func (b Bound) near(high float64) bool { return Finite(b.Y) && b.Y <= 3*high }

// doubted reports whether any point of the chart is not to be trusted.
func (c *Chart) doubted() bool {
	return c.any(func(p Point) bool { return p.Doubted && Finite(p.Y) })
}

// any reports whether any point of the chart's lines is such.
func (c *Chart) any(such func(Point) bool) bool {
	for i := range c.Panels {
		for _, l := range c.Panels[i].Lines {
			if slices.ContainsFunc(l.Points, such) {
				return true
			}
		}
	}
	return false
}

// empty reports whether there is nothing to draw.
func (c *Chart) empty() bool {
	for i := range c.Panels {
		for _, d := range c.Panels[i].Dots {
			if len(d.At) > 0 {
				return false
			}
		}
		if len(c.Panels[i].Bars) > 0 {
			return false
		}
	}
	return !c.any(func(p Point) bool { return Finite(p.X) && Finite(p.Y) })
}

// Missing is a point that is not drawn.
func Missing(x float64) Point { return Point{X: x, Y: math.NaN()} }

// Tooltip writes a row, a line for each cell.
func (r *Row) Tooltip(head []string) string {
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
