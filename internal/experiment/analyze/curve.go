package analyze

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// curve is levels that differ in their load alone, by rising load: one for each load.
type curve struct {
	name   string
	closed bool
	levels []*experiment.LevelSummary
}

// curves sorts levels into load curves, in the order of their first levels. Of two levels of one load the last counts
// that is to be trusted; if none is, the last.
func curves(levels []experiment.LevelSummary) []*curve {
	var all []*curve
	for i := range levels {
		l := &levels[i]
		name := curveOf(l.Level)
		at := slices.IndexFunc(all, func(c *curve) bool { return c.name == name })
		if at < 0 {
			at = len(all)
			all = append(all, &curve{name: name, closed: l.Level.Closed()})
		}
		all[at].add(l)
	}
	return all
}

func (c *curve) add(l *experiment.LevelSummary) {
	at, found := slices.BinarySearchFunc(c.levels, load(l.Level), func(l *experiment.LevelSummary, x float64) int {
		return cmp.Compare(load(l.Level), x)
	})
	switch {
	case !found:
		c.levels = slices.Insert(c.levels, at, l)
	case len(l.Doubts) == 0 || len(c.levels[at].Doubts) > 0:
		c.levels[at] = l
	}
}

// curveOf names the curve of a level: "closed loop, 512+128".
func curveOf(l experiment.Level) string {
	if l.Closed() {
		return "closed loop, " + l.Shape()
	}
	name := "open loop, "
	if l.Arrival != "" {
		name += string(l.Arrival) + " arrivals, "
	}
	if l.MaxInFlight > 0 {
		name += fmt.Sprintf("at most %d in flight, ", l.MaxInFlight)
	}
	return name + l.Shape()
}

// load is the load of a level as a number: requests in flight, or requests a second.
func load(l experiment.Level) float64 {
	if l.Closed() {
		return float64(l.Concurrency)
	}
	return l.Rate
}

// named names a load of the curve, as [Level.Load] does.
func (c *curve) named(load float64) string {
	if c.closed {
		return fmt.Sprintf("c=%.0f", load)
	}
	return fmt.Sprintf("%g/s", load)
}

// between is the load to measure between two others, their geometric mean: ok if they are more than 10 % apart and a
// load lies between them.
func (c *curve) between(low, high float64) (middle float64, ok bool) {
	if high <= resolution*low {
		return 0, false
	}
	middle = c.round(math.Sqrt(low * high))
	return middle, low < middle && middle < high
}

// round makes a load that can be told to others: a whole number of requests in flight, or a rate of three digits.
func (c *curve) round(load float64) float64 {
	if c.closed {
		return math.Round(load)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(load, 'g', 3, 64), 64)
	return rounded
}

// resolution is the ratio between two loads at which a ceiling between them is known well enough.
const resolution = 1.1

// standing is what a level says of the objectives.
type standing int

const (
	undecided standing = iota // the level is not to be trusted, or a figure is unknown
	holds
	fails
)

// stand judges a level. What makes a level doubtful makes its verdict void, except where the doubt is that the server
// failed requests or left them waiting: that is a verdict. An open loop whose queue still grew holds nothing, for a
// longer run would not.
func stand(l *experiment.LevelSummary) standing {
	blames := func(d experiment.Doubt) bool {
		return d.Kind == KindFailures || d.Kind == KindMissed || d.Kind == KindNothing
	}
	if slices.ContainsFunc(l.Doubts, func(d experiment.Doubt) bool { return !blames(d) }) {
		return undecided
	}
	if has(l, KindSaturated) || has(l, KindNothing) || has(l, KindMissed) {
		return fails
	}
	result := holds
	for _, v := range l.Verdicts {
		switch {
		case v.Held:
		case v.Estimate.Value.Known():
			return fails
		default:
			result = undecided
		}
	}
	if len(l.Doubts) > 0 && result == holds { // some failed, though fewer than would break an objective
		return undecided
	}
	return result
}

// bracket is where on a curve the objectives cease to hold: the highest level that holds them below the lowest that
// does not, and the undecided levels between; each nil or empty if there is none.
type bracket struct {
	best, failing *experiment.LevelSummary
	between       []*experiment.LevelSummary
}

func (c *curve) bracket() bracket {
	var b bracket
	for _, l := range c.levels {
		switch stand(l) {
		case holds:
			b.best, b.between = l, nil
		case undecided:
			b.between = append(b.between, l)
		case fails:
			b.failing = l
			return b
		}
	}
	return b
}

// knee is the lowest level above which no level brings more throughput than 10 % for each doubling of the load; nil if
// there is no level above it, for then throughput may still be rising.
func (c *curve) knee() *experiment.LevelSummary {
	for i, l := range c.levels[:max(0, len(c.levels)-1)] {
		if !slices.ContainsFunc(c.levels[i+1:], func(above *experiment.LevelSummary) bool { return !flat(l, above) }) {
			return l
		}
	}
	return nil
}

// minGain is the gain in throughput for twice the load below which more load is not worth its wait.
const minGain = 1.1

// flat reports whether throughput hardly rises from one level to one of higher load, or is not known there.
func flat(l, above *experiment.LevelSummary) bool {
	if !above.OutputRate.Value.Known() {
		return true
	}
	doublings := math.Log2(load(above.Level) / load(l.Level))
	return float64(above.OutputRate.Value) < float64(l.OutputRate.Value)*math.Pow(minGain, doublings)
}

// peak is the level of the highest output rate; nil if none is known.
func (c *curve) peak() *experiment.LevelSummary {
	var highest *experiment.LevelSummary
	for _, l := range c.levels {
		if l.OutputRate.Value.Known() && (highest == nil || l.OutputRate.Value > highest.OutputRate.Value) {
			highest = l
		}
	}
	return highest
}
