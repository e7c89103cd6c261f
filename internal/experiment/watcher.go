package experiment

import "time"

// Phase is a part of a level.
type Phase string

// The phases of a level, in their order.
const (
	Preparing Phase = "preparing"  // the prompt's exact length is found
	WarmingUp Phase = "warming up" // requests that measure nothing
	Loading   Phase = "loading"    // requests are sent
	Answering Phase = "answering"  // no more are sent; those in flight are waited for
	Settling  Phase = "settling"   // the server's queue drains
)

// Watcher is told what happens in a run while it happens. Calls come one at a time, from a goroutine that no
// request waits for.
type Watcher interface {
	// Began: what is known of the server is in the run's facts.
	Began(run *Run)
	// LevelBegan: a level, the last of run.Plan, is about to run.
	LevelBegan(index int, run *Run)
	// Entered: a level has come to a phase, at a time on the run's clock. Loading begins at the level's start.
	Entered(index int, phase Phase, at time.Time)
	// Ended: a request is over, whatever its outcome.
	Ended(r *Request)
	// Sampled: the server's queue was looked at.
	Sampled(s QueueSample)
	// LevelEnded: a level is over; run has all of it.
	LevelEnded(index int, run *Run)
	// Finished: nothing more will come.
	Finished(run *Run)
	// Noted: a thing that is worth to be known, in one sentence.
	Noted(text string)
}

// Watchers tells several watchers in turn.
type Watchers []Watcher

var _ Watcher = Watchers(nil)

// Began implements [Watcher].
func (ws Watchers) Began(run *Run) {
	for _, w := range ws {
		w.Began(run)
	}
}

// LevelBegan implements [Watcher].
func (ws Watchers) LevelBegan(index int, run *Run) {
	for _, w := range ws {
		w.LevelBegan(index, run)
	}
}

// Entered implements [Watcher].
func (ws Watchers) Entered(index int, phase Phase, at time.Time) {
	for _, w := range ws {
		w.Entered(index, phase, at)
	}
}

// Ended implements [Watcher].
func (ws Watchers) Ended(r *Request) {
	for _, w := range ws {
		w.Ended(r)
	}
}

// Sampled implements [Watcher].
func (ws Watchers) Sampled(s QueueSample) {
	for _, w := range ws {
		w.Sampled(s)
	}
}

// LevelEnded implements [Watcher].
func (ws Watchers) LevelEnded(index int, run *Run) {
	for _, w := range ws {
		w.LevelEnded(index, run)
	}
}

// Finished implements [Watcher].
func (ws Watchers) Finished(run *Run) {
	for _, w := range ws {
		w.Finished(run)
	}
}

// Noted implements [Watcher].
func (ws Watchers) Noted(text string) {
	for _, w := range ws {
		w.Noted(text)
	}
}
