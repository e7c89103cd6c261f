package prober

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// reading is one read of a stream as the judgement of lateness sees it.
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

// judged plays readings to a new judgement, of a server that trails its tokens as it has been seen to.
func judged(seen []time.Duration, readings []reading) *lateness {
	const size = 100 // bytes of a segment
	conn := &stampedConn{arrival: arrival{batch: 1, exact: true}}
	came := 1 // the headers
	look := func(waiting int) {
		conn.last.Store(&segments{count: came + waiting, waiting: waiting * size, full: 1448})
	}
	look(0)
	l := newLateness(conn, &trails{})
	for _, d := range seen {
		l.trails.note(d)
	}
	l.stamped = true
	start := time.Now()
	for _, r := range readings {
		batch, bytes := conn.arrival.batch, conn.arrival.bytes
		if !r.same {
			conn.counts.least += conn.counts.leastFor(bytes)
			batch, bytes = batch+1, 0
		}
		conn.arrival = arrival{
			batch: batch, read: conn.arrival.read + 1, bytes: bytes + size, at: start.Add(time.Duration(r.at) * time.Millisecond), exact: !r.ours,
			span: time.Duration(r.span) * time.Millisecond, delay: time.Duration(r.delay) * time.Millisecond,
		}
		came += r.segments
		look(r.waiting)
		for i, event := range r.events {
			l.event(event == 't', r.torn || i < len(r.events)-1)
		}
	}
	return l
}

// Which stamps are not to be trusted once a probe was read late. The others are those of the last byte of a read, of
// what came in one piece, or of what cannot have come more than a millisecond before.
func TestBlame(t *testing.T) {
	tick := reading{at: 10, span: 10, segments: 1, events: "t"} // a token that was read in time
	at := func(ms int, r reading) reading { r.at = ms; return r }
	two := reading{span: 20, segments: 2, events: "tt"} // two tokens that came one after the other
	for _, c := range []struct {
		name     string
		readings []reading
		late     bool
		tokens   []int
	}{
		{"every token in a read of its own", []reading{tick, at(20, tick), at(30, tick)}, false, nil},
		{"two tokens in one read", []reading{tick, at(30, two), at(40, tick)}, true, []int{1}},
		{"three tokens in one read", []reading{tick, {at: 40, span: 30, segments: 3, events: "ttt"}, at(50, tick)}, true, []int{1, 2}},
		{"the first two tokens in one read", []reading{at(30, two), at(40, tick)}, true, []int{0}},
		{"two tokens written at once", []reading{tick, {at: 20, span: 10, segments: 1, events: "tt"}}, false, nil},
		{"two tokens within a millisecond", []reading{tick, {at: 20, span: 1, segments: 2, events: "tt"}}, false, nil},
		{"two places", []reading{tick, at(30, two), at(50, two), at(60, tick)}, true, []int{1, 3}},
		{
			"tokens written at once, and one after them",
			[]reading{tick, {at: 30, span: 20, segments: 2, events: "ttt"}, at(40, tick)},
			true,
			[]int{1, 2},
		},
		{"segments that were counted too early", []reading{
			tick, {at: 20, span: 10, segments: 1, waiting: 2, events: "tt"}, at(40, two), at(50, tick),
		}, true, []int{1, 3}},

		{
			"a token that came while a long write before it was read",
			[]reading{tick, {at: 20, span: 10, segments: 1, events: "tt"}, {at: 30, span: 20, segments: 1, events: "tt", same: true}, at(40, tick)},
			true,
			[]int{1, 2, 3},
		},
		{"a long write alone", []reading{tick, {at: 20, span: 10, segments: 1, events: "tt"}, {at: 20, span: 10, events: "tt", same: true}}, false, nil},
		{
			"a token with the beginning of the next, in a segment of its own, behind it",
			[]reading{tick, {at: 30, span: 20, segments: 2, events: "t", torn: true}, {at: 31, span: 1, segments: 1, events: "t"}, at(41, tick)},
			true,
			[]int{1},
		},
		{
			"a token and the beginning of the next in one segment",
			[]reading{tick, {at: 20, span: 10, segments: 1, events: "t", torn: true}, {at: 21, span: 1, segments: 1, events: "t"}, at(31, tick)},
			false,
			nil,
		},
		{
			"two tokens that share a read after it: perhaps it is their segment",
			[]reading{tick, {at: 20, span: 10, segments: 1, events: "t", torn: true}, {at: 40, span: 20, segments: 2, events: "tt"}, at(50, tick)},
			true,
			[]int{1, 2},
		},
		{"usage at once after the last token", []reading{tick, at(20, tick), {at: 30, span: 10, segments: 2, events: "tu"}}, false, nil},
		{
			"usage after the last token, the gap is longer than all others, the reader in time",
			[]reading{tick, at(20, tick), {at: 40, span: 20, segments: 2, events: "tu"}},
			false, nil,
		},
		{
			"usage after the last token, the gap is longer than all others, the reader was behind",
			[]reading{tick, {at: 20, span: 10, segments: 1, delay: 5, events: "t"}, {at: 40, span: 20, segments: 2, events: "tu"}},
			true,
			[]int{2},
		},
		{
			"usage at once after the last token of a reader that was late elsewhere",
			[]reading{tick, at(20, tick), at(40, two), {at: 50, span: 10, segments: 2, events: "tu"}},
			true,
			[]int{2},
		},
		{
			"usage long after the reader looked last",
			[]reading{tick, at(20, tick), {at: 100, span: 80, segments: 2, events: "tu"}},
			true,
			[]int{2},
		},
		{"one token, and usage", []reading{{at: 10, span: 10, delay: 5, segments: 2, events: "tu"}}, true, []int{0}},
		{"one token, and usage, the reader in time", []reading{{at: 10, span: 10, segments: 2, events: "tu"}}, false, nil},

		{"a time of our own", []reading{tick, {at: 20, span: 10, segments: 1, events: "t", ours: true}, at(30, tick)}, false, nil},
		{
			"a time of our own where the reader was late elsewhere",
			[]reading{tick, {at: 20, span: 10, segments: 1, events: "t", ours: true}, at(40, two), at(50, tick)},
			true,
			[]int{1, 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := judged([]time.Duration{100 * time.Microsecond}, c.readings)
			if late := l.verdict(); late != c.late {
				t.Errorf("late %v, want %v", late, c.late)
			}
			if !c.late {
				return
			}
			tokens, sent := l.blame()
			if diff := cmp.Diff(c.tokens, tokens); diff != "" || sent {
				t.Errorf("sent late %v, tokens (-want +got):\n%s", sent, diff)
			}
		})
	}
}

