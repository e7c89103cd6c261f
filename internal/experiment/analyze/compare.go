package analyze

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// Comparison tells two runs apart: B as against A.
type Comparison struct {
	A string `json:"a"` // names of the runs' plans
	B string `json:"b"`
	// Differences are what is known to differ between the runs beside their figures.
	Differences []Difference      `json:"differences"`
	Warnings    []string          `json:"warnings,omitempty"` // why the comparison may mislead
	Curves      []CurveComparison `json:"curves"`             // those of which both runs measured a level

	// What was compared: the figures of the runs, and by which objectives they were judged.
	Objectives         []experiment.Objective `json:"-"`
	SummaryA, SummaryB experiment.Summary     `json:"-"`
}

// Difference is one thing that was not the same in two runs. An empty value was not known, or not set.
type Difference struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// CurveComparison compares one load curve.
type CurveComparison struct {
	Curve  string            `json:"curve"`
	Levels []LevelComparison `json:"levels"` // of loads that both runs measured, by rising load
	OnlyA  []string          `json:"only_a,omitempty"`
	OnlyB  []string          `json:"only_b,omitempty"`
	// Peak compares the highest output rates that were shown at these loads, those with the highest lower bound; the two
	// may be at different loads.
	Peak       MetricComparison     `json:"peak"`
	OperatingA experiment.Operating `json:"operating_point_a"`
	OperatingB experiment.Operating `json:"operating_point_b"`
	Text       string               `json:"text"` // all of it in a few sentences
}

// LevelComparison compares one load.
type LevelComparison struct {
	Load    string             `json:"load"`
	A       int                `json:"a"` // indices of the levels
	B       int                `json:"b"`
	Metrics []MetricComparison `json:"metrics"`
}

// MetricComparison compares one figure.
type MetricComparison struct {
	Metric string              `json:"metric"` // "output_tokens_per_second", "ttft_p95", …; latencies are in seconds
	A      experiment.Estimate `json:"a"`
	B      experiment.Estimate `json:"b"`
	// Ratio is B over A.
	Ratio  experiment.Estimate `json:"ratio"`
	Change Change              `json:"change"`
}

// Change is what a comparison of two figures came to.
type Change string

// The changes. Better is less of a latency and more of a rate.
const (
	Better        Change = "better"
	Worse         Change = "worse"
	NoDifference  Change = "no difference shown" // the interval of the ratio contains 1
	Undecided     Change = "too few to say"      // the bound that would decide is unknown: too few requests
	NotComparable Change = "not comparable"      // a level is not to be trusted, or a figure is unknown
)

// Compare tells two runs apart: which loads B served better or worse than A, beyond what chance within the two runs
// explains. It neither knows nor can know how much two runs of one server differ from each other: that tells a third.
func Compare(a, b *experiment.Run, objectives []experiment.Objective) Comparison {
	inA, inB := judged(a, objectives), judged(b, objectives)
	comparison := Comparison{
		A: a.Plan.Name, B: b.Plan.Name, Differences: differences(a, b),
		Objectives: objectives, SummaryA: inA, SummaryB: inB,
	}
	for _, curveA := range curves(inA.Levels) {
		for _, curveB := range curves(inB.Levels) {
			if curveA.name == curveB.name {
				c := compareCurves(curveA, curveB)
				c.OperatingA, c.OperatingB = pointOn(&inA, c.Curve), pointOn(&inB, c.Curve)
				c.Text = c.tell(&inA, &inB)
				comparison.Curves = append(comparison.Curves, c)
			}
		}
	}
	comparison.Warnings = comparison.warn(&inA, &inB)
	return comparison
}

// judged is the summary of a run as if its plan had some objectives.
func judged(run *experiment.Run, objectives []experiment.Objective) experiment.Summary {
	again := *run
	again.Plan.SLOs = objectives
	return Summarize(&again)
}

// pointOn is the operating point on a curve.
func pointOn(s *experiment.Summary, curve string) experiment.Operating {
	return s.Operating[slices.IndexFunc(s.Operating, func(o experiment.Operating) bool { return o.Curve == curve })]
}

func compareCurves(a, b *curve) CurveComparison {
	c := CurveComparison{Curve: a.name}
	var bothA, bothB curve
	for _, levelA := range a.levels {
		if levelB := b.at(levelA); levelB != nil {
			c.Levels = append(c.Levels, compareLevels(levelA, levelB))
			bothA.levels, bothB.levels = append(bothA.levels, levelA), append(bothB.levels, levelB)
		} else {
			c.OnlyA = append(c.OnlyA, levelA.Level.Load())
		}
	}
	for _, levelB := range b.levels {
		if a.at(levelB) == nil {
			c.OnlyB = append(c.OnlyB, levelB.Level.Load())
		}
	}
	c.Peak = MetricComparison{Metric: rateMetric, A: experiment.Unknown(), B: experiment.Unknown(), Ratio: experiment.Unknown(), Change: NotComparable}
	if peakA, peakB := bothA.shown(), bothB.shown(); peakA != nil && peakB != nil {
		c.Peak = compareMetrics(metrics()[0], peakA, peakB)
	}
	return c
}

