package relay

import (
	"context"
	"time"
)

// pauseTime is how long the work on a page rests after every strideBytes, which take some 0.3 ms: there the runtime
// looks for what has come on other connections, so that a large page does not hold up the probes' readers.
const pauseTime = time.Millisecond

// LargePages is shared by the relays of one process. What a page has beyond 1 MiB is read by one of them at a time, so
// that however many servers send large pages, together they take no more of a core than one. Use [NewLargePages].
type LargePages struct{ turn chan struct{} }

// NewLargePages returns one that nobody reads.
func NewLargePages() *LargePages { return &LargePages{turn: make(chan struct{}, 1)} }

// pacer measures the work on one answer and breaks it up.
type pacer struct {
	ctx      context.Context
	pages    *LargePages
	large    bool  // so much has come that the rest is read in turn
	unpacked int64 // bytes
	spent    time.Duration

	since time.Time // the work began or went on
	turn  bool      // it is this relay's
}

// begin begins the work, or goes on with it.
func (p *pacer) begin() {
	if p.large {
		select {
		case p.pages.turn <- struct{}{}:
			p.turn = true
		case <-p.ctx.Done(): // pause tells
		}
	}
	p.since = time.Now()
}

// end ends the work or interrupts it.
func (p *pacer) end() {
	p.spent += time.Since(p.since)
	p.release()
}

func (p *pacer) release() {
	if p.turn {
		p.turn = false
		<-p.pages.turn
	}
}

// pause rests for a moment, after so many bytes of an answer. Its error is the context's.
func (p *pacer) pause(bytes int) error {
	p.spent += time.Since(p.since)
	time.Sleep(pauseTime) // within the turn: others rest as well
	p.release()
	p.large = p.pages != nil && bytes >= largePage
	p.begin()
	return p.ctx.Err()
}
