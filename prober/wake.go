package prober

import (
	"sync"
	"time"
)

// wake is an interval in which something came.
type wake struct{ since, by time.Time }

// wakes are those of one connection, in their order. The nil pointer has none.
type wakes struct {
	mu   sync.Mutex
	list []wake
}

// maxWakes bounds the memory of a connection. Streams of more segments are exact only up to there.
const maxWakes = 1 << 14

func (k *wakes) add(w wake) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) < maxWakes {
		k.list = append(k.list, w)
	}
}

// first is the first that something may have come in between two moments, of which nothing waited at the earlier one.
// A thread that is late itself tells of what came by one wake that begins too early, never too late. The earlier moments
// of later calls must not be before that of this one: what ended before it is forgotten, so that a stream's wakes are
// looked through once.
func (k *wakes) first(after, until time.Time) (first wake, ok bool) {
	if k == nil {
		return first, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.list) > 0 && k.list[0].by.Before(after) {
		k.list = k.list[1:]
	}
	for _, w := range k.list {
		if w.since.After(until) {
			break
		}
		if !w.by.Before(after) {
			return w, true
		}
	}
	return first, false
}
