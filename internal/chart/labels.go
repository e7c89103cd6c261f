package chart

import (
	"math"
	"slices"
)

// box is the room that a text takes.
type box struct{ x1, y1, x2, y2 float64 }

func (a box) touches(b box) bool {
	return a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2
}

// words writes what is said within a panel: the names of the lines beside their last points, of the objectives, and of
// single points, each where it touches no other and, if that can be, no line.
func (d *drawing) words(p *Panel, top float64) {
	lines, points := d.busy(p, top)
	taken := append(points, d.ends(p, top)...)
	for _, b := range p.Bounds {
		if !p.Y.shows(b.Y) || b.Y > p.Y.High*1.001 || b.Y < p.Y.Low*0.999 {
			continue
		}
		y := p.py(b.Y, top)
		d.line("bound", d.left, y, d.right, y)
		at := d.boundName(b.Name, y, top, append(lines, taken...))
		taken = append(taken, at)
		lines = append(lines, box{d.left, y - 1, d.right, y + 1})
		d.text(at.x1, at.y2-3, "bound-name", "start", b.Name)
	}
	room := box{d.left, top - 6, chartWidth - 2, top + p.Height}
	for _, l := range d.labels(p, top) {
		if at, free := place(l, room, taken, lines); free {
			taken = append(taken, at)
			d.text(at.x1, at.y2-3, "here", "start", l.text)
		}
	}
}

// busy is where the lines of a panel go, and where their points are.
func (d *drawing) busy(p *Panel, top float64) (lines, points []box) {
	for _, l := range p.Lines {
		var before *Point
		for i := range l.Points {
			q := &l.Points[i]
			if !d.X.shows(q.X) || !p.Y.shows(q.Y) {
				before = nil
				continue
			}
			x, y := d.px(q.X), p.py(q.Y, top)
			if !l.Plain {
				points = append(points, box{x - 4, y - 4, x + 4, y + 4})
			}
			if before != nil {
				lines = append(lines, along(d.px(before.X), p.py(before.Y, top), x, y)...)
			}
			before = q
		}
	}
	return lines, points
}

// boundName finds room for the name of an objective along its line: rather above than below, rather left than right.
func (d *drawing) boundName(name string, y, top float64, taken []box) box {
	w := width(name, smallText)
	at := func(x, y float64) box { return box{x, y, x + w, y + 13} }
	for _, by := range []float64{-14, 2} {
		for x := d.left + 5; x+w < d.right; x += 12 {
			if b := at(x, y+by); b.y1 >= top-6 && !slices.ContainsFunc(taken, b.touches) {
				return b
			}
		}
	}
	if y-14 < top-6 {
		return at(d.left+5, y+2)
	}
	return at(d.left+5, y-14)
}

// label is a text that belongs to a place.
type label struct {
	x, y  float64
	text  string
	clear bool // rather no label than one on a line
}

// labels lists what the points of a panel are called; points that lie on each other have one label.
func (d *drawing) labels(p *Panel, top float64) []label {
	var all []label
	for _, l := range p.Lines {
		first := len(all)
		for _, q := range l.Points {
			if q.Label == "" || !d.X.shows(q.X) || !p.Y.shows(q.Y) {
				continue
			}
			x, y := d.px(q.X), p.py(q.Y, top)
			if n := len(all); n > first && math.Hypot(all[n-1].x-x, all[n-1].y-y) < 6 {
				all[n-1].text += ", " + q.Label
				continue
			}
			all = append(all, label{x, y, q.Label, l.Plain})
		}
	}
	return all
}

// along is a straight line as small boxes.
func along(x1, y1, x2, y2 float64) []box {
	n := math.Ceil(math.Hypot(x2-x1, y2-y1) / 4)
	var all []box
	for i := range int(n) + 1 {
		x, y := x1+(x2-x1)*float64(i)/max(n, 1), y1+(y2-y1)*float64(i)/max(n, 1)
		all = append(all, box{x - 1, y - 1, x + 1, y + 1})
	}
	return all
}

// place finds room for a label near its point: on no other label or point and, if there is such a place, on no line.
func place(l label, room box, taken, lines []box) (box, bool) {
	w := width(l.text, smallText)
	var found *box
	for _, far := range []float64{0, 9, 18} {
		for _, by := range [][2]float64{ // above, left, right, below, then aslant
			{-w / 2, -19 - far}, {-w - 7 - far, -7}, {7 + far, -7}, {-w / 2, 6 + far}, {-w - 5, -17 - far}, {5, 5 + far},
		} {
			b := box{l.x + by[0], l.y + by[1], l.x + by[0] + w, l.y + by[1] + 13}
			inside := b.x1 > room.x1 && b.x2 < room.x2 && b.y1 > room.y1 && b.y2 < room.y2
			if !inside || slices.ContainsFunc(taken, b.touches) {
				continue
			}
			if !slices.ContainsFunc(lines, b.touches) {
				return b, true
			}
			if found == nil {
				found = &b
			}
		}
	}
	if found == nil || l.clear {
		return box{}, false
	}
	return *found, true
}

// ends writes the name of each line beside its last point, one above the other, and returns where they are.
func (d *drawing) ends(p *Panel, top float64) []box {
	type end struct {
		name, class string
		x, y        float64
	}
	var all []end
	for _, l := range p.Lines {
		for _, q := range slices.Backward(l.Points) {
			if l.Name != "" && !l.Plain && d.X.shows(q.X) && p.Y.shows(q.Y) {
				away := 8.0
				if q.Ring {
					away = 12
				}
				all = append(all, end{l.Name, l.Class, d.px(q.X) + away, p.py(q.Y, top) + 4})
				break
			}
		}
	}
	slices.SortStableFunc(all, func(a, b end) int { return int(math.Copysign(1, a.y-b.y)) })
	const apart = 12.5
	for i := 1; i < len(all); i++ {
		all[i].y = max(all[i].y, all[i-1].y+apart)
	}
	lowest := top + p.Height + 3
	for i := len(all) - 1; i >= 0; i-- {
		all[i].y = min(all[i].y, lowest)
		lowest = all[i].y - apart
	}
	var taken []box
	for _, e := range all {
		w := width(e.name, smallText)
		x := min(e.x, chartWidth-w-3)
		d.text(x, e.y, "end fill-"+e.class, "start", e.name)
		taken = append(taken, box{x, e.y - 11, x + w, e.y + 2})
	}
	return taken
}
