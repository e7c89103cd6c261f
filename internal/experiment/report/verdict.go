package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// manyCurves is from how many load curves on their operating points are told in a table.
const manyCurves = 4

// verdict is the operating point of a load curve in one look.
type verdict struct {
	Class, Sign string // never by colour alone
	Head        string
	Curve       string
	Numbers     []headline
	Text        string
}

// headline is a figure that stands out.
type headline struct {
	Name, Value, Note string
	Bad               bool
}

// ceiling is the operating point of one of many curves.
type ceiling struct{ Class, Sign, Curve, Best, Rate, Goodput, Peak, Knee, Next string }

// verdicts tells the operating point of each load curve. A single level is no curve: whether it holds the objectives is
// in the table of levels.
func verdicts(summary *experiment.Summary) ([]verdict, []ceiling) {
	var shown []*experiment.Operating
	for i := range summary.Operating {
		if o := &summary.Operating[i]; len(o.Levels) > 1 {
			shown = append(shown, o)
		}
	}
	var all []verdict
	var many []ceiling
	for _, o := range shown {
		if len(shown) < manyCurves {
			all = append(all, newVerdict(o, summary))
		} else {
			many = append(many, newCeiling(o, summary))
		}
	}
	return all, many
}

// find is the level of an index; nil if there is none.
func find(levels []experiment.LevelSummary, index int) *experiment.LevelSummary {
	at := slices.IndexFunc(levels, func(l experiment.LevelSummary) bool { return l.Index == index })
	if at < 0 {
		return nil
	}
	return &levels[at]
}

// judge says in a class, a sign and a few words what an operating point is.
func judge(o *experiment.Operating, levels []experiment.LevelSummary) (class, sign, head string) {
	best, knee := find(levels, o.Best), find(levels, o.Knee)
	switch {
	case len(o.Objectives) == 0 && knee != nil:
		return "plain", "◆", "Throughput stops rising at " + knee.Level.Load()
	case len(o.Objectives) == 0:
		return "plain", "◆", "Throughput is still rising at the highest load"
	case best == nil && !o.Bracketed:
		return "warn", "▲", "No load can be judged"
	case best == nil:
		return "bad", "✖", "No measured load holds the objectives"
	case !o.Bracketed:
		return "warn", "▲", best.Level.Load() + " holds; the ceiling is not known yet"
	case !o.Sure:
		return "warn", "▲", "Run at " + best.Level.Load() + ", but measure longer to be sure"
	}
	return "good", "✔", "Run at " + best.Level.Load()
}

func newVerdict(o *experiment.Operating, summary *experiment.Summary) verdict {
	v := verdict{Curve: clean(o.Curve), Text: spoken(o.Text)}
	v.Class, v.Sign, v.Head = judge(o, summary.Levels)
	at := find(summary.Levels, o.Best)
	if at == nil {
		at = find(summary.Levels, o.Knee)
	}
	if at == nil && len(o.Levels) > 0 {
		at = find(summary.Levels, o.Levels[len(o.Levels)-1])
		if len(o.Objectives) > 0 { // not even the lowest holds them
			at = find(summary.Levels, o.Levels[0])
		}
	}
	if at == nil {
		return v
	}
	if at.Index != o.Best || len(o.Objectives) == 0 {
		v.Curve += " · figures at " + at.Level.Load()
	}
	v.Numbers = append(v.Numbers, headline{Name: "output tok/s", Value: humanize.Number(float64(at.OutputRate.Value)), Note: ofPeak(at, o)})
	v.Numbers = append(v.Numbers, headline{Name: "requests/s", Value: humanize.Number(float64(at.RequestRate)), Note: good(at)})
	v.Numbers = append(v.Numbers, latencies(at)...)
	if o.Headroom != nil && o.Headroom.Used > 0 {
		v.Numbers = append(v.Numbers, headline{Name: "used today", Value: humanize.Share(float64(o.Headroom.Used)), Note: "of these tok/s"})
	}
	return v
}

func ofPeak(l *experiment.LevelSummary, o *experiment.Operating) string {
	ratio := float64(l.OutputRate.Value) / float64(o.Peak.Value)
	if !chart.Finite(ratio) {
		return ""
	}
	return humanize.Share(ratio) + " of the peak"
}

func good(l *experiment.LevelSummary) string {
	if !l.Goodput.Known() {
		return ""
	}
	return humanize.Number(float64(l.Goodput)) + " good"
}

