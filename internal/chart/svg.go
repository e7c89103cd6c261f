package chart

import (
	"encoding/xml"
	"strconv"
	"strings"
)

// svg collects the elements of a drawing.
type svg struct{ strings.Builder }

// number writes a coordinate to a tenth of a pixel.
func number(v float64) string {
	s := strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	if s == "-0" {
		return "0"
	}
	return s
}

// escaped is a text as XML; what XML cannot hold is replaced.
func escaped(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) //nolint:errcheck // a Builder takes everything
	return b.String()
}

// element writes an empty element. Attributes come as name, value; a float64 is a coordinate.
func (s *svg) element(name string, attributes ...any) { s.open(name, "/>", attributes...) }

// open writes a start tag that ends with end.
func (s *svg) open(name, end string, attributes ...any) {
	s.WriteString("<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		s.WriteString(" " + attributes[i].(string) + `="`)
		switch v := attributes[i+1].(type) {
		case float64:
			s.WriteString(number(v))
		case string:
			s.WriteString(escaped(v))
		}
		s.WriteString(`"`)
	}
	s.WriteString(end)
}

// text writes a text; anchor is start, middle or end.
func (s *svg) text(x, y float64, class, anchor, content string) {
	s.open("text", ">", "x", x, "y", y, "class", class, "text-anchor", anchor)
	s.WriteString(escaped(content) + "</text>")
}

// line writes a straight line.
func (s *svg) line(class string, x1, y1, x2, y2 float64) {
	s.element("path", "class", class, "d", "M"+number(x1)+" "+number(y1)+"L"+number(x2)+" "+number(y2))
}

// rect writes a rectangle; what lies in it is written as its tooltip.
func (s *svg) rect(class string, x, y, width, height float64, tooltip string) {
	s.open("rect", ">", "class", class, "x", x, "y", y, "width", width, "height", height)
	if tooltip != "" {
		s.WriteString("<title>" + escaped(tooltip) + "</title>")
	}
	s.WriteString("</rect>")
}

// width is about how wide a text is.
func width(text string, size float64) float64 {
	n := 0.0
	for _, r := range text {
		switch {
		case strings.ContainsRune("il.,:; \u00a0\u202fI|'/()", r):
			n += 0.36
		case strings.ContainsRune("mwMW≤≥⚠—", r):
			n += 0.9
		default:
			n += 0.6
		}
	}
	return n * size
}
