package collector

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	promconfig "github.com/prometheus/common/config"
)

// relayClient makes requests one at a time, and watches its connections for what net/http does not tell: connections
// kept alive, HTTP/1.1, the environment's proxy ignored. vLLM closes a connection that has been idle for 5 s; a
// request that meets the reset is sent again on a fresh connection by net/http, because it is a GET and nothing of an
// answer had come.
type relayClient struct {
	cfg  RelayConfig
	http *http.Client // nil until the files of certificates could be read

	came  atomic.Int64 // bytes, since the client was made
	limit atomic.Int64 // what came may not exceed it

	// Of the request that is under way.
	certificateMissing atomic.Bool // the server asked for a client certificate, and there is none
	handshakeFailed    atomic.Bool
}

func newRelayClient(cfg RelayConfig) *relayClient {
	c := &relayClient{cfg: cfg}
	c.headersDone()
	return c
}

// prepare makes the HTTP client. A certificate that cannot be read is a state of this target, not of the program:
// the next request tries again.
func (c *relayClient) prepare() error {
	if c.http != nil {
		return nil
	}
	options := []promconfig.HTTPClientOption{
		promconfig.WithHTTP2Disabled(), promconfig.WithDialContextFunc(c.dialer(c.cfg.Dial)), promconfig.WithNewTLSConfigFunc(c.tlsConfig),
	}
	if c.cfg.UserAgent != "" {
		options = append(options, promconfig.WithUserAgent(c.cfg.UserAgent))
	}
	rt, err := promconfig.NewRoundTripperFromConfig(c.cfg.HTTP, "relay", options...)
	if err != nil {
		return fmt.Errorf("making the relay's HTTP client: %w", err)
	}
	if c.cfg.Host != "" {
		rt = &relayHost{host: c.cfg.Host, origin: c.cfg.URL, next: rt}
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: relayCheckRedirect}
	return nil
}

// relayHost sets the header Host of requests to one origin: pages elsewhere are another server's.
type relayHost struct {
	host   string
	origin *url.URL
	next   http.RoundTripper
}

func (h *relayHost) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == h.origin.Scheme && relayHostPort(req.URL) == relayHostPort(h.origin) {
		req = req.Clone(req.Context())
		req.Host = h.host
	}
	return h.next.RoundTrip(req)
}

// CloseIdleConnections is what http.Client looks for.
func (h *relayHost) CloseIdleConnections() {
	if c, ok := h.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

func (c *relayClient) closeIdle() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

type relayDial func(ctx context.Context, network, address string) (net.Conn, error)

// dialer makes connections whose bytes the client counts. A nil dial stands for the system's way.
func (c *relayClient) dialer(dial relayDial) promconfig.DialContextFunc {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &relayCounted{conn, c}, nil
	}
}

var errRelayHeaders = errors.New("the headers of the answer are too large")

// relayCounted counts what comes.
type relayCounted struct {
	net.Conn
	client *relayClient
}

// Read implements [net.Conn]. It fails once more has come than the client allows.
func (c *relayCounted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.client.came.Add(int64(n)); c.client.headersTooLarge() {
		return 0, errRelayHeaders
	}
	return n, err
}

// watch begins a request: until headersDone, no more may come than headers have.
func (c *relayClient) watch(ctx context.Context) context.Context {
	c.limit.Store(c.came.Load() + relayMaxHeaders)
	c.certificateMissing.Store(false)
	c.handshakeFailed.Store(false)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { c.handshakeFailed.Store(err != nil) },
	})
}

func (c *relayClient) headersTooLarge() bool { return c.came.Load() > c.limit.Load() }

func (c *relayClient) headersDone() { c.limit.Store(math.MaxInt64) }

// tlsConfig is what the configuration says, and notices that a certificate is asked for which it does not have.
func (c *relayClient) tlsConfig(ctx context.Context, cfg *promconfig.TLSConfig, options ...promconfig.TLSConfigOption) (*tls.Config, error) {
	config, err := promconfig.NewTLSConfigWithContext(ctx, cfg, options...)
	if err != nil || config.GetClientCertificate != nil {
		return config, err
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.certificateMissing.Store(true)
		return &tls.Certificate{}, nil // none is sent
	}
	return config, nil
}

var errRelayRedirect = errors.New("redirect to another origin, or too many")

// relayCheckRedirect follows a redirect only to the same scheme, host and port: credentials go with it, and the
// metrics of another server are not those of this one.
func relayCheckRedirect(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > relayMaxHops || req.URL.Scheme != from.Scheme || relayHostPort(req.URL) != relayHostPort(from) {
		return errRelayRedirect
	}
	return nil
}

func relayHostPort(u *url.URL) string {
	port := u.Port()
	if port == "" && u.Scheme == "https" {
		port = "443"
	} else if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
