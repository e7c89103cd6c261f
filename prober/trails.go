package prober

import (
	"sync"
	"time"
)

// trails remembers how long one server takes from the last token of a stream to the end of what it sends after it
// (usage, [DONE]), as seen where the two were not read together. Where they are, the last token has the stamp of
// what trails it, and is wrong by that time: it may be believed if the server is known to take next to none.
//
// A server that takes long is read apart more often than one that does not, so it is not overlooked.
type trails struct {
	mu   sync.Mutex
	last [16]time.Duration // in the order of their index, around the end
	seen int
}

func (t *trails) note(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last[t.seen%len(t.last)] = d
	t.seen++
}

// short reports whether all that are remembered were within lateTolerance, and there were any.
func (t *trails) short() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.last[:min(t.seen, len(t.last))] {
		if d > lateTolerance {
			return false
		}
	}
	return t.seen > 0
}

func (t *trails) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen = 0
}