// What trails the last token was once believed to come at once if the gap before it was no longer than the longest:
// gaps of a server that is itself disturbed vary, and one of them was longer than the last one and the trail together.
// What counts is how the server was seen to trail its tokens.
func TestBlameOfTrails(t *testing.T) {
	const ms = time.Millisecond
	// Gaps of 150 and 111 ms from a disturbed server; the last token at 130 ms, and usage 20 ms later.
	behind := []reading{
		{at: 0, span: 10, segments: 1, events: "t"},
		{at: 150, span: 100, delay: 40, segments: 1, events: "t"},
		{at: 261, span: 100, segments: 1, events: "t"},
		{at: 411, span: 80, delay: 19, segments: 3, events: "tuu"},
	}
	inTime := slices.Clone(behind)
	inTime[1].delay, inTime[3].delay = 0, 0
	for _, c := range []struct {
		name     string
		seen     []time.Duration
		readings []reading
		late     bool
	}{
		{"never seen, the reader behind", nil, behind, true},
		{"never seen, the reader in time", nil, inTime, false},
		{"seen to come at once", []time.Duration{ms / 10, ms}, behind, false},
		{"seen to come later", []time.Duration{20 * ms}, behind, true},
		{"once of many times", append([]time.Duration{20 * ms}, slices.Repeat([]time.Duration{ms / 10}, 15)...), behind, true},
		{"long ago", append([]time.Duration{20 * ms}, slices.Repeat([]time.Duration{ms / 10}, 16)...), behind, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := judged(c.seen, c.readings)
			if late := l.verdict(); late != c.late {
				t.Errorf("late %v, want %v", late, c.late)
			}
			if tokens, _ := l.blame(); c.late && !slices.Equal(tokens, []int{3}) {
				t.Errorf("late tokens %v, want the last", tokens)
			}
		})
	}
}

// A stream teaches how its server trails tokens if the last one was read alone, with the kernel's stamps.
func TestTrailIsLearnt(t *testing.T) {
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
			l := judged(nil, c.readings)
			l.learn()
			if got := l.trails.last[:l.trails.seen]; !slices.Equal(got, c.want) {
				t.Errorf("learnt %v, want %v", got, c.want)
			}
		})
	}
}
