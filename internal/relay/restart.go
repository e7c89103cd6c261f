package relay

import "math"

// verdict is what a sample says about the process behind the address.
type verdict int

const (
	sameProcess verdict = iota
	restarted
	severalProcesses // processes: their values must not be mixed
)

// settleSamples is how many samples in a row must come from one process before an address that gave samples of
// several is believed again: behind a balancer that chooses at random, runs of a few are common.
const settleSamples = 10

// restartWatch watches for restarts of the server. A restart is a process start time that rises or, where there
// is none, a fall of the token counters, that does not go back at the next sample. A start time that falls is
// proof of a second process, as are counters that fall, come back and fall again. Failed samples are not shown
// to it. The zero value is ready.
type restartWatch struct {
	known         bool
	start, tokens float64 // of the sample before; NaN where it had none

	pending   bool    // the sample before looked like a restart
	before    float64 // tokens before they fell
	cameBack  int     // samples for which another fall means several processes
	unsettled int     // samples until the address is believed again
}

// observe judges a sample by its process start time and its token count, NaN where the page has none.
func (r *restartWatch) observe(start, tokens float64) verdict {
	judged := sameProcess
	switch {
	case !r.known:
	case !math.IsNaN(start) && !math.IsNaN(r.start):
		judged = r.byStart(start)
	case !math.IsNaN(tokens) && !math.IsNaN(r.tokens):
		judged = r.byTokens(tokens)
	}
	changed := r.pending || judged == severalProcesses
	r.known, r.start, r.tokens = true, start, tokens
	switch {
	case judged == severalProcesses || r.unsettled > 0 && changed:
		r.unsettled = settleSamples
	case r.unsettled > 0:
		r.unsettled--
	}
	if r.unsettled > 0 {
		r.pending = false
		return severalProcesses
	}
	return judged
}

func (r *restartWatch) byStart(start float64) verdict {
	switch {
	case start < r.start:
		r.pending = false
		return severalProcesses
	case start > r.start:
		r.pending = true
	case r.pending:
		r.pending = false
		return restarted
	}
	return sameProcess
}

func (r *restartWatch) byTokens(tokens float64) verdict {
	fell := tokens < r.tokens
	if r.cameBack > 0 {
		if r.cameBack--; fell {
			r.cameBack = 0
			return severalProcesses
		}
	}
	switch {
	case fell && !r.pending:
		r.pending, r.before = true, r.tokens
	case !fell && r.pending:
		r.pending = false
		if tokens >= r.before { // a second process, or a small count caught up with: the next fall tells
			r.cameBack = settleSamples
			return sameProcess
		}
		return restarted
	}
	return sameProcess
}
