//go:build linux && (amd64 || arm64)

package prober

import (
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// gate lets the two sides of a test connection take turns.
type gate chan struct{}

func (g gate) open() { close(g) }
func (g gate) pass() { <-g }

// writer is the server's side: it notes when each write began and when it had returned.
type writer struct {
	conn net.Conn
	mu   sync.Mutex
	at   []span
}

type span struct{ before, after time.Time }

func (w *writer) write(text string) {
	before := time.Now()
	_, _ = io.WriteString(w.conn, text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = append(w.at, span{before, time.Now()})
}

func (w *writer) spans() []span {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// keepStamping makes the kernel stamp for the time of the test. It begins to do so only a moment after the first
// socket has asked for it, and stops after the last has gone: the first bytes of a lone connection have no stamp.
func keepStamping(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", serveTCP(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := newStampedConn(conn, func(time.Time) {})
	for range 10_000 {
		if _, err := io.WriteString(c, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if c.times.arrival.exact {
			return
		}
	}
	t.Fatal("the kernel gives no stamps")
}

// stampedPair is a connection over loopback whose client's end is stamped.
func stampedPair(t *testing.T, serve func(*writer)) (*stampedConn, *writer) {
	t.Helper()
	keepStamping(t)
	w := &writer{}
	ready := make(gate)
	address := serveTCP(t, func(conn net.Conn) {
		ready.pass()
		w.conn = conn
		serve(w)
	})
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := newStampedConn(conn, func(time.Time) {})
	if c.kernel == nil {
		t.Fatal("no kernel stamps for a TCP connection")
	}
	ready.open()
	return c, w
}

// A stamp lies between the write and the return of the read, and the delay is the rest.
func TestKernelStampsLieBetweenWriteAndRead(t *testing.T) {
	turns := make(chan struct{})
	defer close(turns)
	c, w := stampedPair(t, func(w *writer) {
		for range turns {
			w.write("hello")
		}
	})
	buffer := make([]byte, 64)
	for i := range 50 {
		turns <- struct{}{}
		n, err := c.Read(buffer)
		returned := time.Now()
		if err != nil || string(buffer[:n]) != "hello" {
			t.Fatalf("read %q, %v", buffer[:n], err)
		}
		a := c.times.arrival
		if !a.exact || a.batch != i+1 || a.bytes != 5 {
			t.Fatalf("arrival %+v", a)
		}
		for len(w.spans()) <= i {
			<-time.After(time.Millisecond)
		}
		// The two clocks are read one after the other, so the bounds have a slack.
		if wrote := w.spans()[i].before; a.at.Before(wrote.Add(-stampSlack)) || a.at.After(returned) {
			t.Errorf("write at 0, stamp at %v, read returned at %v", a.at.Sub(wrote), returned.Sub(wrote))
		}
		if a.delay < 0 || a.span < 0 {
			t.Errorf("delay %v, span %v", a.delay, a.span)
		}
	}
}

// A reader that is late still knows when the bytes came.
func TestKernelStampsSurviveALateReader(t *testing.T) {
	c, w := stampedPair(t, func(w *writer) { w.write("hello") })
	<-time.After(30 * time.Millisecond) // the reader is not given the processor
	woke := time.Now()
	if _, err := c.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	a, wrote := c.times.arrival, w.spans()[0]
	if !a.exact || a.at.After(woke) || a.at.Before(wrote.before.Add(-stampSlack)) {
		t.Errorf("written at 0 to %v, read from %v on, stamp %v: %+v", wrote.after.Sub(wrote.before), woke.Sub(wrote.before), a.at.Sub(wrote.before), a)
	}
	if a.delay < 10*time.Millisecond {
		t.Errorf("the bytes waited %v", a.delay)
	}
}

func TestKernelStampsAreOfTCPOnly(t *testing.T) {
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	if newKernelStamps(client) != nil {
		t.Error("a pipe has kernel stamps")
	}
}

// Errors and the end of a connection are those of net.TCPConn.
func TestStampedConnKeepsTheEnd(t *testing.T) {
	c, _ := stampedPair(t, func(w *writer) { w.write("bye") })
	all, err := io.ReadAll(c)
	if err != nil || string(all) != "bye" {
		t.Errorf("read %q, %v", all, err)
	}
	if n, err := c.Read(nil); n != 0 || err != nil {
		t.Errorf("reading nothing: %d, %v", n, err)
	}
	hung := make(gate)
	defer hung.open()
	c, _ = stampedPair(t, func(*writer) { hung.pass() })
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || !err.(interface{ Timeout() bool }).Timeout() {
		t.Errorf("past the deadline: %v", err)
	}
	c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("reading a closed connection gives no error")
	}
}

func TestStampedReadAllocatesNothing(t *testing.T) {
	c, _ := stampedPair(t, func(w *writer) { w.write(strings.Repeat("a", 4096)); <-time.After(50 * time.Millisecond) })
	buffer := make([]byte, 1)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := c.Read(buffer); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations a read", n)
	}
}

// held is a scene in which the observer keeps the reader from reading after the first token, until the server has
// written all of writes, with a pause of 5 ms after each.
func held(t *testing.T, watch *Watch, wrap func(func(net.Conn)) func(net.Conn), change func(*Target), writes ...string) *Result {
	t.Helper()
	keepStamping(t)
	reading, written := make(gate), make(gate)
	scheme := "http"
	handle := llm(func(conn net.Conn, _ sentRequest) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+expand("{ROLE}{C:a}"))
		reading.pass()
		<-time.After(time.Millisecond) // what was read before is well before what comes now
		for _, text := range writes {
			_, _ = io.WriteString(conn, expand(text))
			<-time.After(5 * time.Millisecond)
		}
		written.open()
		_, _ = io.Copy(io.Discard, conn) // a FIN would have a stamp of its own
	})
	if wrap != nil {
		scheme, handle = "https", wrap(handle)
	}
	target := at(scheme, serveTCP(t, handle))
	if change != nil {
		change(&target)
	}
	g := newRig(t, nil, target)
	g.client.watch = watch
	var once sync.Once
	g.rec.onToken = func() {
		once.Do(func() {
			reading.open()
			written.pass()
		})
	}
	return g.once(t)
}

