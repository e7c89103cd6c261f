package load

import (
	"sync"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// A server counts as lost when at least lostFailures requests in a row, over at least lostAfter, got no connection,
// while none is being answered. A process that restarts takes longer than that, a full accept queue less.
const (
	lostFailures = 3
	lostAfter    = 5 * time.Second
)

// contact finds out that the server is gone.
type contact struct {
	busy func() bool                          // a request is being answered
	lost func(failures int, in time.Duration) // called once

	mu       sync.Mutex
	failures int       // in a row
	since    time.Time // the first of them ended
	isLost   bool
}

// note draws its conclusion from a request that has ended.
func (c *contact) note(res *prober.Result) {
	if res.Abandoned {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !unconnected(res) {
		c.failures = 0
		return
	}
	if c.failures++; c.failures == 1 {
		c.since = res.Ended
	}
	if in := res.Ended.Sub(c.since); !c.isLost && c.failures >= lostFailures && in >= lostAfter && !c.busy() {
		c.isLost = true
		c.lost(c.failures, in)
	}
}

func (c *contact) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isLost {
		return errLost
	}
	return nil
}

// unconnected reports whether a request failed before there was a connection.
func unconnected(res *prober.Result) bool {
	switch res.Reason {
	case prober.ReasonDNS, prober.ReasonConnect, prober.ReasonTLS:
		return true
	case prober.ReasonTimeout:
		return res.Connected.IsZero()
	}
	return false
}
