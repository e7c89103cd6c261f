package vllmsim

import (
	"cmp"
	"slices"
	"time"
)

// blockSize is the size of a KV cache block in tokens: vLLM's default on a GPU.
const blockSize = 16

// scheduler holds the rules, without a clock: which requests a step takes, how long it lasts, what its end
// delivers. Its owner does what is due: an [Engine] by the clock, a [Simulation] at once.
//
// First come, first served; running requests first, then admissions while the token budget of the step lasts;
// long prompts prefilled in chunks. Requests reserve the KV cache that they may need, so nothing is ever
// preempted. An idle engine does not step.
type scheduler struct {
	model    Model
	slow     float64            // multiplies the time of every later step
	gone     func(*task) bool   // whether nobody waits for the request any more
	deliver  func(*task, Event) // takes each token
	stats    Stats              // as of the last step
	incoming []*task            // not known to the scheduler yet, in order of when they will be
	waiting  []*task            // in order of arrival
	running  []*task            // in order of admission
	kvUsed   int                // blocks reserved by running requests
	began    time.Time          // when the step under way began, or the one to be composed next does
	free     time.Time          // when the last step ended
	current  *step              // nil: none composed yet
	next     *step              // composed while current runs; only with [Model.Async]
	peeked   bool               // whether next has been composed, or there was nothing to compose
}

// task is a request on its way through the engine.
type task struct {
	Request
	id        int
	stream    *Stream // nil in a simulation
	timings   Timings
	computed  int // prompt tokens done or being computed, cached ones included
	planned   int // output tokens made or being made
	generated int
}

// step is what one engine step does.
type step struct {
	time     time.Duration
	work     Work
	prefills []*task // whose prompts end in it
	decoding []*task
}

func newScheduler(m Model) scheduler {
	return scheduler{model: m, slow: 1, stats: newStats()}
}

// submit takes a request that arrives at the API server, now or later. It fails if the request can never run.
func (s *scheduler) submit(t *task, at time.Time) error {
	if err := s.model.Fits(t.PromptTokens, t.MaxTokens); err != nil {
		return err
	}
	t.computed = t.CachedTokens
	t.timings.Arrived = at
	t.timings.Queued = at.Add(time.Duration(t.PromptTokens) * s.model.PerIntake)
	behind, _ := slices.BinarySearchFunc(s.incoming, t.timings.Queued, func(other *task, queued time.Time) int {
		return cmp.Or(other.timings.Queued.Compare(queued), -1) // whoever was first stays first
	})
	s.incoming = slices.Insert(s.incoming, behind, t)
	s.rouse()
	return nil
}

// rouse lets an idle engine begin a step when the first request is known.
func (s *scheduler) rouse() {
	if s.current != nil || len(s.waiting)+len(s.running) > 0 || len(s.incoming) == 0 {
		return
	}
	s.began = s.incoming[0].timings.Queued
	if s.began.Before(s.free) { // it was known before the last step ended
		s.began = s.free
	}
}

// due is what is to be done next and when. It is nil if there is nothing to do until a request arrives.
func (s *scheduler) due() (at time.Time, do func(time.Time)) {
	compose := s.began.Add(s.model.Window)
	switch {
	case s.current == nil && len(s.incoming)+len(s.waiting)+len(s.running) == 0:
		return time.Time{}, nil
	case s.current == nil:
		return compose, s.start
	case s.model.Async && !s.peeked && compose.Before(s.end()):
		return compose, s.peek
	}
	return s.end(), s.finish
}

// end is when the step under way ends.
func (s *scheduler) end() time.Time { return s.began.Add(s.current.time) }

// delay moves the step under way, or the start of the next. It is for an owner that was paused.
func (s *scheduler) delay(d time.Duration) { s.began = s.began.Add(d) }

// patience is how late a step may end, because the machine was busy, without being moved.
func (s *scheduler) patience() time.Duration {
	if s.current == nil {
		return s.model.Base
	}
	return s.current.time
}

// start composes a step that has begun.
func (s *scheduler) start(at time.Time) {
	s.current = s.compose(at)
	s.rouse() // if all have gone
}

// peek composes the step after the one under way.
func (s *scheduler) peek(at time.Time) { s.next, s.peeked = s.compose(at), true }