// punctual repeats a probe that was read too late: on a busy machine that may happen to any.
func punctual(probe func() *Result) (res *Result) {
	for range 5 {
		if res = probe(); len(lateTokens(res)) == 0 {
			break
		}
	}
	return res
}

// lateTokens lists the token events that may have come more than a millisecond before their stamps.
func lateTokens(res *Result) (list []int) {
	for i, early := range res.Early {
		if early > time.Millisecond {
			list = append(list, i)
		}
	}
	return list
}

const finish = "{FIN:length}{USAGE:512,128}{DONE}"

// What waits unread in one piece may have come at several times: nobody knows when, and the prober says so. What
// was written at once came at once, and is exact.
func TestLateReader(t *testing.T) {
	big := "{C:<3000 x a>}" + strings.Repeat("{C:<200 x b>}", 100) + finish // 30 kB
	for _, c := range []struct {
		name   string
		writes []string
		tokens []int // that were late, of those after the first
		late   bool
	}{
		{"one token a segment", []string{"{C:b}", "{C:c}", finish}, []int{1, 2}, true},
		{"the second of two holds the end too", []string{"{C:b}", "{C:c}" + finish}, []int{1, 2}, true},
		{"all in one write", []string{"{C:b}{C:c}" + finish}, nil, false},
		{"one token, then what trails it 5 ms later", []string{"{C:b}", finish}, []int{1}, true},
		{"a write of many reads", []string{big}, nil, false},
		{"tokens longer than the buffer", []string{"{C:<6000 x b>}", "{C:<6000 x c>}" + finish}, []int{1, 2}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := func() *Result { return held(t, nil, nil, nil, c.writes...) }
			if !c.late {
				probe = func() *Result { return punctual(func() *Result { return held(t, nil, nil, nil, c.writes...) }) }
			}
			res := probe()
			if got := res.Suspect.Has(SuspectReaderLate); !res.OK() || got != c.late {
				t.Errorf("%s (%v): late %v, want %v", outcome(res), res.Err, got, c.late)
			}
			// On a busy machine the first may be late too.
			if late := slices.DeleteFunc(lateTokens(res), func(i int) bool { return i == 0 }); !slices.Equal(late, c.tokens) {
				t.Errorf("late tokens %v, want %v", late, c.tokens)
			}
			if res.ReadDelay < 4*time.Millisecond || !res.KernelStamps {
				t.Errorf("read delay %v, kernel stamps %v", res.ReadDelay, res.KernelStamps)
			}
		})
	}
}

