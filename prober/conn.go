package prober

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// maxHeaderBytes bounds what a server may send before its headers end.
const maxHeaderBytes = 1 << 20

var errHeadersTooLarge = errors.New("too large: response headers exceed 1048576 bytes")

// stampedConn is a connection that notes when bytes were written and when they arrived.
//
// On Linux it asks the kernel when the bytes that a read returns were received, so that a prober that is
// scheduled late, or that shares its processor, still knows when a token came. The kernel merges TCP segments
// that wait and keeps the newest stamp: a stamp is exact for the last byte of a read and for nothing before it.
// [stamper] tells whether there was anything before it.
//
// Reads happen one after another, as net/http does them; so do writes.
type stampedConn struct {
	net.Conn
	kernel *kernelStamps // nil: the operating system or the kind of connection gives none

	arrival  arrival
	tried    time.Time  // just before the last read that returned something; it took all there was, unless
	filled   bool       // it filled its buffer
	floor    time.Time  // what the last read returned came after this
	start    time.Time  // and all of its batch after this
	inBody   bool       // whoever reads says when it asks for more
	asked    bool       // and has done so since the last read
	headers  int        // bytes that may still arrive before the headers have ended; negative: they have
	counting sync.Mutex // protects counts and arrival until the request has been written
	counts   segmentCounts
	last     atomic.Pointer[segments] // what had come when the connection was closed
	slot     *dialSlot                // of the exchange that it was dialled for; nil: of none
	reading  atomic.Bool              // in a read
	flooded  atomic.Bool              // the bound on headers was reached
	wakes    *wakes                   // when something came, as far as a [Watch] knows
	unwatch  func()

	awaitWrite atomic.Bool
	sent       func(time.Time) // told the time of the first write after armWrite
	written    time.Time       // when the last write returned; zero: the request has not begun
	held       atomic.Int64    // nanoseconds that we, not the network, may have kept the request back
}

func newStampedConn(conn net.Conn, sent func(time.Time)) *stampedConn {
	now := time.Now()
	return &stampedConn{Conn: conn, kernel: newKernelStamps(conn), tried: now, floor: now, headers: maxHeaderBytes, sent: sent, unwatch: func() {}}
}

// Read implements net.Conn. What came after the exchange's deadline it does not return.
func (c *stampedConn) Read(p []byte) (n int, err error) {
	c.reading.Store(true)
	defer c.reading.Store(false)
	if c.headers == 0 {
		c.flooded.Store(true)
		return 0, errHeadersTooLarge
	}
	if c.headers > 0 && len(p) > c.headers {
		p = p[:c.headers]
	}
	var r received
	if c.kernel != nil {
		n, r, err = c.kernel.read(p)
	} else {
		r.tried = time.Now()
		n, err = c.Conn.Read(p)
	}
	c.note(n, n == len(p), r)
	if c.headers > 0 {
		c.headers -= n
	}
	if n > 0 && c.slot.over(c.arrival.at) {
		return 0, c.slot.cause()
	}
	return n, err
}

// pending tells whether something that has come waits to be read, or was read and is still being worked on: the
// verdict that nothing came must wait for it. It is false where the kernel does not stamp, for then nobody could tell
// whether it came in time.
func (c *stampedConn) pending() bool {
	if c == nil {
		return false
	}
	readable, open := c.kernel.readable()
	return open && (readable || !c.reading.Load())
}

// headersEnded lifts the bound on headers.
func (c *stampedConn) headersEnded() { c.headers = -1 }

// armWrite makes the next write report its time.
func (c *stampedConn) armWrite() {
	c.counting.Lock() // net/http already waits for the answer, and a server may send before it is asked
	c.newSegments()   // what came so far, the handshake of TLS, does not count
	c.counting.Unlock()
	c.awaitWrite.Store(true)
}

// Write implements net.Conn. It adds up how long we may have kept back a request that was said to have begun.
func (c *stampedConn) Write(p []byte) (int, error) {
	began := time.Now()
	first := c.awaitWrite.CompareAndSwap(true, false)
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

// heldBack is how much later than its start stamp the request may have left because of us; 0 where the kernel does
// not tell our time from the network's.
func (c *stampedConn) heldBack() time.Duration {
	if c.kernel == nil {
		return 0
	}
	return time.Duration(c.held.Load())
}

// heldInWrite is how much of the first write may have passed before its bytes left. The write does not block, but the
// processor may be taken away on the way there, which matters, or on the way back, which does not. The kernel counts
// the time since it sent in ticks, so the answer is at most a tick too long.
func (c *stampedConn) heldInWrite(took time.Duration) time.Duration {
	if took < tick {
		return took
	}
	if s, ok := c.kernel.segments(); ok {
		took = min(took, took-s.idle+tick)
	}
	return took
}

// tick is the kernel's own (CONFIG_HZ=250; some are built with 1000).
const tick = 4 * time.Millisecond

// Close implements net.Conn. net/http closes a connection once it has read the end, which is before the last
// events are looked at. So the last count is kept.
func (c *stampedConn) Close() error {
	if s, ok := c.kernel.segments(); ok {
		c.last.Store(&s)
	}
	c.unwatch()
	return c.Conn.Close()
}
