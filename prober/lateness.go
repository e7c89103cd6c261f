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

	batch     int           // of reads, that the last event came with
	events    int           // events in it so far
	tokens    int           // token events in it so far
	gap       time.Duration // between its first token event and the one before
	lastToken time.Time
	longest   time.Duration // longest gap of the batches before
	segmented bool          // it holds more segments than one write needs
	perhaps   bool          // it holds several segments, but one write may have needed them

	late     bool // known to be
	doubtful bool // late if the reader was behind at any time of the stream
	// delay is the longest time that a token event had been waiting to be read.
	delay time.Duration
}

const (
	// lateTolerance is an error that is no error: the target for the 99th percentile of TTFT and ITL.
	lateTolerance = time.Millisecond
	// trailSlack is how much longer than the longest gap a batch with the last token and what trails it (usage,
	// [DONE]) may span. Servers send these within a fraction of a millisecond of each other.
	trailSlack = 10 * time.Millisecond
)

func newLateness(conn *stampedConn) *lateness {
	l := &lateness{conn: conn}
	extra, long := conn.segmented()
	l.segmented, l.perhaps = extra > 1, extra == 1 || long // one may be the headers'
	l.batch = conn.arrival.batch
	return l
}

// event notes an event that was just read.
func (l *lateness) event(token bool) {
	a := &l.conn.arrival
	if a.batch != l.batch {
		l.longest = max(l.longest, l.gap)
		l.batch, l.events, l.tokens, l.segmented, l.perhaps, l.gap = a.batch, 0, 0, false, false, 0
	}
	l.events++
	if l.events == 2 {
		extra, long := l.conn.segmented()
		l.segmented, l.perhaps = l.segmented || extra > 0, l.perhaps || long
	}
	if l.tokens > 0 && a.span > lateTolerance {
		l.judge(a, token)
	}
	if token {
		l.token(a)
	}
}

// judge looks at an event that shares its batch, and its stamp, with a token event before it.
func (l *lateness) judge(a *arrival, token bool) {
	switch {
	case l.segmented && token:
		l.late = true
	case l.segmented:
		// What trails a token comes in a segment of its own, mostly a moment later. The token's stamp is late by
		// that moment. It may have been more if the reader was, or if the gap before looks longer than all others.
		l.late = l.late || l.longest > 0 && a.span > 2*l.longest+trailSlack
		l.doubtful = l.doubtful || l.gap == 0 || l.gap > l.longest+lateTolerance
	case l.perhaps && token:
		l.doubtful = true
	}
}

func (l *lateness) token(a *arrival) {
	if l.tokens++; l.tokens == 1 && !l.lastToken.IsZero() {
		l.gap = a.at.Sub(l.lastToken)
	}
	l.lastToken = a.at
	l.delay = max(l.delay, a.delay)
}

// verdict tells at the end of the stream whether any time in it is not to be trusted: that of a token, or that of
// the start, if the processor was taken away between the look at the clock and the write.
func (l *lateness) verdict() bool {
	behind := l.delay > lateTolerance
	sending := time.Duration(l.conn.sending.Load())
	return l.late || l.doubtful && behind || l.conn.kernel != nil && sending > lateTolerance
}