// A reader that keeps up is never late, however the server writes. Here the server waits, after each write, until
// the tokens in it have been seen.
func TestPunctualReader(t *testing.T) {
	keepStamping(t)
	half := "data: {\"choices\":[{\"delta\":{\"con"
	for name, writes := range map[string][]string{
		"a token a write":        {"{ROLE}{C:hm}", "{C:hm}", "{C:hm}", "{C:hm}"},
		"several tokens a write": {"{C:a}{C:b}{C:c}", "{C:a}{C:b}{C:c}", "{C:a}{C:b}{C:c}"},
		"a torn event":           {"{C:a}", half, "tent\":\"a\"}}]}\n\n", "{C:b}"},
		"one big write":          {"{C:a}", "{C:<30000 x b>}{C:c}", "{C:d}"},
		"one write of all":       {"{C:a}{C:b}{C:c}"},
	} {
		t.Run(name, func(t *testing.T) {
			res := punctual(func() *Result {
				seen := make(chan struct{}, 100)
				address := serveTCP(t, llm(func(conn net.Conn, _ sentRequest) {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
					for _, text := range writes {
						_, _ = io.WriteString(conn, expand(text))
						for range strings.Count(text, "{C:") + strings.Count(text, "tent") {
							<-seen
						}
						<-time.After(2 * time.Millisecond)
					}
					_, _ = io.WriteString(conn, expand(finish))
					_, _ = io.Copy(io.Discard, conn)
				}))
				g := newRig(t, nil, at("http", address))
				g.rec.onToken = func() { seen <- struct{}{} }
				return g.once(t)
			})
			if !res.OK() || res.Suspect.Has(SuspectReaderLate) || !res.KernelStamps {
				t.Errorf("%s (%v), kernel stamps %v", outcome(res), res.Err, res.KernelStamps)
			}
		})
	}
}

func TestKernelStampsUnderTLS(t *testing.T) {
	cert, authority := certificate(t)
	wrap := func(handle func(net.Conn)) func(net.Conn) { return overTLS(cert, handle) }
	res := punctual(func() *Result { return held(t, nil, wrap, trusting(authority), "{C:b}"+finish) })
	if !res.OK() || !res.KernelStamps || res.Suspect.Has(SuspectReaderLate) {
		t.Errorf("%s (%v), kernel stamps %v", outcome(res), res.Err, res.KernelStamps)
	}
	if res.ReadDelay < 4*time.Millisecond {
		t.Errorf("read delay %v", res.ReadDelay)
	}
	if res.CertExpiry.IsZero() {
		t.Error("no expiry of the certificate")
	}
	if res := held(t, nil, wrap, trusting(authority), "{C:b}", "{C:c}", finish); !res.Suspect.Has(SuspectReaderLate) {
		t.Errorf("two records that waited: %s", outcome(res))
	}
}

