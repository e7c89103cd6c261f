package prober

import "time"

// lateness finds out whether the prober fell behind the stream. What one read returns has one stamp, that of
// its last byte. If it holds several events that came in segments of their own, all but the last came earlier
// than the stamp says, by an unknown time; then the prober says that it does not know, rather than a number.
//
// The server may as well have written several events at once: they came in one segment, and the stamp is
// right for all. TCP_INFO's count of segments tells the two apart.
type lateness struct {
	conn *stampedConn

	read      int           // the read that the last event came with
	events    int           // events in it so far
	tokens    int           // token events in it so far
	gap       time.Duration // between its first token event and the one before
	lastToken time.Time
	longest   time.Duration // longest gap of the reads before
	segmented bool          // it holds more than one segment that is not full

	checkedRead, checkedCount int // where the count of segments was looked at last

	late bool
	// delay is the longest time that a token event had been waiting to be read.
	delay time.Duration
}

const (
	// lateTolerance is an error that is no error: the target for the 99th percentile of TTFT and ITL.
	lateTolerance = time.Millisecond
	// trailSlack is how much longer than the longest gap a read with the last token and what trails it (usage,
	// [DONE]) may span. Servers send these within a fraction of a millisecond of each other.
	trailSlack = 10 * time.Millisecond
)

func newLateness(conn *stampedConn) *lateness {
	l := &lateness{conn: conn}
	l.segmented = l.count()
	l.read = conn.arrival.read
	return l
}

// event notes an event that was just read.
func (l *lateness) event(token bool) {
	a := &l.conn.arrival
	if a.read != l.read {
		l.longest = max(l.longest, l.gap)
		l.read, l.events, l.tokens, l.segmented, l.gap = a.read, 0, 0, false, 0
	}
	l.events++
	if l.events == 2 {
		l.segmented = l.segmented || l.count()
	}
	if trails := l.tokens > 0; trails && l.segmented && a.span > lateTolerance {
		l.late = l.late || token || l.longest > 0 && a.span > 2*l.longest+trailSlack
	}
	if token {
		l.token(a)
	}
}

func (l *lateness) token(a *arrival) {
	if l.tokens++; l.tokens == 1 && !l.lastToken.IsZero() {
		l.gap = a.at.Sub(l.lastToken)
	}
	l.lastToken = a.at
	l.delay = max(l.delay, a.delay)
}

// count reports whether more segments came since it was called last than there were reads, those that are full
// because one write did not fit into one segment left out.
func (l *lateness) count() bool {
	count, waiting, full, ok := l.conn.kernel.segments()
	if !ok {
		return false
	}
	a := &l.conn.arrival
	segments := count - l.checkedCount - (a.bytes+waiting)/full
	reads := a.read - l.checkedRead
	l.checkedCount, l.checkedRead = count, a.read
	return segments > reads
}
