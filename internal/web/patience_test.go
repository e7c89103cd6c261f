package web

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// pipes is a listener in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p pipes) ask(path string) net.Conn {
	client, server := net.Pipe()
	p <- server
	io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n") //nolint:errcheck // the reading tells
	return client
}

// bigMetrics is a page of 7 MB behind a limit of two at once.
func bigMetrics(t *testing.T) http.Handler {
	t.Helper()
	registry := prometheus.NewRegistry()
	many := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "llm_probe_up", Help: "Many."}, []string{"target"})
	for i := range 7000 {
		many.WithLabelValues(strings.Repeat("x", 1000) + time.Duration(i).String()).Set(1)
	}
	registry.MustRegister(many)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2})
}

// Clients that ask for a long page and do not read keep nobody else from it for longer than patience; one that reads,
// but slowly, gets all of it.
func TestClientsThatDoNotReadAreGivenUp(t *testing.T) {
	o := (&fleet{history: &History{}}).options()
	o.Metrics = bigMetrics(t)
	handler := New(o)
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		server := &http.Server{Handler: handler}
		served := make(chan error)
		go func() { served <- server.Serve(l) }()
		status := func() int {
			conn := l.ask("/metrics")
			defer conn.Close()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode
		}
		for range 2 {
			defer l.ask("/metrics").Close()
		}
		synctest.Wait()
		if got := status(); got != http.StatusServiceUnavailable {
			t.Fatalf("%d while the page is asked for by two: the limit is none", got)
		}
		time.Sleep(patience + time.Second)
		synctest.Wait()
		if got := status(); got != http.StatusOK {
			t.Errorf("%d after clients have not read for %s", got, patience)
		}

		slow := l.ask("/metrics")
		defer slow.Close()
		resp, err := http.ReadResponse(bufio.NewReader(slow), nil)
		if err != nil {
			t.Fatal(err)
		}
		total, err := io.Copy(io.Discard, everySecond{resp.Body})
		if err != nil || total < 7_000_000 {
			t.Errorf("a slow reader gets %d bytes: %v", total, err)
		}
		close(l)
		<-served
		server.Close()
	})
}

// The same under HTTP/2, where many answers share a connection: whether a client lets a stream's window run full or reads
// nothing at all from its connection.
func TestClientsThatDoNotReadHTTP2(t *testing.T) {
	o := (&fleet{history: &History{}}).options()
	o.Metrics = bigMetrics(t)
	handler := New(o)
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	for name, c := range map[string]struct{ window, reads int }{
		"a window runs full": {64 << 10, 0}, "the connection is not read": {4 << 20, 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := make(pipes)
				server := &http.Server{Handler: handler, HTTP2: HTTP2(), TLSConfig: &tls.Config{Certificates: certificate.TLS.Certificates}}
				served := make(chan error)
				go func() { served <- server.ServeTLS(l, "", "") }()
				ask := func(conn *deaf) *http.Response {
					client := &http.Transport{
						DialContext: func(context.Context, string, string) (net.Conn, error) {
							var end net.Conn
							conn.Conn, end = net.Pipe()
							l <- end
							return conn, nil
						},
						Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
						DisableCompression: true, HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: c.window},
					}
					client.Protocols.SetHTTP2(true)
					t.Cleanup(client.CloseIdleConnections)
					req, err := http.NewRequest(http.MethodGet, "https://h/metrics", nil)
					if err != nil {
						t.Fatal(err)
					}
					resp, err := client.RoundTrip(req)
					if err != nil {
						t.Fatal(err)
					}
					if resp.ProtoMajor != 2 {
						t.Fatal(resp.Proto)
					}
					return resp
				}
				status := func() int {
					resp := ask(&deaf{})
					resp.Body.Close()
					return resp.StatusCode
				}
				for range 2 {
					conn := &deaf{left: c.reads, closed: make(chan struct{})}
					resp := ask(conn)
					defer conn.Close()
					defer resp.Body.Close()
				}
				synctest.Wait()
				if got := status(); got != http.StatusServiceUnavailable {
					t.Fatalf("%d while the page is asked for by two: the limit is none", got)
				}
				time.Sleep(2*patience + time.Second)
				synctest.Wait()
				if got := status(); got != http.StatusOK {
					t.Errorf("%d after clients have not read for %s", got, patience)
				}
				close(l)
				<-served
				server.Close()
			})
		})
	}
}

// deaf is a connection that reads no more than a number of bytes.
type deaf struct {
	net.Conn
	left   int // 0: no bound
	closed chan struct{}
	once   sync.Once
}

func (d *deaf) Read(p []byte) (int, error) {
	if d.left < 0 {
		<-d.closed
		return 0, net.ErrClosed
	}
	n, err := d.Conn.Read(p)
	if d.left > 0 {
		if d.left -= n; d.left == 0 {
			d.left = -1
		}
	}
	return n, err
}

func (d *deaf) Close() error {
	if d.closed != nil {
		d.once.Do(func() { close(d.closed) })
	}
	return d.Conn.Close()
}

// everySecond reads 64 KiB a second.
type everySecond struct{ r io.Reader }

func (s everySecond) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return io.ReadAtLeast(s.r, p[:min(len(p), 64<<10)], 1)
}

// A writer counts what it wrote, in pieces or not, and passes errors on.
func TestPatientWriter(t *testing.T) {
	for _, size := range []int{0, 1, patiencePiece, patiencePiece + 1, 5 * patiencePiece} {
		out := &memory{left: 3 * patiencePiece}
		n, err := (&patientWriter{out, http.NewResponseController(out)}).Write(make([]byte, size))
		if want := min(size, 3*patiencePiece); n != want || out.Len() != want || (err != nil) != (size > want) {
			t.Errorf("of %d bytes %d are written, %d told: %v", size, out.Len(), n, err)
		}
	}
}

// memory is a http.ResponseWriter that fails when it is full.
type memory struct {
	bytes.Buffer
	left int
}

func (m *memory) Header() http.Header { return http.Header{} }
func (m *memory) WriteHeader(int)     {}
func (m *memory) Write(p []byte) (int, error) {
	if len(p) > m.left {
		return 0, os.ErrDeadlineExceeded
	}
	m.left -= len(p)
	return m.Buffer.Write(p)
}
