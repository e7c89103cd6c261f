package prober

import (
	"crypto/tls"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// serveTCP hands every connection to a new loopback port to handle, and closes it when handle returns.
func serveTCP(t testing.TB, handle func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	var handlers sync.WaitGroup
	handlers.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			handlers.Go(func() {
				handle(conn)
				mu.Lock()
				delete(open, conn)
				mu.Unlock()
				conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		handlers.Wait()
	})
	return listener.Addr().String()
}

// llm answers the questions around a probe and hands the probe itself to handle.
func llm(handle func(net.Conn, sentRequest)) func(net.Conn) {
	return func(conn net.Conn) {
		r, err := readRequest(conn)
		switch {
		case err != nil:
		case r.path == "/v1/models":
			_ = jsonAnswer(http.StatusOK, fakeModels).play(conn, nil)
		case r.path == "/tokenize":
			_ = jsonAnswer(http.StatusNotFound, "{}").play(conn, nil)
		default:
			handle(conn, r)
		}
	}
}

// playing answers every probe with a script.
func playing(s script) func(net.Conn) {
	return llm(func(conn net.Conn, _ sentRequest) {
		_ = s.play(conn, func() { _ = conn.(*net.TCPConn).SetLinger(0) })
	})
}

// at is the default target at an address, with little patience.
func at(scheme, address string, change ...func(*Target)) Target {
	p := plan()
	p.Timeout, p.StallTimeout = 10*time.Second, 10*time.Second
	t := target(p)
	t.URL = &url.URL{Scheme: scheme, Host: address}
	for _, f := range change {
		f(&t)
	}
	return t
}

// impatient gives a probe 60 ms in all.
func impatient(t *Target) { t.Plans[0].Timeout = 60 * time.Millisecond }

// restless lets a stream be silent for 30 ms.
func restless(t *Target) { t.Plans[0].StallTimeout = 30 * time.Millisecond }

// certificate is a server's certificate for 127.0.0.1, and the authority that a client must trust.
func certificate(t testing.TB) (server tls.Certificate, authority string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return s.TLS.Certificates[0], string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// overTLS is the server's side of a TLS connection.
func overTLS(cert tls.Certificate, handle func(net.Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}})
		defer secure.Close()
		handle(secure)
	}
}

// trusting makes a target trust an authority.
func trusting(authority string) func(*Target) {
	return func(t *Target) { t.HTTP.TLSConfig = promconfig.TLSConfig{CA: authority} }
}
