package prober

import (
	"sync"
	"time"
)

// Tail frames are what a server sends after the last token of a stream: usage and [DONE]. They usually come a moment
// after it and are read together with it, so that its own stamp is lost. How long that moment is at most can be learnt
// from streams in which they were read apart.

// tail is what a stream shows of it.
type tail struct {
	delay time.Duration // from the last token event to the last tail frame; 0: not known
	apart bool          // the stamp of the last token event is its own
}

// tailDelays are the last tail delays of one server. A server that is slow with its tail frames is read apart more often
// than one that is not, so the longest is not overlooked.
type tailDelays struct {
	mu   sync.Mutex
	last [16]time.Duration // a ring
	seen int
}

func (t *tailDelays) note(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[t.seen%len(t.last)] = d
	t.seen++
}

// longest is the longest of those that are remembered.
func (t *tailDelays) longest() (d time.Duration, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, delay := range t.last[:min(t.seen, len(t.last))] {
		d = max(d, delay)
	}
	return d, t.seen > 0
}

func (t *tailDelays) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = 0
}

// tailAtMost is how long before the tail frames that were read with it the last token event came at most; span bounds
// it. Twice the longest tail delay of earlier streams is allowed. A server that is disturbed may take longer this once,
// but then the last token is late too: so what the time since the token before leaves over at the fastest pace of this
// stream is allowed as well. An answer of one token has no such time.
func (s *stamper) tailAtMost(span time.Duration) time.Duration {
	longest, known := s.history.longest()
	first := s.batch.first
	switch {
	case !known:
		return span
	case len(s.tokens) == 1:
		return 2 * longest
	case first == 0:
		return span
	}
	before := s.tokens[first-1]
	since := s.last().at.Sub(before.at) + before.early
	return max(2*longest, since-time.Duration(len(s.tokens)-first)*s.pace.shortest)
}
