//go:build linux && (amd64 || arm64)

package prober

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
	"unsafe"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// The ways in which a prober that was not given the processor once took a time for one that it knew.

// The processor may be lost between the system call and the look at the clock. What came meanwhile has a stamp
// from before the read returned, as we see it, and the stamp is right.
func TestNoteBelievesWhatCameBeforeTheReadReturned(t *testing.T) {
	tried := time.Now()
	conn := &stampedConn{times: readTimes{tried: tried.Add(-time.Second)}}
	<-time.After(5 * time.Millisecond) // the first read was made, and then the processor was lost
	conn.note(7, false, received{tried: tried, stamp: tried.Round(0)})
	next := time.Now()
	came := tried.Add(2 * time.Millisecond)
	conn.note(7, false, received{tried: next, stamp: came.Round(0)})
	a := conn.times.arrival
	if !a.exact || a.at.Sub(came).Abs() > 100*time.Microsecond {
		t.Errorf("came %v after the first read was made, taken as %v: %+v", came.Sub(tried), a.at.Sub(tried), a)
	}
	if span := a.at.Sub(tried); (a.span - span).Abs() > 100*time.Microsecond {
		t.Errorf("what the read holds may have come over %v, want %v", a.span, span)
	}
}

// The processor may be lost between the looks at the two clocks. Then they do not belong together.
func TestClocksThatDoNotBelongTogether(t *testing.T) {
	earlier := time.Now()
	good := earlier.Add(3 * time.Millisecond)
	// apart gives a time that the package time would not: its second word is the monotonic clock.
	apart := func(at time.Time, d time.Duration) time.Time {
		(*struct {
			wall uint64
			ext  int64
		})(unsafe.Pointer(&at)).ext -= int64(d)
		return at
	}
	for _, c := range []struct {
		name  string
		reads []time.Duration // how far the two clocks of each are apart
		want  int             // which is taken
	}{
		{"together", []time.Duration{0}, 0},
		{"a moment apart", []time.Duration{stampSlack}, 0},
		{"the processor was lost", []time.Duration{-5 * time.Millisecond, 0}, 1},
		{"and lost again", []time.Duration{-5 * time.Millisecond, -time.Millisecond, 0}, 2},
		{"the wall clock was set", []time.Duration{time.Hour, time.Hour, time.Hour, time.Hour}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := -1
			got := clocksSince(earlier, func() time.Time {
				n++
				return apart(good.Add(time.Duration(n)), c.reads[n])
			})
			if taken := got.Round(0).Sub(good.Round(0)); n != c.want || taken != time.Duration(c.want) {
				t.Errorf("read the clocks %d times and took reading %d, want %d", n+1, taken, c.want)
			}
		})
	}
}

// A read that found nothing tells that what the next one returns came later.
func TestNoteKnowsWhenNothingWasThere(t *testing.T) {
	start := time.Now()
	conn := &stampedConn{times: readTimes{tried: start.Add(-time.Second)}}
	<-time.After(3 * time.Millisecond)
	conn.note(7, false, received{tried: time.Now(), empty: start, stamp: start.Add(2 * time.Millisecond).Round(0)})
	if a := conn.times.arrival; !a.exact || (a.span-2*time.Millisecond).Abs() > 100*time.Microsecond {
		t.Errorf("%+v, want a span of 2 ms", a)
	}
}

// Reads that fill their buffers are one batch with the read that follows.
func TestNoteJoinsReadsThatFillTheirBuffers(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		name   string
		filled bool
		empty  time.Time
		batch  int
		bytes  int
	}{
		{"the read before took all", false, time.Time{}, 2, 3},
		{"the read before filled its buffer", true, time.Time{}, 1, 10},
		{"it did, but nothing was left", true, now, 2, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := &stampedConn{times: readTimes{tried: now}}
			conn.note(7, c.filled, received{tried: now})
			conn.note(3, false, received{tried: now, empty: c.empty})
			if a := conn.times.arrival; a.batch != c.batch || a.bytes != c.bytes {
				t.Errorf("batch %d of %d bytes, want %d of %d", a.batch, a.bytes, c.batch, c.bytes)
			}
		})
	}
}

// net/http reads on until a chunk is complete before it hands on the events that are: nobody saw them before.
func TestNoteJoinsReadsForOnePieceOfTheBody(t *testing.T) {
	start := time.Now()
	conn := &stampedConn{times: readTimes{tried: start}}
	asking := &bodyReader{conn: conn, body: iotest.ErrReader(io.EOF)}
	steps := []struct {
		asked        bool
		after        time.Duration // the stamp, since the start
		batch, bytes int
		span         time.Duration
	}{
		{true, 3 * time.Millisecond, 1, 7, 3 * time.Millisecond},
		{false, 4 * time.Millisecond, 1, 7, 4 * time.Millisecond}, // since the start of the batch
		{true, 5 * time.Millisecond, 2, 7, time.Millisecond},
	}
	for i, s := range steps {
		if s.asked {
			_, _ = asking.Read(nil)
		}
		<-time.After(time.Until(start.Add(s.after)))
		tried := start.Add(s.after)
		conn.note(7, false, received{tried: tried, stamp: tried.Round(0)})
		a := conn.times.arrival
		if a.batch != s.batch || a.bytes != s.bytes || a.read != i+1 || (a.span-s.span).Abs() > 100*time.Microsecond {
			t.Errorf("read %d: batch %d, %d bytes, span %v; want %d, %d, %v", a.read, a.batch, a.bytes, a.span, s.batch, s.bytes, s.span)
		}
	}
}

