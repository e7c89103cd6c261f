package collector

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"

	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/internal/httpclient"
)

// Bounds on what is read of an answer.
const (
	relayMaxPage = 16 << 20 // bytes, compressed and not; a page of vLLM has 56 kB
	relayMaxJSON = 1 << 20
	relayMaxHops = 5
	relayKeepBuf = 1 << 20 // a buffer above this is not kept between samples
)

// relayFailure is a failed scrape: its reason and its cause.
type relayFailure struct {
	reason string
	err    error
}

func (f *relayFailure) Error() string { return f.err.Error() }
func (f *relayFailure) Unwrap() error { return f.err }

// relayStatus is an answer with a status other than 200.
type relayStatus struct {
	code int
	line string
}

func (s *relayStatus) Error() string { return fmt.Sprintf("the server answered %.60q", s.line) }

func relayFail(reason, format string, args ...any) *relayFailure {
	return &relayFailure{reason, fmt.Errorf(format, args...)}
}

// relayAnswer is a whole answer of the server.
type relayAnswer struct {
	body        []byte // valid until the next fetch into the same buffer
	contentType string
}

// newRelayClient makes the relay's HTTP client: connections kept alive, HTTP/1.1, the environment's proxy ignored.
// vLLM closes a connection that has been idle for 5 s; a request that meets the reset is sent again on a fresh
// connection by net/http, because it is a GET and nothing of an answer had come.
func newRelayClient(cfg RelayConfig) (*http.Client, error) {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	options := []promconfig.HTTPClientOption{promconfig.WithHTTP2Disabled(), promconfig.WithDialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
		// net/http keeps the deadline of a request from its dial. With it no dial outlives its scrape, and each
		// address of a name gets a share (net.Dialer).
		ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
		defer cancel()
		return dial(ctx, network, address)
	})}
	if cfg.UserAgent != "" {
		options = append(options, promconfig.WithUserAgent(cfg.UserAgent))
	}
	rt, err := httpclient.New(cfg.HTTP, "relay", options...)
	if err != nil {
		return nil, fmt.Errorf("making the relay's HTTP client: %w", err)
	}
	return &http.Client{Transport: rt, CheckRedirect: relayCheckRedirect}, nil
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

// relayGet fetches a URL into buf. Its error is a *relayFailure.
func relayGet(ctx context.Context, client *http.Client, u *url.URL, accept string, limit int64, buf *bytes.Buffer) (relayAnswer, error) {
	var certMissing atomic.Bool
	ctx = httpclient.NoteUnmetRequest(ctx, &certMissing)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return relayAnswer{}, relayFail(relayInternal, "making the request: %w", err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := client.Do(req)
	if err != nil {
		failure := relayTransportFailure(ctx, err)
		if certMissing.Load() && failure.reason == relayConnect && isRelayCut(err) {
			// Under TLS 1.3 the server's verdict on our certificate comes after the handshake, and some give it without a word.
			failure = relayFail(relayTLS, "the server asked for a client certificate in the TLS handshake and then cut the connection: %w", failure.err)
		}
		return relayAnswer{}, failure
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		relayDrain(resp.Body)
		return relayAnswer{}, relayFail(relayAuth, "the server answered %s", resp.Status)
	case resp.StatusCode != http.StatusOK:
		relayDrain(resp.Body)
		return relayAnswer{}, &relayFailure{relayHTTPStatus, &relayStatus{resp.StatusCode, resp.Status}}
	}
	if err := relayRead(resp, limit, buf); err != nil {
		return relayAnswer{}, relayBodyFailure(ctx, err)
	}
	return relayAnswer{buf.Bytes(), resp.Header.Get("Content-Type")}, nil
}

// relayDrain reads a short error body, so that the connection can be used again.
func relayDrain(body io.Reader) { _, _ = io.CopyN(io.Discard, body, 16<<10) }

var errRelayTooLarge = errors.New("the answer is too large")

func relayRead(resp *http.Response, limit int64, buf *bytes.Buffer) error {
	buf.Reset()
	if resp.ContentLength > limit {
		return fmt.Errorf("%w: %d bytes, at most %d are read", errRelayTooLarge, resp.ContentLength, limit)
	}
	body := io.Reader(io.LimitReader(resp.Body, limit+1))
	switch encoding := resp.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return fmt.Errorf("unpacking: %w", err)
		}
		body = io.LimitReader(unzipped, limit+1)
	default:
		return fmt.Errorf("content encoding %.40q was not asked for", encoding)
	}
	n, err := buf.ReadFrom(body)
	if n > limit {
		return fmt.Errorf("%w: more than %d bytes", errRelayTooLarge, limit)
	}
	return err
}

// isRelayCut tells whether a connection ended before anything came.
func isRelayCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// relayTransportFailure tells why no answer came.
func relayTransportFailure(ctx context.Context, err error) *relayFailure {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err // url.Error would repeat the URL, with whatever secrets its query holds
	}
	var (
		netErr  net.Error
		pathErr *fs.PathError
	)
	if text := err.Error(); strings.Contains(text, "malformed ") || strings.Contains(text, "Location header") {
		// net/http quotes what it cannot read, and that may be what we sent: a key in the query of the URL.
		return &relayFailure{relayConnect, errors.New("the server's answer is no HTTP")}
	}
	switch {
	case errors.Is(err, errRelayRedirect):
		return &relayFailure{relayHTTPStatus, err}
	case httpclient.LocalLimit(err) != "":
		return relayFail(relayInternal, "the prober has no %s: %w", httpclient.LocalLimit(err), err)
	case httpclient.IsTLS(err):
		return &relayFailure{relayTLS, err}
	case errors.As(err, &pathErr):
		return &relayFailure{relayAuth, fmt.Errorf("reading credentials: %w", err)}
	case ctx.Err() != nil, errors.As(err, &netErr) && netErr.Timeout():
		return &relayFailure{relayTimeout, err}
	default:
		return &relayFailure{relayConnect, err}
	}
}

// relayBodyFailure tells why an answer did not become whole.
func relayBodyFailure(ctx context.Context, err error) *relayFailure {
	var opErr *net.OpError
	switch {
	case errors.Is(err, errRelayTooLarge):
		return &relayFailure{relayTooLarge, err}
	case ctx.Err() != nil:
		return &relayFailure{relayTimeout, fmt.Errorf("in the middle of the answer: %w", err)}
	case errors.As(err, &opErr):
		return &relayFailure{relayConnect, fmt.Errorf("in the middle of the answer: %w", err)}
	default: // cut off (io.ErrUnexpectedEOF) or corrupt
		return &relayFailure{relayParse, fmt.Errorf("the answer is not whole: %w", err)}
	}
}

// relayGetJSON fetches a JSON object into v.
func relayGetJSON(ctx context.Context, client *http.Client, u *url.URL, v any) error {
	var buf bytes.Buffer
	answer, err := relayGet(ctx, client, u, "application/json", relayMaxJSON, &buf)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer.body, v); err != nil {
		return relayFail(relayParse, "reading %s: %w", u.Path, err)
	}
	return nil
}

// relayLogURL is a URL as it may be logged: without user information and query.
func relayLogURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}
