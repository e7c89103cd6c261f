package prober

import (
	"slices"
	"sync"
	"time"
)

// stamper tells how much earlier than its time stamp each token event of a stream may have come.
//
// The kernel merges TCP segments that wait to be read, and keeps the stamp of the newest. So the stamp of a read is
// exact for what came in its last segment. Whatever came in another segment came earlier, but after the socket was
// last seen empty. TCP_INFO counts the segments, which tells a server that wrote several events at once from a reader
// that was late.
type stamper struct {
	conn   *stampedConn
	kernel bool   // gives stamps
	tails  *tails // of the same server
	// hidden: the reader of events cannot see all that was read from the socket, as under TLS.
	hidden bool

	batch   int             // of reads, that the last event came with
	looked  int             // the read at which the segments were counted last
	events  int             // events of the batch so far
	spans   []time.Duration // of its token events: how long before its stamp each came at most
	ats     []time.Time     // and their stamps
	leads   bool            // its first event carries tokens
	torn    bool            // the batch goes on after its last event so far
	merged  bool            // the batch may hold more segments than one write needs
	surplus int             // segments of it beyond the first, as far as they are counted
	split   bool            // an event of the stream came in several segments
	end     time.Time       // when its last event came

	early     []time.Duration // of every token event so far
	shifts    []shift
	lastToken time.Time
	before    time.Time     // the stamp of the last token event before the batch; zero: there was none
	shortest  time.Duration // gap before it, of those between two exact stamps; 0: not known
	paced     bool          // it is known
	alone     bool          // the last token event is known not to have the stamp of something that came later
	tail      time.Duration // from the last token event to the last event after it; 0: not known
	delay     time.Duration // the longest time that a token event had been waiting to be read
}

func newStamper(conn *stampedConn, tails *tails, hidden bool) *stamper {
	s := &stamper{conn: conn, kernel: conn.kernel != nil, tails: tails, hidden: hidden, batch: conn.arrival.batch}
	s.look()
	return s
}

// event takes note of an event that was just read; more tells that it is not the last thing that was read. It returns
// how much earlier the event may have come as far as is known now; what comes later in the same read may add to it.
func (s *stamper) event(token, more bool) (early time.Duration) {
	a := &s.conn.arrival
	if a.batch != s.batch {
		s.nextBatch(token)
	}
	s.torn, s.end = more, a.at
	if s.events++; s.events == 1 {
		s.leads = token
	}
	if (s.events > 1 || more || s.hidden) && a.read != s.looked {
		s.look()
	}
	s.widen(token)
	if token {
		return s.token(more)
	}
	if len(s.spans) > 0 {
		s.alone = s.alone && !s.merged
	} else if a.exact && !s.lastToken.IsZero() {
		s.tail = a.at.Sub(s.lastToken)
	}
	return 0
}

// nextBatch leaves the batch before. If that ended with the beginning of the event that has now come, its token events
// may have the stamp of that beginning.
func (s *stamper) nextBatch(token bool) {
	merged := false
	if s.torn && len(s.spans) > 0 {
		s.look()
		s.widen(token)
		merged = s.merged // nobody knows in which of the two batches the segments were
	}
	s.split = s.split || s.torn
	s.settle()
	s.noteGap()
	s.batch, s.events, s.spans, s.ats, s.merged, s.surplus = s.conn.arrival.batch, 0, s.spans[:0], s.ats[:0], merged, 0
}

// shift is by how much the stamp of a token event is too late.
type shift struct {
	token int
	by    time.Duration
}

// settle narrows the bounds of a batch that is complete by when its first segment came, if that is known. Where no
// event of the stream was seen to come in several segments, its first event came with the first segment.
func (s *stamper) settle() {
	s.split = s.split || s.surplus > max(1, s.events) // one may be that of the headers, or of the end of the body
	if !s.merged || len(s.spans) == 0 {
		return
	}
	start := s.ats[0].Add(-s.spans[0])
	first, ok := s.conn.wakes.first(start, s.ats[0])
	if !ok {
		return
	}
	from := len(s.early) - len(s.spans)
	for i, at := range s.ats {
		s.early[from+i] = min(s.early[from+i], max(0, at.Sub(first.since)))
	}
	// A wake that began before the socket was empty may be of what was read before, or of both.
	if !s.leads || s.split || !first.by.Before(s.ats[0]) || first.since.Before(start) {
		return
	}
	late := s.ats[0].Sub(first.by)
	s.early[from] = max(0, min(s.early[from]-late, first.by.Sub(first.since)))
	s.shifts = append(s.shifts, shift{from, late})
	if len(s.spans) == 1 {
		s.lastToken = first.by
		s.tail, s.alone = s.end.Sub(first.by), true
	}
}

