package prober

import "time"

// stamper gives the token events of one stream their time stamps, each with its error.
//
// The kernel merges TCP segments that wait to be read and keeps the time stamp of the newest. So the stamp of a read is
// exact for what came in its last segment. What came in an earlier segment came before the stamp, but after the socket
// was last seen empty. The number of segments (TCP_INFO) tells a server that wrote several events at once from a reader
// that was late.
type stamper struct {
	conn   *stampedConn
	kernel bool // the kernel gives time stamps
	// readAhead: a layer between the socket and the events, TLS, may hold bytes that the reader of events does not see.
	readAhead bool

	tokens  []tokenStamp // of all token events so far
	batch   batch
	counted int  // number of the read after which segments were last counted
	splits  bool // the server sent an event in several segments
	moved   bool // a stamp was moved to when the first segment of a read came

	pace      pace
	tail      tail
	history   *tailDelays   // of earlier streams of the same server
	readDelay time.Duration // the longest time that a token event waited in the kernel
}

// tokenStamp is when a token event came: not after at, and at most early before it.
type tokenStamp struct {
	at    time.Time
	early time.Duration
	span  time.Duration // what early is if something came in a later segment of the same batch
}

// batch is what came between two moments at which the socket was empty: the events of one read or of several
// ([arrival]).
type batch struct {
	number      int       // that of its arrival
	first       int       // index of its first token event, if it has any
	widened     int       // index of its first token event that may still be widened
	events      int       // of any kind
	tokenFirst  bool      // its first event carries tokens
	unfinished  bool      // something follows the last event so far: more events, or the beginning of one
	severalSent bool      // it may hold more segments than one write of the server
	surplus     int       // segments beyond the first, as far as they were counted
	end         time.Time // stamp of the last event
}

func newStamper(conn *stampedConn, history *tailDelays, readAhead bool) *stamper {
	s := &stamper{conn: conn, kernel: conn.kernel != nil, history: history, readAhead: readAhead}
	s.batch.number = conn.times.arrival.batch
	s.countSegments()
	return s
}

// event takes note of an event that was just read; more tells that something was read behind it. It returns how much
// earlier than its stamp the event may have come, as far as is known now: what is read later may widen that.
func (s *stamper) event(token, more bool) (early time.Duration) {
	a, b := &s.conn.times.arrival, &s.batch
	if a.batch != b.number {
		s.nextBatch(token)
	}
	b.unfinished, b.end = more, a.at
	if b.events++; b.events == 1 {
		b.tokenFirst = token
	}
	if (b.events > 1 || more || s.readAhead) && a.read != s.counted {
		s.countSegments()
	}
	s.widen(token)
	switch {
	case token:
		return s.token(more)
	case b.first < len(s.tokens):
		s.tail.apart = s.tail.apart && !b.severalSent
	case a.exact && len(s.tokens) > 0:
		s.tail.delay = a.at.Sub(s.last().at)
	}
	return 0
}

// token adds the stamp of a token event.
func (s *stamper) token(more bool) (early time.Duration) {
	a := &s.conn.times.arrival
	stamp := tokenStamp{at: a.at, span: a.span}
	if !s.kernel {
		stamp.span = 0 // nothing is known but the time of the read
	} else if !a.exact {
		stamp.early = a.span
	}
	s.tokens = append(s.tokens, stamp)
	s.tail = tail{apart: stamp.early == 0}
	s.readDelay = max(s.readDelay, a.delay)
	if s.batch.severalSent && (more || s.readAhead) {
		return stamp.span
	}
	return stamp.early
}

func (s *stamper) last() *tokenStamp { return &s.tokens[len(s.tokens)-1] }

// nextBatch ends the batch and begins the next. If the batch ended within the event that has now come, its last stamp
// may be that of the segment in which this event began. Nobody knows then in which of the two batches the segments
// were, so the next one counts as several segments too.
func (s *stamper) nextBatch(token bool) {
	several := false
	if s.batch.unfinished && s.batch.first < len(s.tokens) {
		s.countSegments()
		s.widen(token)
		several = s.batch.severalSent
	}
	s.splits = s.splits || s.batch.unfinished
	s.endBatch()
	s.notePace()
	s.batch = batch{number: s.conn.times.arrival.batch, first: len(s.tokens), severalSent: several}
}

