package prober

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reading is one read of a stream as the stamper sees it.
type reading struct {
	at       int    // milliseconds: the stamp
	span     int    // milliseconds that what it holds may have come over
	delay    int    // milliseconds that it waited
	segments int    // that it came in
	waiting  int    // segments that came before it was looked at, and are still to be read
	events   string // t: a token event, u: one without tokens, as usage
	ours     bool   // the stamp is not the kernel's
	same     bool   // it belongs to the batch of the read before
	torn     bool   // it ends with the beginning of the next event
}

// stampedReadings plays readings to a new stamper, of a server that has been seen to take so long from the last token to the end.
func stampedReadings(seen []time.Duration, readings []reading) *stamper {
	const size = 100 // bytes of a segment
	conn := &stampedConn{times: readTimes{arrival: arrival{batch: 1, exact: true}}}
	came := 1 // the headers
	look := func(waiting int) {
		conn.segments.atClose.Store(&segments{count: came + waiting, waiting: waiting * size, full: 1448})
	}
	look(0)
	s := newStamper(conn, &tailDelays{}, false)
	for _, d := range seen {
		s.history.note(d)
	}
	s.kernel = true
	start := time.Now()
	for _, r := range readings {
		batch, bytes := conn.times.arrival.batch, conn.times.arrival.bytes
		if !r.same {
			conn.segments.readAll(bytes)
			batch, bytes = batch+1, 0
		}
		conn.times.arrival = arrival{
			batch: batch, read: conn.times.arrival.read + 1, bytes: bytes + size, at: start.Add(time.Duration(r.at) * time.Millisecond), exact: !r.ours,
			span: time.Duration(r.span) * time.Millisecond, delay: time.Duration(r.delay) * time.Millisecond,
		}
		came += r.segments
		look(r.waiting)
		for i, event := range r.events {
			s.event(event == 't', r.torn || i < len(r.events)-1)
		}
	}
	return s
}

// early lists the bounds of the token events in milliseconds; it is nil where all stamps are exact.
func earlyMillis(s *stamper) []float64 {
	var list []float64
	res := &Result{Gaps: make([]time.Duration, max(0, len(s.tokens)-1))}
	s.finish(res)
	for _, d := range res.Early {
		list = append(list, float64(d)/float64(time.Millisecond))
	}
	return list
}

