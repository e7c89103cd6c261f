package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// ComparisonFileName is the name of a comparison's report in its directory.
const ComparisonFileName = "comparison.html"

// comparisonPage is the page of a comparison.
type comparisonPage struct {
	frame
	Heading     string
	A, B        runName
	Outcomes    []outcome
	Warnings    []string
	Differences []analyze.Difference
	Tables      []ratioTable
	Sections    []section
	Definitions []fact
}

// runName is what tells one run from the other.
type runName struct {
	Name  string
	About []string
}

// outcome is what became of a load curve, in one look.
type outcome struct {
	Class, Sign, Head, Curve, Text string
	Numbers                        []headline
}

// ratioTable is the figures of B over those of A on a curve.
type ratioTable struct {
	Curve   string
	Columns []string
	Rows    []ratioRow
	Alone   string // levels that only one of the runs has
}

type ratioRow struct {
	Name  string
	Cells []ratioCell
}

type ratioCell struct{ Class, Sign, Ratio, Interval, Values string }

// RenderComparison writes the report of a comparison as one HTML file that needs no other.
func RenderComparison(w io.Writer, a, b *experiment.Run, c analyze.Comparison) error {
	p, err := newComparisonPage(a, b, &c)
	if err != nil {
		return fmt.Errorf("preparing the comparison: %w", err)
	}
	return render(w, "comparison.html", p)
}

// WriteComparison writes the report of a comparison into a directory that exists: comparison.html, and each chart as
// chart-compare-….svg. Files of these names are replaced.
func WriteComparison(dir string, a, b *experiment.Run, c analyze.Comparison) error {
	p, err := newComparisonPage(a, b, &c)
	if err != nil {
		return fmt.Errorf("preparing the comparison: %w", err)
	}
	return write(dir, ComparisonFileName, "comparison.html", p, p.Sections)
}

func newComparisonPage(a, b *experiment.Run, c *analyze.Comparison) (*comparisonPage, error) {
	p := &comparisonPage{Heading: "Comparison of two runs", A: runName{clean(c.A), about(a, &c.SummaryA)}, B: runName{clean(c.B), about(b, &c.SummaryB)}, Definitions: definitions()}
	if c.A != c.B {
		p.Heading = clean(c.A) + " against " + clean(c.B)
	}
	var err error
	if p.frame, err = newFrame(p.Heading, a.Facts.Tool); err != nil {
		return nil, err
	}
	for i := range c.Curves {
		p.Outcomes = append(p.Outcomes, newOutcome(&c.Curves[i], a, b))
		p.Tables = append(p.Tables, newRatioTable(&c.Curves[i]))
	}
	for _, w := range c.Warnings {
		p.Warnings = append(p.Warnings, spoken(w))
	}
	for _, d := range c.Differences {
		show := clean
		if d.What == "url" {
			show = cleanURL
		}
		p.Differences = append(p.Differences, analyze.Difference{What: clean(d.What), A: show(d.A), B: show(d.B)})
	}
	p.Sections = comparedSections(c)
	return p, nil
}

// newOutcome counts what changed on a curve.
func newOutcome(c *analyze.CurveComparison, a, b *experiment.Run) outcome {
	counts := map[analyze.Change]int{}
	total := 0
	for _, l := range c.Levels {
		for _, m := range l.Metrics {
			counts[m.Change]++
			total++
		}
	}
	o := outcome{Curve: clean(c.Curve), Text: spoken(c.Text)}
	better, worse := counts[analyze.Better], counts[analyze.Worse]
	loadA, loadB := loadAt(a, c.OperatingA.Best), loadAt(b, c.OperatingB.Best)
	judged := len(c.OperatingA.Objectives) > 0 && len(c.OperatingA.Levels)+len(c.OperatingB.Levels) > 2
	switch more := howMuch(b, c.OperatingB.Best) - howMuch(a, c.OperatingA.Best); {
	case judged && more > 0:
		o.Class, o.Sign, o.Head = "good", "✔", "B holds the objectives "+upTo(loadB, &c.OperatingB)+", A "+upTo(loadA, &c.OperatingA)
	case judged && more < 0:
		o.Class, o.Sign, o.Head = "bad", "✖", "B holds the objectives "+upTo(loadB, &c.OperatingB)+", A "+upTo(loadA, &c.OperatingA)
	default:
		o.Class, o.Sign, o.Head = countedHead(better, worse, counts[analyze.NoDifference])
	}
	o.Numbers = []headline{
		{Name: "peak output tok/s", Value: humanize.Number(float64(c.Peak.A.Value)) + " → " + humanize.Number(float64(c.Peak.B.Value)), Note: ratioText(c.Peak.Ratio)},
	}
	if judged {
		o.Numbers = append(o.Numbers, headline{
			Name: "operating point", Value: loadA + " → " + loadB,
			Note: clean(strings.Join(c.OperatingA.Objectives, ", ")),
		})
	}
	if total > 0 {
		o.Numbers = append(o.Numbers,
			headline{Name: "better", Value: humanize.Whole(better), Note: "of " + humanize.Count(total, "figure")},
			headline{Name: "worse", Value: humanize.Whole(worse), Bad: worse > 0},
			headline{Name: "no difference shown", Value: humanize.Whole(counts[analyze.NoDifference])})
	}
	return o
}