// shown is the level whose output rate has the highest lower bound; the one of the highest rate if no bound is known.
func (c *curve) shown() *experiment.LevelSummary {
	var highest *experiment.LevelSummary
	for _, l := range c.levels {
		if l.OutputRate.Low.Known() && (highest == nil || l.OutputRate.Low > highest.OutputRate.Low) {
			highest = l
		}
	}
	if highest == nil {
		return c.peak()
	}
	return highest
}

// at is the level of a curve that has the load of another; nil if there is none.
func (c *curve) at(other *experiment.LevelSummary) *experiment.LevelSummary {
	for _, l := range c.levels {
		if load(l.Level) == load(other.Level) {
			return l
		}
	}
	return nil
}

func compareLevels(a, b *experiment.LevelSummary) LevelComparison {
	c := LevelComparison{Load: a.Level.Load(), A: a.Index, B: b.Index}
	for _, m := range metrics() {
		c.Metrics = append(c.Metrics, compareMetrics(m, a, b))
	}
	return c
}

// metric is a figure that is compared.
type metric struct {
	name string
	more bool // more of it is better
	of   func(l *experiment.LevelSummary) experiment.Estimate
}

const rateMetric = "output_tokens_per_second"

// metrics are the figures that are compared, the output rate first.
func metrics() []metric {
	return []metric{
		{rateMetric, true, func(l *experiment.LevelSummary) experiment.Estimate { return l.OutputRate }},
		{"ttft_p50", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.TTFT.P50 }},
		{"ttft_p95", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.TTFT.P95 }},
		{"ttft_p99", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.TTFT.P99 }},
		{"itl_p50", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.ITL.P50 }},
		{"itl_p95", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.ITL.P95 }},
		{"itl_p99", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.ITL.P99 }},
		{"tpot_p50", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.TPOT.P50 }},
		{"duration_p50", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.Duration.P50 }},
		{"duration_p95", false, func(l *experiment.LevelSummary) experiment.Estimate { return l.Duration.P95 }},
	}
}

func compareMetrics(m metric, a, b *experiment.LevelSummary) MetricComparison {
	c := MetricComparison{Metric: m.name, A: m.of(a), B: m.of(b), Change: NotComparable}
	c.Ratio = quotient(c.B, c.A)
	if len(a.Doubts)+len(b.Doubts) > 0 || !c.Ratio.Value.Known() {
		return c
	}
	switch more, less := c.Ratio.Low > 1, c.Ratio.High < 1; {
	case more && m.more, less && !m.more:
		c.Change = Better
	case more, less:
		c.Change = Worse
	case c.Ratio.Value > 1 && !c.Ratio.Low.Known(), c.Ratio.Value < 1 && !c.Ratio.High.Known():
		c.Change = Undecided
	default:
		c.Change = NoDifference
	}
	return c
}

// quotient is b/a of two independent estimates, with the interval that theirs give on a scale of logarithms: each
// bound is as far from the quotient as the two distances it comes from are together, by their squares (Donner and
// Zou, Closed-form confidence intervals for functions of the normal mean and standard deviation, 2012).
func quotient(b, a experiment.Estimate) experiment.Estimate {
	distance := func(x, y experiment.Figure) float64 { return math.Log(float64(x)) - math.Log(float64(y)) }
	value := distance(b.Value, a.Value)
	low := value - math.Hypot(distance(b.Value, b.Low), distance(a.High, a.Value))
	high := value + math.Hypot(distance(b.High, b.Value), distance(a.Value, a.Low))
	return interval(experiment.Figure(math.Exp(value)), experiment.Figure(math.Exp(low)), experiment.Figure(math.Exp(high)))
}

// differences lists what is known to differ between two runs beside their figures.
func differences(a, b *experiment.Run) []Difference {
	list := []Difference{
		{"tool", a.Facts.Tool, b.Facts.Tool},
		{"client", a.Facts.Host, b.Facts.Host},
		{"model of a server", a.Facts.Virtual, b.Facts.Virtual},
		{"url", a.Facts.URL, b.Facts.URL},
		{"engine", a.Facts.Engine, b.Facts.Engine},
		{"version", a.Facts.Version, b.Facts.Version},
		{"model", a.Facts.Model, b.Facts.Model},
		{"max_model_len", number(a.Facts.MaxContext), number(b.Facts.MaxContext)},
	}
	keys := maps.Clone(a.Facts.Server)
	if keys == nil {
		keys = make(map[string]string)
	}
	maps.Copy(keys, b.Facts.Server)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		list = append(list, Difference{key, a.Facts.Server[key], b.Facts.Server[key]})
	}
	list = append(list,
		Difference{"warm-up requests", number(a.Plan.Warmup), number(b.Plan.Warmup)},
		Difference{"timeout", a.Plan.Timeout.String(), b.Plan.Timeout.String()},
		Difference{"seed", fmt.Sprint(a.Plan.Seed), fmt.Sprint(b.Plan.Seed)},
		Difference{"levels", plainly(a.Plan.Levels), plainly(b.Plan.Levels)},
		Difference{"length of levels", lengthsOf(a.Plan.Levels), lengthsOf(b.Plan.Levels)},
	)
	return slices.DeleteFunc(list, func(d Difference) bool { return d.A == d.B })
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// plainly lists the loads of levels, and each new shape before its own.
func plainly(levels []experiment.Level) string {
	var words []string
	shape := ""
	for _, l := range levels {
		if l.Shape() != shape {
			shape = l.Shape()
			words = append(words, shape+":")
		}
		words = append(words, l.Load())
	}
	return strings.Join(words, " ")
}