// A token that waits together with the beginning of the next has the stamp of that.
func TestTokenBeforeATornOne(t *testing.T) {
	keepStamping(t)
	reading, written := make(gate), make(gate)
	b, c := expand("{C:b}"), expand("{C:c}"+finish)
	g := newRig(t, nil, at("http", serveTCP(t, llm(func(conn net.Conn, _ sentRequest) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+expand("{ROLE}{C:a}"))
		reading.pass()
		_, _ = io.WriteString(conn, b)
		<-time.After(5 * time.Millisecond)
		_, _ = io.WriteString(conn, c[:9])
		<-time.After(5 * time.Millisecond)
		written.open()
		<-time.After(20 * time.Millisecond)
		_, _ = io.WriteString(conn, c[9:])
		_, _ = io.Copy(io.Discard, conn)
	}))))
	var once sync.Once
	g.rec.onToken = func() {
		once.Do(func() {
			reading.open()
			written.pass()
		})
	}
	res := g.once(t)
	if !res.OK() || !res.Suspect.Has(SuspectReaderLate) || !slices.Contains(lateTokens(res), 1) {
		t.Errorf("%s, late tokens %v, want the second", outcome(res), lateTokens(res))
	}
}

// readable waits until so many bytes can be read.
func readable(t *testing.T, c *stampedConn, bytes int) {
	t.Helper()
	for range 1000 {
		if s, ok := c.kernel.segments(); ok && s.waiting == bytes {
			return
		}
		<-time.After(time.Millisecond)
	}
	t.Fatalf("%d bytes do not come", bytes)
}

// Segments that wait when they are counted are counted again with the batch that they are read with.
func TestSegmentsThatWaitBelongToTheNextBatch(t *testing.T) {
	turns := make(chan struct{})
	c, _ := stampedPair(t, func(w *writer) {
		for range turns {
			w.write("hello")
		}
	})
	defer close(turns)
	buffer := make([]byte, 64)
	turns <- struct{}{}
	readable(t, c, 5)
	if _, err := c.Read(buffer); err != nil {
		t.Fatal(err)
	}
	turns <- struct{}{}
	turns <- struct{}{}
	readable(t, c, 10)
	c.newSegments() // too late: more has come
	if n, err := c.Read(buffer); n != 10 || err != nil {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	if extra, _ := c.newSegments(); extra < 1 {
		t.Error("two segments in one read are taken for one")
	}
}

// A segment may come between the two questions to the kernel: how many there were, and how many bytes wait. What was
// read in two segments then looked like one, and one that waits.
func TestSnapshotOfSegments(t *testing.T) {
	closed := errors.New("closed")
	for _, c := range []struct {
		name    string
		counts  []int // each time they are asked for; -1: an error
		waiting []int
		want    string
	}{
		{"nothing comes", []int{18, 18}, []int{0}, "18 segments, 0 bytes wait, true"},
		{"one comes in between", []int{18, 19, 19}, []int{343, 343}, "19 segments, 343 bytes wait, true"},
		{"and another", []int{18, 19, 20, 20}, []int{343, 686, 686}, "20 segments, 686 bytes wait, true"},
		{"the connection is closed", []int{-1}, nil, "0 segments, 0 bytes wait, false"},
		{"and in between", []int{18, 18}, []int{-1}, "0 segments, 0 bytes wait, false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := func(list *[]int) (n int, err error) {
				if n, *list = (*list)[0], (*list)[1:]; n < 0 {
					return 0, closed
				}
				return n, nil
			}
			s, ok := snapshot(func() (segments, error) {
				n, err := next(&c.counts)
				return segments{count: n, full: 1448}, err
			}, func() (int, error) { return next(&c.waiting) })
			if got := fmt.Sprintf("%d segments, %d bytes wait, %v", s.count, s.waiting, ok); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// net/http closes a connection when it has read the end, and only then the last events are looked at.
func TestSegmentsAreCountedAfterTheEnd(t *testing.T) {
	c, _ := stampedPair(t, func(w *writer) {
		w.write("hello")
		<-time.After(2 * time.Millisecond)
		w.write("hello")
		_, _ = io.Copy(io.Discard, w.conn)
	})
	readable(t, c, 10)
	if n, err := c.Read(make([]byte, 64)); n != 10 || err != nil {
		t.Fatalf("read %d bytes, %v", n, err)
	}
	c.Close()
	if extra, _ := c.newSegments(); extra != 1 {
		t.Errorf("%d segments beyond the first, want 1", extra)
	}
}

// Nobody knows better when a request left than that the processor may have been lost after its start stamp.
func TestRequestThatWasHeldBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration // after the start stamp
	}{
		{"sent at once", 0},
		{"sent 3 ms later", 3 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := serveTCP(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			s := newStampedConn(conn, func(time.Time) {
				if c.delay > 0 {
					<-time.After(c.delay)
				}
			})
			s.expectRequest()
			if _, err := io.WriteString(s, "POST /"); err != nil {
				t.Fatal(err)
			}
			if held := s.heldBack(); held < c.delay {
				t.Errorf("held back by %v, want at least %v", held, c.delay)
			}
		})
	}
}

// A server that writes faster than it is read makes one batch of thousands of events, since every read fills its buffer.
func TestWorkOfALongBatch(t *testing.T) {
	events := strings.Repeat("t", 300_000)
	cputest.Linear(t, len(events), func() {
		stampedReadings(nil, []reading{{at: 10, span: 10, segments: 2, events: events}})
	})
}
