package relay

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
	"time"

	"github.com/llm-prober/llm_prober/internal/httpclient"
)

// Bounds on what is read of an answer, in bytes.
const (
	relayMaxPage    = 16 << 20 // a page of vLLM has 56 kB
	relayMaxPacked  = 4 << 20  // of a page that comes compressed
	relayMaxJSON    = 1 << 20
	relayMaxHeaders = 256 << 10 // net/http alone would take 10 MB
	relayMaxDrain   = 16 << 10  // of a body that nobody wants
	relayMaxHops    = 5
	relayKeepBuf    = 1 << 20 // a buffer above this is not kept between samples
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
	body        []byte
	contentType string
}

// relayAsk is a request for a page of at most limit bytes.
type relayAsk struct {
	url    *url.URL
	accept string
	limit  int
	buf    []byte // taken for the body if it is large enough
	pacer  *relayPacer
}

// relayGet fetches a page. Its error is a *relayFailure.
func relayGet(ctx context.Context, client *relayClient, ask relayAsk) (relayAnswer, error) {
	resp, err := client.open(ctx, ask.url, ask.accept)
	if err != nil {
		return relayAnswer{}, err
	}
	defer resp.Body.Close()
	// net/http ends the reading of most bodies with the context, but not of all.
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
	if err := relayCheckStatus(resp); err != nil {
		relayDrain(resp)
		return relayAnswer{}, err
	}
	body, err := relayRead(resp, ask)
	if err != nil {
		return relayAnswer{}, relayBodyFailure(ctx, err)
	}
	return relayAnswer{body, resp.Header.Get("Content-Type")}, nil
}

// open sends a request and returns the answer, whose body is not read yet. Its error is a *relayFailure.
func (c *relayClient) open(ctx context.Context, u *url.URL, accept string) (*http.Response, error) {
	var handshake relayHandshake
	req, err := http.NewRequestWithContext(c.watch(ctx, &handshake), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, relayFail(relayInternal, "making the request: %w", err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportFailure(ctx, &handshake, err)
	}
	c.headersDone()
	return resp, nil
}

func relayCheckStatus(resp *http.Response) error {
	status := &relayStatus{resp.StatusCode, resp.Status}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return &relayFailure{relayAuth, status}
	}
	return &relayFailure{relayHTTPStatus, status}
}

// relayDrain reads a short body that nobody wants, so that the connection can be used again. Behind 101 there is no
// body but a connection in another protocol.
func relayDrain(resp *http.Response) {
	if resp.StatusCode >= http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, relayMaxDrain)
	}
}

var errRelayTooLarge = errors.New("the answer is too large")

func relayRead(resp *http.Response, ask relayAsk) ([]byte, error) {
	encoding := resp.Header.Get("Content-Encoding")
	limit := ask.limit
	if encoding == "gzip" {
		limit = min(limit, relayMaxPacked)
	}
	if resp.ContentLength > int64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", errRelayTooLarge, resp.ContentLength, limit)
	}
	body := &relaySteady{r: resp.Body}
	switch encoding {
	case "", "identity":
		return relayReadAll(body, ask.buf, limit)
	case "gzip":
		packed, err := relayReadAll(body, nil, limit)
		if err != nil {
			return nil, err
		}
		return relayUnpack(packed, ask)
	}
	return nil, fmt.Errorf("content encoding %.40q was not asked for", encoding)
}

// relayUnpack unpacks at a measured pace: a small answer can be made to take long, whether it grows or not.
func relayUnpack(packed []byte, ask relayAsk) ([]byte, error) {
	ask.pacer.begin()
	defer ask.pacer.end()
	unzipped, err := gzip.NewReader(&relayPaced{r: bytes.NewReader(packed), pacer: ask.pacer})
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	body, err := relayReadAll(&relayPaced{r: unzipped, pacer: ask.pacer}, ask.buf, ask.limit)
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	return body, nil
}

// relayReadAll reads at most limit bytes into b, which grows as they come.
func relayReadAll(r io.Reader, b []byte, limit int) ([]byte, error) {
	b = b[:0]
	for {
		if len(b) > limit {
			return nil, fmt.Errorf("%w: more than %d bytes", errRelayTooLarge, limit)
		}
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(max(cap(b)+cap(b)/2, 64<<10), limit+1)), b...)
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) && len(b) <= limit {
			return b, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
	}
}

// relaySteady pauses after every pageStride bytes, so that who sends without end does not keep the readers of probes from
// the processor.
type relaySteady struct {
	r io.Reader
	n int
}

