package load

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/experiment"
)

const (
	// samplesBefore is how many samples tell what others ask of the server before the run.
	samplesBefore = 4
	// lookFor bounds the wait for them.
	lookFor = 6 * time.Second
)

// lookBefore notes what the server shows of itself and the load that others put on it.
func (r *Runner) lookBefore(ctx context.Context) {
	s := r.sampler
	timer := time.NewTimer(lookFor)
	defer timer.Stop()
	for waiting := true; waiting; {
		select {
		case <-s.news:
			s.mu.Lock()
			waiting = len(s.seen) < samplesBefore && s.failed < 2
			s.mu.Unlock()
		case <-timer.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
	}
	s.mu.Lock()
	seen, err := s.seen, s.err
	s.mu.Unlock()
	if len(seen) == 0 {
		s.stop()
		r.sampler = nil
		if ctx.Err() == nil {
			r.keep.noted("there will be no queue curve: " + orElse(err, "the server's metrics page did not answer"))
		}
		return
	}
	last := seen[len(seen)-1]
	f := &r.keep.run.Facts
	f.Engine, f.Version, f.Server = string(last.EngineType), last.Version, last.Launch
	f.Before = loadOf(seen)
	if f.Before != nil && busy(f.Before) {
		s.mu.Lock()
		s.shared = true
		s.mu.Unlock()
		r.keep.noted(fmt.Sprintf("the server is busy already (%s): what others ask of it is in all figures", f.Before))
	}
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// loadOf is the load during some samples; nil if they show none or span no time.
func loadOf(seen []collector.RelaySnapshot) *experiment.Load {
	first, last := seen[0], seen[len(seen)-1]
	seconds := last.SampledAt.Sub(first.SampledAt).Seconds()
	if seconds <= 0 || last.Running == nil || last.Waiting == nil {
		return nil
	}
	load := &experiment.Load{Seconds: math.Round(seconds*1000) / 1000}
	for _, s := range seen {
		if s.Running != nil && s.Waiting != nil {
			load.Running += *s.Running / float64(len(seen))
			load.Waiting += *s.Waiting / float64(len(seen))
		}
	}
	rate := func(from, to *float64) float64 {
		if from == nil || to == nil {
			return 0
		}
		return max(0, *to-*from) / seconds
	}
	load.OutputTokensPerSecond = rate(first.GenerationTokens, last.GenerationTokens)
	load.PromptTokensPerSecond = rate(first.PromptTokens, last.PromptTokens)
	return load
}

// busy reports whether there was any load.
func busy(l *experiment.Load) bool {
	return l.Running > 0 || l.Waiting > 0 || l.OutputTokensPerSecond > 0 || l.PromptTokensPerSecond > 0
}