// countedHead says what came of the figures of a curve whose operating points say nothing.
func countedHead(better, worse, same int) (class, sign, head string) {
	switch {
	case better > 0 && worse > 0:
		return "warn", "▲", "B is better in some figures and worse in others"
	case better > 0:
		return "good", "✔", "B is better"
	case worse > 0:
		return "bad", "✖", "B is worse"
	case same > 0:
		return "plain", "=", "No difference shown"
	}
	return "plain", "?", "Nothing can be compared"
}

// howMuch is the load of a level of a run as a number, 0 if there is no such level.
func howMuch(run *experiment.Run, index int) float64 {
	if index < 0 || index >= len(run.Plan.Levels) {
		return 0
	}
	l := run.Plan.Levels[index]
	return max(float64(l.Concurrency), l.Rate)
}

// upTo says as far as where an operating point is known.
func upTo(load string, o *experiment.Operating) string {
	switch {
	case o.Best < 0:
		return "at no load"
	case !o.Bracketed:
		return "up to " + load + " at least"
	}
	return "up to " + load
}

// loadAt is the load of a level of a run; "none" if there is no such level.
func loadAt(run *experiment.Run, index int) string {
	if index < 0 || index >= len(run.Plan.Levels) {
		return "none"
	}
	return run.Plan.Levels[index].Load()
}

func ratioText(e experiment.Estimate) string {
	if !chart.Finite(float64(e.Value)) {
		return ""
	}
	text := "× " + humanize.Number(float64(e.Value))
	if i := interval(e, humanize.Number); i != "" {
		text += " (" + i + ")"
	}
	return text
}

func newRatioTable(c *analyze.CurveComparison) ratioTable {
	t := ratioTable{Curve: clean(c.Curve)}
	for i, l := range c.Levels {
		r := ratioRow{Name: clean(l.Load)}
		for _, m := range l.Metrics {
			if i == 0 {
				t.Columns = append(t.Columns, metricName(m.Metric))
			}
			r.Cells = append(r.Cells, newRatioCell(&m))
		}
		t.Rows = append(t.Rows, r)
	}
	var alone []string
	for name, loads := range map[string][]string{"A": c.OnlyA, "B": c.OnlyB} {
		if len(loads) > 0 {
			alone = append(alone, "Only in "+name+": "+strings.Join(loads, ", ")+".")
		}
	}
	slices.Sort(alone)
	t.Alone = clean(strings.Join(alone, " "))
	return t
}

func newRatioCell(m *analyze.MetricComparison) ratioCell {
	format := humanize.Seconds
	if strings.HasSuffix(m.Metric, "_per_second") {
		format = humanize.Number
	}
	marks := map[analyze.Change][2]string{
		analyze.Better: {"good", "✔"}, analyze.Worse: {"bad", "✖"}, analyze.NoDifference: {"plain", "="},
		analyze.Undecided: {"plain", "…"}, analyze.NotComparable: {"plain", "?"},
	}
	mark := marks[m.Change]
	c := ratioCell{Class: mark[0], Sign: mark[1], Values: format(float64(m.A.Value)) + " → " + format(float64(m.B.Value))}
	if chart.Finite(float64(m.Ratio.Value)) {
		c.Ratio, c.Interval = humanize.Number(float64(m.Ratio.Value))+"×", interval(m.Ratio, humanize.Number)
	}
	return c
}

