package prober

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// client sends requests to one target. Every request has a connection of its own: vLLM closes idle ones after
// five seconds, and a probe must not meet that.
type client struct {
	target    *Target
	transport http.RoundTripper
	userAgent string
	trails    trails // of the server's streams
	secrets   scrub.Secrets
}

func newClient(t *Target, dial DialFunc, userAgent string) (*client, error) {
	transport, err := promconfig.NewRoundTripperFromConfig(t.HTTP, "llm_prober",
		promconfig.WithDialContextFunc(promconfig.DialContextFunc(stamped(t.IPFamily.Dial(dial)))),
		promconfig.WithKeepAlivesDisabled(),
		promconfig.WithHTTP2Disabled())
	if err != nil {
		return nil, fmt.Errorf("target %q: preparing the HTTP client: %w", t.Name, err)
	}
	c := &client{target: t, transport: transport, userAgent: userAgent}
	c.secrets.Client(&t.HTTP)
	c.secrets.URL(t.URL)
	return c, nil
}

// url is the address of a path below the root, such as /v1/models.
func (c *client) url(path string) string { return c.target.URL.String() + path }

// exchange is one HTTP request, from the wish to connect to the headers of the answer.
type exchange struct {
	phase atomic.Int32
	slot  dialSlot

	dialStart, connected time.Time
	remote               string
}

// do sends a request and returns once the headers of the answer have come. sent is told when the first byte
// of the request is written, and never after do has returned. A redirect is an answer like any other.
func (c *client) do(ctx context.Context, req *http.Request, sent func(time.Time)) (*exchange, *http.Response, error) {
	var telling sync.Mutex
	over := false // net/http may still be writing when it has given up
	x := &exchange{slot: dialSlot{ctx: ctx, sent: func(at time.Time) {
		telling.Lock()
		defer telling.Unlock()
		if !over {
			sent(at)
		}
	}}}
	defer func() {
		telling.Lock()
		defer telling.Unlock()
		over = true
	}()
	at := func(p phase) { x.phase.Store(int32(p)) }
	ctx = context.WithValue(ctx, dialSlotKey{}, &x.slot)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			at(phaseConnect)
			x.dialStart = time.Now()
		},
		TLSHandshakeStart: func() { at(phaseTLS) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil {
				at(phaseConnect)
			}
		},
		GotConn: func(info httptrace.GotConnInfo) {
			at(phaseRequest)
			x.connected = time.Now()
			x.remote = info.Conn.RemoteAddr().String()
			x.slot.conn.Load().armWrite()
		},
		WroteHeaderField: c.secrets.Header,
	})
	req = req.WithContext(ctx)
	if c.target.Host != "" {
		req.Host = c.target.Host
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // compression holds tokens back
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		if conn := x.slot.conn.Load(); conn != nil {
			conn.Close() // net/http would let a handshake go on
		}
		return x, nil, classify(ctx, phase(x.phase.Load()), c.secrets.Error(c.nameFiles(err)))
	}
	at(phaseBody)
	x.slot.conn.Load().headersEnded()
	return x, resp, nil
}

// nameFiles adds to an error about a header, which net/http refuses to send, the files that its value may be from.
func (c *client) nameFiles(err error) error {
	if !strings.Contains(err.Error(), "invalid header field value") {
		return err
	}
	var files []string
	if a := c.target.HTTP.Authorization; a != nil && a.CredentialsFile != "" {
		files = append(files, a.CredentialsFile)
	}
	if c.target.HTTP.BearerTokenFile != "" {
		files = append(files, c.target.HTTP.BearerTokenFile)
	}
	if headers := c.target.HTTP.HTTPHeaders; headers != nil {
		for _, name := range slices.Sorted(maps.Keys(headers.Headers)) {
			files = append(files, headers.Headers[name].Files...)
		}
	}
	if len(files) == 0 {
		return err
	}
	return fmt.Errorf("%w: a header has one line without control characters: see %s", err, strings.Join(files, ", "))
}

// call does one of the small requests around a probe: a JSON value is sent unless in is nil, and one is read
// unless the status is not 200.
func (c *client) call(ctx context.Context, method, path string, in, out any) (status int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errTimeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("encoding a request for %s: %w", path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequest(method, c.url(path), body)
	if err != nil {
		return 0, failf(ReasonInternal, "%s %s: %w", method, path, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	_, resp, err := c.do(ctx, req, func(time.Time) {})
	if err != nil {
		return 0, wrap(err, "%s %s", method, path)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxCallBytes+1))
	switch {
	case err != nil:
		return resp.StatusCode, wrap(classify(ctx, phaseBody, err), "%s %s", method, path)
	case len(data) > maxCallBytes:
		return resp.StatusCode, failf(ReasonTooLarge, "%s %s: too large: body exceeds %d bytes", method, path, maxCallBytes)
	case resp.StatusCode != http.StatusOK:
		return resp.StatusCode, wrap(c.secrets.Error(statusFailure(resp.StatusCode, "", c.secrets.Hide(string(data)))), "%s %s", method, path)
	}
	if err := json.Unmarshal(data, out); err != nil {
		return resp.StatusCode, failf(ReasonMalformed, "%s %s: %w", method, path, err)
	}
	return resp.StatusCode, nil
}

const (
	callTimeout  = 10 * time.Second // of one small request; the probe's deadline may end it earlier
	maxCallBytes = 4 << 20          // /tokenize answers with every token id of a long prompt
)

// wrap adds what was being done to an error and keeps its reason.
func wrap(err error, format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// DefaultDial is the dialer of the operating system: both address families are tried (RFC 8305), and the second
// gets its chance after 300 ms.
func DefaultDial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
