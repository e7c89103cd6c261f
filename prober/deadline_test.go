package prober

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/internal/cputest"
	"github.com/llm-prober/llm_prober/internal/httpclient"
)

// flood sends a text over and over until the client leaves.
func flood(text string) func(net.Conn) {
	return func(conn net.Conn) {
		for {
			if _, err := io.WriteString(conn, text); err != nil {
				return
			}
		}
	}
}

// holding sends a text and waits until the client leaves.
func holding(text string) func(net.Conn) {
	return func(conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		_, _ = io.Copy(io.Discard, conn)
	}
}

// asked waits for the first bytes of a request.
func asked(then func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			then(conn)
		}
	}
}

// Floods, which are no answer: they look alive and never end.
var floods = map[string]string{
	"comments":            ": still here\n\n",
	"empty lines":         "\n",
	"events without data": "event: ping\n\n",
	"tiny events":         "data: {}\n\n",
	"lines of no field":   "x\n\n",
	"roles":               expand("{ROLE}"),
	"single bytes":        ":",
}

// A stream that keeps coming ends its probe at the deadline, to the instant, and nothing that comes later is read.
func TestFloodEndsAtTheDeadline(t *testing.T) {
	const every = 7 * time.Millisecond
	for name, text := range floods {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var last time.Time // when something was last taken
				dial := func(context.Context, string, string) (net.Conn, error) {
					client, end := net.Pipe()
					go llm(func(conn net.Conn, _ sentRequest) {
						_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
						for err == nil {
							last = time.Now()
							if _, err = io.WriteString(conn, text); err == nil {
								err = wait(conn, every)
							}
						}
					})(end)
					return client, nil
				}
				res := newRig(t, dial, at("http", "h:1")).once(t)
				synctest.Wait()
				deadline := res.Started.Add(10 * time.Second)
				if res.Reason != ReasonTimeout || !res.Ended.Equal(deadline) {
					t.Errorf("%s (%v) after %v, want a timeout after 10s", outcome(res), res.Err, res.Ended.Sub(res.Started))
				}
				if early := deadline.Sub(last); early < 0 || early > every {
					t.Errorf("the last that was sent came %v before the deadline", early)
				}
			})
		})
	}
}

// On a real socket, as fast as it goes, the same floods cost at most two processors until the deadline, or less where
// a bound on the stream ends them before.
func TestFloodOnASocket(t *testing.T) {
	for name, text := range floods {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{}, 10)
			address := serveTCP(t, llm(func(conn net.Conn, _ sentRequest) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
				_, _ = io.WriteString(conn, ":"+strings.Repeat("x", 2<<20)+"\n") // the reader's buffer grows
				flood(strings.Repeat(text, max(1, (64<<10)/len(text))))(conn)
				left <- struct{}{}
			}))
			cputest.Linear(t, 0, func() {
				g := newRig(t, nil, at("http", address, impatient))
				res := g.once(t)
				if res.Reason != ReasonTimeout && res.Reason != ReasonTooLarge {
					t.Errorf("%s (%v)", outcome(res), res.Err)
				}
				if !res.Headers.IsZero() { // else the probe ended before the server was asked
					<-left // for ever, if the connection is not closed
				}
			})
		})
	}
}

// throughProxy makes a target be reached by way of a proxy.
func throughProxy(address string) func(*Target) {
	return func(t *Target) {
		t.HTTP.ProxyURL = promconfig.URL{URL: &url.URL{Scheme: "http", Host: address, User: url.UserPassword("user", "proxy-secret")}}
	}
}

