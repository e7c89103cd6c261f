package prober

import (
	"slices"
	"time"
)

// lateness finds out whether the prober fell behind the stream. What one read returns has one stamp, that of
// its last byte. If it holds several events that came in segments of their own, all but the last came earlier
// than the stamp says, by an unknown time; then the prober says that it does not know, rather than a number.
//
// The server may as well have written several events at once: they came in one segment, and the stamp is
// right for all. TCP_INFO's count of segments tells the two apart.
type lateness struct {
	conn    *stampedConn
	trails  *trails // of the same server
	stamped bool    // the kernel gives stamps

	batch     int           // of reads, that the last event came with
	span      time.Duration // that it may have come over
	torn      bool          // it goes on after that event
	looked    int           // the last read that the segments were counted at
	events    int           // events in it so far
	tokens    int           // token events in it so far
	gap       time.Duration // between its first token event and the one before
	lastToken time.Time
	longest   time.Duration // longest gap of the batches before
	segmented bool          // it holds more segments than one write needs
	perhaps   bool          // it holds several segments, but one write may have needed them
	seen      int           // token events of the stream so far
	shared    bool          // the last of them may have the stamp of something behind it
	trail     time.Duration // from it to the end of what came after it, in batches of their own; 0: not known

	late      tokenList // came earlier than their stamps say
	doubtful  tokenList // did, if the reader was behind at any time of the stream
	unstamped tokenList // have a time of our own, not the kernel's
	// delay is the longest time that a token event had been waiting to be read.
	delay time.Duration
}

// tokenList lists token events by their index from 0, in order.
type tokenList []int

// add adds those from first up to end that are not in the list yet.
func (l *tokenList) add(first, end int) {
	if n := len(*l); n > 0 {
		first = max(first, (*l)[n-1]+1)
	}
	for i := first; i < end; i++ {
		*l = append(*l, i)
	}
}

func (l tokenList) has(i int) bool {
	_, found := slices.BinarySearch(l, i)
	return found
}

const (
	// lateTolerance is an error that is no error: the target for the 99th percentile of TTFT and ITL.
	lateTolerance = time.Millisecond
	// trailSlack is how much longer than the longest gap a batch with the last token and what trails it (usage,
	// [DONE]) may span. Servers send these within a fraction of a millisecond of each other.
	trailSlack = 10 * time.Millisecond
)

func newLateness(conn *stampedConn, trails *trails) *lateness {
	l := &lateness{conn: conn, trails: trails, stamped: conn.kernel != nil}
	extra, long := conn.segmented()
	l.segmented, l.perhaps = extra > 1, extra == 1 || long // one may be the headers'
	l.batch = conn.arrival.batch
	return l
}

// event notes an event that was just read. more tells that it is not the last thing in its batch.
func (l *lateness) event(token, more bool) {
	a := &l.conn.arrival
	if a.batch != l.batch {
		l.nextBatch(a, token)
	}
	l.span, l.torn = a.span, more
	if l.events++; l.events > 1 && a.read != l.looked {
		l.look()
	}
	l.judge(token)
	switch {
	case token:
		l.token(a)
	case l.tokens > 0:
		l.shared = l.shared || l.segmented || l.perhaps
	case a.exact && l.seen > 0:
		l.trail = a.at.Sub(l.lastToken)
	}
}

// nextBatch leaves the batch before. Where that held the beginning of the event that has now come, it has another
// event to be judged by.
func (l *lateness) nextBatch(a *arrival, token bool) {
	segmented := false
	if l.torn && l.tokens > 0 {
		l.look()
		l.judge(token)
		segmented = l.segmented // perhaps it was the new one
	}
	l.longest = max(l.longest, l.gap)
	l.batch, l.events, l.tokens, l.segmented, l.perhaps, l.gap = a.batch, 0, 0, segmented, false, 0
}

// look counts the segments of the batch.
func (l *lateness) look() {
	extra, long := l.conn.segmented()
	l.segmented, l.perhaps = l.segmented || extra > 0, l.perhaps || long
	l.looked = l.conn.arrival.read
}

// judge looks at an event that shares its batch, and its stamp, with token events before it. The stamp is that of
// the batch's end: it is all token events before the end whose time it may not be.
func (l *lateness) judge(token bool) {
	if l.tokens == 0 || l.span <= lateTolerance {
		return
	}
	first, end := l.seen-l.tokens, l.seen
	switch {
	case l.segmented && token:
		l.late.add(first, end)
	case l.segmented:
		// What trails a token comes in a segment of its own, mostly a moment later. The token's stamp is late by
		// that moment. It may have been more if the reader was, unless the server is known to take no longer and the
		// gap before is no longer than the others.
		if l.longest > 0 && l.span > 2*l.longest+trailSlack {
			l.late.add(first, end)
		}
		if l.gap == 0 || !l.trails.short() || l.gap > l.longest+lateTolerance {
			l.doubtful.add(first, end)
		}
	case l.perhaps && token:
		l.doubtful.add(first, end)
	}
}

func (l *lateness) token(a *arrival) {
	l.seen++
	if l.tokens++; l.tokens == 1 && !l.lastToken.IsZero() {
		l.gap = a.at.Sub(l.lastToken)
	}
	l.lastToken, l.shared, l.trail = a.at, false, 0
	l.delay = max(l.delay, a.delay)
	if l.stamped && !a.exact && a.span > lateTolerance {
		l.unstamped.add(l.seen-1, l.seen)
	}
}

// learn tells at the end of the stream what it showed of the server's trail.
func (l *lateness) learn() {
	if l.stamped && l.trail > 0 && !l.shared && !l.unstamped.has(l.seen-1) {
		l.trails.note(l.trail)
	}
}

// verdict tells at the end of the stream whether any time in it is not to be trusted: that of a token, or that of
// the start, if the processor was taken away between the look at the clock and the write.
func (l *lateness) verdict() bool {
	behind := l.delay > lateTolerance
	return len(l.late) > 0 || len(l.doubtful) > 0 && behind || l.conn.heldBack() > lateTolerance
}

// blame lists the stamps that are not to be trusted, once the verdict is that there are any: of which token events,
// and whether that of the start. A reader that was late at one place may have been at another, so that what would do
// for doubt if it had kept up, does for a verdict here.
func (l *lateness) blame() (tokens []int, sent bool) {
	tokens = slices.Concat(l.late, l.doubtful, l.unstamped)
	slices.Sort(tokens)
	return slices.Compact(tokens), l.conn.heldBackAtMost() > lateTolerance
}