// latencies are the figures that the objectives are about, or the usual ones.
func latencies(l *experiment.LevelSummary) []headline {
	var all []headline
	for _, v := range l.Verdicts {
		o := v.Objective
		all = append(all, headline{
			Name:  indicatorName(o.Indicator) + " " + percentile(o.Quantile),
			Value: bounded(float64(v.Estimate.Value)), Note: "≤ " + humanize.Chosen(o.Threshold.Seconds()), Bad: !v.Held,
		})
	}
	if len(all) > 0 {
		return all
	}
	for _, of := range []latency{ttft(), itl()} {
		for _, q := range []float64{0.5, 0.95} {
			e := of.estimate(l, q)
			all = append(all, headline{Name: indicatorName(of.indicator) + " " + percentile(q), Value: humanize.Seconds(float64(e.Value)), Note: interval(e, humanize.Seconds)})
		}
	}
	return all
}

// bounded writes a latency that is infinite where requests failed.
func bounded(v float64) string {
	if math.IsInf(v, 1) {
		return "failed"
	}
	return humanize.Seconds(v)
}

func newCeiling(o *experiment.Operating, summary *experiment.Summary) ceiling {
	c := ceiling{Curve: clean(o.Curve), Best: humanize.Unknown, Rate: humanize.Unknown, Goodput: humanize.Unknown, Knee: humanize.Unknown, Peak: humanize.Number(float64(o.Peak.Value)), Next: clean(o.Next)}
	c.Class, c.Sign, _ = judge(o, summary.Levels)
	if best := find(summary.Levels, o.Best); best != nil {
		c.Best, c.Rate, c.Goodput = best.Level.Load(), humanize.Number(float64(best.OutputRate.Value)), humanize.Number(float64(best.Goodput))
	}
	if knee := find(summary.Levels, o.Knee); knee != nil {
		c.Knee = knee.Level.Load()
	}
	return c
}

// change is what happens along a curve of lengths, or the figures of a single level.
type change struct {
	Head, Note string
	Numbers    []headline
}

func changes(families []family, levels []experiment.LevelSummary) []change {
	var all []change
	for i := range families {
		if f := &families[i]; (f.kind == "prompt" || f.kind == "output") && len(f.curves) == 1 {
			all = append(all, f.change())
		}
	}
	if len(families) == 0 && len(levels) == 1 {
		l := &levels[0]
		c := change{Head: l.Level.String(), Note: humanize.Count(l.Requests, "request")}
		c.Numbers = append(c.Numbers, headline{Name: "output tok/s", Value: humanize.Number(float64(l.OutputRate.Value)), Note: interval(l.OutputRate, humanize.Number)})
		c.Numbers = append(c.Numbers, headline{Name: "requests/s", Value: humanize.Number(float64(l.RequestRate)), Note: good(l)})
		c.Numbers = append(c.Numbers, latencies(l)...)
		all = append(all, c)
	}
	return all
}

// change compares the ends of the family's only curve.
func (f *family) change() change {
	levels := f.curves[0].levels
	from, to := levels[0], levels[len(levels)-1]
	c := change{Head: fmt.Sprintf("From %s to %s", humanize.Exact(f.value(from.Level)), f.name(to.Level)), Note: "load " + from.Level.Load()}
	add := func(name string, format func(float64) string, of func(*experiment.LevelSummary) experiment.Figure) {
		a, b := float64(of(from)), float64(of(to))
		h := headline{Name: name, Value: format(a) + " → " + format(b)}
		if r := b / a; chart.Finite(r) {
			h.Note = "× " + humanize.Number(r)
		}
		c.Numbers = append(c.Numbers, h)
	}
	add("TTFT p50", humanize.Seconds, func(l *experiment.LevelSummary) experiment.Figure { return l.TTFT.P50.Value })
	if f.kind == "output" {
		add("duration p50", humanize.Seconds, func(l *experiment.LevelSummary) experiment.Figure { return l.Duration.P50.Value })
	} else {
		add("ITL p50", humanize.Seconds, func(l *experiment.LevelSummary) experiment.Figure { return l.ITL.P50.Value })
		add("ITL p95", humanize.Seconds, func(l *experiment.LevelSummary) experiment.Figure { return l.ITL.P95.Value })
	}
	add("output tok/s", humanize.Number, func(l *experiment.LevelSummary) experiment.Figure { return l.OutputRate.Value })
	return c
}
