package report

import (
	"slices"

	"github.com/llm-prober/llm_prober/internal/sweep"
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
	row
	Operating bool
	Why       string // it is not to be trusted
}

// column is a column of the table of levels.
type column struct {
	group, name string
	of          func(*sweep.LevelSummary) cell
}

func columns(goodput bool) []column {
	all := []column{
		{"", "requests", func(l *sweep.LevelSummary) cell { return cell{Value: thousands(l.Requests)} }},
		{"", "failed", func(l *sweep.LevelSummary) cell { return cell{Value: thousands(l.Failed)} }},
		{"per second", "output tokens", func(l *sweep.LevelSummary) cell { return newCell(l.OutputRate, formatRate) }},
		{"per second", "requests", figureCell(formatRate, func(l *sweep.LevelSummary) sweep.Figure { return l.RequestRate })},
	}
	if goodput {
		all = append(all,
			column{"per second", "good", figureCell(formatRate, func(l *sweep.LevelSummary) sweep.Figure { return l.Goodput })},
			column{"", "objectives", held})
	}
	for _, of := range []latency{ttft(), itl()} {
		for _, q := range []float64{0.5, 0.95, 0.99} {
			all = append(all, column{indicatorName(of.indicator), percentile(q), func(l *sweep.LevelSummary) cell {
				return newCell(of.estimate(l, q), formatSeconds)
			}})
		}
	}
	return append(all,
		column{"TPOT", "p50", func(l *sweep.LevelSummary) cell { return newCell(tpot().estimate(l, 0.5), formatSeconds) }},
		column{"duration", "p50", func(l *sweep.LevelSummary) cell { return newCell(duration().estimate(l, 0.5), formatSeconds) }},
		column{"at its peak", "running", figureCell(formatMean, func(l *sweep.LevelSummary) sweep.Figure { return l.PeakRunning })},
		column{"at its peak", "waiting", figureCell(formatMean, func(l *sweep.LevelSummary) sweep.Figure { return l.PeakWaiting })},
		column{"", "drain", figureCell(formatSeconds, func(l *sweep.LevelSummary) sweep.Figure { return l.Drain })})
}

func figureCell(format func(float64) string, of func(*sweep.LevelSummary) sweep.Figure) func(*sweep.LevelSummary) cell {
	return func(l *sweep.LevelSummary) cell { return cell{Value: format(float64(of(l)))} }
}

// held says whether a level holds every objective.
func held(l *sweep.LevelSummary) cell {
	if len(l.Verdicts) == 0 {
		return cell{Value: unknown}
	}
	sure := ""
	for _, v := range l.Verdicts {
		if !v.Held {
			return cell{Value: "✖ broken"}
		}
		if !v.Sure {
			sure = "not for sure"
		}
	}
	return cell{Value: "✔ held", Interval: sure}
}

func newLevelTable(summary *sweep.Summary, objectives bool) levelTable {
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
		r := levelRow{row: row{Name: name(l.Level), Doubted: len(l.Doubts) > 0}}
		r.Operating = slices.ContainsFunc(summary.Operating, func(o sweep.Operating) bool { return isBest(&o, l.Index) })
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
