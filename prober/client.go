package prober

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
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

	"github.com/llm-prober/llm_prober/internal/httpclient"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// client sends requests to one target. Every request has a connection of its own: vLLM closes idle ones after
// five seconds, and a probe must not meet that.
type client struct {
	target    *Target
	transport http.RoundTripper
	proxy     string // host and port of the proxy that requests go through; empty: none
	userAgent string
	tails     tailDelays // of the server's streams
	secrets   scrub.Secrets
	watch     *Watch       // nil: none
	late      atomic.Int64 // when a stream was read late last, in Unix nanoseconds
}

const (
	// watchFor is how long new connections are watched after one was read late.
	watchFor = 10 * time.Minute
	// starvedFor is a delay of a read beyond which connections are not watched: the [Watch] takes processor time that the
	// process does not get, so that the readers would be later still.
	starvedFor = 20 * time.Millisecond
)

// needsWatch reports whether a new connection is to be watched: the server's tail delay is not known yet, or a stream was
// read late not long ago.
func (c *client) needsWatch() bool {
	_, known := c.tails.longest()
	learning := !known && c.watch.count() == 0 // of several connections it is not known which one woke the watch
	return c.watch != nil && (learning || time.Since(time.Unix(0, c.late.Load())) < watchFor)
}

func newClient(t *Target, dial DialFunc, userAgent string) (*client, error) {
	transport, err := httpclient.New(t.HTTP, "llm_prober", promconfig.DialContextFunc(stamped(t.IPFamily.Dial(dial))),
		promconfig.WithKeepAlivesDisabled(),
		promconfig.WithHTTP2Disabled())
	if err != nil {
		return nil, fmt.Errorf("target %q: preparing the HTTP client: %w", t.Name, err)
	}
	c := &client{target: t, transport: transport, proxy: proxyOf(t), userAgent: userAgent}
	c.secrets.Client(&t.HTTP)
	c.secrets.URL(t.URL)
	return c, nil
}

// proxyOf is the host of the proxy on the way to a target, without credentials.
func proxyOf(t *Target) string {
	find := t.HTTP.Proxy()
	if find == nil {
		return ""
	}
	proxy, err := find(&http.Request{URL: t.URL})
	if err != nil || proxy == nil {
		return ""
	}
	return proxy.Host
}

// url is the address of a path below the root, such as /v1/models.
func (c *client) url(path string) string { return c.target.URL.String() + path }

// exchange is one HTTP request, from the wish to connect to the headers of the answer.
type exchange struct {
	phase atomic.Int32
	step  atomic.Pointer[string] // of connecting
	slot  dialSlot

	certMissing atomic.Bool // the server wants a certificate that we do not have

	dialStart, connected time.Time
	remote               string
}

const (
	// backlogTimeout bounds how long the reading of what came before a deadline may go on after it.
	backlogTimeout = time.Second
	backlogPoll    = time.Millisecond // between two looks
	// starvedAfter is how late a timer is only if the whole process did not run.
	starvedAfter = 500 * time.Millisecond
)

// do sends a request and returns once the headers of the answer have come. sent is told when the first byte
// of the request is written, and never after do has returned. A redirect is an answer like any other.
//
// The request does not end at the deadline of ctx, but once all that came before it has been read ([stampedConn.Read]
// tells that from what came later), and its connection is closed then, whatever net/http does with it.
func (c *client) do(ctx context.Context, req *http.Request, sent func(time.Time)) (*exchange, *http.Response, error) {
	var telling sync.Mutex
	over := false // net/http may still be writing when it has given up
	x := &exchange{}
	work, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	x.slot = dialSlot{asker: ctx, work: work, sent: func(at time.Time) {
		telling.Lock()
		defer telling.Unlock()
		if !over {
			sent(at)
		}
	}}
	x.slot.deadline, _ = ctx.Deadline()
	if c.needsWatch() {
		x.slot.watch = c.watch
	}
	defer func() {
		telling.Lock()
		defer telling.Unlock()
		over = true
	}()
	context.AfterFunc(ctx, func() { stop(x.ended(context.Cause(ctx))) })
	req = req.WithContext(x.traced(work, &c.secrets))
	if c.target.Host != "" {
		req.Host = c.target.Host
	}
	req.Header.Set("User-Agent", c.userAgent)
	req.Header.Set("Accept-Encoding", "identity") // compression holds tokens back
	resp, err := c.transport.RoundTrip(req)
	if err == nil {
		x.phase.Store(int32(phaseBody))
		x.slot.conn.Load().headersEnded()
		resp.Body = &releasing{resp.Body, &x.slot.released}
		return x, resp, nil
	}
	if left := (*httpclient.LeftError)(nil); errors.As(err, &left) {
		x = &exchange{slot: dialSlot{work: work}} // who is left behind still writes to the other
		return x, nil, classify(work, phaseCredentials, err)
	}
	if phase(x.phase.Load()) < phaseRequest && !x.slot.deadline.IsZero() && !time.Now().Before(x.slot.deadline) {
		<-work.Done() // a dial that ends at the deadline may be ahead of it
	}
	err = c.explain(x, err)
	stop(err) // net/http would let a handshake go on
	return x, nil, err
}