func (s *relaySteady) Read(b []byte) (int, error) {
	if s.n >= pageStride {
		time.Sleep(relayPause)
		s.n = 0
	}
	n, err := s.r.Read(b[:min(len(b), pageStride)])
	s.n += n
	return n, err
}

// relayPaced calls its pacer after every pageStride bytes.
type relayPaced struct {
	r     io.Reader
	pacer *relayPacer
	n     int
}

func (p *relayPaced) Read(b []byte) (int, error) {
	if p.n >= pageStride {
		p.n = 0
		if err := p.pacer.pause(); err != nil {
			return 0, err
		}
	}
	n, err := p.r.Read(b[:min(len(b), pageStride)])
	p.n += n
	p.pacer.count(n)
	return n, err
}

// relayPause is how long the work on a page rests after every pageStride bytes, which take some 0.3 ms: there the
// runtime looks for what has come on other connections, so that a large page does not hold up the probes' readers.
const relayPause = time.Millisecond

// relayPacer measures the work on one answer and breaks it up. The nil pacer does neither.
type relayPacer struct {
	ctx   context.Context
	bytes int64 // that were packed or unpacked
	spent time.Duration
	since time.Time
}

func (p *relayPacer) begin() {
	if p != nil {
		p.since = time.Now()
	}
}

func (p *relayPacer) end() {
	if p != nil {
		p.spent += time.Since(p.since)
	}
}

func (p *relayPacer) count(n int) {
	if p != nil {
		p.bytes += int64(n)
	}
}

// pause rests for a moment. Its error is the context's.
func (p *relayPacer) pause() error {
	if p == nil {
		return nil
	}
	p.end()
	time.Sleep(relayPause)
	p.begin()
	return p.ctx.Err()
}

// transportFailure tells why no answer came.
func (c *relayClient) transportFailure(ctx context.Context, handshake *relayHandshake, err error) *relayFailure {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err // url.Error would repeat the URL, with whatever secrets its query holds
	}
	var (
		netErr  net.Error
		pathErr *fs.PathError
	)
	lacks := httpclient.LocalLimit(err)
	switch text := err.Error(); {
	case lacks != "":
		return relayFail(relayInternal, "the prober has no %s: %w", lacks, err)
	case httpclient.IsFault(err):
		return &relayFailure{relayInternal, err}
	case c.headersTooLarge(): // net/http may have taken the end of what it got for a line
		return &relayFailure{relayTooLarge, errRelayHeaders}
	case strings.Contains(text, "malformed ") || strings.Contains(text, "Location header"):
		// net/http quotes what it cannot read, and that may be what we sent: a key in the query of the URL.
		return &relayFailure{relayConnect, errors.New("the server's answer is no HTTP")}
	case errors.Is(err, errRelayRedirect):
		return &relayFailure{relayHTTPStatus, err}
	case httpclient.IsTLS(err):
		return &relayFailure{relayTLS, err}
	case errors.As(err, &pathErr):
		return &relayFailure{relayAuth, fmt.Errorf("reading credentials: %w", err)}
	case ctx.Err() != nil:
		return &relayFailure{relayTimeout, err}
	case handshake.failed.Load():
		return &relayFailure{relayTLS, err}
	case handshake.unmet.Load() && (httpclient.IsReset(err) || httpclient.IsEnd(err)):
		return relayFail(relayTLS, "the server asked for a client certificate, there is none that it takes, and it closed the connection: %w", err)
	case errors.As(err, &netErr) && netErr.Timeout():
		return &relayFailure{relayTimeout, err}
	}
	return &relayFailure{relayConnect, err}
}

// relayBodyFailure tells why an answer did not become whole.
func relayBodyFailure(ctx context.Context, err error) *relayFailure {
	var opErr *net.OpError
	switch {
	case errors.Is(err, errRelayTooLarge):
		return &relayFailure{relayTooLarge, err}
	case ctx.Err() != nil:
		return &relayFailure{relayTimeout, fmt.Errorf("in the middle of the answer: %w", err)}
	case httpclient.IsTLS(err):
		return &relayFailure{relayTLS, fmt.Errorf("in the middle of the answer: %w", err)}
	case errors.As(err, &opErr):
		return &relayFailure{relayConnect, fmt.Errorf("in the middle of the answer: %w", err)}
	default: // cut off (io.ErrUnexpectedEOF) or corrupt
		return &relayFailure{relayParse, fmt.Errorf("the answer is not whole: %w", err)}
	}
}

// relayGetJSON fetches a JSON object into v.
func relayGetJSON(ctx context.Context, client *relayClient, u *url.URL, v any) error {
	answer, err := relayGet(ctx, client, relayAsk{url: u, accept: "application/json", limit: relayMaxJSON})
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