// How much earlier than their stamps token events may have come: those that share a read with something that came in
// another segment, any time since the reader found nothing. The others are those of the last byte of a read, and of
// what came in one piece.
func TestEarly(t *testing.T) {
	tick := reading{at: 10, span: 10, segments: 1, events: "t"} // a token that was read in time
	at := func(ms int, r reading) reading { r.at = ms; return r }
	two := reading{span: 20, segments: 2, events: "tt"} // two tokens that came one after the other
	for _, c := range []struct {
		name     string
		readings []reading
		want     []float64
	}{
		{"every token in a read of its own", []reading{tick, at(20, tick), at(30, tick)}, nil},
		{"two tokens in one read", []reading{tick, at(30, two), at(40, tick)}, []float64{0, 20, 0, 0}},
		{"three tokens in one read", []reading{tick, {at: 40, span: 30, segments: 3, events: "ttt"}, at(50, tick)}, []float64{0, 30, 30, 0, 0}},
		{"the first two tokens in one read", []reading{at(30, two), at(40, tick)}, []float64{20, 0, 0}},
		{"two tokens written at once", []reading{tick, {at: 20, span: 10, segments: 1, events: "tt"}}, nil},
		{"two tokens within a millisecond", []reading{tick, {at: 20, span: 1, segments: 2, events: "tt"}}, []float64{0, 1, 0}},
		{"two places", []reading{tick, at(30, two), at(50, two), at(60, tick)}, []float64{0, 20, 0, 20, 0, 0}},
		{
			"tokens written at once, and one after them",
			[]reading{tick, {at: 30, span: 20, segments: 2, events: "ttt"}, at(40, tick)},
			[]float64{0, 20, 20, 0, 0},
		},
		{"segments that were counted too early", []reading{
			tick, {at: 20, span: 10, segments: 1, waiting: 2, events: "tt"}, at(40, two), at(50, tick),
		}, []float64{0, 10, 0, 20, 0, 0}},

		{
			"a token that came while a long write before it was read",
			[]reading{tick, {at: 20, span: 10, segments: 1, events: "tt"}, {at: 30, span: 20, segments: 1, events: "tt", same: true}, at(40, tick)},
			[]float64{0, 10, 10, 20, 0, 0},
		},
		{"a long write alone", []reading{tick, {at: 20, span: 10, segments: 1, events: "tt"}, {at: 20, span: 10, events: "tt", same: true}}, nil},
		{
			"a token with the beginning of the next, in a segment of its own, behind it",
			[]reading{tick, {at: 30, span: 20, segments: 2, events: "t", torn: true}, {at: 31, span: 1, segments: 1, events: "t"}, at(41, tick)},
			[]float64{0, 20, 0, 0},
		},
		{
			"a token and the beginning of the next in one segment",
			[]reading{tick, {at: 20, span: 10, segments: 1, events: "t", torn: true}, {at: 21, span: 1, segments: 1, events: "t"}, at(31, tick)},
			nil,
		},
		{
			"two tokens that share a read after it: perhaps it is their segment",
			[]reading{tick, {at: 20, span: 10, segments: 1, events: "t", torn: true}, {at: 40, span: 20, segments: 2, events: "tt"}, at(50, tick)},
			[]float64{0, 10, 20, 0, 0},
		},
		{"usage at once after the last token", []reading{tick, at(20, tick), {at: 30, span: 10, segments: 2, events: "tu"}}, []float64{0, 0, .2}},
		{"usage and two tokens", []reading{tick, at(20, tick), {at: 40, span: 20, segments: 3, events: "ttu"}}, []float64{0, 0, 20, .2}},
		{"usage after a gap longer than others", []reading{tick, at(20, tick), {at: 33, span: 10, segments: 2, events: "tu"}}, []float64{0, 0, 3}},
		{"usage after two gaps longer than others", []reading{tick, at(20, tick), {at: 43, span: 20, segments: 3, events: "ttu"}}, []float64{0, 0, 20, 3}},
		{"usage after a gap as one before", []reading{tick, at(23, tick), at(33, tick), {at: 46, span: 10, segments: 2, events: "tu"}}, []float64{0, 0, 0, 3}},
		{"usage after a token that came after a late one", []reading{tick, at(20, tick), at(40, two), {at: 50, span: 10, segments: 2, events: "tu"}}, []float64{0, 0, 20, 0, .2}},
		{"usage of a server that writes tokens at once", []reading{tick, {at: 20, span: 10, segments: 1, events: "tt"}, {at: 30, span: 8, segments: 2, events: "tu"}}, []float64{0, 0, 0, 8}},
		{"usage where no gap is known", []reading{tick, {at: 20, span: 10, segments: 2, events: "tu"}}, []float64{0, 10}},
		{"usage and all tokens", []reading{{at: 20, span: 10, segments: 3, events: "ttu"}}, []float64{10, 10}},
		{"usage and the only token", []reading{{at: 20, span: 10, segments: 2, events: "tu"}}, []float64{.2}},
		{"usage between tokens", []reading{tick, {at: 30, span: 10, segments: 3, events: "tut"}}, []float64{0, 10, 0}},
		{"usage within less than the server is known to take", []reading{tick, {at: 30, segments: 2, events: "tu"}}, nil},

		{
			"usage after a token that came at some time",
			[]reading{tick, at(20, tick), {at: 40, span: 20, segments: 2, events: "tu"}, {at: 50, span: 10, segments: 2, events: "tu"}},
			[]float64{0, 0, 10, 10},
		},
		{
			"usage after a gap whose beginning is not known",
			[]reading{tick, {at: 30, span: 20, segments: 2, events: "tu"}, at(32, tick), at(42, tick), {at: 52, span: 10, segments: 2, events: "tu"}},
			[]float64{0, 20, 0, 0, .2},
		},
		{"usage with a token that has a time of ours", []reading{tick, at(20, tick), {at: 30, span: 10, segments: 2, events: "tu", ours: true}}, []float64{0, 0, 10}},

		{"a time of our own", []reading{tick, {at: 20, span: 10, segments: 1, events: "t", ours: true}, at(30, tick)}, []float64{0, 10, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := earlyMillis(stampedReadings([]time.Duration{100 * time.Microsecond}, c.readings))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("milliseconds (-want +got):\n%s", diff)
			}
		})
	}
}

