package prober

import "time"

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
