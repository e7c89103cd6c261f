package vllmsim

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"
)

// Request is what the scheduler needs to know of a request.
type Request struct {
	PromptTokens int
	OutputTokens int // it ends after this many
	CachedTokens int // of the prompt; they need no prefill
	MaxTokens    int // what was asked for, if that differs from OutputTokens; only for the histogram of it
	// FinishReason is that of a request that runs to its end: "length" if empty.
	FinishReason string
}

// withDefaults fills in what was left out. It fails if the request asks for nothing.
func (r Request) withDefaults() (Request, error) {
	if r.PromptTokens < 1 || r.OutputTokens < 1 {
		return r, fmt.Errorf("request for %d output tokens after %d prompt tokens: both must be positive", r.OutputTokens, r.PromptTokens)
	}
	r.MaxTokens = cmp.Or(r.MaxTokens, r.OutputTokens)
	r.FinishReason = cmp.Or(r.FinishReason, "length")
	r.CachedTokens = min(r.CachedTokens, r.PromptTokens-1) // the last token is always computed
	return r, nil
}

// Event is one generated token.
type Event struct {
	Token int       // 1 for the first token of the request
	At    time.Time // end of the engine step that made it
	Last  bool
}

// Timings is the engine's own account of a request. A zero time means that the request did not get that far.
type Timings struct {
	Arrived    time.Time // at the API server
	Queued     time.Time // known to the scheduler: [Model.PerIntake] later
	Scheduled  time.Time // its first step began
	FirstToken time.Time
	LastToken  time.Time
}

// Queue is how long the request waited for its first step.
func (t Timings) Queue() time.Duration { return t.Scheduled.Sub(t.Queued) }

// Prefill is how long it took from the first step to the first token.
func (t Timings) Prefill() time.Duration { return t.FirstToken.Sub(t.Scheduled) }

// Generation is how long it took from the first token to the last.
func (t Timings) Generation() time.Duration { return t.LastToken.Sub(t.FirstToken) }

// Stream delivers the tokens of one request, one event each. Its reader may be slow: the engine never waits.
type Stream struct {
	ctx   context.Context
	ready chan struct{} // holds one element if something changed since the reader looked

	mu      sync.Mutex
	events  []Event
	timings Timings
	err     error // why no more events will come
}

func newStream(ctx context.Context) *Stream {
	return &Stream{ctx: ctx, ready: make(chan struct{}, 1)}
}

// Next waits for the next token. It fails with the cause of ctx, or of the context the request was submitted
// with, and with [ErrEngineDead] or [ErrClosed] if the engine went away. After the event that is Last the
// caller stops calling.
func (s *Stream) Next(ctx context.Context) (Event, error) {
	for {
		s.mu.Lock()
		if len(s.events) > 0 {
			e := s.events[0]
			s.events = s.events[1:]
			s.mu.Unlock()
			return e, nil
		}
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return Event{}, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Event{}, context.Cause(ctx)
		case <-s.ctx.Done():
			return Event{}, context.Cause(s.ctx)
		}
	}
}

// Timings is the engine's account of the request so far.
func (s *Stream) Timings() Timings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.timings
}

func (s *Stream) deliver(e Event, t Timings) {
	s.mu.Lock()
	s.events = append(s.events, e)
	s.timings = t
	s.mu.Unlock()
	s.wake()
}

func (s *Stream) fail(err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.wake()
}

func (s *Stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
