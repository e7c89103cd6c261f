package load

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/experiment"
)

// sampler looks at the server's queue once a second. Its methods may be called on nil: then there is nothing to see.
type sampler struct {
	relay *collector.Relay
	clock clock
	end   context.CancelFunc
	ended sync.WaitGroup
	news  chan struct{} // holds one element if something was seen since it was last looked at

	mu     sync.Mutex
	failed int // samples in a row
	err    string
	seen   []collector.RelaySnapshot // until the first level
	last   experiment.QueueSample
	level  int // that is recorded; -1: none
	keep   *keeper
	shared bool // others load the server too: its queue need not become empty
}

// givenUp is how many failed samples in a row mean that nothing more is to be expected.
const givenUp = 5

func newSampler(cfg collector.RelayConfig) (*sampler, error) {
	s := &sampler{news: make(chan struct{}, 1), level: -1}
	cfg.Registerer, cfg.Interval, cfg.OnSample = prometheus.NewRegistry(), experiment.SampleEvery, s.sample
	cfg.HealthURL = &url.URL{} // nobody asks
	var err error
	if s.relay, err = collector.NewRelay(cfg); err != nil {
		return nil, fmt.Errorf("preparing to sample the queue: %w", err)
	}
	return s, nil
}

func (s *sampler) start(ctx context.Context, c clock) {
	s.clock = c
	ctx, s.end = context.WithCancel(context.WithoutCancel(ctx)) // it goes on while an interrupted level ends
	s.ended.Go(func() { s.relay.Run(ctx) })
}

func (s *sampler) stop() {
	if s != nil {
		s.end()
		s.ended.Wait()
	}
}

// sample takes what the relay has just seen.
func (s *sampler) sample(snapshot collector.RelaySnapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		select {
		case s.news <- struct{}{}:
		default:
		}
	}()
	if !snapshot.Up {
		s.failed++
		s.err = snapshot.Err
		return
	}
	s.failed = 0
	s.last = experiment.QueueSample{
		At: s.clock.at(snapshot.SampledAt), Level: s.level,
		Running: known(snapshot.Running), Waiting: known(snapshot.Waiting), KVUsage: known(snapshot.KVUsage),
		PromptTokens: known(snapshot.PromptTokens), GenerationTokens: known(snapshot.GenerationTokens), Preemptions: known(snapshot.Preemptions),
	}
	if s.level < 0 {
		s.seen = append(s.seen[max(0, len(s.seen)-maxSeen):], snapshot)
		return
	}
	taken, keep := s.last, s.keep
	keep.do(func() {
		keep.run.Queue = append(keep.run.Queue, taken)
		keep.watcher.Sampled(taken)
	})
}

// maxSeen bounds the samples before a level that are remembered.
const maxSeen = 10

func known(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// record makes later samples part of a level; -1: of none.
func (s *sampler) record(level int, keep *keeper) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.level, s.keep = level, keep
}

// settle waits until the queue is seen empty, at most for a time.
func (s *sampler) settle(ctx context.Context, most time.Duration) {
	if s == nil {
		return
	}
	began := s.clock.at(time.Now())
	timer := time.NewTimer(most)
	defer timer.Stop()
	for !s.settled(began) {
		select {
		case <-s.news:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (s *sampler) settled(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed >= givenUp || s.shared {
		return true
	}
	return s.last.At.After(since) && (s.last.Empty() || math.IsNaN(s.last.Running) || math.IsNaN(s.last.Waiting))
}
