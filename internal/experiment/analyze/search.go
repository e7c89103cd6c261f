package analyze

import (
	"fmt"
	"math"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// Search finds the highest load that holds a plan's objectives: it doubles the load until a level fails, or halves it
// until one holds, and then halves the ratio between the two until they are at most 10 % apart. Only the load of its
// levels differs.
//
// It is a pure function of what has been measured, so that an interrupted search can go on, and is the same against a
// server and a model.
type Search struct {
	From experiment.Level // the first level; of a closed loop if its concurrency is set, else of an open one
	Max  float64          // the highest load to try, requests in flight or requests a second; 0: no bound
}

// Step is what a search does next.
type Step struct {
	Level experiment.Level // to measure, unless the search is done
	Done  bool
	Why   string // in a sentence
}

// lowestRate is the lowest rate that is tried, as a part of the first.
const lowestRate = 0.01

// Next tells the next step after some levels of one run have been measured, in the order of measurement. A level that
// is not to be trusted is measured once more, longer if it had too few requests; if that is no better, the search ends
// and says so.
func (s Search) Next(measured []experiment.LevelSummary) Step {
	c := s.curve(measured)
	if c == nil {
		return s.measure(load(s.From), "the first level")
	}
	b := c.bracket()
	if len(b.between) > 0 {
		return s.again(c, b.between[0], measured)
	}
	next, why := c.step(b)
	highest := load(c.levels[len(c.levels)-1].Level)
	switch {
	case next == 0:
		return done(found(b, why))
	case b.failing == nil && s.Max > 0 && highest >= s.Max:
		return done(fmt.Sprintf("%s, the highest load to be tried, still holds: no ceiling can be named", c.named(highest)))
	case b.failing == nil && s.Max > 0:
		next = math.Min(next, s.Max)
	case !c.closed && next < s.From.Rate*lowestRate:
		return done(fmt.Sprintf("even %s does not hold", b.failing.Level.Load()))
	}
	return s.measure(next, why)
}

// curve is the load curve of the search; nil if no level of it has been measured.
func (s Search) curve(measured []experiment.LevelSummary) *curve {
	for _, c := range curves(measured) {
		if c.name == curveOf(s.From) {
			return c
		}
	}
	return nil
}

// again measures an undecided level a second time, and gives up after that.
func (s Search) again(c *curve, l *experiment.LevelSummary, measured []experiment.LevelSummary) Step {
	times := 0
	for i := range measured {
		if curveOf(measured[i].Level) == c.name && load(measured[i].Level) == load(l.Level) {
			times++
		}
	}
	if times < 2 {
		step := s.measure(load(l.Level), fmt.Sprintf("%s does not decide (%s): once more", l.Level.Load(), whyUndecided(l)))
		if has(l, KindTooFewRequests) {
			step.lengthen(1.25 * float64(needed(0.95)) / float64(l.Requests-l.Failed))
		}
		return step
	}
	return done(fmt.Sprintf("%s does not decide, measured twice (%s): no ceiling can be named", l.Level.Load(), whyUndecided(l)))
}

// found says what a search ended with that has nothing more to measure.
func found(b bracket, why string) string {
	if b.best == nil {
		return fmt.Sprintf("%s does not hold; %s", b.failing.Level.Load(), why)
	}
	return fmt.Sprintf("%s holds and %s does not", b.best.Level.Load(), b.failing.Level.Load())
}

func (s Search) measure(load float64, why string) Step {
	next := s.From
	if next.Closed() {
		next.Concurrency = int(load)
	} else {
		next.Rate = load
	}
	return Step{Level: next, Why: why}
}

// lengthen makes the level of a step at least so many times as long.
func (s *Step) lengthen(times float64) {
	times = math.Ceil(2*times) / 2
	s.Level.Requests = int(math.Ceil(times * float64(s.Level.Requests)))
	s.Level.Duration = time.Duration(times * float64(s.Level.Duration))
	s.Why += fmt.Sprintf(", %g times as long", times)
}

func done(why string) Step { return Step{Done: true, Why: why} }