// ended is told that the asker of an exchange no longer waits, and returns once its request may end.
func (x *exchange) ended(cause error) error {
	if !errors.Is(cause, errTimeout) {
		return cause
	}
	late := time.Since(x.slot.deadline)
	for end := time.Now().Add(backlogTimeout); x.slot.conn.Load().pending() && time.Now().Before(end); {
		time.Sleep(backlogPoll)
	}
	at := phase(x.phase.Load())
	if at < phaseRequest && late > starvedAfter {
		return failf(ReasonInternal, "the prober itself did not run until %s after the deadline, so that it could not connect in time", late.Round(time.Millisecond))
	}
	if at == phaseBody {
		return cause
	}
	return fmt.Errorf("%w, %s", cause, x.doing(at))
}

// doing says what an exchange was waiting for.
func (x *exchange) doing(at phase) string {
	if step := x.step.Load(); at == phaseConnect && step != nil {
		return *step
	}
	return map[phase]string{
		phaseCredentials: "reading credentials", phaseConnect: "connecting", phaseTLS: "in the TLS handshake", phaseRequest: "waiting for the headers of the answer",
	}[at]
}

// traced adds to a context what tells how far a request has come.
func (x *exchange) traced(ctx context.Context, secrets *scrub.Secrets) context.Context {
	at := func(p phase) { x.phase.Store(int32(p)) }
	step := func(text string) { x.step.Store(&text) }
	ctx = context.WithValue(ctx, dialSlotKey{}, &x.slot)
	ctx = httpclient.NoteUnmetRequest(ctx, &x.certMissing)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			at(phaseConnect)
			x.dialStart = time.Now()
		},
		DNSStart:     func(info httptrace.DNSStartInfo) { step("resolving " + info.Host) },
		ConnectStart: func(_, address string) { step("connecting to " + address) },
		ConnectDone: func(_, address string, err error) {
			if err == nil {
				step("connected to " + address)
			}
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
			x.slot.conn.Load().expectRequest()
		},
		WroteHeaderField: secrets.Header,
	})
}

// explain gives an exchange that has failed its reason.
func (c *client) explain(x *exchange, err error) error {
	at := phase(x.phase.Load())
	err = c.secrets.Error(c.nameFiles(err))
	conn := x.slot.conn.Load()
	switch {
	case context.Cause(x.slot.work) != nil:
	case conn != nil && conn.flooded.Load(): // net/http may have looked at half a line first
		err = errHeadersTooLarge
	case at == phaseRequest && x.certMissing.Load() && isCut(err) && !errors.Is(err, io.ErrUnexpectedEOF):
		// Under TLS 1.3 the server's verdict on our certificate comes after the handshake, and some give it without a word.
		err = failf(ReasonTLS, "the server asked for a client certificate in the TLS handshake and then cut the connection (tls_config.cert_file): %w", err)
	case at == phaseConnect && c.proxy != "" && conn != nil:
		err = proxyFailure(c.proxy, err)
	case c.proxy != "":
		err = wrap(err, "through proxy %s", c.proxy)
	}
	return classify(x.slot.work, at, err)
}

// proxyFailure is the failure of a CONNECT. net/http tells only the words of the proxy's status line.
func proxyFailure(proxy string, err error) error {
	reason := ReasonConnect
	if strings.Contains(err.Error(), http.StatusText(http.StatusProxyAuthRequired)) {
		reason = ReasonAuth
	}
	return failf(reason, "the proxy %s answered the CONNECT with: %w", proxy, err)
}

// releasing is a body that tells when it is closed: from then on net/http closes the connection.
type releasing struct {
	io.ReadCloser
	released *atomic.Bool
}

func (b *releasing) Close() error {
	b.released.Store(true)
	return b.ReadCloser.Close()
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
	x, resp, err := c.do(ctx, req, func(time.Time) {})
	switch {
	case err == nil:
	case phase(x.phase.Load()) < phaseRequest: // nothing was asked: the address tells more than the path
		return 0, err
	default:
		return 0, wrap(err, "%s %s", method, path)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return resp.StatusCode, wrap(errSwitched, "%s %s", method, path)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxCallBytes+1))
	switch {
	case err != nil:
		return resp.StatusCode, wrap(classify(x.slot.work, phaseBody, err), "%s %s", method, path)
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
	maxCallBytes = 2 << 20          // /tokenize answers with every token id of a long prompt, some lists have 400 models
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