// What follows the last token at once was sent a moment after it. How long a moment is known from other streams.
func TestEarlyOfTheLastToken(t *testing.T) {
	const ms = time.Millisecond
	token := reading{at: 0, span: 10, segments: 1, events: "t"}
	next := token
	next.at = 411
	merged := []reading{token, next, {at: 822, span: 80, delay: 19, segments: 3, events: "tuu"}}
	for _, c := range []struct {
		name string
		seen []time.Duration
		want float64
	}{
		{"never seen", nil, 80},
		{"seen to come within a millisecond", []time.Duration{ms / 10, ms}, 2},
		{"seen to come later", []time.Duration{20 * ms}, 40},
		{"seen to come much later", []time.Duration{time.Second}, 80},
		{"once of many times", append([]time.Duration{20 * ms}, slices.Repeat([]time.Duration{ms / 10}, 15)...), 40},
		{"long ago", append([]time.Duration{20 * ms}, slices.Repeat([]time.Duration{ms / 10}, 16)...), .2},
	} {
		if got := earlyMillis(stampedReadings(c.seen, merged)); !slices.Equal(got, []float64{0, 0, c.want}) {
			t.Errorf("%s: %v ms, want %v", c.name, got, c.want)
		}
	}
}

// A stream teaches how long its server takes to end it if the last one was read alone, with the kernel's stamps.
func TestTailIsLearnt(t *testing.T) {
	token := reading{at: 10, span: 10, segments: 1, events: "t"}
	for _, c := range []struct {
		name     string
		readings []reading
		want     []time.Duration
	}{
		{"in one read of its own", []reading{token, {at: 13, span: 3, segments: 2, events: "uu"}}, []time.Duration{3 * time.Millisecond}},
		{
			"in several",
			[]reading{token, {at: 11, span: 1, segments: 1, events: "u"}, {at: 15, span: 4, segments: 1, events: "u"}},
			[]time.Duration{5 * time.Millisecond},
		},
		{"with the token, in its segment, and on", []reading{{at: 10, span: 10, segments: 1, events: "tu"}, {at: 12, span: 1, segments: 1, events: "u"}}, []time.Duration{2 * time.Millisecond}},
		{"with the token", []reading{{at: 10, span: 10, segments: 2, events: "tu"}}, nil},
		{"with the token, and on", []reading{{at: 10, span: 10, segments: 2, events: "tu"}, {at: 12, span: 1, segments: 1, events: "u"}}, nil},
		{"before a token", []reading{{at: 1, span: 1, segments: 1, events: "u"}, token}, nil},
		{"between tokens", []reading{token, {at: 11, span: 1, segments: 1, events: "u"}, token}, nil},
		{"a token with a time of ours", []reading{{at: 10, span: 10, segments: 1, events: "t", ours: true}, {at: 13, span: 3, segments: 1, events: "u"}}, nil},
		{"and with one of ours", []reading{token, {at: 13, span: 3, segments: 1, events: "u", ours: true}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := stampedReadings(nil, c.readings)
			s.finish(&Result{Gaps: make([]time.Duration, max(0, len(s.tokens)-1))})
			if got := s.history.last[:s.history.seen]; !slices.Equal(got, c.want) {
				t.Errorf("learnt %v, want %v", got, c.want)
			}
		})
	}
}

// What is told of an event while its batch is not complete: whatever comes later may have the same stamp. Where the
// kernel gives no stamps, nothing is known but the time of the read.
func TestEarlyAsFarAsIsKnown(t *testing.T) {
	const span = 10 * time.Millisecond
	for _, c := range []struct {
		name            string
		kernel, ahead   bool // stamps of the kernel; something between the socket and the events reads ahead
		more            bool
		want, atTheEnd  time.Duration
		learnsTailDelay bool
	}{
		{"the last that was read", true, false, false, 0, 0, true},
		{"followed by the beginning of another", true, false, true, span, span, true},
		{"under TLS", true, true, false, span, 0, true},
		{"without the kernel's stamps", false, false, false, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := &stampedConn{}
			conn.segments.atClose.Store(&segments{full: 1448})
			s := newStamper(conn, &tailDelays{}, c.ahead)
			s.kernel = c.kernel
			now := time.Now()
			conn.times.arrival = arrival{batch: 1, read: 1, bytes: 100, at: now, span: span, exact: c.kernel}
			if c.kernel {
				conn.segments.atClose.Store(&segments{count: 2, full: 1448})
			}
			if got := s.event(true, c.more); got != c.want {
				t.Errorf("up to %v earlier, want %v", got, c.want)
			}
			conn.times.arrival.batch, conn.times.arrival.read, conn.times.arrival.at = 2, 2, now.Add(time.Millisecond)
			s.event(false, false)
			res := &Result{}
			s.finish(res)
			if got := res.early(0); got != c.atTheEnd {
				t.Errorf("in the end up to %v earlier, want %v", got, c.atTheEnd)
			}
			if learnt := s.history.seen > 0; learnt != c.learnsTailDelay {
				t.Errorf("a tail delay was learnt: %v", learnt)
			}
		})
	}
}
