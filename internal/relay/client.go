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

// relayClient makes requests one at a time, and watches its connections for what net/http does not tell: connections
// kept alive, HTTP/1.1, the environment's proxy ignored. vLLM closes a connection that has been idle for 5 s; a
// request that meets the reset is sent again on a fresh connection by net/http, because it is a GET and nothing of an
// answer had come.
type relayClient struct {
	http *http.Client

	came  atomic.Int64 // bytes, since the client was made
	limit atomic.Int64 // what came may not exceed it
}

func newRelayClient(cfg *RelayConfig) (*relayClient, error) {
	c := &relayClient{}
	c.headersDone()
	options := []promconfig.HTTPClientOption{promconfig.WithHTTP2Disabled()}
	if cfg.UserAgent != "" {
		options = append(options, promconfig.WithUserAgent(cfg.UserAgent))
	}
	rt, err := httpclient.New(cfg.HTTP, "relay", c.dialer(cfg.Dial), options...)
	if err != nil {
		return nil, fmt.Errorf("making the relay's HTTP client: %w", err)
	}
	if cfg.Host != "" {
		rt = &relayHost{host: cfg.Host, origin: cfg.URL, next: rt}
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: relayCheckRedirect}
	return c, nil
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

// relayHandshake is what one request learns of its TLS handshake. A request that is left behind may still write to it.
type relayHandshake struct {
	unmet  atomic.Bool // the server asked for a client certificate, and there is none that it takes
	failed atomic.Bool
}

// watch begins a request: until headersDone, no more may come than headers have.
func (c *relayClient) watch(ctx context.Context, handshake *relayHandshake) context.Context {
	c.limit.Store(c.came.Load() + relayMaxHeaders)
	return httptrace.WithClientTrace(httpclient.NoteUnmetRequest(ctx, &handshake.unmet), &httptrace.ClientTrace{
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { handshake.failed.Store(err != nil) },
	})
}

func (c *relayClient) headersTooLarge() bool { return c.came.Load() > c.limit.Load() }

func (c *relayClient) headersDone() { c.limit.Store(math.MaxInt64) }

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
