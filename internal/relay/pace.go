package relay

import (
	"context"
	"time"
)

// pauseTime is how long the work on a page rests after every strideBytes, which take some 0.3 ms: there the runtime
// looks for what has come on other connections, so that a large page does not hold up the probes' readers.
const pauseTime = time.Millisecond

// LargePages is shared by the relays of one process. What a page has beyond 1 MiB is read by one of them at a time. So
// several servers that send large pages take no more of a core than one. Use [NewLargePages].
type LargePages struct {
	turn chan struct{} // full while a relay works on such a page
}

// NewLargePages returns one for the relays of a process.
func NewLargePages() *LargePages { return &LargePages{turn: make(chan struct{}, 1)} }

// pacer measures the work on one answer and breaks it up. Waiting for the server is no work.
type pacer struct {
	ctx      context.Context
	pages    *LargePages   // nil: shared with nobody
	unpacked int64         // bytes
	spent    time.Duration // on work that has ended

	since time.Time // the work began or went on
	large bool      // work needs a turn
	turn  bool      // this relay has it
}

// begin begins the work, or goes on with it. Where the context ends first, it goes on without a turn: the next pause
// tells.
func (p *pacer) begin() {
	if p.large {
		select {
		case p.pages.turn <- struct{}{}:
			p.turn = true
		case <-p.ctx.Done():
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
	time.Sleep(pauseTime) // before the turn is given back, so that relays that take turns leave as much of the core as one
	p.release()
	p.large = p.pages != nil && bytes >= largePage
	p.begin()
	return p.ctx.Err()
}

// Pages take at most 1/restShare of a core: after a sample the relay rests restShare times as long as its work took.
// The work is the time to unpack and read the page. For each byte byteCost is added, to copy it out of the kernel and
// to collect memory. No byte counts for more than byteMost: the dearest are those of gzip's tables and of long numbers,
// at some 200 ns, and if one seems to take longer, the machine was busy with something else.
// So a page of vLLM (59 kB, 0.6 ms) is read at every interval, and one of maxPage that takes 84 ms every 4 s.
const (
	restShare = 20
	byteCost  = 5 * time.Nanosecond
	byteMost  = 300 * time.Nanosecond
)

// A large page that is of no use, time and again, is asked for less and less often, at least once a minute.
const (
	maxDoublings = 5
	longestRest  = time.Minute
)

// restAfter is how long no page is asked for after a sample, whatever it was worth.
func restAfter(work time.Duration, bytes int64) time.Duration {
	n := time.Duration(bytes)
	return restShare * (min(work, n*byteMost) + n*byteCost)
}