// Whatever a server does with a connection, a probe ends by its deadline with a reason, and its connection with it.
func TestConnectionEndsWithItsProbe(t *testing.T) {
	toProbe := func(handle func(net.Conn)) func(net.Conn) {
		return llm(func(conn net.Conn, _ sentRequest) { handle(conn) })
	}
	for _, c := range []struct {
		name   string
		server func(net.Conn)
		scheme string
		change func(*Target)
		reason Reason
		tells  string
	}{
		{"101, held", toProbe(holding("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")), "http", nil, ReasonHTTPStatus, "HTTP status 101"},
		{"101 and a flood", toProbe(func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
			flood("data: {}\n\n")(conn)
		}), "http", nil, ReasonHTTPStatus, "HTTP status 101"},
		{"101 to the list of models", asked(holding("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")), "http", func(t *Target) { t.Model = "" }, ReasonHTTPStatus, "HTTP status 101"},
		{"100 without end", toProbe(flood("HTTP/1.1 100 Continue\r\n\r\n")), "http", nil, ReasonTooLarge, "headers exceed"},
		{"103 without end", toProbe(flood("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")), "http", nil, ReasonTooLarge, "headers exceed"},
		{"103, and then nothing", toProbe(holding("HTTP/1.1 103 Early Hints\r\n\r\n")), "http", impatient, ReasonTimeout, "no end after 60ms, waiting for the headers of the answer"},
		{"the body of an error, without end", toProbe(func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 500 No\r\n\r\n")
			flood("no ")(conn)
		}), "http", nil, ReasonHTTPStatus, "HTTP status 500: no no"},
		{"the body of an error, held", toProbe(holding("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nno")), "http", impatient, ReasonHTTPStatus, "HTTP status 500: no"},
		{"comments without end", toProbe(func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
			flood(": still here\n\n")(conn)
		}), "http", impatient, ReasonTimeout, "no end after 60ms"},
		{"a request that is not read", func(conn net.Conn) {
			for buffer := make([]byte, 1); ; {
				if _, err := conn.Read(buffer); err != nil {
					return
				}
				<-time.After(5 * time.Millisecond)
			}
		}, "http", impatient, ReasonTimeout, "no end after 60ms"},
		{"a TLS handshake that hangs", holding(""), "https", impatient, ReasonTimeout, "no end after 60ms, in the TLS handshake"},
		{"a proxy that hangs", holding(""), "proxy", impatient, ReasonTimeout, "no end after 60ms, connected to 127.0.0.1:"},
		{"a proxy that sends without end", flood("HTTP/1.1 100 Continue\r\n\r\n"), "proxy", impatient, ReasonConnect, "the proxy 127.0.0.1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			left := make(chan struct{}, 100)
			address := serveTCP(t, func(conn net.Conn) {
				c.server(conn)
				left <- struct{}{}
			})
			target := at(c.scheme, address)
			if c.scheme == "proxy" {
				target = at("https", "llm.example:443", throughProxy(address))
			}
			if c.change != nil {
				c.change(&target)
			}
			res := newRig(t, nil, target).once(t)
			if res.Reason != c.reason || res.Err == nil || !strings.Contains(res.Err.Error(), c.tells) {
				t.Errorf("%s (%v), want %s that tells %q", outcome(res), res.Err, c.reason, c.tells)
			}
			if res.Err != nil && strings.Contains(res.Err.Error(), "proxy-secret") {
				t.Error("the error has the proxy's password")
			}
			<-left // for ever, if the connection is not closed
		})
	}
}

// Credentials that cannot be read to their end, as from a pipe that nobody writes to, end no later either.
func TestRequestThatIgnoresItsContext(t *testing.T) {
	hang := make(chan struct{})
	g := newRig(t, nil, at("http", "127.0.0.1:1", impatient))
	g.client.transport = httpclient.Bound(hanging(hang))
	want := "no end after 60ms"
	for range httpclient.MaxLeft {
		if res := g.once(t); res.Reason != ReasonTimeout || !strings.Contains(res.Err.Error(), want) {
			t.Fatalf("%s (%v), want a timeout that tells %q", outcome(res), res.Err, want)
		}
	}
	if res := g.once(t); res.Reason != ReasonInternal {
		t.Errorf("with %d requests left behind: %s (%v)", httpclient.MaxLeft, outcome(res), res.Err)
	}
	close(hang)
	res := g.once(t)
	for ; res.Reason == ReasonInternal; res = g.once(t) { // for ever, if they are not counted down
	}
	if res.Reason != ReasonAuth {
		t.Errorf("once none is left: %s (%v)", outcome(res), res.Err)
	}
}

// Of a name with two addresses the first of which swallows all, the second gets its share of the deadline.
func TestDialKnowsTheDeadline(t *testing.T) {
	var got time.Duration
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		deadline, _ := ctx.Deadline()
		got = time.Until(deadline).Round(time.Second)
		return nil, refusedError
	}
	newRig(t, dial, at("http", "h:1")).once(t)
	if got != 10*time.Second {
		t.Errorf("the dial has %v, want the probe's 10s", got)
	}
}

// hanging is a transport that reads something before it connects.
func hanging(until <-chan struct{}) roundTripper {
	return func(*http.Request) (*http.Response, error) {
		<-until
		return nil, io.ErrUnexpectedEOF
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