// Stamps are the kernel's wall clock. A clock that was stepped gives a delay that cannot be, and is not believed.
func TestNoteBelievesOnlyWhatCanBe(t *testing.T) {
	for _, c := range []struct {
		name  string
		stamp func(now, before time.Time) time.Time // before: when the previous read was tried
		exact bool
	}{
		{"no stamp", func(_, _ time.Time) time.Time { return time.Time{} }, false},
		{"a stamp of now", func(now, _ time.Time) time.Time { return now }, true},
		{"a stamp between the reads", func(now, before time.Time) time.Time { return before.Add(now.Sub(before) / 2) }, true},
		{"a moment before the previous read was tried", func(_, before time.Time) time.Time { return before.Add(-stampSlack / 2) }, true},
		{"the clock was set back", func(now, _ time.Time) time.Time { return now.Add(time.Hour) }, false},
		{"the clock was set forward", func(now, _ time.Time) time.Time { return now.Add(-time.Hour) }, false},
		{"long before the previous read was tried", func(_, before time.Time) time.Time { return before.Add(-time.Second) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := time.Now()
			conn := &stampedConn{times: readTimes{tried: before}}
			<-time.After(2 * time.Millisecond)
			now := time.Now()
			stamp := c.stamp(now, before)
			if !stamp.IsZero() {
				stamp = stamp.Round(0) // the kernel knows no monotonic clock
			}
			conn.note(7, false, received{stamp: stamp, tried: now})
			returned := time.Now()
			a := conn.times.arrival
			if a.exact != c.exact || a.bytes != 7 || a.batch != 1 {
				t.Errorf("arrival %+v, want exact %v", a, c.exact)
			}
			if a.at.Before(before.Add(-stampSlack)) || a.at.After(returned) {
				t.Errorf("at %v after the previous read was tried", a.at.Sub(before))
			}
			if !c.exact && (a.delay != 0 || a.at.Before(now)) {
				t.Errorf("no stamp, but a delay of %v", a.delay)
			}
			if c.exact && stamp.Sub(a.at.Round(0)).Abs() > 10*time.Microsecond {
				t.Errorf("stamp %v, taken as %v", stamp, a.at)
			}
		})
	}
}

func TestArrivalsKeepTheirOrder(t *testing.T) {
	conn := &stampedConn{times: readTimes{tried: time.Now()}}
	conn.note(1, false, received{tried: time.Now()})
	first := conn.times.arrival.at
	conn.note(1, false, received{tried: time.Now(), stamp: first.Add(-stampSlack / 2).Round(0)})
	if conn.times.arrival.at.Before(first) {
		t.Errorf("the second bytes came %v before the first", first.Sub(conn.times.arrival.at))
	}
}

// With a watch, of what waited together the first is known as well as the last.
func TestWatch(t *testing.T) {
	watch := NewWatch()
	if watch == nil {
		t.Skip("the kernel does not tell how long a thread waited for the processor")
	}
	defer watch.Close()
	cert, authority := certificate(t)
	secure := func(handle func(net.Conn)) func(net.Conn) { return overTLS(cert, handle) }
	for _, c := range []struct {
		name   string
		writes []string
		unsure []int // tokens, of those after the first
		gaps   []time.Duration
	}{
		{"the last token, then what trails it", []string{"{C:b}", finish}, nil, []time.Duration{0}},
		{"two tokens, the second with what trails it", []string{"{C:b}", "{C:c}" + finish}, []int{2}, []time.Duration{0, 5 * time.Millisecond}},
		{"three tokens", []string{"{C:b}", "{C:c}", "{C:d}" + finish}, []int{2, 3}, []time.Duration{0, 5 * time.Millisecond, 5 * time.Millisecond}},
	} {
		for _, over := range []string{"TCP", "TLS"} {
			t.Run(c.name+" over "+over, func(t *testing.T) {
				wrap, change := secure, trusting(authority)
				if over == "TCP" {
					wrap, change = nil, nil
				}
				var res *Result
				for range 20 { // on a busy machine the watch may be late too
					res = held(t, watch, wrap, change, c.writes...)
					if late := slices.DeleteFunc(lateTokens(res), func(i int) bool { return i == 0 }); res.OK() && slices.Equal(late, c.unsure) {
						break
					}
				}
				if late := slices.DeleteFunc(lateTokens(res), func(i int) bool { return i == 0 }); !res.OK() || !slices.Equal(late, c.unsure) {
					t.Fatalf("%s (%v): unsure %v, want %v", outcome(res), res.Err, late, c.unsure)
				}
				for i, want := range c.gaps {
					if gap := res.Gap(i); want > 0 && gap.Most < want {
						t.Errorf("gap %d is %v to %v, but the server let pass %v", i, gap.Least, gap.Most, want)
					}
				}
			})
		}
	}
}