// compose makes a step of what there is to do: running requests first, then those that wait, while budget, slots
// and cache last. It returns nil if there is nothing.
func (s *scheduler) compose(at time.Time) *step {
	s.receive(at)
	s.dropGone()
	p := &step{}
	budget := s.model.TokenBudget
	prefill := func(t *task) {
		chunk := min(t.PromptTokens-t.computed, budget)
		budget -= chunk
		p.work.Prefill += chunk
		if t.computed += chunk; t.computed == t.PromptTokens {
			t.planned++
			p.prefills = append(p.prefills, t)
		}
	}
	for _, t := range s.running {
		switch {
		case t.computed == t.PromptTokens && t.planned < t.OutputTokens:
			budget--
			p.work.Decoding++
			p.work.Context += t.PromptTokens + t.planned
			t.planned++
			p.decoding = append(p.decoding, t)
		case t.computed < t.PromptTokens && budget > 0:
			prefill(t)
		}
	}
	for len(s.waiting) > 0 && budget > 0 && s.admits(s.waiting[0]) {
		t := s.waiting[0]
		s.waiting = s.waiting[1:]
		s.admit(t)
		p.work.Admitted++
		prefill(t)
	}
	if p.work == (Work{}) {
		return nil
	}
	p.time = time.Duration(float64(s.model.StepTime(p.work)) * s.slow)
	return p
}

// receive takes up the requests that are known by now.
func (s *scheduler) receive(at time.Time) {
	known := 0
	for known < len(s.incoming) && !s.incoming[known].timings.Queued.After(at) {
		known++
	}
	s.waiting = append(s.waiting, s.incoming[:known]...)
	s.incoming = slices.Delete(s.incoming, 0, known)
}

// admits reports whether a waiting request may start.
func (s *scheduler) admits(t *task) bool {
	return len(s.running) < s.model.RunningCap && s.kvUsed+t.blocks() <= s.model.KVTokens/blockSize
}

func (s *scheduler) admit(t *task) {
	s.running = append(s.running, t)
	s.kvUsed += t.blocks()
	t.timings.Scheduled = s.began
	if t.timings.Queued.After(s.began) { // within the window
		t.timings.Scheduled = t.timings.Queued
	}
	s.stats.admit(t)
}

// blocks is how much KV cache the request may need.
func (t *task) blocks() int { return (t.PromptTokens + t.MaxTokens + blockSize - 1) / blockSize }

// used is how much KV cache the request fills now.
func (t *task) used() int { return (t.computed + t.generated + blockSize - 1) / blockSize }

// dropGone forgets the requests whose callers have gone. vLLM counts them nowhere.
func (s *scheduler) dropGone() {
	wanted := func(t *task) bool { return !s.gone(t) }
	s.incoming, s.waiting = keep(s.incoming, wanted), keep(s.waiting, wanted)
	s.running = keep(s.running, func(t *task) bool {
		if !s.gone(t) {
			return true
		}
		s.kvUsed -= t.blocks()
		return false
	})
}

func keep(tasks []*task, wanted func(*task) bool) []*task {
	kept := tasks[:0]
	for _, t := range tasks {
		if wanted(t) {
			kept = append(kept, t)
		}
	}
	clear(tasks[len(kept):])
	return kept
}

// finish delivers the tokens of the step that ends now, and lets the next begin.
func (s *scheduler) finish(now time.Time) {
	s.dropGone()
	tokens := 0
	for _, t := range s.current.prefills {
		t.timings.FirstToken = now
		s.stats.firstToken(t, now)
		tokens += t.PromptTokens
		tokens += s.emit(t, now)
	}
	for _, t := range s.current.decoding {
		tokens += s.emit(t, now)
	}
	s.running = keep(s.running, func(t *task) bool {
		if t.generated < t.OutputTokens {
			return true
		}
		s.kvUsed -= t.blocks()
		s.stats.finished(t)
		return false
	})
	if tokens > 0 {
		s.stats.IterationTokens.observe(float64(tokens))
	}
	s.publish()
	s.free, s.began, s.current, s.next, s.peeked = now, now, s.next, nil, false
	s.rouse()
}

// emit delivers one token to the request and returns how many that were: none if its caller has gone.
func (s *scheduler) emit(t *task, now time.Time) int {
	if s.gone(t) {
		return 0
	}
	if t.generated > 0 {
		s.stats.InterToken.observe(now.Sub(t.timings.LastToken).Seconds())
	}
	t.generated++
	t.timings.LastToken = now
	s.stats.GenerationTokens++
	s.deliver(t, Event{Token: t.generated, At: now, Last: t.generated == t.OutputTokens})
	return 1
}

// publish sets the gauges. vLLM makes them once a step, so those of a hung engine stand still, and who arrived during
// the step is in none: it is taken up only when the next is composed.
func (s *scheduler) publish() {
	used := 0
	for _, t := range s.running {
		used += t.used()
	}
	s.stats.Steps++
	s.stats.Running = len(s.running)
	s.stats.Waiting = len(s.waiting)
	s.stats.KVUsage = min(1, float64(used)/float64(s.model.KVTokens/blockSize))
}
