package analyze

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// WriteTable writes a summary for a terminal of 120 columns: one row a level, what is to be doubted below, and the
// operating points.
func WriteTable(w io.Writer, s *experiment.Summary) error {
	var b strings.Builder
	rows := [][]string{
		{"", "", "", "output", "TTFT", "", "", "ITL", "", "", "duration", "peak", ""},
		{"load", "req", "fail", "tok/s", "p50", "p95", "p99", "p50", "p95", "p99", "p50", "wait", "drain"},
	}
	shapes := oneShape(s.Levels)
	for i := range s.Levels {
		rows = append(rows, rowOf(&s.Levels[i], shapes))
	}
	align(&b, "<", rows)
	footnotes(s, &b)
	if s.Left != nil {
		wrap(&b, "! ", s.Left.String())
	}
	for _, o := range s.Operating {
		if o.Text == "" {
			continue
		}
		fmt.Fprintln(&b)
		heading := o.Curve
		if len(o.Objectives) > 0 {
			heading += ", " + strings.Join(o.Objectives, ", ")
		}
		wrap(&b, "", heading+": "+o.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneShape reports whether all levels have the same request, which then need not be told in each row.
func oneShape(levels []experiment.LevelSummary) bool {
	return !slices.ContainsFunc(levels, func(l experiment.LevelSummary) bool { return l.Level.Shape() != levels[0].Level.Shape() })
}

// rowOf is a level in the table. A "!" says that it is doubted, a "+" that a percentile has no upper bound.
func rowOf(l *experiment.LevelSummary, oneShape bool) []string {
	name := nameOf(l, oneShape)
	if len(l.Doubts) > 0 {
		name = "! " + name
	}
	row := []string{name, fmt.Sprint(l.Requests), fmt.Sprint(l.Failed), humanize.Number(float64(l.OutputRate.Value))}
	for _, d := range []experiment.Distribution{l.TTFT, l.ITL} {
		row = append(row, bounded(d.P50), bounded(d.P95), bounded(d.P99))
	}
	return append(row, bounded(l.Duration.P50), humanize.Number(float64(l.PeakWaiting)), humanize.Seconds(float64(l.Drain)))
}

// nameOf is the level in a table: its load, and the request unless all have the same.
func nameOf(l *experiment.LevelSummary, oneShape bool) string {
	if oneShape {
		return l.Level.Load()
	}
	return l.Level.Load() + " " + l.Level.Shape()
}

// bounded writes a percentile, marked if the data give it no upper bound.
func bounded(e experiment.Estimate) string {
	text := humanize.Seconds(float64(e.Value))
	if e.Value.Known() && !e.High.Known() {
		text += "+"
	}
	return text
}

func footnotes(s *experiment.Summary, b *strings.Builder) {
	text := b.String()
	if strings.Contains(text, "+\n") || strings.Contains(text, "+ ") {
		fmt.Fprintln(b, "+ too few requests, or too few that ran one after another, for an upper bound with 95 % confidence")
	}
	for _, mark := range []struct {
		sign string
		of   func(*experiment.LevelSummary) []experiment.Doubt
	}{
		{"! ", func(l *experiment.LevelSummary) []experiment.Doubt { return l.Doubts }},
		{"- ", func(l *experiment.LevelSummary) []experiment.Doubt { return l.Notes }},
	} {
		for _, note := range gather(s, mark.of) {
			wrap(b, mark.sign, note)
		}
	}
}

// gather lists doubts or notes, each text once with all levels that it is about.
func gather(s *experiment.Summary, of func(*experiment.LevelSummary) []experiment.Doubt) []string {
	var texts []string
	levels := make(map[string][]string)
	shapes := oneShape(s.Levels)
	for i := range s.Levels {
		for _, d := range of(&s.Levels[i]) {
			if levels[d.Text] == nil {
				texts = append(texts, d.Text)
			}
			levels[d.Text] = append(levels[d.Text], nameOf(&s.Levels[i], shapes))
		}
	}
	for i, text := range texts {
		texts[i] = strings.Join(levels[text], ", ") + ": " + text
	}
	return texts
}

// align writes rows in columns, two spaces apart: to the left where sides has a '<' for the column, else to the right.
func align(b *strings.Builder, sides string, rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if i < len(sides) && sides[i] == '<' {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

// tableWidth is what a table may take of a terminal.
const tableWidth = 120

// wrap writes a text in lines of a table's width, with a mark before the first and as much space before the others.
func wrap(b *strings.Builder, mark, text string) {
	width := tableWidth - utf8.RuneCountInString(mark)
	line := ""
	flush := func() {
		fmt.Fprintln(b, mark+line)
		mark, line = strings.Repeat(" ", utf8.RuneCountInString(mark)), ""
	}
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			flush()
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
}
