package report

import (
	"slices"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// levelTable is the table of all levels.
type levelTable struct {
	Groups  []group
	Columns []string
	Rows    []levelRow
}

// group is a heading above several columns.
type group struct {
	Name string
	Span int
}

type levelRow struct {
	chart.Row
	Operating bool
	Why       string // it is not to be trusted
}

// column is a column of the table of levels.
type column struct {
	group, name string
	of          func(*experiment.LevelSummary) chart.Cell
}

func columns(goodput bool) []column {
	all := []column{
		{"", "requests", func(l *experiment.LevelSummary) chart.Cell { return chart.Cell{Value: humanize.Whole(l.Requests)} }},
		{"", "failed", func(l *experiment.LevelSummary) chart.Cell { return chart.Cell{Value: humanize.Whole(l.Failed)} }},
		{"per second", "output tokens", func(l *experiment.LevelSummary) chart.Cell { return newCell(l.OutputRate, humanize.Number) }},
		{"per second", "requests", figureCell(humanize.Number, func(l *experiment.LevelSummary) experiment.Figure { return l.RequestRate })},
	}
	if goodput {
		all = append(all,
			column{"per second", "good", figureCell(humanize.Number, func(l *experiment.LevelSummary) experiment.Figure { return l.Goodput })},
			column{"", "objectives", held})
	}
	for _, of := range []latency{ttft(), itl()} {
		for _, q := range []float64{0.5, 0.95, 0.99} {
			all = append(all, column{indicatorName(of.indicator), percentile(q), func(l *experiment.LevelSummary) chart.Cell {
				return newCell(of.estimate(l, q), humanize.Seconds)
			}})
		}
	}
	return append(all,
		column{"TPOT", "p50", func(l *experiment.LevelSummary) chart.Cell { return newCell(tpot().estimate(l, 0.5), humanize.Seconds) }},
		column{"duration", "p50", func(l *experiment.LevelSummary) chart.Cell {
			return newCell(duration().estimate(l, 0.5), humanize.Seconds)
		}},
		column{"at its peak", "running", figureCell(formatMean, func(l *experiment.LevelSummary) experiment.Figure { return l.PeakRunning })},
		column{"at its peak", "waiting", figureCell(formatMean, func(l *experiment.LevelSummary) experiment.Figure { return l.PeakWaiting })},
		column{"", "drain", figureCell(humanize.Seconds, func(l *experiment.LevelSummary) experiment.Figure { return l.Drain })})
}

func figureCell(format func(float64) string, of func(*experiment.LevelSummary) experiment.Figure) func(*experiment.LevelSummary) chart.Cell {
	return func(l *experiment.LevelSummary) chart.Cell { return chart.Cell{Value: format(float64(of(l)))} }
}

// held says whether a level holds every objective.
func held(l *experiment.LevelSummary) chart.Cell {
	if len(l.Verdicts) == 0 {
		return chart.Cell{Value: humanize.Unknown}
	}
	sure := ""
	for _, v := range l.Verdicts {
		if !v.Held {
			return chart.Cell{Value: "✖ broken"}
		}
		if !v.Sure {
			sure = "not for sure"
		}
	}
	return chart.Cell{Value: "✔ held", Interval: sure}
}

func newLevelTable(summary *experiment.Summary, objectives bool) levelTable {
	t := levelTable{}
	name := namesOf(summary.Levels)
	list := columns(objectives)
	for _, c := range list {
		t.Columns = append(t.Columns, c.name)
		if n := len(t.Groups); n > 0 && c.group != "" && t.Groups[n-1].Name == c.group {
			t.Groups[n-1].Span++
		} else {
			t.Groups = append(t.Groups, group{c.group, 1})
		}
	}
	for i := range summary.Levels {
		l := &summary.Levels[i]
		r := levelRow{Row: chart.Row{Name: name(l.Level), Doubted: len(l.Doubts) > 0}}
		r.Operating = slices.ContainsFunc(summary.Operating, func(o experiment.Operating) bool { return isBest(&o, l.Index) })
		for _, c := range list {
			r.Cells = append(r.Cells, c.of(l))
		}
		for _, d := range l.Doubts {
			r.Why += clean(d.Text) + "\n"
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}
