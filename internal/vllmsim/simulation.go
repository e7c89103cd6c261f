package vllmsim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Simulation runs the scheduler on virtual time, as fast as the machine can: no clock, no goroutines. Time counts
// from the start of the simulation.
//
//	sim, err := vllmsim.NewSimulation(model)
//	sim.Submit(0, 1, request)
//	for step, ok := sim.Next(); ok; step, ok = sim.Next() {
//		for _, token := range step.Tokens { … }  // a closed loop submits its next request here
//	}
type Simulation struct {
	rules    scheduler
	arrivals []arrival // in order of their times
	now      time.Duration
	tokens   []Token // of the step that ends
}

// arrival is a request that is still to come.
type arrival struct {
	at   time.Duration
	task *task
}

// StepEnd is the end of one engine step.
type StepEnd struct {
	At               time.Duration
	Time             time.Duration // how long the step took
	Work             Work
	Tokens           []Token // valid until the next call of Next
	Running, Waiting int     // what vLLM's gauges show from now until the next step ends
}

// Token is one token of one request.
type Token struct {
	Request int // as given to Submit
	Number  int // 1 for the first of the request
	Last    bool
}

// NewSimulation fails if the model could not run a single request.
func NewSimulation(m Model) (*Simulation, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	s := &Simulation{rules: newScheduler(m)}
	s.rules.gone = func(*task) bool { return false }
	s.rules.deliver = func(t *task, e Event) {
		s.tokens = append(s.tokens, Token{Request: t.id, Number: e.Token, Last: e.Last})
	}
	return s, nil
}

// Submit lets a request arrive at the engine, now or later. The id comes back with its tokens.
func (s *Simulation) Submit(at time.Duration, id int, r Request) error {
	if at < s.now {
		return fmt.Errorf("request %d would arrive at %v, which has passed: it is %v", id, at, s.now)
	}
	r, err := r.withDefaults()
	if err != nil {
		return err
	}
	after, _ := slices.BinarySearchFunc(s.arrivals, at, func(a arrival, at time.Duration) int {
		return cmp.Or(cmp.Compare(a.at, at), -1) // behind those of the same time
	})
	s.arrivals = slices.Insert(s.arrivals, after, arrival{at, &task{Request: r, id: id}})
	return nil
}

// Next goes on to the end of the next step. It returns false when no request is left.
func (s *Simulation) Next() (StepEnd, bool) {
	s.tokens = s.tokens[:0]
	for {
		at, do := s.rules.due()
		switch {
		case len(s.arrivals) > 0 && (do == nil || s.arrivals[0].at <= since(at)):
			s.arrive()
		case do == nil:
			return StepEnd{}, false
		default:
			s.now = since(at)
			step, steps := s.rules.current, s.rules.stats.Steps
			if do(at); s.rules.stats.Steps > steps {
				return s.ended(step), true
			}
		}
	}
}

func (s *Simulation) arrive() {
	a := s.arrivals[0]
	s.arrivals = s.arrivals[1:]
	s.now = a.at
	s.rules.submit(a.task, time.Time{}.Add(a.at))
}

func (s *Simulation) ended(p *step) StepEnd {
	stats := &s.rules.stats
	return StepEnd{At: s.now, Time: p.time, Work: p.work, Tokens: s.tokens, Running: stats.Running, Waiting: stats.Waiting}
}

// since is a time of the scheduler, as time since the start of the simulation.
func since(t time.Time) time.Duration { return t.Sub(time.Time{}) }
