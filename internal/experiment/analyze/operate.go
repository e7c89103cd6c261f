package analyze

import (
	"fmt"
	"math"
	"strings"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// operate finds the operating point on every load curve: the highest load that holds all objectives, and how much of
// it today's load uses, if that is known.
func operate(levels []experiment.LevelSummary, objectives []experiment.Objective, today *experiment.Load) []experiment.Operating {
	var points []experiment.Operating
	for _, c := range curves(levels) {
		points = append(points, c.operate(objectives, today))
	}
	return points
}

func (c *curve) operate(objectives []experiment.Objective, today *experiment.Load) experiment.Operating {
	o := experiment.Operating{Curve: c.name, Best: -1, Knee: -1, Peak: experiment.Unknown()}
	for _, l := range c.levels {
		o.Levels = append(o.Levels, l.Index)
	}
	for _, objective := range objectives {
		o.Objectives = append(o.Objectives, objective.String())
	}
	if knee := c.knee(); knee != nil {
		o.Knee = knee.Index
	}
	if peak := c.peak(); peak != nil {
		o.Peak = peak.OutputRate
	}
	var sentences []string
	if len(objectives) > 0 {
		b := c.bracket()
		o.Bracketed = b.failing != nil
		if b.best != nil {
			o.Best, o.Sure = b.best.Index, sure(b.best)
			o.Headroom = headroom(b.best, today)
		}
		next, why := c.next(b)
		o.Next = next
		sentences = append(sentences, c.tell(b), why)
	}
	sentences = append(sentences, c.tellThroughput(), tellHeadroom(o.Headroom))
	o.Text = join(sentences)
	return o
}

// sure reports whether the confidence intervals say what the figures say.
func sure(l *experiment.LevelSummary) bool {
	for _, v := range l.Verdicts {
		if !v.Sure {
			return false
		}
	}
	return true
}

// next is the load to measure next to know more of the ceiling, and why.
func (c *curve) next(b bracket) (load, why string) {
	if len(c.levels) == 0 {
		return "", ""
	}
	to, reason := c.step(b)
	if to == 0 {
		return "", reason
	}
	return c.named(to), fmt.Sprintf("%s: measure %s next.", reason, c.named(to))
}

// step is the load to measure next, 0 for none, and why.
func (c *curve) step(b bracket) (next float64, why string) {
	highest := c.levels[len(c.levels)-1]
	switch {
	case len(b.between) > 0:
		again := b.between[0]
		return load(again.Level), fmt.Sprintf("%s does not decide (%s)", again.Level.Load(), whyUndecided(again))
	case b.failing == nil:
		return c.round(2 * load(highest.Level)), fmt.Sprintf("No ceiling can be named: the highest level measured (%s) still holds", highest.Level.Load())
	case b.best != nil:
		middle, ok := c.between(load(b.best.Level), load(b.failing.Level))
		if !ok {
			return 0, ""
		}
		return middle, fmt.Sprintf("The ceiling lies between %s and %s", b.best.Level.Load(), b.failing.Level.Load())
	case c.closed && b.failing.Level.Concurrency == 1:
		return 0, "No load is lower than one request in flight."
	}
	return c.round(load(b.failing.Level) / 2), fmt.Sprintf("The lowest level measured (%s) does not hold", b.failing.Level.Load())
}

// whyUndecided says in a few words why a level decides nothing.
func whyUndecided(l *experiment.LevelSummary) string {
	var why []string
	for _, d := range l.Doubts {
		why = append(why, strings.ReplaceAll(d.Kind, "_", " "))
	}
	for _, v := range l.Verdicts {
		if !v.Estimate.Value.Known() {
			why = append(why, v.Objective.Name()+" unknown")
		}
	}
	return strings.Join(why, ", ")
}

// tell says which load holds the objectives, with the figures on both sides of the ceiling.
func (c *curve) tell(b bracket) string {
	if b.best == nil && b.failing == nil {
		return "No level can be judged."
	}
	if b.best == nil {
		return fmt.Sprintf("No level holds the objectives: at %s %s.", c.inWords(b.failing), tellFailing(b.failing))
	}
	text := fmt.Sprintf("At most %s: %s", c.inWords(b.best), tellHeld(b.best))
	if b.failing != nil {
		text += fmt.Sprintf("; at %s %s", c.short(b.failing), tellFailing(b.failing))
	}
	text += "."
	if !sure(b.best) {
		text += " The confidence interval does not exclude that it fails: measure longer to be sure."
	}
	return text
}

// inWords names the load of a level in a sentence.
func (c *curve) inWords(l *experiment.LevelSummary) string {
	if c.closed {
		return humanize.Count(l.Level.Concurrency, "request") + " in flight"
	}
	return fmt.Sprintf("%g requests/s", l.Level.Rate)
}

// short is inWords where the unit has been told.
func (c *curve) short(l *experiment.LevelSummary) string {
	if c.closed {
		return fmt.Sprint(l.Level.Concurrency)
	}
	return fmt.Sprintf("%g/s", l.Level.Rate)
}

// tellHeld lists the objectives of a level that holds them, and its goodput.
func tellHeld(l *experiment.LevelSummary) string {
	var figures []string
	for _, v := range l.Verdicts {
		figures = append(figures, fmt.Sprintf("%s %s%s of %s", inWords(v.Objective), humanize.Seconds(float64(v.Estimate.Value)),
			intervalOf(v.Estimate), humanize.Setting(v.Objective.Threshold)))
	}
	return fmt.Sprintf("%s; %s good requests/s", strings.Join(figures, ", "), humanize.Number(float64(l.Goodput)))
}

// tellFailing says what a level breaks.
func tellFailing(l *experiment.LevelSummary) string {
	if has(l, KindNothing) {
		return "no request succeeds"
	}
	var broken, endless []string
	for _, v := range l.Verdicts {
		switch {
		case math.IsInf(float64(v.Estimate.Value), 1):
			endless = append(endless, inWords(v.Objective))
		case !v.Held && v.Estimate.Value.Known():
			broken = append(broken, fmt.Sprintf("%s is %s%s", inWords(v.Objective), humanize.Seconds(float64(v.Estimate.Value)), intervalOf(v.Estimate)))
		}
	}
	if len(endless) > 0 {
		broken = append(broken, fmt.Sprintf("too many were not served for the %s: %s", strings.Join(endless, " and "), tellLost(l)))
	} else if l.Missed > 0 {
		broken = append(broken, tellLost(l))
	}
	if has(l, KindSaturated) {
		broken = append(broken, "the queue grows as long as requests come")
	}
	return strings.Join(broken, ", ")
}

// tellLost says how many requests were not served.
func tellLost(l *experiment.LevelSummary) string {
	var words []string
	if l.Failed > 0 {
		words = append(words, failures(l))
	}
	if l.Missed > 0 {
		words = append(words, humanize.Count(l.Missed, "request")+" could not be sent")
	}
	return strings.Join(words, " and ")
}

// inWords is the objective's name in a sentence: "TTFT p95".
func inWords(o experiment.Objective) string {
	return o.Indicator.Title() + " p" + experiment.Percent(o.Quantile)
}

// tellThroughput says where throughput stops rising.
func (c *curve) tellThroughput() string {
	peak := c.peak()
	if peak == nil || len(c.levels) < 2 {
		return "" // one level does not tell
	}
	most := fmt.Sprintf("%s output tok/s at %s", humanize.Number(float64(peak.OutputRate.Value)), peak.Level.Load())
	knee := c.knee()
	switch {
	case knee == nil:
		return fmt.Sprintf("Throughput still rises at the highest level: %s.", most)
	case knee == peak:
		return fmt.Sprintf("Throughput stops rising at %s.", most)
	}
	return fmt.Sprintf("Throughput stops rising at %s (%s output tok/s); its peak is %s.", knee.Level.Load(),
		humanize.Number(float64(knee.OutputRate.Value)), most)
}

// headroom compares today's load with a level; nil if one of them is not known.
func headroom(best *experiment.LevelSummary, today *experiment.Load) *experiment.Headroom {
	if today == nil || !best.OutputRate.Value.Known() {
		return nil
	}
	return &experiment.Headroom{Today: *today, Used: experiment.Figure(today.OutputTokensPerSecond) / best.OutputRate.Value}
}

func tellHeadroom(h *experiment.Headroom) string {
	if h == nil {
		return ""
	}
	return fmt.Sprintf("Before the run the server gave others %s output tok/s, %s of what it gives at the operating point.",
		humanize.Number(h.Today.OutputTokensPerSecond), humanize.Share(float64(h.Used)))
}

// join makes a text of the sentences that are not empty.
func join(sentences []string) string {
	var said []string
	for _, s := range sentences {
		if s != "" {
			said = append(said, s)
		}
	}
	return strings.Join(said, " ")
}

// intervalOf writes the bounds of a latency: "(580 ms to 660 ms)"; of what is unknown, only what is known.
func intervalOf(e experiment.Estimate) string {
	switch {
	case e.Low.Known() && e.High.Known():
		return " (" + humanize.Range(float64(e.Low), float64(e.High), humanize.Seconds) + ")"
	case e.Low.Known():
		return fmt.Sprintf(" (at least %s; too few requests for an upper bound)", humanize.Seconds(float64(e.Low)))
	}
	return " (too few requests to bound it)"
}
