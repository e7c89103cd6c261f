package prober

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeaderBytes bounds what a server may send before its headers end. Proxies allow 4 to 64 KiB by default.
const maxHeaderBytes = 256 << 10

var errHeadersTooLarge = fmt.Errorf("too large: response headers exceed %d bytes", maxHeaderBytes)

// stampedConn is a connection under net/http and TLS that takes the time stamps of a probe: when the request was
// written and when each read's bytes arrived.
//
// On Linux the kernel tells when it received the last byte that a read returns (SO_TIMESTAMPNS). So a prober that is
// given the processor late still knows when that byte came. For the bytes before it, [stamper] works out bounds.
//
// Reads follow one another, as net/http makes them, and so do writes.
type stampedConn struct {
	net.Conn
	kernel *kernelStamps // nil: the operating system or the kind of connection has no stamps

	times    readTimes
	segments segmentCounter
	mu       sync.Mutex // guards times and segments until the request has been written: a server may send before that

	headerBytes int         // that may still arrive before the headers end; negative: they have ended
	flooded     atomic.Bool // more arrived
	flood       floodGuard

	slot    *dialSlot   // of the exchange that it was dialled for; nil: none
	reading atomic.Bool // a read is under way
	wakes   *wakes      // when bytes came, by the [Watch]; nil: it does not watch this connection
	unwatch func()

	awaitRequest atomic.Bool     // the next write begins the request
	sent         func(time.Time) // is told when it began
	written      time.Time       // when the last write returned; zero: the request has not begun
	held         atomic.Int64    // nanoseconds that the prober, not the network, may have kept the request back
}

func newStampedConn(conn net.Conn, sent func(time.Time)) *stampedConn {
	return &stampedConn{
		Conn: conn, kernel: newKernelStamps(conn), times: newReadTimes(time.Now()), headerBytes: maxHeaderBytes, sent: sent, unwatch: func() {},
	}
}

// Read implements net.Conn. It does not return what came after the exchange's deadline.
func (c *stampedConn) Read(p []byte) (n int, err error) {
	c.reading.Store(true)
	defer c.reading.Store(false)
	if c.headerBytes == 0 {
		c.flooded.Store(true)
		return 0, errHeadersTooLarge
	}
	if c.headerBytes > 0 && len(p) > c.headerBytes {
		p = p[:c.headerBytes]
	}
	c.flood.pace()
	var r received
	if c.kernel != nil {
		n, r, err = c.kernel.read(p)
	} else {
		r.tried = time.Now()
		n, err = c.Conn.Read(p)
	}
	c.note(n, n == len(p), r)
	c.flood.note(n)
	if c.headerBytes > 0 {
		c.headerBytes -= n
	}
	if n > 0 && c.slot.over(c.times.arrival.at) {
		return 0, c.slot.cause()
	}
	return n, err
}

// note takes note of a read.
func (c *stampedConn) note(n int, filled bool, r received) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.times.emptiedBefore(r) {
		c.segments.readAll(c.times.arrival.bytes)
	}
	c.times.note(n, filled, r)
}

// headersEnded lifts the bound on headers.
func (c *stampedConn) headersEnded() { c.headerBytes = -1 }

// pending reports whether bytes wait to be read, or were read and are still being worked on. "Nothing came in time" is
// not said before. Where the kernel gives no stamps it is false, for nobody could tell whether they came in time.
func (c *stampedConn) pending() bool {
	if c == nil {
		return false
	}
	readable, open := c.kernel.readable()
	return open && (readable || !c.reading.Load())
}

// newSegments counts the segments that came since it was called last ([segmentCounter.since]).
func (c *stampedConn) newSegments() (surplus int, long bool) {
	now, ok := c.kernel.segments()
	if !ok {
		last := c.segments.atClose.Load()
		if last == nil {
			return 0, false
		}
		now = *last
	}
	return c.segments.since(now, c.times.arrival.bytes, c.times.filled)
}

// expectRequest makes the next write the beginning of the request.
func (c *stampedConn) expectRequest() {
	c.mu.Lock()
	c.newSegments() // those of the TLS handshake do not count
	c.mu.Unlock()
	c.awaitRequest.Store(true)
}

// Write implements net.Conn. From the beginning of the request on it adds up for how long the prober itself may have
// kept bytes back: between two writes, and in the first one.
func (c *stampedConn) Write(p []byte) (int, error) {
	began := time.Now()
	first := c.awaitRequest.CompareAndSwap(true, false)
	if !first && c.written.IsZero() {
		return c.Conn.Write(p)
	}
	held := began.Sub(c.written)
	if first {
		c.sent(began)
		now := time.Now()
		held, began = now.Sub(began), now
	}
	n, err := c.Conn.Write(p)
	c.written = time.Now()
	if first {
		held += c.heldInWrite(c.written.Sub(began))
	}
	c.held.Add(int64(held))
	return n, err
}

// heldBack is how much later than its start stamp the request may have left because of the prober. It is 0 where the
// kernel does not tell the prober's time from the network's.
func (c *stampedConn) heldBack() time.Duration {
	if c.kernel == nil {
		return 0
	}
	return time.Duration(c.held.Load())
}

// heldInWrite is how much of the first write may have passed before its bytes left. The write does not block, but the
// thread may lose the processor before the bytes leave, which counts, or after it, which does not. The kernel tells how
// long ago it sent data, in ticks, so the answer is too long by a tick at most.
func (c *stampedConn) heldInWrite(took time.Duration) time.Duration {
	if took < tick {
		return took
	}
	if s, ok := c.kernel.segments(); ok {
		took = min(took, took-s.idle+tick)
	}
	return took
}

// tick is the kernel's, with CONFIG_HZ=250; some are built with 1000.
const tick = 4 * time.Millisecond

// Close implements net.Conn. It keeps the last count of segments: net/http closes a connection at the end of the body,
// before the last events are looked at.
func (c *stampedConn) Close() error {
	if s, ok := c.kernel.segments(); ok {
		c.segments.atClose.Store(&s)
	}
	c.unwatch()
	return c.Conn.Close()
}
