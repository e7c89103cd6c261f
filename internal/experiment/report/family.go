package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// respect is what can vary from level to level.
type respect struct {
	kind  string // also the beginning of file names
	title string
	axis  string
	value func(experiment.Level) float64
	of    func(experiment.Level) bool   // which levels it is about
	rest  func(experiment.Level) string // everything else of a level: what must be the same along a curve
	group func(experiment.Level) string // what must be the same for curves to share a chart
	name  func(experiment.Level) string // of a level in tables
}

func respects() []respect {
	return []respect{
		{
			kind: "load", title: "Load: closed loop", axis: "requests in flight (concurrency)",
			value: func(l experiment.Level) float64 { return float64(l.Concurrency) },
			of:    experiment.Level.Closed,
			rest:  experiment.Level.Shape,
			group: func(experiment.Level) string { return "" },
			name:  experiment.Level.Load,
		},
		{
			kind: "rate", title: "Load: open loop", axis: "requests sent per second",
			value: func(l experiment.Level) float64 { return l.Rate },
			of:    func(l experiment.Level) bool { return !l.Closed() },
			rest:  func(l experiment.Level) string { return fmt.Sprint(l.Shape(), l.Arrival, l.MaxInFlight) },
			group: func(l experiment.Level) string { return fmt.Sprint(l.Arrival, l.MaxInFlight) },
			name:  experiment.Level.Load,
		},
		{
			kind: "prompt", title: "Prompt length", axis: "prompt tokens",
			value: func(l experiment.Level) float64 { return float64(l.PromptTokens) },
			of:    func(experiment.Level) bool { return true },
			rest:  func(l experiment.Level) string { return fmt.Sprint(load(l), "+", l.OutputTokens) },
			group: func(l experiment.Level) string { return fmt.Sprint(l.Closed()) },
			name:  func(l experiment.Level) string { return fmt.Sprintf("%d prompt tokens", l.PromptTokens) },
		},
		{
			kind: "output", title: "Output length", axis: "output tokens",
			value: func(l experiment.Level) float64 { return float64(l.OutputTokens) },
			of:    func(experiment.Level) bool { return true },
			rest:  func(l experiment.Level) string { return fmt.Sprint(load(l), "+", l.PromptTokens) },
			group: func(l experiment.Level) string { return fmt.Sprint(l.Closed()) },
			name:  func(l experiment.Level) string { return fmt.Sprintf("%d output tokens", l.OutputTokens) },
		},
	}
}

// load is all of a level's load.
func load(l experiment.Level) string { return fmt.Sprint(l.Load(), l.Arrival, l.MaxInFlight) }

// curve is levels that differ in one respect alone, by its rising value.
type curve struct {
	name   string // what tells it from the others of its family
	class  string // its colour, where there are others
	key    string
	levels []*experiment.LevelSummary

	operating *experiment.Operating // nil if it is not known
}

// family is the curves that share the axes of a chart.
type family struct {
	respect
	number int // of the families in the same respect
	curves []curve
}

// first is the first level of the family.
func (f *family) first() experiment.Level { return f.curves[0].levels[0].Level }

// families finds the curves of a run. A curve across a grid, whose levels all lie on several load curves already, is
// the grid's business and no family of its own.
func families(summary *experiment.Summary) []family {
	var all []family
	inGrid := map[int]bool{}
	for _, r := range respects() {
		for _, f := range r.families(summary.Levels) {
			load := r.kind == "load" || r.kind == "rate"
			if !load {
				f.curves = slices.DeleteFunc(f.curves, func(c curve) bool {
					return !slices.ContainsFunc(c.levels, func(l *experiment.LevelSummary) bool { return !inGrid[l.Index] })
				})
			}
			if len(f.curves) == 0 {
				continue
			}
			if load && len(f.curves) > 1 {
				for _, c := range f.curves {
					for _, l := range c.levels {
						inGrid[l.Index] = true
					}
				}
			}
			f.nameCurves()
			for i := range f.curves {
				if load {
					f.curves[i].operating = operatingOf(f.curves[i], summary.Operating)
				}
			}
			all = append(all, f)
		}
	}
	return all
}

