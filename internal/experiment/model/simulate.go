package model

import (
	"context"
	"fmt"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// Virtual is a server that exists only as a model, and the client that loads it.
type Virtual struct {
	Model vllmsim.Model
	// Turnaround is what the client needs, in a closed loop, from the end of an answer to the next request. Where the
	// scheduler composes its steps ahead, it decides whether a request just misses one.
	Turnaround time.Duration
	// AtOnce: the client fills a closed loop at once, as EvalScope does. A [load.Runner] fills one place after another.
	AtOnce bool
	Tool   string // name and version of the program, for the facts
}

// Simulator runs experiments on virtual time: the same plans as a [load.Runner], with a run of the same kind, and the same
// run each time. It differs where a model does: every answer is as long as asked, none fails but by the plan's
// Timeout, and the client is never late.
type Simulator struct {
	plan    experiment.Plan
	virtual Virtual
	run     *experiment.Run
	watcher experiment.Watcher
	now     time.Time

	prompt, generated float64 // tokens so far: the server's counters
}

// Simulate runs a whole plan, until ctx ends. The watcher, which may be nil, is told as it would be of a real run. It
// fails if the model could not run a single request.
func Simulate(ctx context.Context, plan experiment.Plan, virtual Virtual, watcher experiment.Watcher) (*experiment.Run, error) {
	s, err := NewSimulator(plan, virtual)
	if err != nil {
		return nil, err
	}
	s.Begin(ctx, watcher)
	for _, l := range plan.Levels {
		if _, more := s.Level(ctx, l); !more {
			break
		}
	}
	return s.Finish(), nil
}

// NewSimulator prepares a plan. It fails if the model could not run a single request.
func NewSimulator(plan experiment.Plan, virtual Virtual) (*Simulator, error) {
	if err := virtual.Model.Validate(); err != nil {
		return nil, fmt.Errorf("model of a server: %w", err)
	}
	return &Simulator{plan: plan, virtual: virtual}, nil
}

// virtualEpoch is when every virtual run begins: runs of one plan and one model are equal.
func virtualEpoch() time.Time { return time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Begin begins a run.
func (s *Simulator) Begin(_ context.Context, watcher experiment.Watcher) {
	if watcher == nil {
		watcher = experiment.Watchers(nil)
	}
	s.now, s.watcher = virtualEpoch(), watcher
	s.run = &experiment.Run{Plan: s.plan, Facts: experiment.Facts{Tool: s.virtual.Tool, Began: s.now, Virtual: s.virtual.Model.String()}}
	s.run.Plan.Levels = nil
	s.watcher.Began(s.run)
}

// Finish ends the run and returns all that was seen.
func (s *Simulator) Finish() *experiment.Run {
	s.run.Facts.Ended = s.now
	s.watcher.Finished(s.run)
	return s.run
}

// Seen is what has been seen so far.
func (s *Simulator) Seen() *experiment.Run { return s.run }

// Note tells the watcher something worth to be known.
func (s *Simulator) Note(text string) { s.watcher.Noted(text) }

// Level runs one level and returns how it went; more is false if the run was interrupted.
func (s *Simulator) Level(ctx context.Context, l experiment.Level) (went experiment.LevelRun, more bool) {
	index := len(s.run.Plan.Levels)
	s.run.Plan.Levels = append(s.run.Plan.Levels, l)
	s.run.Levels = append(s.run.Levels, experiment.LevelRun{})
	s.watcher.LevelBegan(index, s.run)
	lv := &virtualLevel{Simulator: s, Level: l, index: index, origin: s.now}
	if why := s.virtual.impossible(l); why != "" {
		went = experiment.LevelRun{Start: s.now, End: s.now, Cut: experiment.CutUnfit}
		s.watcher.Noted(fmt.Sprintf("level %s: %s: %s", l, experiment.CutUnfit, why))
	} else {
		went = lv.simulate(ctx)
	}
	s.run.Levels[index] = went
	s.watcher.LevelEnded(index, s.run)
	return went, ctx.Err() == nil
}

// Refuses fails if the server would refuse the requests of one of some levels, as vLLM does of those that are longer
// than its KV cache.
func (v *Virtual) Refuses(levels []experiment.Level) error {
	for _, l := range levels {
		if err := v.Model.Fits(l.PromptTokens, l.OutputTokens); err != nil {
			return fmt.Errorf("level %s: %w", l, err)
		}
	}
	return nil
}

// impossible says why a level cannot be run; empty: it can.
func (v *Virtual) impossible(l experiment.Level) string {
	if err := v.Model.Fits(l.PromptTokens, l.OutputTokens); err != nil {
		return err.Error()
	}
	switch {
	case !l.Closed() && !(l.Rate > 0):
		return "it has neither a concurrency nor a rate"
	case l.Requests <= 0 && l.Duration <= 0:
		return "it would never end, for it bounds neither requests nor time"
	case l.PromptTokens < 1 || l.OutputTokens < 1:
		return "prompt and answer must have at least one token"
	}
	return ""
}
