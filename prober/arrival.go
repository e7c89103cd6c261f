package prober

import "time"

// received is what the kernel tells of one read.
type received struct {
	stamp time.Time // when the last byte was received, on the wall clock; zero: no stamp
	tried time.Time // just before the system call that returned it
	empty time.Time // just before a system call of the same read that found nothing; zero: the first one succeeded
}

// arrival is when the bytes of the last read came.
//
// A batch is what came between two moments at which the socket was empty. It is usually one read. The next read belongs
// to the same batch if the last one filled its buffer, since bytes may have been left that had come already. So does
// each read that net/http makes before it returns something of the body, since whoever reads the body sees the events
// of all of them at once.
type arrival struct {
	batch int           // number of the batch, from 1
	read  int           // number of the read, from 1
	bytes int           // returned since a read took all there was
	at    time.Time     // when the last byte came
	exact bool          // at is the kernel's
	delay time.Duration // for how long the last byte waited to be read
	span  time.Duration // the first byte of the batch came at most this long before at
}

// readTimes works out when bytes came.
type readTimes struct {
	arrival    arrival
	tried      time.Time // just before the system call of the last read
	filled     bool      // that read filled its buffer: else it took all there was
	emptied    time.Time // just before a moment at which the socket was empty; the last read's bytes came later
	batchAfter time.Time // the same for all bytes of the batch
	inBody     bool      // the reader of the body tells when it asks for more
	asked      bool      // it has done so since the last read
}

func newReadTimes(now time.Time) readTimes { return readTimes{tried: now, emptied: now} }

// ask is called when the reader of the body wants more: it has seen all that was read before.
func (t *readTimes) ask() { t.inBody, t.asked = true, true }

// emptiedBefore reports whether the socket was empty before a read returned something.
func (t *readTimes) emptiedBefore(r received) bool { return !t.filled || !r.empty.IsZero() }

// note works out when the bytes of a read came.
//
// The kernel's stamp is on the wall clock, which may be set at any time; everything else is on the monotonic clock. So
// the stamp is turned into a delay: how long ago, by the wall clock, the bytes came. The delay is believed only if the
// bytes can have waited for so long, which is since the system call that emptied the socket before. When that call
// returned does not count, since the thread may have lost the processor between the call and the look at the clock.
func (t *readTimes) note(n int, filled bool, r received) {
	now := clocksSince(r.tried, time.Now)
	a := &t.arrival
	before := a.at
	if t.emptiedBefore(r) {
		a.bytes, t.emptied = 0, t.tried
		if !t.inBody || t.asked {
			a.batch++
			t.batchAfter = t.tried
			if !r.empty.IsZero() {
				t.batchAfter = r.empty
			}
		}
	}
	t.tried, t.filled, t.asked = r.tried, filled, false
	a.bytes += n
	a.read++
	a.at, a.delay, a.exact = now, 0, false
	a.span = now.Sub(t.batchAfter)
	if r.stamp.IsZero() {
		return
	}
	delay := now.Round(0).Sub(r.stamp) // by the wall clock: neither has a monotonic reading
	if delay < 0 || delay > now.Sub(t.emptied)+stampSlack {
		return
	}
	if !before.IsZero() {
		delay = min(delay, now.Sub(before)) // bytes come in their order
	}
	a.at, a.delay, a.exact = now.Add(-delay), delay, true
	a.span = max(0, a.span-delay)
}

// stampSlack is by how much a stamp may lie before the system call that emptied the socket: the kernel stamps a segment
// a moment before it can be read, and the two clocks run at slightly different rates.
const stampSlack = 100 * time.Microsecond

// clocksSince reads the clock. A [time.Time] holds two readings, of the wall clock and of the monotonic clock, which are
// taken one after the other. If the thread loses the processor in between, they do not belong together, and a stamp of
// the one clock would be wrong on the other. So they are read again unless both say the same of how long ago an earlier
// time was.
func clocksSince(earlier time.Time, read func() time.Time) time.Time {
	const tries = 3 // the earlier time may be the one that is wrong, or the wall clock was set
	now := read()
	for range tries {
		if apart := now.Round(0).Sub(earlier.Round(0)) - now.Sub(earlier); apart.Abs() <= stampSlack {
			break
		}
		now = read()
	}
	return now
}
