package prober

import (
	"context"
	"errors"
	"net"
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
// [lateness] tells whether there was anything before it.
//
// Reads happen one after another, as net/http does them.
type stampedConn struct {
	net.Conn
	kernel *kernelStamps // nil: the operating system or the kind of connection gives none

	arrival    arrival
	lastReturn time.Time // when the previous read returned
	headers    int       // bytes that may still arrive before the headers have ended; negative: they have

	awaitWrite atomic.Bool
	sent       func(time.Time) // told the time of the first write after armWrite
}

// arrival tells when the bytes of the last read came.
type arrival struct {
	read  int           // number of the read, from 1
	bytes int           // how many it returned
	at    time.Time     // when the last byte came
	delay time.Duration // how long it had been waiting to be read
	span  time.Duration // the first byte came at most this long before the last
	exact bool          // at is the kernel's
}

func newStampedConn(conn net.Conn, sent func(time.Time)) *stampedConn {
	return &stampedConn{Conn: conn, kernel: newKernelStamps(conn), lastReturn: time.Now(), headers: maxHeaderBytes, sent: sent}
}

// Read implements net.Conn.
func (c *stampedConn) Read(p []byte) (n int, err error) {
	if c.headers == 0 {
		return 0, errHeadersTooLarge
	}
	if c.headers > 0 && len(p) > c.headers {
		p = p[:c.headers]
	}
	var stamp time.Time
	if c.kernel != nil {
		n, stamp, err = c.kernel.read(p)
	} else {
		n, err = c.Conn.Read(p)
	}
	c.note(n, stamp)
	if c.headers > 0 {
		c.headers -= n
	}
	return n, err
}

// note works out when the bytes came that a read has just returned. A stamp is the kernel's wall clock, which
// may be stepped; all else counts on the monotonic clock. So the stamp is used as a delay, and is believed only
// if the bytes can have waited that long: not before the previous read returned, for that read left nothing.
func (c *stampedConn) note(n int, stamp time.Time) {
	now := time.Now()
	since := now.Sub(c.lastReturn)
	before := c.arrival.at
	c.lastReturn = now
	c.arrival = arrival{read: c.arrival.read + 1, bytes: n, at: now, span: since}
	if stamp.IsZero() {
		return
	}
	// Without their monotonic readings, the difference of the two is that of the wall clock.
	delay := now.Round(0).Sub(stamp)
	if delay < 0 || delay > since+stampSlack {
		return
	}
	if !before.IsZero() {
		delay = min(delay, now.Sub(before)) // bytes come in their order
	}
	c.arrival.at, c.arrival.delay, c.arrival.exact = now.Add(-delay), delay, true
	c.arrival.span = max(0, since-delay)
}

// stampSlack is what a byte may seem to have come before the previous read returned: it may have come between
// that read and the look at the clock, and the two clocks run at slightly different rates.
const stampSlack = 100 * time.Microsecond

// headersEnded lifts the bound on headers.
func (c *stampedConn) headersEnded() { c.headers = -1 }

// armWrite makes the next write report its time.
func (c *stampedConn) armWrite() { c.awaitWrite.Store(true) }

// Write implements net.Conn.
func (c *stampedConn) Write(p []byte) (int, error) {
	if c.awaitWrite.CompareAndSwap(true, false) {
		c.sent(time.Now())
	}
	return c.Conn.Write(p)
}

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialSlot is where a dial leaves its connection for the probe that asked for it. It travels in the context,
// since the layers between (go-conntrack, TLS, net/http) hide what they wrap.
type dialSlot struct {
	conn atomic.Pointer[stampedConn]
	sent func(time.Time)
}

type dialSlotKey struct{}

// Dial makes dial use addresses of the family only.
func (f IPFamily) Dial(dial DialFunc) DialFunc {
	suffix := map[IPFamily]string{IPv4: "4", IPv6: "6"}[f]
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network+suffix, address)
	}
}

// stamped makes dial wrap its connections for the probe in whose context it is called.
func stamped(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		slot, ok := ctx.Value(dialSlotKey{}).(*dialSlot)
		if err != nil || !ok {
			return conn, err
		}
		c := newStampedConn(conn, slot.sent)
		slot.conn.Store(c)
		return c, nil
	}
}
