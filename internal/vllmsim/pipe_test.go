package vllmsim

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// network is an in-memory network with one server on it; it works inside a synctest bubble.
type network struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (n *network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

func (n *network) Close() error {
	n.once.Do(func() { close(n.done) })
	return nil
}

func (n *network) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

func (n *network) dial() (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.done:
		return nil, net.ErrClosed
	}
}

// serve runs a simulator on a network of its own until the test ends.
func serve(t *testing.T, cfg Config) (*Server, *network) {
	t.Helper()
	s := New(cfg)
	n := &network{conns: make(chan net.Conn), done: make(chan struct{})}
	web := &http.Server{Handler: s.Handler()}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		web.Serve(n)
	}()
	t.Cleanup(func() {
		s.Close()
		web.Close()
		<-ended
	})
	return s, n
}

// client speaks HTTP on the network, one connection a request.
func (n *network) client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return n.dial() },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// read is what one socket read returned, and when.
type read struct {
	at    time.Duration
	bytes string
}

// exchange sends a request and returns every read of the answer, up to the end of the connection.
func (n *network) exchange(t *testing.T, method, path string, headers map[string]string, body string) []read {
	t.Helper()
	conn, err := n.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req, err := http.NewRequest(method, "http://sim"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	req.Close = true
	start := time.Now()
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	var reads []read
	buf := make([]byte, 1<<20)
	for {
		k, err := conn.Read(buf)
		if k > 0 {
			reads = append(reads, read{time.Since(start), string(buf[:k])})
		}
		if err != nil {
			return reads
		}
	}
}

// get returns the body of a page.
func (n *network) get(t *testing.T, path string) string {
	t.Helper()
	resp := parse(t, joined(n.exchange(t, "GET", path, nil, "")))
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func joined(reads []read) string {
	var b strings.Builder
	for _, r := range reads {
		b.WriteString(r.bytes)
	}
	return b.String()
}

func parse(t *testing.T, raw string) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), nil)
	if err != nil {
		t.Fatalf("%v in %.200q", err, raw)
	}
	return resp
}