// metricName is how a metric is called: "TTFT p95".
func metricName(metric string) string {
	if metric == "output_tokens_per_second" {
		return "output tok/s"
	}
	name, quantile, _ := strings.Cut(metric, "_p")
	return indicatorName(experiment.Indicator(name)) + " p" + clean(quantile)
}

// comparedSections draws each curve that both runs have: a line of each in every chart.
func comparedSections(c *analyze.Comparison) []section {
	inB := families(&c.SummaryB)
	d := curves{c.Objectives}
	var list []section
	for _, fa := range families(&c.SummaryA) {
		for _, curveA := range fa.curves {
			curveB := curveOf(inB, fa.kind, curveA.key)
			if curveB == nil {
				continue
			}
			f := family{respect: fa.respect, number: len(list), curves: []curve{curveA, *curveB}}
			f.curves[0].name, f.curves[0].class = "A", "c1"
			f.curves[1].name, f.curves[1].class = "B", "c2"
			s := section{ID: fmt.Sprint("curve-", len(list)+1), Title: f.title + ", " + f.fixed(), Text: f.explain()}
			s.Charts = append([]*chart.Chart{ratioChart(&f, c)}, d.charts(&f)...)
			s.Nav = s.Title
			for _, chart := range s.Charts {
				chart.Name = "compare-" + chart.Name
			}
			list = append(list, s)
		}
	}
	return list
}

// ratioChart is B over A against what varies, for the figures that say most.
func ratioChart(f *family, c *analyze.Comparison) *chart.Chart {
	ch := &chart.Chart{
		Name: f.kind + "-ratio" + f.suffix(), Title: "B over A", X: chart.LevelAxis(f.axis, f.values()), Spread: true,
		Note: "Above 1 B has more of it: better for throughput, worse for a latency.",
	}
	p := chart.Panel{Height: chart.PanelHeight, Lines: []chart.Line{{Name: "the same", Class: "asked", Plain: true, Points: []chart.Point{{X: ch.X.Low, Y: 1}, {X: ch.X.High, Y: 1}}}}}
	for _, of := range []struct{ metric, class string }{{"output_tokens_per_second", "rate1"}, {"ttft_p95", "ttft2"}, {"itl_p95", "itl2"}} {
		l := chart.Line{Name: metricName(of.metric), Class: of.class, Format: func(v float64) string { return humanize.Number(v) + "×" }}
		for _, level := range f.curves[0].levels {
			if m := compared(c, level.Index, of.metric); m != nil {
				q := newPoint(f.value(level.Level), m.Ratio, level)
				q.Doubted = m.Change == analyze.NotComparable
				l.Points = append(l.Points, q)
			}
		}
		p.Lines = append(p.Lines, l)
	}
	p.Y = chart.RatioAxis(p.Values())
	ch.Panels = []chart.Panel{p}
	tellByValue(ch, f, p.Lines[1:])
	return ch
}

// compared is the comparison of a figure of a level of A; nil if there is none.
func compared(c *analyze.Comparison, level int, metric string) *analyze.MetricComparison {
	for i := range c.Curves {
		for _, l := range c.Curves[i].Levels {
			at := slices.IndexFunc(l.Metrics, func(m analyze.MetricComparison) bool { return m.Metric == metric })
			if l.A == level && at >= 0 {
				return &l.Metrics[at]
			}
		}
	}
	return nil
}

// curveOf is the curve of a kind and key; nil if there is none.
func curveOf(all []family, kind, key string) *curve {
	for i := range all {
		if all[i].kind != kind {
			continue
		}
		for j := range all[i].curves {
			if all[i].curves[j].key == key {
				return &all[i].curves[j]
			}
		}
	}
	return nil
}

// fixed says what is the same along the family's curves.
func (f *family) fixed() string {
	l := f.first()
	switch f.kind {
	case "prompt":
		return fmt.Sprintf("%s and %d output tokens", l.Load(), l.OutputTokens)
	case "output":
		return fmt.Sprintf("%s and %d prompt tokens", l.Load(), l.PromptTokens)
	}
	return l.Shape() + " tokens"
}
