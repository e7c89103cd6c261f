package chart

import (
	"html/template"
	"math"
	"slices"
	"strings"
)

// Measures of a chart, in its own pixels. On a phone it is shown at about four fifths of its size.
const (
	chartWidth  = 460.0
	PanelHeight = 196.0
	titleRoom   = 28.0
	markRoom    = 16.0
	panelGap    = 22.0
	tickRoom    = 17.0
	nameRoom    = 16.0
	legendRow   = 16.0
	inset       = 20.0 // of the first and last point of a chart whose points stand away from the edge
	smallText   = 11.0
)

// drawing is a chart being drawn.
type drawing struct {
	*Chart
	svg
	left, right float64 // edges of the panels
	top, bottom float64 // of the first panel, of the last
	height      float64
}

// Inline is the chart as an element of the page.
func (c *Chart) Inline() template.HTML {
	return template.HTML(c.draw("")) //nolint:gosec // every text in it is escaped
}

// File is the chart as an SVG file.
func (c *Chart) File() []byte {
	return []byte(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + c.draw(fileCSS()) + "\n")
}

// draw writes the chart as SVG; css is its own style, where it has to bring one.
func (c *Chart) draw(css string) string {
	d := &drawing{Chart: c}
	d.layout()
	if css != "" {
		d.open("svg", ">", "xmlns", "http://www.w3.org/2000/svg", "class", "chart", "role", "img", "aria-label", d.Title,
			"viewBox", "0 0 "+number(chartWidth)+" "+number(d.height), "width", 1.5*chartWidth, "height", 1.5*d.height)
		d.WriteString("<style>" + css + "</style>")
	} else {
		d.open("svg", ">", "class", "chart", "role", "img", "aria-label", d.Title,
			"viewBox", "0 0 "+number(chartWidth)+" "+number(d.height))
	}
	d.rect("ground", 0, 0, chartWidth, d.height, "")
	d.text(12, 19, "title", "start", d.Title)
	if d.empty() {
		d.text(chartWidth/2, (d.top+d.bottom)/2, "nothing", "middle", "nothing was measured")
	} else {
		d.content()
	}
	d.WriteString("</svg>")
	return d.String()
}

func (d *drawing) content() {
	d.background()
	y := d.top
	for i := range d.Panels {
		d.panel(&d.Panels[i], y)
		y += d.Panels[i].Height + panelGap
	}
	d.drawMarks()
	d.abscissa()
	d.legend()
	for i, h := range d.Hits {
		from, to := d.reach(i)
		d.rect("hit", from, d.top, to-from, d.bottom-d.top, h.Text)
	}
}

// layout finds the edges: to the left there is room for the ticks, to the right for the names of the lines.
func (d *drawing) layout() {
	d.left, d.right = 46, chartWidth-14
	d.top = titleRoom + 6
	if len(d.Marks) > 0 || len(d.Shades) > 0 {
		d.top += markRoom
	}
	d.bottom = d.top - panelGap
	for i := range d.Panels {
		p := &d.Panels[i]
		for _, t := range p.Y.Ticks {
			d.left = max(d.left, width(p.Y.format(t), smallText)+14)
		}
		for _, l := range p.Lines {
			if l.Name != "" && !l.Plain {
				d.right = min(d.right, chartWidth-width(l.Name, smallText)-12)
			}
		}
		d.bottom += p.Height + panelGap
	}
	d.height = d.bottom + tickRoom + 6
	if d.X.Name != "" {
		d.height += nameRoom
	}
	d.height += legendRow * float64(d.legendRows())
}

// px is where a value of the x axis lies.
func (d *drawing) px(v float64) float64 {
	left, right := d.left, d.right
	if d.Spread {
		left, right = left+inset, right-inset
	}
	return left + d.X.at(v)*(right-left)
}

// py is where a value of a panel lies whose upper edge is top.
func (p *Panel) py(v, top float64) float64 { return top + p.Height*(1-p.Y.at(v)) }

// reach is the part of the x axis that a hit answers for.
func (d *drawing) reach(i int) (from, to float64) {
	h := d.Hits[i]
	if Finite(h.From) && Finite(h.To) && h.To > h.From {
		return d.px(h.From), d.px(h.To)
	}
	from, to = d.left, d.right
	if i > 0 {
		from = (d.px(d.Hits[i-1].X) + d.px(h.X)) / 2
	}
	if i+1 < len(d.Hits) {
		to = (d.px(d.Hits[i+1].X) + d.px(h.X)) / 2
	}
	return from, max(from, to)
}

