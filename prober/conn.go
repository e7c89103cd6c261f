package prober

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
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

// received tells about one read from the kernel.
type received struct {
	stamp time.Time // when the last byte was received, on the wall clock; zero: not told
	tried time.Time // just before the system call that returned it
	empty time.Time // just before one that found nothing to read; zero: the first try succeeded
}

// arrival tells when the bytes came that were read last. A batch is one read, or several: where all but the last
// filled their buffers, the kernel may have had all of it when the first was made; and where all were made to return
// bytes of the body once, nobody saw the first before the last.
type arrival struct {
	batch int           // number of the batch, from 1
	read  int           // number of the read, from 1
	bytes int           // how many were returned since a read took all there was
	at    time.Time     // when the last byte came
	delay time.Duration // how long it had been waiting to be read
	span  time.Duration // the first byte came at most this long before the last
	exact bool          // at is the kernel's
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

// note works out when the bytes came that a read has just returned. A stamp is the kernel's wall clock, which
// may be stepped; all else counts on the monotonic clock. So the stamp is used as a delay, and is believed only
// if the bytes can have waited that long: not before the read before was tried, for that left nothing. When that
// read returned says less, for the processor may have been taken away between the system call and our clock.
func (c *stampedConn) note(n int, filled bool, r received) {
	c.counting.Lock()
	defer c.counting.Unlock()
	now := clocksSince(r.tried, time.Now)
	a := &c.arrival
	before := a.at
	if !c.filled || !r.empty.IsZero() {
		c.counts.least += c.counts.leastFor(a.bytes)
		a.bytes, c.floor = 0, c.tried
		if !c.inBody || c.asked {
			a.batch++
			c.start = c.tried
			if !r.empty.IsZero() {
				c.start = r.empty
			}
		}
	}
	c.tried, c.filled, c.asked = r.tried, filled, false
	a.bytes += n
	a.read++
	a.at, a.delay, a.exact = now, 0, false
	a.span = now.Sub(c.start)
	if r.stamp.IsZero() {
		return
	}
	// Without their monotonic readings, the difference of the two is that of the wall clock.
	delay := now.Round(0).Sub(r.stamp)
	if delay < 0 || delay > now.Sub(c.floor)+stampSlack {
		return
	}
	if !before.IsZero() {
		delay = min(delay, now.Sub(before)) // bytes come in their order
	}
	a.at, a.delay, a.exact = now.Add(-delay), delay, true
	a.span = max(0, a.span-delay)
}

// clocksSince reads the clock. A time holds two, the wall clock and the monotonic one, read one after the other: if the
// processor is lost in between, they do not belong together, and a stamp of the one would be off on the other by as
// long. So they are read again unless they agree on how long ago an earlier time was.
func clocksSince(earlier time.Time, read func() time.Time) time.Time {
	const tries = 3 // the earlier time may be the one that is off, or the wall clock was set
	now := read()
	for range tries {
		if apart := now.Round(0).Sub(earlier.Round(0)) - now.Sub(earlier); apart.Abs() <= stampSlack {
			break
		}
		now = read()
	}
	return now
}

// stampSlack is what a byte may seem to have come before the previous read was tried: the kernel stamps a segment
// a moment before it can be read, and the two clocks run at slightly different rates.
const stampSlack = 100 * time.Microsecond

// askingBody reads the body of an answer. net/http reads on until a chunk is complete, or its buffer full, before it
// returns an event that is complete: this tells the connection which reads were made for one piece.
//
// A server that sends without end must not take the processor from the readers of others: what comes faster than any
// model writes is read in bursts, with time for others between them, and slowly once it is longer than any answer.
type askingBody struct {
	conn  *stampedConn
	body  io.Reader
	total int
	since time.Time // when the burst began
	burst int       // bytes of it
}

const (
	bodyBurst  = 32 << 10         // bytes: the work on them takes some 0.5 ms
	longAnswer = 4 << 20          // bytes: 8,192 tokens of 500
	floodTime  = time.Millisecond // for a burst beyond that
)

func (b *askingBody) Read(p []byte) (n int, err error) {
	if b.burst >= bodyBurst {
		runtime.Gosched()
		if b.total > longAnswer {
			time.Sleep(floodTime - time.Since(b.since)) // not at all where it is over
		}
		b.burst = 0
	}
	if b.burst == 0 {
		b.since = time.Now()
	}
	b.conn.inBody, b.conn.asked = true, true
	n, err = b.body.Read(p)
	b.burst += n
	b.total += n
	return n, err
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

// segments is what the kernel knows of the TCP segments with data of a connection.
type segments struct {
	count   int           // received so far
	waiting int           // bytes of them that are still unread
	full    int           // bytes in one that holds as much as fits
	idle    time.Duration // since one was sent
}

// segmentCounts tells whether bytes came in more TCP segments than it takes to hold them.
type segmentCounts struct {
	full  int // bytes of a write that surely fill a segment; 0: not known yet
	least int // segments that the batches so far needed at least, the current one left out

	seenCount, seenLeast int // at the last look
}

// fullSegment is what a long write fills segments to at least. Those of a loopback hold 64 KiB, but the kernel
// sends no more than half a window at a time.
const fullSegment = 16 << 10

func (s *segmentCounts) leastFor(bytes int) int {
	switch {
	case bytes == 0:
		return 0
	case s.full == 0:
		return 1
	}
	return (bytes + s.full - 1) / s.full
}

// newSegments looks at the segments that came since it was called last. extra is how many they are beyond those that
// one write a batch would explain. long: the current batch came in several, but one long write would explain it.
func (c *stampedConn) newSegments() (extra int, long bool) {
	now, ok := c.kernel.segments()
	if !ok {
		last := c.last.Load()
		if last == nil {
			return 0, false
		}
		now = *last
	}
	s := &c.counts
	s.full = min(now.full, fullSegment)
	read := s.leastFor(c.arrival.bytes)
	current, next := read, s.leastFor(now.waiting)
	if c.filled {
		current, next = s.leastFor(c.arrival.bytes+now.waiting), 0
	}
	count, least := now.count-s.seenCount, s.least+current+next-s.seenLeast
	if now.waiting == 0 {
		s.seenCount = now.count
	} else {
		// Nobody knows how many of the segments are those that wait. So all that need not have been read are
		// left to the next batch: rather too many than too few.
		s.seenCount += s.least + read - s.seenLeast
	}
	s.seenLeast = s.least + read
	return count - least, current > 1 && count-(least-current) > 1
}

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialSlot is where a dial leaves its connection for the probe that asked for it. It travels in the context,
// since the layers between (go-conntrack, TLS, net/http) hide what they wrap.
type dialSlot struct {
	asker    context.Context // of whoever wants the answer: it ends at the deadline
	work     context.Context // of the request: it ends once what came before the deadline has been read
	deadline time.Time       // of asker; zero: none
	conn     atomic.Pointer[stampedConn]
	released atomic.Bool // whoever read the answer has closed it
	sent     func(time.Time)
	watch    *Watch // for the connection; nil: none
}

type dialSlotKey struct{}

// over tells whether a moment is after the deadline.
func (s *dialSlot) over(at time.Time) bool {
	return s != nil && !s.deadline.IsZero() && at.After(s.deadline)
}

// withDeadline gives a context the deadline.
func (s *dialSlot) withDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, s.deadline)
}

