package prober

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// issue makes a certificate that ends after a while. Without an issuer it signs itself.
func issue(t *testing.T, name string, issuer *authority, ends time.Duration, isCA bool) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-1000 * time.Hour), NotAfter: time.Now().Add(ends).Truncate(time.Second),
		IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	if issuer == nil {
		issuer = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.cert, &key.PublicKey, issuer.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) keyPEM(t *testing.T) promconfig.Secret {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	return promconfig.Secret(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// served is a certificate as a server sends it, with others.
func (a *authority) served(others ...*authority) tls.Certificate {
	c := tls.Certificate{Certificate: [][]byte{a.cert.Raw}, PrivateKey: a.key}
	for _, o := range others {
		c.Certificate = append(c.Certificate, o.cert.Raw)
	}
	return c
}

// prometheus/blackbox_exporter#340, heartbeatsjp/check-tls-cert#46: what ends first ends the chain.
func TestCertificateExpiry(t *testing.T) {
	const day = 24 * time.Hour
	root := issue(t, "root", nil, 900*day, true)
	short := issue(t, "intermediate", root, 3*day, true)
	// The same name and key, signed by another root: two chains lead from the leaf to what is trusted.
	other := issue(t, "other root", nil, 800*day, true)
	over := issue(t, "intermediate", root, -day, true)
	leaf, old := issue(t, "leaf", short, 300*day, false), issue(t, "old", root, -day, false)
	orphan := issue(t, "leaf", over, 300*day, false)
	cross := cross(t, short, other, 30*day)
	for _, c := range []struct {
		name   string
		cert   tls.Certificate
		trusts string
		skip   bool
		reason Reason
		want   *authority // whose end is shown; nil: none
	}{
		{"the intermediate ends first", leaf.served(short), root.pem(), false, "", short},
		{"of two chains the one that holds longer", leaf.served(short, cross), root.pem() + other.pem(), false, "", cross},
		{"an expired certificate that is not in the chain", leaf.served(short, old), root.pem(), false, "", short},
		{"nothing is verified", leaf.served(old, short), "", true, "", short},
		{"the server's own has expired", old.served(), root.pem(), false, ReasonTLS, old},
		{"the intermediate has expired", orphan.served(over), root.pem(), false, ReasonTLS, over},
		{"nobody trusts it", leaf.served(short), other.pem(), false, ReasonTLS, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := newRig(t, nil, at("https", serveTCP(t, overTLS(c.cert, playing(defaultScript))), func(t *Target) {
				t.HTTP.TLSConfig.CA, t.HTTP.TLSConfig.InsecureSkipVerify = c.trusts, c.skip
			})).once(t)
			var want time.Time
			if c.want != nil {
				want = c.want.cert.NotAfter
			}
			if res.Reason != c.reason || !res.CertExpiry.Equal(want) {
				t.Errorf("%s (%v), the chain ends %v, want %v", outcome(res), res.Err, res.CertExpiry, want)
			}
			if c.want != nil && !res.CertNotBefore.Equal(c.want.cert.NotBefore) {
				t.Errorf("valid since %v, want %v", res.CertNotBefore, c.want.cert.NotBefore)
			}
		})
	}
}

// cross is the same authority, signed by another.
func cross(t *testing.T, a, by *authority, ends time.Duration) *authority {
	t.Helper()
	template := *a.cert
	template.NotAfter, template.AuthorityKeyId = time.Now().Add(ends).Truncate(time.Second), nil
	der, err := x509.CreateCertificate(rand.Reader, &template, by.cert, &a.key.PublicKey, by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, a.key}
}

// golang/go#33368, nats-io/nats.go#2031: under TLS 1.3 a server judges the client's certificate after the handshake.
func TestClientCertificateIsRefused(t *testing.T) {
	root := issue(t, "root", nil, time.Hour, true)
	pool := x509.NewCertPool()
	pool.AddCert(root.cert)
	server := issue(t, "server", root, time.Hour, false).served()
	stranger, friend := issue(t, "stranger", nil, time.Hour, false), issue(t, "friend", root, time.Hour, false)
	// wordless is a server that says nothing but cuts the connection.
	wordless := func(how func(*net.TCPConn)) func(net.Conn, *tls.Config) {
		return func(conn net.Conn, config *tls.Config) {
			config.ClientAuth = tls.RequestClientCert
			if tls.Server(conn, config).Handshake() == nil {
				how(conn.(*net.TCPConn))
			}
		}
	}
	closing := func(conn *net.TCPConn) { conn.Close() }
	resetting := func(conn *net.TCPConn) { _ = conn.SetLinger(0) }
	judging := func(conn net.Conn, config *tls.Config) {
		secure := tls.Server(conn, config)
		_ = secure.Handshake() // it has told the client
		secure.Close()
	}
	for _, c := range []struct {
		name    string
		version uint16
		serve   func(net.Conn, *tls.Config)
		ours    *authority // whose certificate we send
		reason  Reason
		tells   string
	}{
		{"1.3, none, alert", tls.VersionTLS13, judging, nil, ReasonTLS, "certificate"}, // the alert, unless the write of the request broke before it was read
		{"1.3, one of a stranger, alert", tls.VersionTLS13, judging, stranger, ReasonTLS, "certificate"},
		{"1.2, none, alert", tls.VersionTLS12, judging, nil, ReasonTLS, "tls: "},
		{"1.3, none, closed", tls.VersionTLS13, wordless(closing), nil, ReasonTLS, "asked for a client certificate"},
		{"1.3, none, reset", tls.VersionTLS13, wordless(resetting), nil, ReasonTLS, "asked for a client certificate"},
		{"1.3, one of a stranger, closed", tls.VersionTLS13, wordless(closing), stranger, ReasonTLS, "asked for a client certificate"},
		{"1.3, one that is taken, closed", tls.VersionTLS13, wordless(closing), friend, ReasonConnReset + " or " + ReasonTruncated, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			address := serveTCP(t, func(conn net.Conn) {
				c.serve(conn, &tls.Config{
					Certificates: []tls.Certificate{server}, MaxVersion: c.version,
					ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool,
				})
			})
			res := newRig(t, nil, at("https", address, trusting(root.pem()), func(target *Target) {
				if c.ours != nil {
					target.HTTP.TLSConfig.Cert, target.HTTP.TLSConfig.Key = c.ours.pem(), c.ours.keyPEM(t)
				}
			})).once(t)
			if !strings.Contains(string(c.reason), string(res.Reason)) || res.Err == nil || !strings.Contains(res.Err.Error(), c.tells) {
				t.Errorf("%s (%v), want %s that tells %q", outcome(res), res.Err, c.reason, c.tells)
			}
		})
	}
}