// background draws what lies behind everything: shades, and the level that is the operating point.
func (d *drawing) background() {
	for _, s := range d.Shades {
		from, to := d.px(s.From), d.px(s.To)
		d.rect("shade", from, d.top, max(to-from, 0), d.bottom-d.top, "")
		if s.Name != "" {
			d.above(from, to, "name-sent", s.Name)
		}
	}
	for _, m := range d.Marks {
		if m.Band && d.X.shows(m.X) {
			d.rect("band", d.px(m.X)-13, d.top, 26, d.bottom-d.top, "")
		}
	}
}

// above writes a text above the panels, between two places if it fits, else as near as it can.
func (d *drawing) above(from, to float64, class, name string) {
	half := width(name, smallText) / 2
	x := min(max((from+to)/2, half+4), chartWidth-half-4)
	d.text(x, d.top-6, class, "middle", name)
}

// drawMarks draws the values of the x axis that matter, and their names side by side.
func (d *drawing) drawMarks() {
	marks := slices.DeleteFunc(slices.Clone(d.Marks), func(m Mark) bool { return !d.X.shows(m.X) })
	slices.SortStableFunc(marks, func(a, b Mark) int { return int(math.Copysign(1, a.X-b.X)) })
	from := 4.0
	for i, m := range marks {
		x := d.px(m.X)
		d.line("mark-"+m.Class, x, d.top-3, x, d.bottom)
		if m.Name == "" {
			continue
		}
		half, to := width(m.Name, smallText)/2, chartWidth-4
		for _, later := range marks[i+1:] {
			if later.Name != "" {
				to = min(to, max(d.px(later.X)-width(later.Name, smallText)/2, (x+d.px(later.X))/2)) - 3
				break
			}
		}
		at := max(min(x, to-half), from+half)
		d.text(at, d.top-6, "name-"+m.Class, "middle", m.Name)
		from = at + half + 8
	}
}

// abscissa writes the ticks below the last panel, those at marks first; those that would touch are left out.
func (d *drawing) abscissa() {
	d.line("base", d.left, d.bottom, d.right, d.bottom)
	ticks := slices.Clone(d.X.Ticks)
	slices.SortStableFunc(ticks, func(a, b float64) int { return d.weight(b) - d.weight(a) })
	var taken []box
	for _, t := range ticks {
		x, name, class := d.px(t), d.X.format(t), "axis"
		if slices.ContainsFunc(d.Hits, func(h Hit) bool { return h.X == t && h.Doubted }) {
			name, class = name+"\u202f⚠", "warn"
		}
		d.line("base", x, d.bottom, x, d.bottom+4)
		half := width(name, smallText) / 2
		at := min(x, chartWidth-half-2)
		room := box{at - half - 2, 0, at + half + 2, 1}
		if slices.ContainsFunc(taken, room.touches) {
			continue
		}
		taken = append(taken, room)
		d.text(at, d.bottom+tickRoom-1, class, "middle", name)
	}
	if d.X.Name != "" {
		d.text((d.left+d.right)/2, d.bottom+tickRoom+nameRoom-2, "axis", "middle", d.X.Name)
	}
}

// weight is 1 for a tick that has a mark.
func (d *drawing) weight(tick float64) int {
	if slices.ContainsFunc(d.Marks, func(m Mark) bool { return m.X == tick }) {
		return 1
	}
	return 0
}

func (d *drawing) panel(p *Panel, top float64) {
	if p.Title != "" {
		d.text(d.left, top-6, "sub", "start", p.Title)
	}
	last := math.Inf(1)
	for _, t := range p.Y.Ticks {
		y := p.py(t, top)
		if last-y < smallText+2 {
			continue
		}
		last = y
		d.line("rule", d.left, y, d.right, y)
		d.text(d.left-6, y+4, "axis", "end", p.Y.format(t))
	}
	for _, b := range p.Bars {
		if Finite(b.Y) && b.Y > 0 {
			from, to, y := d.px(b.From), d.px(b.To), p.py(b.Y, top)
			d.rect("bar", from, y, max(to-from-0.5, 0.5), top+p.Height-y, "")
		}
	}
	for _, l := range p.Lines {
		d.curve(p, l, top)
	}
	for _, l := range p.Lines {
		d.markers(p, l, top)
	}
	for _, of := range p.Dots {
		d.scatter(p, of, top)
	}
	d.words(p, top)
}