// noteGap takes note of the gap before the tokens of the batch that is left, if its ends are exact. Tokens that came in
// one segment have gaps of 0.
func (s *stamper) noteGap() {
	if len(s.spans) == 0 {
		return
	}
	first := len(s.early) - len(s.spans)
	if first > 0 && s.early[first-1] == 0 && s.early[first] == 0 {
		gap := s.lastToken.Sub(s.before)
		if len(s.spans) > 1 {
			gap = 0
		}
		if !s.paced || gap < s.shortest {
			s.shortest, s.paced = gap, true
		}
	}
	s.before = s.lastToken
}

// look counts the segments of the batch.
func (s *stamper) look() {
	extra, long := s.conn.segmented()
	s.merged = s.merged || extra > 0 || long
	s.surplus += max(0, extra)
	s.looked = s.conn.arrival.read
}

// widen gives the token events of a batch their bounds when another event turns out to have the same stamp. They may
// have come at any time since the socket was empty.
func (s *stamper) widen(token bool) {
	if !s.merged {
		return
	}
	first := len(s.early) - len(s.spans)
	for i, span := range s.spans {
		if !token && i == len(s.spans)-1 {
			span = min(span, s.tailAtMost(span))
		}
		s.early[first+i] = max(s.early[first+i], span)
	}
}

// tailAtMost is how long before what follows it, such as usage, the last token event came at most. The server sends
// this a moment after the token: how long a moment is known from its other streams. But a server that is disturbed may
// take longer this once; then the time since the token before is long too. So the bound is no less than what that time
// leaves over if no token of it came faster than the fastest before. Of an answer of one token nothing else is known.
func (s *stamper) tailAtMost(span time.Duration) time.Duration {
	tail, known := s.tails.longest()
	before := len(s.early) - len(s.spans) - 1 // the token before the batch
	switch {
	case !known:
		return span
	case len(s.early) == 1:
		return 2 * tail
	case before < 0:
		return span
	}
	since := s.lastToken.Sub(s.before) + s.early[before]
	return max(2*tail, since-time.Duration(len(s.spans))*s.shortest)
}

func (s *stamper) token(more bool) (early time.Duration) {
	a := &s.conn.arrival
	span, known := a.span, time.Duration(0)
	if !s.kernel {
		span = 0 // without the kernel's stamps, nothing is known but the time of the read
	} else if !a.exact {
		known = span
	}
	s.early, s.spans, s.ats = append(s.early, known), append(s.spans, span), append(s.ats, a.at)
	s.lastToken, s.alone, s.tail = a.at, known == 0, 0
	s.delay = max(s.delay, a.delay)
	if s.merged && (more || s.hidden) {
		return span
	}
	return known
}

// finish writes the bounds of all token events into a result, and learns from the stream. It reports whether any was
// read late.
func (s *stamper) finish(r *Result) (late bool) {
	s.settle()
	for _, shift := range s.shifts {
		r.shift(shift.token, shift.by)
	}
	if s.kernel && s.tail > 0 && s.alone {
		s.tails.note(s.tail)
	}
	r.Early = nil
	if slices.ContainsFunc(s.early, func(early time.Duration) bool { return early > 0 }) {
		r.Early = s.early
	}
	return len(s.shifts) > 0 || slices.ContainsFunc(s.early, func(early time.Duration) bool { return early > SoundError })
}

// shift makes the time of a token event earlier.
func (r *Result) shift(token int, by time.Duration) {
	if token > 0 {
		by = min(by, r.Gaps[token-1]) // events come in their order
	}
	if token == 0 {
		r.FirstToken = r.FirstToken.Add(-by)
	} else {
		r.Gaps[token-1] -= by
	}
	if token == len(r.Gaps) {
		r.LastToken = r.LastToken.Add(-by)
	} else {
		r.Gaps[token] += by
	}
	if token == r.AnswerToken && !r.FirstAnswer.IsZero() {
		r.FirstAnswer = r.FirstAnswer.Add(-by)
	}
}

// tails remembers how long one server takes from the last token of a stream to the end of what it sends after it
// (usage, [DONE]), as seen where the two were not read together. A server that takes long is read apart more often
// than one that does not, so the longest is not overlooked.
type tails struct {
	mu   sync.Mutex
	last [16]time.Duration // in the order of their index, around the end
	seen int
}

func (t *tails) note(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[t.seen%len(t.last)] = d
	t.seen++
}

// longest is the longest of those that are remembered.
func (t *tails) longest() (d time.Duration, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tail := range t.last[:min(t.seen, len(t.last))] {
		d = max(d, tail)
	}
	return d, t.seen > 0
}

func (t *tails) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = 0
}
