package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// fortress is a simulated vLLM that only a whole configuration reaches: TLS with a client certificate, a key, a header,
// another Host, and an API in /gw/v3.
type fortress struct {
	dir    string // with config.yml, and plan.yml for the same server without its configuration
	probes atomic.Int64
}

func newFortress(t *testing.T) *fortress {
	t.Helper()
	f := &fortress{dir: t.TempDir()}
	sim, _ := simulator(t, vllmsim.Config{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := r.Clone(r.Context())
		path, api := strings.CutPrefix(r.URL.Path, "/gw/v3/")
		switch {
		case r.Host != "model.example", r.Header.Get("X-Team") != "SECRET-team-1":
			http.Error(w, "wrong door", http.StatusForbidden)
			return
		case r.Header.Get("Authorization") != "Bearer SECRET-key-2":
			http.Error(w, "wrong key", http.StatusUnauthorized)
			return
		case api:
			inner.URL.Path = "/v1/" + path
		default:
			inner.URL.Path = strings.TrimPrefix(r.URL.Path, "/gw")
		}
		if r.Method == http.MethodPost && api {
			f.probes.Add(1)
		}
		sim.Handler().ServeHTTP(w, inner)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	cert, key := f.clientCertificate(t)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	f.write(t, "client.pem", pemOf("CERTIFICATE", cert.Raw))
	f.write(t, "client.key", pemOf("EC PRIVATE KEY", key))
	f.write(t, "ca.pem", pemOf("CERTIFICATE", server.Certificate().Raw))
	f.write(t, "config.yml", fmt.Sprintf(`
workloads:
  - {name: tiny, prompt_tokens: 64, output_tokens: 4, extra_body: {top_k: 3}}
  - {name: small, api: completions, prompt_tokens: 32, output_tokens: 6}
targets:
  - name: fortress
    url: %s/gw
    api_path: /v3
    host: model.example
    model: tiny
    http_client_config:
      authorization: {credentials: SECRET-key-2}
      tls_config: {ca_file: ca.pem, cert_file: client.pem, key_file: client.key}
      http_headers: {X-Team: {values: [SECRET-team-1]}}
  - {name: outside, url: "%[1]s", http_client_config: {tls_config: {ca_file: ca.pem, cert_file: client.pem, key_file: client.key}}}
`, server.URL))
	f.write(t, "plan.yml", fmt.Sprintf("target: {url: %s}\nworkload: {prompt_tokens: 64, output_tokens: 4}\nlevels: [{concurrency: 1, requests: 2}]\nwarmup: 0\n", server.URL))
	return f
}

func (f *fortress) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *fortress) clientCertificate(t *testing.T) (*x509.Certificate, []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "prober"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// What the daemon can reach, every command can, and says nothing of how.
func TestFromFile(t *testing.T) {
	f := newFortress(t)
	t.Chdir(f.dir)
	file := []string{"--config.file=config.yml", "--target=fortress"}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // in what it prints
	}{
		{"probe", append([]string{"probe"}, file...), exitOK, "chat, 64 prompt and 4 output tokens"},
		{"probe of a workload", append([]string{"probe", "--workload=small"}, file...), exitOK, "completions, 32 prompt and 6 output tokens"},
		{"flags on top", append([]string{"probe", "--workload=small", "--api=chat", "--output-tokens=3", "--drop-field=seed", `--extra-body={"top_k": 1}`}, file...), exitOK, "chat, 32 prompt and 3 output tokens"},
		{"another of its targets", []string{"probe", "--config.file=config.yml", "--target=outside"}, exitFailed, "wrong door"},
		{"sweep", append([]string{"sweep", "concurrency", "--levels=1", "--requests=2", "--warmup=0", "--dir=out/sweep"}, file...), exitFailed, "64+4"}, // two requests are too few to be trusted
		{"stored plan", append([]string{"sweep", "run", "out/sweep/plan.yml", "--dir=out/again"}, file...), exitFailed, "64+4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := f.probes.Load()
			code, stdout, stderr := outcome(t.Context(), c.args...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) || strings.Contains(stdout+stderr, "SECRET") {
				t.Errorf("exit code %d, want %d and %q:\n%s\n%s", code, c.code, c.want, stdout, stderr)
			}
			if reached := f.probes.Load() > before; reached == strings.Contains(c.want, "door") {
				t.Errorf("the server was reached: %t", reached)
			}
		})
	}
	err := filepath.WalkDir("out", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "SECRET") {
			t.Errorf("%s holds a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	code, _, stderr := outcome(t.Context(), "sweep", "run", "out/sweep/plan.yml", "--dir=out/alone")
	if want := "was a secret of a configuration file, which is not stored with a plan (run the plan with --config.file and --target"; code != exitUsage || !strings.Contains(stderr, want) {
		t.Errorf("without its file the stored plan ended with %d and said %q", code, stderr)
	}
}

// check-config --connect says a line for each target.
func TestCheckConnect(t *testing.T) {
	f := newFortress(t)
	t.Chdir(f.dir)
	f.write(t, "bad.yml", "targets: [{url: h}]")
	f.write(t, "missing.yml", "targets: [{name: a, url: 'https://127.0.0.1:1', http_client_config: {tls_config: {ca_file: nope.pem}}}]")
	for _, c := range []struct {
		name string
		args []string
		code int
		want []string // lines, or how they begin
	}{
		{"one", []string{"--target=fortress", "config.yml"}, exitOK, []string{
			"config.yml: valid; ", `target "fortress": OK: tiny 4 tokens from tiny`,
		}},
		{"all", []string{"config.yml"}, exitFailed, []string{
			"config.yml: valid; ", `target "fortress": OK: tiny 4 tokens from tiny`,
			`target "outside": FAILED: tiny (auth): `,
		}},
		{"a file that is bad is not tried", []string{"bad.yml", "config.yml"}, exitUsage, []string{
			"config.yml: valid; ", `target "fortress": OK: tiny 4 tokens`, `target "outside": FAILED: `,
		}},
		{"a certificate that is not there", []string{"missing.yml"}, exitFailed, []string{
			"warning: missing.yml:1: targets[0].http_client_config.tls_config.ca_file: open nope.pem: no such file or directory; until", "missing.yml: valid; ", `target "a": FAILED: `,
		}},
		{"unknown", []string{"--target=fort", "config.yml"}, exitUsage, []string{"config.yml: valid; "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := outcome(t.Context(), append([]string{"check-config", "--connect"}, c.args...)...)
			lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
			if code != c.code || len(lines) != len(c.want) || strings.Contains(stdout+stderr, "SECRET") {
				t.Fatalf("exit code %d, want %d and %d lines:\n%s\n%s", code, c.code, len(c.want), stdout, stderr)
			}
			for i, want := range c.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %q, want %q", lines[i], want)
				}
			}
			if c.name == "all" && (!strings.Contains(lines[2], "wrong door") || !strings.Contains(lines[2], "credentials_file")) {
				t.Errorf("%q lacks the server's words or the hint", lines[2])
			}
		})
	}
}