// prometheus/common#598: a client certificate and an authority that are replaced while the program runs are used from
// the next probe on, with and without a file of the authority; half a file fails probes until it is whole.
func TestRotatedCertificates(t *testing.T) {
	for _, named := range []bool{true, false} {
		root, next := issue(t, "root", nil, time.Hour, true), issue(t, "next", nil, time.Hour, true)
		var current atomic.Pointer[authority]
		address := serveTCP(t, func(conn net.Conn) {
			by := current.Load()
			pool := x509.NewCertPool()
			pool.AddCert(by.cert)
			secure := tls.Server(conn, &tls.Config{
				Certificates: []tls.Certificate{issue(t, "server", by, time.Hour, false).served()},
				ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: pool,
			})
			defer secure.Close()
			playing(defaultScript)(secure)
		})
		dir := t.TempDir()
		file := func(name string) string { return filepath.Join(dir, name) }
		install := func(by *authority, keyBytes int) {
			client := issue(t, "client", by, time.Hour, false)
			key := string(client.keyPEM(t))
			for name, text := range map[string]string{"ca.pem": by.pem(), "cert.pem": client.pem(), "key.pem": key[:min(len(key), keyBytes)]} {
				if err := os.WriteFile(file(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		const whole = 1 << 20
		install(root, whole)
		current.Store(root)
		g := newRig(t, nil, at("https", address, func(target *Target) {
			target.HTTP.TLSConfig = promconfig.TLSConfig{CertFile: file("cert.pem"), KeyFile: file("key.pem"), InsecureSkipVerify: !named}
			if named {
				target.HTTP.TLSConfig.CAFile = file("ca.pem")
			}
		}))
		for _, step := range []struct {
			name   string
			change func()
			reason Reason
		}{
			{"as before", func() {}, ""},
			{"the server is ahead", func() { current.Store(next) }, ReasonTLS},
			{"half a key", func() { install(next, 40) }, ReasonTLS},
			{"replaced", func() { install(next, whole) }, ""},
			{"replaced again", func() { install(next, whole) }, ""},
		} {
			step.change()
			if res := g.once(t); res.Reason != step.reason {
				t.Errorf("authority in a file %v, %s: %s (%v), want reason %q", named, step.name, outcome(res), res.Err, step.reason)
			}
		}
	}
}

// prometheus/prometheus#1378: a file that is not there fails its target until it is, and nothing else.
func TestFilesOfTLSMayComeLater(t *testing.T) {
	cert, ca := certificate(t)
	address := serveTCP(t, overTLS(cert, playing(defaultScript)))
	file := filepath.Join(t.TempDir(), "ca.pem")
	g := newRig(t, nil, at("https", address, func(t *Target) { t.HTTP.TLSConfig.CAFile = file }))
	steps := []struct {
		name, content string // "": the file is not there
		reason        Reason
	}{
		{"missing", "", ReasonTLS},
		{"no certificate", "hello", ReasonTLS},
		{"there", ca, ""},
		{"gone again", "", ReasonTLS},
		{"there again", ca, ""},
		{"no certificate again", "hello", ReasonTLS},
	}
	for _, s := range steps {
		_ = os.Remove(file)
		if s.content != "" {
			if err := os.WriteFile(file, []byte(s.content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		res := g.once(t)
		if res.Reason != s.reason || s.reason != "" && !strings.Contains(res.Err.Error(), file) {
			t.Errorf("%s: %s (%v), want reason %q and the path", s.name, outcome(res), res.Err, s.reason)
		}
	}
	if log := g.logs.String(); !strings.Contains(log, file) {
		t.Errorf("the log does not name the file: %s", log)
	}
	if _, err := NewRunner(at("https", address, trusting("hello")), Options{}); err == nil {
		t.Error("an inline certificate that is none was accepted")
	}
}
