package httpclient

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	promconfig "github.com/prometheus/common/config"
)

var dial = (&net.Dialer{}).DialContext

// get asks once, and reads nothing.
func get(ctx context.Context, rt http.RoundTripper, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func serveTLS(t *testing.T, config *tls.Config) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// Certificates may come after the client, go, and come again.
func TestFilesThatComeLater(t *testing.T) {
	server := serveTLS(t, nil)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	file := filepath.Join(t.TempDir(), "ca.pem")
	rt, err := New(promconfig.HTTPClientConfig{TLSConfig: promconfig.TLSConfig{CAFile: file}}, "test", dial, promconfig.WithKeepAlivesDisabled())
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"", "none", authority, "none", "", authority} {
		_ = os.Remove(file)
		if content != "" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := get(t.Context(), rt, server.URL)
		var unusable *FileError
		if content == authority && err != nil {
			t.Errorf("with the certificate: %v", err)
		}
		if content != authority && (!errors.As(err, &unusable) || !IsTLS(err) || !strings.Contains(err.Error(), file)) {
			t.Errorf("with %q: %T %v, want a FileError that names the file", content, err, err)
		}
	}
}

// What no file can mend is told at once.
func TestNewRefuses(t *testing.T) {
	for want, config := range map[string]promconfig.TLSConfig{
		"":                                {},
		"unable to use specified CA cert": {CA: "none"},
		"must be greater":                 {MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS12},
	} {
		_, err := New(promconfig.HTTPClientConfig{TLSConfig: config}, "test", dial)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Errors of TLS as they come from a real handshake, and after it.
func TestTLSErrorsOfRealServers(t *testing.T) {
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	trusting := promconfig.TLSConfig{InsecureSkipVerify: true}
	certificate := serveTLS(t, nil).TLS.Certificates[0]
	for name, c := range map[string]struct {
		url    string
		client promconfig.TLSConfig
		unmet  bool
		is     bool
	}{
		"no TLS":                         {strings.Replace(plain.URL, "http:", "https:", 1), trusting, false, true},
		"nobody vouches for it":          {serveTLS(t, &tls.Config{}).URL, promconfig.TLSConfig{}, false, true},
		"another name":                   {serveTLS(t, &tls.Config{}).URL, promconfig.TLSConfig{ServerName: "other", CA: authorityOf(certificate)}, false, true},
		"an alert in the handshake":      {serveTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}).URL, trusting, true, true},
		"an alert after the handshake":   {serveTLS(t, &tls.Config{ClientAuth: tls.RequireAnyClientCert}).URL, trusting, true, true},
		"a certificate that is optional": {serveTLS(t, &tls.Config{ClientAuth: tls.RequestClientCert}).URL, trusting, true, false},
		"all is well":                    {serveTLS(t, &tls.Config{}).URL, trusting, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			rt, err := New(promconfig.HTTPClientConfig{TLSConfig: c.client}, "test", dial, promconfig.WithHTTP2Disabled(), promconfig.WithKeepAlivesDisabled())
			if err != nil {
				t.Fatal(err)
			}
			var unmet atomic.Bool
			err = get(NoteUnmetRequest(t.Context(), &unmet), rt, c.url)
			if IsTLS(err) != c.is || (err != nil) != c.is {
				t.Errorf("%T %v: of TLS %v, want %v", err, err, IsTLS(err), c.is)
			}
			if unmet.Load() != c.unmet {
				t.Errorf("a certificate is asked for and missing: %v, want %v", unmet.Load(), c.unmet)
			}
		})
	}
}

func authorityOf(c tls.Certificate) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
}

// What an error is about is told by its type, whatever wraps it.
func TestKinds(t *testing.T) {
	op := func(op string, err error) error {
		return &url.Error{Op: "Get", URL: "http://h", Err: fmt.Errorf("wrapped: %w", &net.OpError{Op: op, Net: "tcp", Err: err})}
	}
	resolver := func(text string) error {
		return op("dial", &net.DNSError{Err: "dial udp 127.0.0.53:53: socket: " + text, Name: "h"})
	}
	socket := func(errno syscall.Errno) error { return op("dial", os.NewSyscallError("socket", errno)) }
	file := func(errno syscall.Errno) error { return &fs.PathError{Op: "open", Path: "key", Err: errno} }
	for _, c := range []struct {
		err   error
		is    string // tls, reset, end or fault; empty: none
		lacks string
	}{
		{op("remote error", tls.AlertError(116)), "tls", ""},
		{op("local error", tls.AlertError(42)), "tls", ""},
		{tls.RecordHeaderError{Msg: "no TLS"}, "tls", ""},
		{&tls.CertificateVerificationError{Err: errors.New("expired")}, "tls", ""},
		{http.ErrSchemeMismatch, "tls", ""},
		{&FileError{file(syscall.ENOENT)}, "tls", ""},
		{&FileError{file(syscall.EMFILE)}, "tls", "file descriptor left (RLIMIT_NOFILE is "},
		{op("read", syscall.ECONNRESET), "reset", ""},
		{op("write", syscall.EPIPE), "reset", ""},
		{io.ErrUnexpectedEOF, "end", ""},
		{fmt.Errorf("reading: %w", io.EOF), "end", ""},
		{&LeftError{context.DeadlineExceeded}, "", ""},
		{op("send", &FaultError{"panic"}), "fault", ""},
		{errors.New("remote error: tls: bad certificate"), "", ""}, // words decide nothing
		{op("dial", syscall.ECONNREFUSED), "", ""},
		{socket(syscall.EMFILE), "", "file descriptor left (RLIMIT_NOFILE is "},
		{socket(syscall.ENFILE), "", "fs.file-max"},
		{socket(syscall.ENOBUFS), "", "buffer left"},
		{socket(syscall.ENOMEM), "", "memory left"},
		{socket(syscall.EADDRNOTAVAIL), "", "ip_local_port_range"},
		{socket(syscall.EACCES), "", "permission to connect"},
		{socket(syscall.EPERM), "", "permission to connect"},
		{file(syscall.EMFILE), "", "file descriptor left"},
		{file(syscall.EACCES), "", ""}, // a file that may not be read is mended elsewhere
		{resolver(syscall.EMFILE.Error()), "", "file descriptor left"},
		{resolver(syscall.ENETUNREACH.Error()), "", ""},
	} {
		for is, got := range map[string]bool{"tls": IsTLS(c.err), "reset": IsReset(c.err), "end": IsEnd(c.err), "fault": IsFault(c.err)} {
			if got != (is == c.is) {
				t.Errorf("%T %v: %s %v, want %q", c.err, c.err, is, got, c.is)
			}
		}
		if got := LocalLimit(c.err); (got == "") != (c.lacks == "") || !strings.Contains(got, c.lacks) {
			t.Errorf("%v: %q, want %q", c.err, got, c.lacks)
		}
	}
}
