package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// tile draws the last value of each series large.
func (p *panel) tile(c draw.Canvas) {
	for i, answer := range p.Answers {
		for n, s := range answer {
			value, ok := s.last()
			if !ok {
				continue
			}
			text, color := p.shown(value)
			if color == "text" {
				color = "green"
			}
			at := c.Center()
			at.Y += vg.Length(len(answer)-1-2*n) * 11
			write(c, at, text, min(24, 40/vg.Length(len(answer))), color, -0.5, true)
			if len(answer) > 1 {
				write(c, vg.Point{X: at.X, Y: at.Y - 12}, s.name(p.Panel.Targets[i].LegendFormat), 7, "#777777", -0.5, false)
			}
		}
	}
}

// bars draws one bar a series.
func (p *panel) bars(c draw.Canvas) {
	all := p.allLines()
	most := 0.0
	for _, l := range all {
		most = max(most, l.points[0].value)
	}
	height := min(26, (c.Max.Y-c.Min.Y)/vg.Length(max(1, len(all))))
	for i, l := range all {
		y := c.Max.Y - vg.Length(i)*height - height/2
		text, color := p.shown(l.points[0].value)
		write(c, vg.Point{X: c.Min.X + 4, Y: y + 5}, l.name, 8, "text", left, false)
		width := (c.Max.X - c.Min.X - 60) * vg.Length(l.points[0].value/max(1, most))
		fill(c, vg.Rectangle{Min: vg.Point{X: c.Min.X + 4, Y: y - 7}, Max: vg.Point{X: c.Min.X + 5 + width, Y: y - 1}}, paint(color))
		write(c, vg.Point{X: c.Max.X - 4, Y: y - 3}, text, 9, "text", right, true)
	}
}

// timeline draws each series as a row of coloured pieces.
func (r *recording) timeline(c draw.Canvas, p *panel) {
	all := p.allLines()
	longest := vg.Length(0)
	for _, l := range all {
		longest = max(longest, face(8, "text", right, false).Width(l.name))
	}
	start := c.Min.X + longest + 10
	x := func(t float64) vg.Length {
		return start + (c.Max.X-start)*vg.Length((t-r.From)/(r.To-r.From))
	}
	const axis = 14
	height := min(32, (c.Max.Y-c.Min.Y-axis)/vg.Length(max(1, len(all))))
	for i, l := range all {
		y := c.Max.Y - vg.Length(i+1)*height
		write(c, vg.Point{X: start - 5, Y: y + height/2}, l.name, 8, "text", right, false)
		for n, point := range l.points {
			if math.IsNaN(point.value) {
				continue
			}
			end := point.time + spacing(l.points)
			if n+1 < len(l.points) {
				end = min(end, l.points[n+1].time)
			}
			_, color := p.shown(point.value)
			fill(c, vg.Rectangle{Min: vg.Point{X: x(point.time), Y: y + height*0.15}, Max: vg.Point{X: min(c.Max.X, x(end)+0.6), Y: y + height*0.85}}, pale(paint(color), 0.8))
		}
	}
	step := 60 * math.Ceil((r.To-r.From)/60/8)
	for t := math.Ceil(r.From/step) * step; t <= r.To; t += step {
		write(c, vg.Point{X: x(t), Y: c.Max.Y - vg.Length(len(all))*height - axis/2}, clock(t), 8, "#777777", -0.5, false)
	}
}

// column is one column of a table.
type column struct {
	title   string
	field   string // a label, or "Value #A"
	answer  int    // -1 for a label
	setting setting
}

// setting is what the overrides say of a column.
type setting struct {
	unit       string
	decimals   *int
	mappings   []mapping
	thresholds *thresholds
	filled     bool
	hidden     bool
}

