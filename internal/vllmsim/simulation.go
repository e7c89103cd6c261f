package vllmsim

import (
	"fmt"
	"math"
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
	rules   scheduler
	now     time.Duration
	tokens  []Token      // of the step that ends
	aborted map[int]bool // by id
}

// StepEnd is the end of one engine step.
type StepEnd struct {
	At               time.Duration
	Time             time.Duration // how long the step took
	Work             Work
	Tokens           []Token // valid until the next call of Next
	Running, Waiting int     // what vLLM's gauges show from now until the next step ends
	KVUsage          float64 // and this one, 0 to 1
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
	s := &Simulation{rules: newScheduler(m), aborted: map[int]bool{}}
	s.rules.gone = func(t *task) bool { return s.aborted[t.id] }
	s.rules.deliver = func(t *task, e Event) {
		s.tokens = append(s.tokens, Token{Request: t.id, Number: e.Token, Last: e.Last})
	}
	return s, nil
}

// Submit lets a request arrive at the server, now or later. The id comes back with its tokens. It fails if the KV cache
// could never hold the request.
func (s *Simulation) Submit(at time.Duration, id int, r Request) error {
	if at < s.now {
		return fmt.Errorf("request %d would arrive at %v, which has passed: it is %v", id, at, s.now)
	}
	r, err := r.withDefaults()
	if err != nil {
		return err
	}
	return s.rules.submit(&task{Request: r, id: id}, time.Time{}.Add(at))
}

// Abort ends a request before its time, as a client does that goes away. Its id is not used again.
func (s *Simulation) Abort(id int) { s.aborted[id] = true }

// Next goes on to the end of the next step. It returns false when no request is left.
func (s *Simulation) Next() (StepEnd, bool) { return s.NextBefore(math.MaxInt64) }

// NextBefore goes on to the end of the next step, if that is before a time. If it returns false, requests may still
// be submitted from that time on.
func (s *Simulation) NextBefore(limit time.Duration) (StepEnd, bool) {
	s.tokens = s.tokens[:0]
	steps := s.rules.stats.Steps
	for {
		at, do := s.rules.due()
		if do == nil || since(at) >= limit {
			return StepEnd{}, false
		}
		s.now = max(s.now, since(at))
		step := s.rules.current
		if do(at); s.rules.stats.Steps > steps {
			return s.ended(step), true
		}
	}
}

func (s *Simulation) ended(p *step) StepEnd {
	stats := &s.rules.stats
	return StepEnd{
		At: s.now, Time: p.time, Work: p.work, Tokens: s.tokens,
		Running: stats.Running, Waiting: stats.Waiting, KVUsage: stats.KVUsage,
	}
}

// since is a time of the scheduler, as time since the start of the simulation.
func since(t time.Time) time.Duration { return t.Sub(time.Time{}) }
