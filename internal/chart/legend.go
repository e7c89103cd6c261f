package chart

// entry is a sign of the legend and what it means.
type entry struct {
	name string
	draw func(d *drawing, x, y float64)
}

const signWidth = 20.0

// entries lists the signs that the chart has.
func (c *Chart) entries() []entry {
	var all []entry
	for i := range c.Panels {
		all = append(all, c.Panels[i].entries()...)
	}
	if c.any(func(p Point) bool { return p.Interval && (Finite(p.Low) || Finite(p.High)) }) {
		all = append(all, entry{"95 % confidence", func(d *drawing, x, y float64) {
			d.element("path", "class", "base", "d", "M"+number(x+8)+" "+number(y-9)+"v10m-3 0h6m-6 -10h6")
		}})
	}
	if c.any(func(p Point) bool { return p.Ring }) {
		all = append(all, entry{"operating point", func(d *drawing, x, y float64) {
			d.element("circle", "class", "ring", "cx", x+8, "cy", y-4, "r", "5")
		}})
	}
	if c.doubted() {
		all = append(all, entry{"not to be trusted", func(d *drawing, x, y float64) {
			d.element("circle", "class", "point base hollow", "cx", x+8, "cy", y-4, "r", "3.2")
		}})
	}
	return all
}

func (p *Panel) entries() []entry {
	var all []entry
	for _, l := range p.Lines {
		if l.Name == "" {
			continue
		}
		class := "curve " + l.Class
		if l.Thin {
			class += " thin"
		}
		all = append(all, entry{l.Name, func(d *drawing, x, y float64) { d.line(class, x, y-4, x+15, y-4) }})
	}
	for _, of := range p.Dots {
		if len(of.At) == 0 || of.Name == "" {
			continue
		}
		shape, class := "h0", "dots "+of.Class
		if of.Cross {
			shape, class = "m-2.5 -2.5l5 5m-5 0l5-5", "cross "+of.Class
		}
		all = append(all, entry{of.Name, func(d *drawing, x, y float64) {
			d.element("path", "class", class, "d", "M"+number(x+8)+" "+number(y-4)+shape)
		}})
	}
	return all
}

// places puts the entries in rows.
func (d *drawing) places() (xs, rows []float64, all []entry) {
	all = d.entries()
	x, row := d.left, 0.0
	for _, e := range all {
		w := signWidth + width(e.name, smallText) + 12
		if x+w > chartWidth && x > d.left {
			x, row = d.left, row+1
		}
		xs, rows = append(xs, x), append(rows, row)
		x += w
	}
	return xs, rows, all
}

func (d *drawing) legendRows() int {
	_, rows, _ := d.places()
	if len(rows) == 0 {
		return 0
	}
	return int(rows[len(rows)-1]) + 1
}

// legend writes the legend at the bottom.
func (d *drawing) legend() {
	xs, rows, all := d.places()
	first := d.height - legendRow*float64(d.legendRows()) + 8
	for i, e := range all {
		y := first + legendRow*rows[i]
		e.draw(d, xs[i], y)
		d.text(xs[i]+signWidth, y, "axis", "start", e.name)
	}
}
