package main

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	dpi       = 96
	rowHeight = 29.0 / dpi * vg.Inch // of one of Grafana's grid lines
	header    = 34.0 / dpi * vg.Inch
	gap       = 3 * vg.Millimeter / 2
)

// draw draws all panels where the grid puts them.
func (r *recording) draw(path string, width int) error {
	bottom := 0
	for _, p := range r.Panels {
		bottom = max(bottom, p.Panel.GridPos.Y+p.Panel.GridPos.H)
	}
	w, h := vg.Length(width)/dpi*vg.Inch, header+vg.Length(bottom)*rowHeight+gap
	img := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.RGBA{244, 245, 245, 255}))
	c := draw.New(img)
	write(c, vg.Point{X: gap * 2, Y: h - header/2}, r.Title, 13, "text", left, true)
	write(c, vg.Point{X: w - gap*2, Y: h - header/2}, fmt.Sprintf("preview: the panels' own expressions, evaluated by Prometheus and drawn by gonum/plot; not a screenshot of Grafana · %s to %s",
		clock(r.From), clock(r.To)), 8, "#777777", right, false)
	for _, p := range r.Panels {
		at := p.Panel.GridPos
		column := w / 24
		box := vg.Rectangle{
			Min: vg.Point{X: vg.Length(at.X)*column + gap, Y: h - header - vg.Length(at.Y+at.H)*rowHeight + gap},
			Max: vg.Point{X: vg.Length(at.X+at.W)*column - gap, Y: h - header - vg.Length(at.Y)*rowHeight - gap},
		}
		if err := r.panel(draw.Canvas{Canvas: c, Rectangle: box}, p); err != nil {
			return fmt.Errorf("%s: %w", p.Panel.Title, err)
		}
	}
	return save(path, img.Image())
}

func clock(seconds float64) string { return time.Unix(int64(seconds), 0).UTC().Format("15:04") }

// panel draws the card of a panel and what is in it.
func (r *recording) panel(c draw.Canvas, p *panel) error {
	if p.Panel.Type == "row" {
		write(c, vg.Point{X: c.Min.X, Y: (c.Min.Y + c.Max.Y) / 2}, p.Panel.Title, 11, "text", left, true)
		return nil
	}
	fill(c, c.Rectangle, color.White)
	const title = 17
	write(c, vg.Point{X: c.Min.X + 2*gap, Y: c.Max.Y - title/2 - 2}, p.Panel.Title, 9.5, "text", left, true)
	inner := c
	inner.Min.X, inner.Max.X, inner.Min.Y, inner.Max.Y = c.Min.X+gap, c.Max.X-2*gap, c.Min.Y+gap, c.Max.Y-title-2
	switch p.Panel.Type {
	case "timeseries":
		return r.lines(inner, p)
	case "heatmap":
		return r.heat(inner, p)
	case "state-timeline":
		r.timeline(inner, p)
	case "stat":
		p.tile(inner)
	case "bargauge":
		p.bars(inner)
	case "table":
		p.table(inner)
	default:
		return fmt.Errorf("panels of the type %s cannot be drawn", p.Panel.Type)
	}
	return nil
}

const (
	left  = text.XLeft
	right = text.XRight
)

// write writes one line, its middle at the height of at.
func write(c draw.Canvas, at vg.Point, s string, size vg.Length, color string, align text.XAlignment, bold bool) {
	c.FillText(face(size, color, align, bold), at, s)
}

func face(size vg.Length, color string, align text.XAlignment, bold bool) text.Style {
	f := font.From(plot.DefaultFont, size)
	f.Variant = "Sans"
	if bold {
		f.Weight = 2
	}
	return text.Style{Color: paint(color), Font: f, XAlign: align, YAlign: text.YCenter, Handler: plot.DefaultTextHandler}
}

func fill(c draw.Canvas, r vg.Rectangle, color color.Color) {
	c.SetColor(color)
	var p vg.Path
	p.Move(r.Min)
	p.Line(vg.Point{X: r.Max.X, Y: r.Min.Y})
	p.Line(r.Max)
	p.Line(vg.Point{X: r.Min.X, Y: r.Max.Y})
	p.Close()
	c.Fill(p)
}

// save writes a picture with the 256 colours that it has most of: the files are kept in the repository.
func save(path string, img image.Image) error {
	counts := map[color.RGBA]int{}
	b := img.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(img.At(x, y)).(color.RGBA) }
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	var colors []color.RGBA
	for c := range counts {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int { return counts[b] - counts[a] })
	var palette color.Palette
	for _, c := range colors[:min(256, len(colors))] {
		palette = append(palette, c)
	}
	index := map[color.RGBA]uint8{}
	out := image.NewPaletted(b, palette)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := at(x, y)
			i, ok := index[c]
			if !ok {
				i = uint8(palette.Index(c))
				index[c] = i
			}
			out.SetColorIndex(x, y, i)
		}
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	if err := encoder.Encode(file, out); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
