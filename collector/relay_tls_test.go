package collector

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// Problems of TLS have a reason of their own: files that are missing, until they are there, and certificates that
// either side refuses, whenever it says so.
func TestRelayTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) }))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	der, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	get := func(c *http.Client) (reason string, text string) {
		var failure *relayFailure
		_, err := relayGet(t.Context(), c, u, "text/plain", relayMaxPage, &bytes.Buffer{})
		if errors.As(err, &failure) {
			return failure.reason, err.Error()
		}
		return "", ""
	}
	client := func(c promconfig.TLSConfig) *http.Client {
		made, err := newRelayClient(RelayConfig{Timeout: 30 * time.Second, HTTP: promconfig.HTTPClientConfig{TLSConfig: c}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.CloseIdleConnections)
		return made
	}
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	whole := client(promconfig.TLSConfig{CAFile: ca, CertFile: cert, KeyFile: key})
	for _, file := range []struct{ path, content string }{{ca, chain}, {cert, chain}, {key, private}} {
		if reason, text := get(whole); reason != relayTLS || !strings.Contains(text, file.path) {
			t.Errorf("without %s: %q (%s), want %s and the path", file.path, reason, text, relayTLS)
		}
		write(file.path, file.content)
	}
	if reason, text := get(whole); reason != "" {
		t.Errorf("with all files: %s (%s)", reason, text)
	}
	if reason, text := get(client(promconfig.TLSConfig{CAFile: ca})); reason != relayTLS || !strings.Contains(text, "certificate required") {
		t.Errorf("without a client certificate: %q (%s)", reason, text)
	}
	if reason, text := get(client(promconfig.TLSConfig{})); reason != relayTLS || !strings.Contains(text, "unknown authority") {
		t.Errorf("without the authority: %q (%s)", reason, text)
	}
}

func TestRelayOutOfFiles(t *testing.T) {
	err := relayTransportFailure(t.Context(), &url.Error{Op: "Get", URL: "http://h", Err: os.NewSyscallError("socket", syscall.EMFILE)})
	if err.reason != relayInternal || !strings.Contains(err.Error(), "RLIMIT_NOFILE is ") {
		t.Errorf("%s (%v), want %s and the limit", err.reason, err, relayInternal)
	}
}