// lengthsOf lists how long levels are, once if they are alike: "2048 requests or 2m0s".
func lengthsOf(levels []experiment.Level) string {
	var words []string
	for _, l := range levels {
		var limits []string
		if l.Requests > 0 {
			limits = append(limits, humanize.Count(l.Requests, "request"))
		}
		if l.Duration > 0 {
			limits = append(limits, l.Duration.String())
		}
		words = append(words, strings.Join(limits, " or "))
	}
	return strings.Join(slices.Compact(words), ", ")
}

// warn says why a comparison may mislead.
func (c *Comparison) warn(a, b *experiment.Summary) []string {
	var warnings []string
	if len(c.Curves) == 0 {
		warnings = append(warnings, "No level is of the same kind and the same prompt and output length in both runs: there is nothing to compare.")
	}
	if len(c.Differences) == 0 {
		warnings = append(warnings, "Nothing is known to differ between the two runs: what differs in their figures is how much two runs differ, or a change that the server does not show.")
	}
	for _, d := range c.Differences {
		switch d.What {
		case "client", "tool", "timeout":
			warnings = append(warnings, fmt.Sprintf("The %s is not the same (%s and %s), and may make a difference of its own.", d.What, orNone(d.A), orNone(d.B)))
		}
	}
	for _, run := range []struct {
		name    string
		summary *experiment.Summary
	}{{"A", a}, {"B", b}} {
		if run.summary.Left != nil {
			warnings = append(warnings, fmt.Sprintf("Of run %s %s.", run.name, run.summary.Left))
		}
		if doubted := doubtedIn(run.summary); len(doubted) > 0 {
			warnings = append(warnings, fmt.Sprintf("Run %s is not to be trusted at %s.", run.name, strings.Join(doubted, "; ")))
		}
	}
	return warnings
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// doubtedIn lists the levels that are not to be trusted.
func doubtedIn(s *experiment.Summary) []string {
	var list []string
	for i := range s.Levels {
		if l := &s.Levels[i]; len(l.Doubts) > 0 {
			list = append(list, fmt.Sprintf("%s (%s)", l.Level, whyUndecided(l)))
		}
	}
	return list
}

// tell says in sentences what a change brought on a curve.
func (c *CurveComparison) tell(a, b *experiment.Summary) string {
	sentences := []string{c.tellPeak()}
	if len(c.OperatingA.Objectives) > 0 {
		sentences = append(sentences, fmt.Sprintf("Under %s: A %s, B %s.", strings.Join(c.OperatingA.Objectives, ", "),
			pointText(&c.OperatingA, a), pointText(&c.OperatingB, b)))
	}
	for _, name := range []string{rateMetric, "ttft_p95", "itl_p95"} {
		sentences = append(sentences, c.tellMetric(name))
	}
	return join(sentences)
}

func (c *CurveComparison) tellPeak() string {
	p := c.Peak
	if !p.Ratio.Value.Known() {
		return ""
	}
	return fmt.Sprintf("Peak throughput of B is %s times A's (95 %% interval %s), %s against %s output tok/s: %s.",
		humanize.Number(float64(p.Ratio.Value)), humanize.Range(float64(p.Ratio.Low), float64(p.Ratio.High), humanize.Number),
		humanize.Number(float64(p.B.Value)), humanize.Number(float64(p.A.Value)), p.Change)
}

// pointText says where an operating point lies.
func pointText(o *experiment.Operating, s *experiment.Summary) string {
	if o.Best < 0 {
		return "holds at no level"
	}
	text := "holds up to " + s.Levels[o.Best].Level.Load()
	if !o.Bracketed {
		text += " at least"
	}
	return text
}

// tellMetric counts at how many levels a figure changed.
func (c *CurveComparison) tellMetric(name string) string {
	counts := make(map[Change]int)
	for _, l := range c.Levels {
		for _, m := range l.Metrics {
			if m.Metric == name {
				counts[m.Change]++
			}
		}
	}
	if len(c.Levels) == 0 {
		return ""
	}
	var words []string
	for _, change := range []Change{Better, Worse, NoDifference, Undecided, NotComparable} {
		if n := counts[change]; n > 0 {
			words = append(words, fmt.Sprintf("%s at %d", change, n))
		}
	}
	return fmt.Sprintf("%s of %s: %s.", caption(name), humanize.Count(len(c.Levels), "level"), strings.Join(words, ", "))
}

// caption is how a metric is called in tables and sentences: "TTFT p95".
func caption(metric string) string {
	if metric == rateMetric {
		return "Output tok/s"
	}
	latency, quantile, _ := strings.Cut(metric, "_")
	return experiment.Indicator(latency).Title() + " " + quantile
}