// countSegments takes note of the segments that came since it was called last.
func (s *stamper) countSegments() {
	surplus, long := s.conn.newSegments()
	s.batch.severalSent = s.batch.severalSent || surplus > 0 || long
	s.batch.surplus += max(0, surplus)
	s.counted = s.conn.times.arrival.read
}

// widen gives the token events of the batch their errors when another event turns out to have the same stamp: they may
// have come at any time since the socket was empty. token tells whether the other event carries tokens.
func (s *stamper) widen(token bool) {
	if !s.batch.severalSent {
		return
	}
	b := &s.batch
	b.widened = max(b.widened, b.first)
	for i := b.widened; i < len(s.tokens); i++ {
		stamp := &s.tokens[i]
		early := stamp.span
		if !token && i == len(s.tokens)-1 {
			early = min(early, s.tailAtMost(early)) // a token event may still follow, and widen it
		} else {
			b.widened = i + 1
		}
		stamp.early = max(stamp.early, early)
	}
}

// endBatch narrows the errors of a complete batch by the time at which its first segment came, if that is known.
func (s *stamper) endBatch() {
	b, stamps := &s.batch, s.tokens[s.batch.first:]
	s.splits = s.splits || b.surplus > max(1, b.events) // one may be that of the headers, or of the end of the body
	if !b.severalSent || len(stamps) == 0 {
		return
	}
	head := &stamps[0]
	read := head.at
	empty := read.Add(-head.span)
	first, known := s.conn.wakes.first(empty, read)
	if !known {
		return
	}
	for i := range stamps {
		stamps[i].early = min(stamps[i].early, max(0, stamps[i].at.Sub(first.since)))
	}
	// The first event came with the first segment, unless the server splits events. A wake-up that began before the
	// socket was empty may be that of an earlier segment.
	if !b.tokenFirst || s.splits || !first.by.Before(read) || first.since.Before(empty) {
		return
	}
	head.at, head.early, s.moved = first.by, first.by.Sub(first.since), true
	if len(stamps) == 1 {
		s.tail = tail{delay: b.end.Sub(head.at), apart: true}
	}
}

// finish corrects the times of a result, gives its token events their errors, and remembers how long the server took
// for its tail frames. late tells that an event was read too late to have an exact stamp.
func (s *stamper) finish(r *Result) (late bool) {
	s.endBatch()
	if s.tail.apart && s.tail.delay > 0 {
		s.history.note(s.tail.delay)
	}
	if s.moved {
		s.correct(r)
	}
	r.Early = nil
	for i, stamp := range s.tokens {
		if stamp.early > 0 {
			if r.Early == nil {
				r.Early = make([]time.Duration, len(s.tokens))
			}
			r.Early[i] = stamp.early
			late = late || stamp.early > SoundError
		}
	}
	return late || s.moved
}

// correct writes the times of all token events into a result again.
func (s *stamper) correct(r *Result) {
	r.FirstToken = s.tokens[0].at
	last := r.FirstToken
	for i, stamp := range s.tokens[1:] {
		r.Gaps[i] = max(0, stamp.at.Sub(last)) // events come in their order
		last = last.Add(r.Gaps[i])
	}
	r.LastToken = last
	if !r.FirstAnswer.IsZero() {
		r.FirstAnswer = r.FirstToken
		for _, gap := range r.Gaps[:r.AnswerToken] {
			r.FirstAnswer = r.FirstAnswer.Add(gap)
		}
	}
}

// pace is how fast a server's tokens come at most.
type pace struct {
	shortest time.Duration // gap between two exact stamps; 0 where none is known
	known    bool
}

// notePace takes note of the gap before the tokens of a batch that has ended. Tokens that came in one segment have gaps
// of 0.
func (s *stamper) notePace() {
	first := s.batch.first
	if first == 0 || first == len(s.tokens) || s.tokens[first-1].early > 0 || s.tokens[first].early > 0 {
		return
	}
	gap := time.Duration(0)
	if first == len(s.tokens)-1 {
		gap = s.tokens[first].at.Sub(s.tokens[first-1].at)
	}
	if !s.pace.known || gap < s.pace.shortest {
		s.pace = pace{gap, true}
	}
}
