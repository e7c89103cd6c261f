package relay

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/internal/httpclient"
)

// TLS that fails is told as TLS, also when the server speaks up only after the handshake, as it must under TLS 1.3
// when it misses a client's certificate, and also when it then only closes.
func TestTLS(t *testing.T) {
	trusting := func(c *Config) { c.HTTP.TLSConfig.InsecureSkipVerify = true }
	tests := []struct {
		name   string
		server *tls.Config // nil: no TLS
		closes bool        // after the handshake, without a word
		change func(*Config)
		reason string
		err    string
	}{
		{name: "an alert after the handshake", server: &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS13}, change: trusting, reason: "tls", err: "remote error: tls: certificate required"},
		{name: "an alert in the handshake", server: &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, change: trusting, reason: "tls", err: "remote error: tls:"},
		{name: "a close after a certificate was asked for", server: &tls.Config{ClientAuth: tls.RequestClientCert}, closes: true, change: trusting, reason: "tls", err: "asked for a client certificate"},
		{name: "a close without a cause", server: &tls.Config{}, closes: true, change: trusting, reason: "connect"},
		{name: "a certificate that nobody vouches for", server: &tls.Config{}, change: func(*Config) {}, reason: "tls", err: "certificate"},
		{name: "no TLS", change: trusting, reason: "tls", err: "server gave HTTP response to HTTPS client"},
		{name: "a version that is too old", server: &tls.Config{MaxVersion: tls.VersionTLS12}, change: func(c *Config) {
			trusting(c)
			c.HTTP.TLSConfig.MinVersion = tls.VersionTLS13
		}, reason: "tls", err: "protocol version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.NotFoundHandler())
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			if tt.closes {
				server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
					if state == http.StateActive {
						_ = conn.(*tls.Conn).NetConn().Close()
					}
				}
			}
			if server.TLS = tt.server; tt.server != nil {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			cfg := Config{
				Registerer: prometheus.NewRegistry(), Engine: EngineVLLM,
				URL: parseURL(t, "https://"+server.Listener.Addr().String()),
			}
			tt.change(&cfg)
			relay, err := New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer relay.closeIdle()
			_, err = relay.scrape(t.Context())
			var failure *scrapeError
			if !errors.As(err, &failure) || failure.reason != tt.reason || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v, want the reason %s", err, tt.reason)
			}
		})
	}
}

// A certificate that is not there yet, or is none, or goes, is a state of the target, told with the file's name.
func TestCertificateFiles(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	cfg := Config{Registerer: prometheus.NewRegistry(), Engine: EngineVLLM, URL: parseURL(t, server.URL)}
	cfg.HTTP.TLSConfig.CAFile = file
	relay, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer relay.closeIdle()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for _, step := range []struct {
		content []byte // nil: there is no file
		reason  string
	}{{nil, "tls"}, {[]byte("none"), "tls"}, {certificate, "http_status"}, {[]byte("none"), "tls"}, {nil, "tls"}, {certificate, "http_status"}} {
		if step.content == nil {
			_ = os.Remove(file)
		} else if err := os.WriteFile(file, step.content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := relay.scrape(t.Context())
		var failure *scrapeError
		if !errors.As(err, &failure) || failure.reason != step.reason || step.reason == "tls" && !strings.Contains(err.Error(), file) {
			t.Errorf("with %.4q: %v, want the reason %s", step.content, err, step.reason)
		}
	}
}

// A key that never comes ends a sample at its time, as a timeout; many in a row are our own fault and hold up nothing.
func TestCredentialsThatHang(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	cfg := Config{Registerer: prometheus.NewRegistry(), Engine: EngineVLLM, URL: parseURL(t, server.URL), Timeout: time.Millisecond}
	cfg.HTTP.BearerTokenFile = pipe
	relay, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer relay.closeIdle()
	reason := func() string {
		var failure *scrapeError
		if _, err := relay.scrape(t.Context()); !errors.As(err, &failure) {
			t.Fatal(err)
		}
		return failure.reason
	}
	for range httpclient.MaxLeft {
		if got := reason(); got != "timeout" {
			t.Fatalf("%s, want timeout", got)
		}
	}
	if got := reason(); got != "internal" {
		t.Errorf("%s, want internal", got)
	}
	relay.cfg.Timeout = time.Minute
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(pipe), os.WriteFile(pipe, []byte("key"), 0o600), writer.Close()); err != nil {
		t.Fatal(err)
	}
	got := reason()
	for ; got == "internal"; got = reason() { // until those that were left behind have ended
	}
	if got != "http_status" {
		t.Errorf("once the key is there: %s, want http_status", got)
	}
}

// When this process can open no more files, that is its own fault: nothing is said of the server's health.
func TestOutOfFiles(t *testing.T) {
	faults := map[string]error{
		"of the process": &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)},
		"of the machine": &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.ENFILE)},
		"in the resolver": &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "dial udp 127.0.0.53:53: socket: too many open files", Name: "vllm", IsTemporary: true,
		}},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out atomic.Bool
				w := start(t, vllm(text(runningPage)), func(c *Config) {
					dial := c.Dial
					c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
						if out.Load() {
							return nil, fault
						}
						return dial(ctx, network, address)
					}
				})
				w.pass(2)
				w.has(map[string]string{"up": "1", "healthy": "1"})
				out.Store(true)
				w.relay.closeIdle()
				w.pass(5)
				w.has(map[string]string{"up": "0", "healthy": "1", "scrape_failures_total{internal}": "5", "requests_running{0,m}": ""})
				if !strings.Contains(w.logs.String(), "the prober has no file descriptor left") {
					t.Errorf("log:\n%s", w.logs)
				}
				out.Store(false)
				w.pass(1)
				w.has(map[string]string{"up": "1", "healthy": "1", "requests_running{0,m}": "3"})
			})
		})
	}
}

// A fault of our own anywhere in the relay costs a sample or a page, not the process.
func TestFaultsOfOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var once sync.Once
		w := start(t, vllm(text(runningPage)), func(c *Config) {
			c.OnSample = func(Snapshot) { once.Do(func() { panic("oops") }) }
		})
		w.pass(1)
		w.has(map[string]string{"up": "0", "scrape_failures_total{internal}": "1"})
		w.pass(1)
		w.has(map[string]string{"up": "1", "scrape_failures_total{internal}": "1"})

		good := w.relay.state.Load()
		bad := *good
		bad.reading = &reading{}
		bad.reading.families[familyRunning] = []series{{engine: "\xff"}} // no label value: the library panics
		w.relay.state.Store(&bad)
		w.values()
		w.relay.state.Store(good)
		w.has(map[string]string{"up": "1", "scrape_failures_total{internal}": "2"})
	})
}

// A page that is cut off by an alert is told as TLS too.
func TestBodyFailures(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "remote error", Err: tls.AlertError(116)}, "tls"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "connect"},
		{io.ErrUnexpectedEOF, "parse"},
		{fmt.Errorf("unpacking: %w", errTooLarge), "too_large"},
	} {
		if got := bodyFailure(t.Context(), tt.err); got.reason != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got.reason, tt.want)
		}
	}
}
