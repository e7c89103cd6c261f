package prober

import (
	"testing"
	"testing/synctest"
	"time"
)

// A server whose bytes take a while to work on: the reader rests for as long, and longer after a long answer.
func TestFloodGuard(t *testing.T) {
	for _, c := range []struct {
		name string
		read int           // bytes of each read
		took time.Duration // from a read to the next
		sent int           // bytes before
		want time.Duration // of rest after 64 KiB
	}{
		{name: "an ordinary answer", read: 256, took: 10 * time.Millisecond},
		{name: "all of a backlog at once", read: 64 << 10},
		{name: "bursts that take no time to work on", read: 4 << 10},
		{name: "faster than a model", read: 4 << 10, took: 100 * time.Microsecond, want: 2 * 800 * time.Microsecond},
		{name: "as fast as a model may be", read: 4 << 10, took: 2 * time.Millisecond},
		{name: "a flood", read: 4 << 10, took: 100 * time.Microsecond, sent: longAnswer, want: 2 * 4 * 800 * time.Microsecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := floodGuard{total: c.sent}
				var rest time.Duration
				for n := 0; n < 2*floodBurst; n += c.read {
					g.note(c.read)
					time.Sleep(c.took)
					began := time.Now()
					g.pace()
					rest += time.Since(began)
				}
				if rest != c.want {
					t.Errorf("rested %v, want %v", rest, c.want)
				}
			})
		})
	}
}
