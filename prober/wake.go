package prober

import (
	"sync"
	"time"
)

// wake is an interval in which a segment came: not before since, and not after by.
type wake struct{ since, by time.Time }

// wakes are the wake-ups that a [Watch] saw for one connection, in their order. The nil pointer has none.
type wakes struct {
	mu   sync.Mutex
	list []wake
}

// maxWakes bounds the memory of a connection. Of later segments it is not known when they came.
const maxWakes = 1 << 14

func (k *wakes) add(w wake) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.list) < maxWakes {
		k.list = append(k.list, w)
	}
}

// first is the first wake-up by a segment that came between two moments; at the earlier one the socket was empty. Of
// segments that came while the watching thread itself was late there is one wake-up, whose interval holds the first.
// The earlier moment must not be before that of the call before: older wake-ups are forgotten, so that the list is
// gone through once.
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