// curve draws a line, broken where it has no value, and the area below it.
func (d *drawing) curve(p *Panel, l Line, top float64) {
	var path, area strings.Builder
	floor := number(top + p.Height)
	var part []Point
	flush := func() {
		for i, q := range part {
			to := number(d.px(q.X)) + " " + number(p.py(q.Y, top))
			if i == 0 {
				path.WriteString("M" + to)
				area.WriteString("M" + number(d.px(q.X)) + " " + floor)
			} else {
				path.WriteString("L" + to)
			}
			area.WriteString("L" + to)
		}
		if len(part) > 0 {
			area.WriteString("L" + number(d.px(part[len(part)-1].X)) + " " + floor + "z")
		}
		part = nil
	}
	for _, q := range l.Points {
		if !d.X.shows(q.X) || !p.Y.shows(q.Y) {
			flush()
			continue
		}
		part = append(part, q)
	}
	flush()
	if l.Area {
		d.element("path", "class", "area fill-"+l.Class, "d", area.String())
	}
	class := "curve " + l.Class
	if l.Thin {
		class += " thin"
	}
	if l.Plain {
		class += " plain"
	}
	if path.Len() > 0 {
		d.element("path", "class", class, "d", path.String())
	}
}

// markers draws the points of a line and their confidence intervals. A point that is not to be trusted is hollow, an
// interval without an upper end is open.
func (d *drawing) markers(p *Panel, l Line, top float64) {
	if l.Plain {
		return
	}
	for _, q := range l.Points {
		if !d.X.shows(q.X) || !p.Y.shows(q.Y) {
			continue
		}
		x, y := d.px(q.X), p.py(q.Y, top)
		if q.Interval && !l.Thin {
			d.whisker(x, y, d.end(p, q.Low, top), l.Class)
			d.whisker(x, y, d.end(p, q.High, top), l.Class)
			if Finite(q.Low) && !Finite(q.High) {
				d.element("path", "class", "ci open "+l.Class, "d", "M"+number(x)+" "+number(y)+"V"+number(max(y-22, top)))
			}
		}
		class := "point " + l.Class
		if q.Doubted {
			class += " hollow"
		} else {
			class += " fill-" + l.Class
		}
		radius := 3.2
		if l.Thin {
			radius = 2
		}
		d.element("circle", "class", class, "cx", x, "cy", y, "r", number(radius))
		if q.Ring {
			d.element("circle", "class", "ring", "cx", x, "cy", y, "r", "7.5")
		}
	}
}

// end is where the end of an interval lies, NaN if it is not known.
func (d *drawing) end(p *Panel, v, top float64) float64 {
	if !Finite(v) {
		return math.NaN()
	}
	if p.Y.log && v <= 0 {
		return top + p.Height
	}
	return p.py(v, top)
}

// whisker draws one half of an interval, unless it would be hidden by its point.
func (d *drawing) whisker(x, from, to float64, class string) {
	if !Finite(to) || math.Abs(to-from) < 4 {
		return
	}
	d.element("path", "class", "ci "+class, "d", "M"+number(x)+" "+number(from)+"V"+number(to)+"M"+number(x-3)+" "+number(to)+"h6")
}

// scatter draws many points as one path.
func (d *drawing) scatter(p *Panel, of Dots, top float64) {
	var path strings.Builder
	for _, at := range of.At {
		if !d.X.shows(at[0]) || !p.Y.shows(at[1]) {
			continue
		}
		x, y := d.px(at[0]), p.py(at[1], top)
		if of.Cross {
			path.WriteString("M" + number(x-2.5) + " " + number(y-2.5) + "l5 5m-5 0l5-5")
		} else {
			path.WriteString("M" + number(x) + " " + number(y) + "h0")
		}
	}
	class := "dots " + of.Class
	if of.Cross {
		class = "cross " + of.Class
	}
	if path.Len() > 0 {
		d.element("path", "class", class, "d", path.String())
	}
}