// table draws the rows of a table, joined by their labels as Grafana's transformations do it.
func (p *panel) table(c draw.Canvas) {
	columns := p.columns()
	rows := p.rows(columns)
	const height = 17
	x := c.Min.X + 4
	width := (c.Max.X - x) / vg.Length(len(columns))
	for i, col := range columns {
		at := vg.Point{X: x + vg.Length(i)*width, Y: c.Max.Y - height/2}
		write(c, at, col.title, 8, "#3274D9", left, true)
		for n, row := range rows {
			at.Y = c.Max.Y - vg.Length(n+1)*height - height/2
			cell, color := row.cells[i], "text"
			if cell.color != "text" && cell.color != "transparent" && col.setting.filled {
				fill(c, vg.Rectangle{Min: vg.Point{X: at.X - 3, Y: at.Y - height/2 + 1}, Max: vg.Point{X: at.X + width - 6, Y: at.Y + height/2 - 1}}, pale(paint(cell.color), 0.55))
			}
			write(c, at, cell.text, 9, color, left, false)
		}
	}
}

func (p *panel) columns() []column {
	var all []column
	options := p.Panel.Transformations[1].Options
	for field, title := range options.RenameByName {
		col := column{title: title, field: field, answer: -1, setting: p.setting(title)}
		if field == "Value" {
			col.answer = 0
		} else if letter, ok := strings.CutPrefix(field, "Value #"); ok {
			col.answer = int(letter[0] - 'A')
		}
		if !col.setting.hidden {
			all = append(all, col)
		}
	}
	slices.SortFunc(all, func(a, b column) int { return options.IndexByName[a.field] - options.IndexByName[b.field] })
	return all
}

func (p *panel) setting(title string) setting {
	s := setting{unit: p.Panel.FieldConfig.Defaults.Unit}
	for _, o := range p.Panel.FieldConfig.Overrides {
		if o.Matcher.Options != title {
			continue
		}
		for _, property := range o.Properties {
			into := map[string]any{
				"unit": &s.unit, "decimals": &s.decimals, "mappings": &s.mappings, "thresholds": &s.thresholds, "custom.hidden": &s.hidden,
			}[property.ID]
			if into != nil {
				_ = json.Unmarshal(property.Value, into) // one that cannot be read is drawn as if it were not there
			}
			s.filled = s.filled || property.ID == "custom.cellOptions"
		}
	}
	return s
}

type (
	row struct {
		labels map[string]string
		cells  []cell
		sort   float64
	}
	cell struct{ text, color string }
)

// rows has one row for each set of labels that the answers have, sorted as the panel says.
func (p *panel) rows(columns []column) []row {
	var rows []row
	for _, answer := range p.Answers {
		for _, s := range answer {
			if !slices.ContainsFunc(rows, func(r row) bool { return same(r.labels, s.Metric) }) {
				rows = append(rows, row{labels: s.Metric})
			}
		}
	}
	for i := range rows {
		for _, col := range columns {
			rows[i].cells = append(rows[i].cells, p.cell(&rows[i], col))
		}
	}
	desc := len(p.Panel.Options.SortBy) > 0 && p.Panel.Options.SortBy[0].Desc
	slices.SortStableFunc(rows, func(a, b row) int {
		order := int(math.Copysign(1, a.sort-b.sort))
		if a.sort == b.sort {
			order = 0
		}
		if desc {
			order = -order
		}
		return order
	})
	return rows
}

func (p *panel) cell(r *row, col column) cell {
	if col.answer < 0 {
		return cell{r.labels[col.field], "text"}
	}
	for _, s := range p.Answers[col.answer] {
		if !same(r.labels, s.Metric) {
			continue
		}
		value, _ := s.last()
		if len(p.Panel.Options.SortBy) > 0 && p.Panel.Options.SortBy[0].DisplayName == col.title {
			r.sort = value
		}
		text, color := show(value, col.setting.unit, col.setting.decimals, col.setting.mappings, col.setting.thresholds)
		if col.setting.thresholds != nil {
			_, color = show(value, "", nil, nil, col.setting.thresholds)
		}
		return cell{text, color}
	}
	return cell{"", "text"}
}

func same(a, b map[string]string) bool {
	for name, value := range a {
		if b[name] != value {
			return false
		}
	}
	return len(a) == len(b)
}
