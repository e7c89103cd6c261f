package prober

import (
	"strings"
	"testing"
	"time"
)

// What a watch knows narrows when the events of a read came: none before its first segment, and the first event with it.
func TestWakesNarrowWhenEventsCame(t *testing.T) {
	const ms = time.Millisecond
	begin := time.Now()
	at := func(d time.Duration) time.Time { return begin.Add(d) }
	exact := func(d time.Duration) wake { return wake{at(d - ms/5), at(d)} }
	for _, c := range []struct {
		name   string
		wakes  []wake
		events string // of the second read, which holds what came from 10 to 30 ms in two segments, +: in one more, /: and the end of an event
		split  bool
		early  []time.Duration // of the tokens of the second read
		shift  time.Duration   // of its first token
	}{
		{"a first read that ends within an event", []wake{exact(14 * ms)}, "/tt", false, []time.Duration{16*ms + ms/5, 0}, 0},
		{"more segments than events", []wake{exact(14 * ms)}, "++tt", false, []time.Duration{16*ms + ms/5, 0}, 0},
		{"a watch that was later than the read", []wake{{at(12 * ms), at(31 * ms)}}, "tt", false, []time.Duration{18 * ms, 0}, 0},
		{"no watch", nil, "tt", false, []time.Duration{20 * ms, 0}, 0},
		{"the first is known", []wake{exact(5 * ms), exact(14 * ms), exact(30 * ms)}, "tt", false, []time.Duration{ms / 5, 0}, 16 * ms},
		{"with what follows it", []wake{exact(14 * ms)}, "tu", false, []time.Duration{ms / 5}, 16 * ms},
		{"of three the last is", []wake{exact(14 * ms)}, "ttt", false, []time.Duration{ms / 5, 16*ms + ms/5, 0}, 16 * ms},
		{"the first event is no token", []wake{exact(14 * ms)}, "utt", false, []time.Duration{16*ms + ms/5, 0}, 0},
		{"a server that splits its events", []wake{exact(14 * ms)}, "tt", true, []time.Duration{16*ms + ms/5, 0}, 0},
		{"a watch that was late itself", []wake{{at(12 * ms), at(29 * ms)}}, "tt", false, []time.Duration{17 * ms, 0}, ms},
		{"a wake that may be of what was read before", []wake{{at(8 * ms), at(14 * ms)}}, "tt", false, []time.Duration{20 * ms, 0}, 0},
		{"a wake of what was read before", []wake{exact(9 * ms)}, "tt", false, []time.Duration{20 * ms, 0}, 0},
		{"a wake of what comes later", []wake{exact(35 * ms)}, "tt", false, []time.Duration{20 * ms, 0}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := &stampedConn{times: readTimes{arrival: arrival{batch: 1, exact: true}}, wakes: &wakes{list: c.wakes}}
			conn.segments.atClose.Store(&segments{count: 1, full: 1448})
			s := newStamper(conn, &tailDelays{}, false)
			s.kernel, s.splits = true, c.split
			res := &Result{FirstToken: at(10 * ms), LastToken: at(10 * ms), AnswerToken: 1, FirstAnswer: at(30 * ms)}
			events := strings.TrimLeft(c.events, "+/")
			read := func(events string, segmentsMore int, more bool, came, span time.Duration) {
				conn.segments.readAll(conn.times.arrival.bytes)
				conn.times.arrival = arrival{batch: conn.times.arrival.batch + 1, read: conn.times.arrival.read + 1, bytes: 100, at: at(came), exact: true, span: span}
				conn.segments.atClose.Store(&segments{count: conn.segments.atClose.Load().count + segmentsMore, full: 1448})
				for i, event := range events {
					s.event(event == 't', more || i < len(events)-1)
					if event == 't' && conn.times.arrival.batch > 2 {
						res.Gaps = append(res.Gaps, at(came).Sub(res.LastToken))
						res.LastToken = at(came)
					}
				}
			}
			read("t", 1, strings.Contains(c.events, "/"), 10*ms, 10*ms)
			read(events, 2+strings.Count(c.events, "+"), false, 30*ms, 20*ms)
			if late := s.finish(res); late != (len(c.wakes) == 0 || c.early[0] > SoundError || c.shift > 0) {
				t.Errorf("late: %v", late)
			}
			if want := res.FirstToken.Add(res.Gaps[0]); !res.FirstAnswer.Equal(want) {
				t.Errorf("the first answer is at %v, the token at %v", res.FirstAnswer.Sub(begin), want.Sub(begin))
			}
			if tail, _ := s.history.longest(); events == "tu" && tail != c.shift {
				t.Errorf("the tail frames came %v after the last token, want %v", tail, c.shift)
			}
			for i, want := range c.early {
				if got := res.early(i + 1); got != want {
					t.Errorf("token %d of the read came up to %v earlier, want %v", i, got, want)
				}
			}
			if got := 20*ms - res.Gaps[0]; got != c.shift {
				t.Errorf("the first token is said to have come %v earlier, want %v", got, c.shift)
			}
		})
	}
}

// Each stream looks through its wakes once, however many there are.
func TestWakesAreForgottenOnceTheyArePast(t *testing.T) {
	const ms = time.Millisecond
	begin := time.Now()
	k := &wakes{}
	for i := range 1000 {
		k.add(wake{begin.Add(time.Duration(i)*ms - ms/5), begin.Add(time.Duration(i) * ms)})
	}
	for _, i := range []int{3, 500, 999} {
		after := begin.Add(time.Duration(i)*ms - ms/2)
		if first, ok := k.first(after, after.Add(ms)); !ok || !first.by.Equal(begin.Add(time.Duration(i)*ms)) {
			t.Errorf("the first wake after %v is %v, %v", after.Sub(begin), first.by.Sub(begin), ok)
		}
		if left := len(k.list); left != 1000-i {
			t.Errorf("%d wakes are kept, want %d", left, 1000-i)
		}
	}
}
