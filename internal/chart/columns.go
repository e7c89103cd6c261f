package chart

import (
	"fmt"
	"html/template"
	"strings"
)

// Columns is a chart of columns, of which several may stand on one another. Its drawing has no text and is stretched to
// the room there is, so that it serves a phone and a wide screen: the page writes names and values beside it, and has
// the styles of its classes.
type Columns struct {
	High   float64 // value of the upper edge; 0: there is nothing to draw
	layers []layer // from the back to the front
	levels []levelLine
}

// Key explains a class of a drawing. Without a name it is not explained.
type Key struct{ Class, Name, Value, Note string }

// layer is all columns of a class, as one path.
type layer struct {
	Key
	path strings.Builder
}

// levelLine is a horizontal line.
type levelLine struct {
	Key
	y float64
}

// The drawing's own measures.
const (
	columnsWidth  = 600.0
	columnsHeight = 100.0
)

// NewColumns is a chart with room for values up to most, and with classes from the back to the front.
func NewColumns(most float64, classes ...Key) *Columns {
	c := &Columns{}
	if most > 0 {
		c.High = roundUp(most, 1, 1.5, 2, 3, 5, 7)
	}
	for _, k := range classes {
		c.layers = append(c.layers, layer{Key: k})
	}
	return c
}

// Add draws a column from one value up to another. Its place is in shares of the chart's width.
func (c *Columns) Add(class int, x, width, from, to float64) {
	h := columnsHeight * (to - from) / c.High
	if h > 0 {
		fmt.Fprintf(&c.layers[class].path, "M%.2f %.1fh%.2fv%.1fh-%.2fz", columnsWidth*x, columnsHeight*(1-from/c.High), columnsWidth*width, -h, columnsWidth*width)
	}
}

// Mark draws a line at a value.
func (c *Columns) Mark(value float64, key Key) {
	c.levels = append(c.levels, levelLine{key, columnsHeight * (1 - value/c.High)})
}

// Keys explains what is drawn.
func (c *Columns) Keys() []Key {
	var keys []Key
	for i := range c.layers {
		if l := &c.layers[i]; l.Name != "" && l.path.Len() > 0 {
			keys = append(keys, l.Key)
		}
	}
	for _, l := range c.levels {
		keys = append(keys, l.Key)
	}
	return keys
}

// Inline is the drawing as an element of a page, with a label for who cannot see it.
func (c *Columns) Inline(label string) template.HTML {
	var d svg
	d.open("svg", ">", "viewBox", "0 0 600 100", "preserveAspectRatio", "none", "role", "img", "aria-label", label)
	d.element("path", "class", "grid", "d", "M0 .5H600M0 50H600M0 99.5H600")
	for i := range c.layers {
		if l := &c.layers[i]; l.path.Len() > 0 {
			d.element("path", "class", l.Class, "d", l.path.String())
		}
	}
	for _, l := range c.levels {
		d.element("path", "class", l.Class, "d", "M0 "+number(l.y)+"H600")
	}
	d.WriteString("</svg>")
	return template.HTML(d.String()) //nolint:gosec // every text in it is escaped
}