// cause is why the asker's context has ended, to be asked once its deadline has passed.
func (s *dialSlot) cause() error {
	<-s.asker.Done() // its timer may be a moment behind
	return context.Cause(s.asker)
}

// Dial makes dial use addresses of the family only.
func (f IPFamily) Dial(dial DialFunc) DialFunc {
	suffix := map[IPFamily]string{IPv4: "4", IPv6: "6"}[f]
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return dial(ctx, network+suffix, address)
	}
}

// stamped makes dial wrap its connections for the probe in whose context it is called, and end with it: net/http
// lets a dial go on after its request was given up, for the next request, which here has a dial of its own, and does
// not close a connection that was switched to another protocol. The dial knows the deadline, which net/http keeps
// from it: so each address of a name gets its share ([net.Dialer]).
func stamped(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		slot, ok := ctx.Value(dialSlotKey{}).(*dialSlot)
		if !ok {
			return dial(ctx, network, address) // for a token: nobody measures it
		}
		ctx, cancel := slot.withDeadline(ctx)
		defer cancel()
		defer context.AfterFunc(slot.work, cancel)()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := newStampedConn(conn, slot.sent)
		c.slot = slot
		if slot.watch != nil {
			c.wakes, c.unwatch = slot.watch.add(c.kernel)
		}
		slot.conn.Store(c)
		context.AfterFunc(slot.work, func() {
			if !slot.released.Load() { // else net/http closes it, in its own order
				c.Close()
			}
		})
		if slot.work.Err() != nil { // nobody may be left to close it
			c.Close()
			return nil, slot.work.Err()
		}
		return c, nil
	}
}