// operatingOf is what is known of the operating point of a load curve; nil if nothing is.
func operatingOf(c curve, all []experiment.Operating) *experiment.Operating {
	for i := range all {
		if o := &all[i]; len(o.Levels) > 0 && slices.ContainsFunc(c.levels, func(l *experiment.LevelSummary) bool { return l.Index == o.Levels[0] }) {
			return o
		}
	}
	return nil
}

// best reports whether a level is the operating point of its curve.
func (c *curve) best(level int) bool { return c.operating != nil && isBest(c.operating, level) }

// knee reports whether throughput stops rising at a level.
func (c *curve) knee(level int) bool { return c.operating != nil && c.operating.Knee == level }

// isBest reports whether a level is the operating point of a curve: of a single level that says nothing.
func isBest(o *experiment.Operating, level int) bool {
	return o.Best == level && len(o.Objectives) > 0 && len(o.Levels) > 1
}

// families finds the curves in one respect.
func (r respect) families(levels []experiment.LevelSummary) []family {
	var all []family
	for i := range levels {
		l := &levels[i]
		if !r.of(l.Level) || r.value(l.Level) <= 0 {
			continue
		}
		at := slices.IndexFunc(all, func(f family) bool { return r.group(f.first()) == r.group(l.Level) })
		if at < 0 {
			all = append(all, family{respect: r, curves: []curve{{key: r.rest(l.Level), levels: []*experiment.LevelSummary{l}}}})
			continue
		}
		f := &all[at]
		c := slices.IndexFunc(f.curves, func(c curve) bool { return c.key == r.rest(l.Level) })
		if c < 0 {
			f.curves = append(f.curves, curve{key: r.rest(l.Level), levels: []*experiment.LevelSummary{l}})
			continue
		}
		f.curves[c].levels = append(f.curves[c].levels, l)
	}
	for i := range all {
		all[i].number = i
		all[i].curves = slices.DeleteFunc(all[i].curves, func(c curve) bool { return !r.varies(c.levels) })
		for _, c := range all[i].curves {
			slices.SortStableFunc(c.levels, func(a, b *experiment.LevelSummary) int {
				return cmp.Compare(r.value(a.Level), r.value(b.Level))
			})
		}
	}
	return slices.DeleteFunc(all, func(f family) bool { return len(f.curves) == 0 })
}

func (r respect) varies(levels []*experiment.LevelSummary) bool {
	return slices.ContainsFunc(levels, func(l *experiment.LevelSummary) bool { return r.value(l.Level) != r.value(levels[0].Level) })
}

// nameCurves names each curve by what differs between them.
func (f *family) nameCurves() {
	parts := []func(experiment.Level) string{
		func(l experiment.Level) string { return fmt.Sprintf("%d prompt", l.PromptTokens) },
		func(l experiment.Level) string { return fmt.Sprintf("%d output", l.OutputTokens) },
		experiment.Level.Load,
	}
	for _, part := range parts {
		differs := slices.ContainsFunc(f.curves, func(c curve) bool { return part(c.levels[0].Level) != part(f.first()) })
		varies := slices.ContainsFunc(f.curves[0].levels, func(l *experiment.LevelSummary) bool { return part(l.Level) != part(f.first()) })
		if !differs || varies {
			continue
		}
		for i := range f.curves {
			c := &f.curves[i]
			c.class = fmt.Sprintf("c%d", 1+i%6)
			if c.name != "" {
				c.name += ", "
			}
			c.name += part(c.levels[0].Level)
		}
	}
}

// values lists where on the x axis the family has a level.
func (f *family) values() []float64 {
	var all []float64
	for _, c := range f.curves {
		for _, l := range c.levels {
			all = append(all, f.value(l.Level))
		}
	}
	return all
}
