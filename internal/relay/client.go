package relay

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

	"github.com/llm-prober/llm_prober/internal/httpclient"
)

// client makes requests one at a time, and watches its connections for what net/http does not tell. Connections are
// kept alive where the next request comes before the server would close them; HTTP/1.1, the environment's proxy ignored. vLLM closes a connection that has been idle for 5 s; a
// request that meets the reset is sent again on a fresh connection by net/http, because it is a GET and nothing of an
// answer had come.
type client struct {
	http *http.Client

	came  atomic.Int64 // bytes, since the client was made
	limit atomic.Int64 // what came may not exceed it
}

func newClient(cfg *Config) (*client, error) {
	c := &client{}
	c.headersDone()
	options := []promconfig.HTTPClientOption{promconfig.WithHTTP2Disabled()}
	if cfg.Interval >= idleTimeout { // the server would have closed it by the next request
		options = append(options, promconfig.WithKeepAlivesDisabled())
	}
	if cfg.UserAgent != "" {
		options = append(options, promconfig.WithUserAgent(cfg.UserAgent))
	}
	rt, err := httpclient.New(cfg.HTTP, "relay", c.dialer(cfg.Dial), options...)
	if err != nil {
		return nil, fmt.Errorf("making the relay's HTTP client: %w", err)
	}
	if cfg.Host != "" {
		rt = &hostHeader{host: cfg.Host, origin: cfg.URL, next: rt}
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: checkRedirect}
	return c, nil
}

// hostHeader sets the header Host of requests to one origin: pages elsewhere are another server's.
type hostHeader struct {
	host   string
	origin *url.URL
	next   http.RoundTripper
}

func (h *hostHeader) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme == h.origin.Scheme && hostPort(req.URL) == hostPort(h.origin) {
		req = req.Clone(req.Context())
		req.Host = h.host
	}
	return h.next.RoundTrip(req)
}

// CloseIdleConnections is what http.Client looks for.
func (h *hostHeader) CloseIdleConnections() {
	if c, ok := h.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// dialer makes connections whose bytes the client counts. A nil dial stands for the system's way.
func (c *client) dialer(dial dialFunc) promconfig.DialContextFunc {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countedConn{conn, c}, nil
	}
}

var errHeaders = errors.New("the headers of the answer are too large")

// countedConn counts what comes.
type countedConn struct {
	net.Conn
	client *client
}

// Read implements [net.Conn]. It fails once more has come than the client allows.
func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.client.came.Add(int64(n)); c.client.headersTooLarge() {
		return 0, errHeaders
	}
	return n, err
}

// handshake is what one request learns of its TLS handshake. A request that is left behind may still write to it.
type handshake struct {
	unmet  atomic.Bool // the server asked for a client certificate, and there is none that it takes
	failed atomic.Bool
}

// watch begins a request: until headersDone, no more may come than headers have.
func (c *client) watch(ctx context.Context, outcome *handshake) context.Context {
	c.limit.Store(c.came.Load() + maxHeaders)
	return httptrace.WithClientTrace(httpclient.NoteUnmetRequest(ctx, &outcome.unmet), &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { outcome.failed.Store(err != nil) },
	})
}

func (c *client) headersTooLarge() bool { return c.came.Load() > c.limit.Load() }

func (c *client) headersDone() { c.limit.Store(math.MaxInt64) }

var errRedirect = errors.New("redirect to another origin, or too many")

// checkRedirect follows a redirect only to the same scheme, host and port: credentials go with it, and the
// metrics of another server are not those of this one.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > maxHops || req.URL.Scheme != from.Scheme || hostPort(req.URL) != hostPort(from) {
		return errRedirect
	}
	return nil
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" && u.Scheme == "https" {
		port = "443"
	} else if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
