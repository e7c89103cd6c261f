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
	maxPage    = 16 << 20 // a page of vLLM has 56 kB
	maxPacked  = 4 << 20  // of a page that comes compressed
	maxJSON    = 1 << 20
	maxHeaders = 256 << 10 // net/http alone would take 10 MB
	maxDrain   = 16 << 10  // of a body that nobody wants
	maxHops    = 5
	keepBuffer = 1 << 20 // a buffer above this is not kept between samples
)

// scrapeError is a failed scrape: its reason and its cause.
type scrapeError struct {
	reason string
	err    error
}

func (f *scrapeError) Error() string { return f.err.Error() }
func (f *scrapeError) Unwrap() error { return f.err }

// statusError is an answer with a status other than 200.
type statusError struct {
	code int
	line string
}

func (s *statusError) Error() string { return fmt.Sprintf("the server answered %.60q", s.line) }

func fail(reason, format string, args ...any) *scrapeError {
	return &scrapeError{reason, fmt.Errorf(format, args...)}
}

// answer is a whole answer of the server.
type answer struct {
	body        []byte
	contentType string
}

// question is a request for a page of at most limit bytes.
type question struct {
	url    *url.URL
	accept string
	limit  int
	buf    []byte // taken for the body if it is large enough
	pacer  *pacer
}

// get fetches a page. Its error is a *scrapeError.
func (c *client) get(ctx context.Context, ask question) (answer, error) {
	resp, err := c.open(ctx, ask.url, ask.accept)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	// net/http ends the reading of most bodies with the context, but not of all.
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
	if err := checkStatus(resp); err != nil {
		drain(resp)
		return answer{}, err
	}
	body, err := readBody(resp, ask)
	if err != nil {
		return answer{}, bodyFailure(ctx, err)
	}
	return answer{body, resp.Header.Get("Content-Type")}, nil
}

// open sends a request and returns the answer, whose body is not read yet. Its error is a *scrapeError.
func (c *client) open(ctx context.Context, u *url.URL, accept string) (*http.Response, error) {
	var outcome handshake
	req, err := http.NewRequestWithContext(c.watch(ctx, &outcome), http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fail(reasonInternal, "making the request: %w", err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.transportFailure(ctx, &outcome, err)
	}
	c.headersDone()
	return resp, nil
}

func checkStatus(resp *http.Response) error {
	status := &statusError{resp.StatusCode, resp.Status}
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return &scrapeError{reasonAuth, status}
	}
	return &scrapeError{reasonHTTPStatus, status}
}

// drain reads a short body that nobody wants, so that the connection can be used again. Behind 101 there is no
// body but a connection in another protocol.
func drain(resp *http.Response) {
	if resp.StatusCode >= http.StatusOK {
		_, _ = io.CopyN(io.Discard, resp.Body, maxDrain)
	}
}

var errTooLarge = errors.New("the answer is too large")

func readBody(resp *http.Response, ask question) ([]byte, error) {
	encoding := resp.Header.Get("Content-Encoding")
	limit := ask.limit
	if encoding == "gzip" {
		limit = min(limit, maxPacked)
	}
	if resp.ContentLength > int64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", errTooLarge, resp.ContentLength, limit)
	}
	body := &steadyReader{r: resp.Body}
	switch encoding {
	case "", "identity":
		return readAll(body, ask.buf, limit)
	case "gzip":
		packed, err := readAll(body, nil, limit)
		if err != nil {
			return nil, err
		}
		return unpack(packed, ask)
	}
	return nil, fmt.Errorf("content encoding %.40q was not asked for", encoding)
}

// unpack unpacks at a measured pace: a small answer can be made to take long, whether it grows or not.
func unpack(packed []byte, ask question) ([]byte, error) {
	ask.pacer.begin()
	defer ask.pacer.end()
	unzipped, err := gzip.NewReader(&pacedReader{r: bytes.NewReader(packed), pacer: ask.pacer})
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	body, err := readAll(&pacedReader{r: unzipped, pacer: ask.pacer}, ask.buf, ask.limit)
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	return body, nil
}

// readAll reads at most limit bytes into b, which grows as they come.
func readAll(r io.Reader, b []byte, limit int) ([]byte, error) {
	b = b[:0]
	for {
		if len(b) > limit {
			return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
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

// steadyReader pauses after every strideBytes bytes, so that who sends without end does not keep the readers of probes from
// the processor.
type steadyReader struct {
	r io.Reader
	n int
}

func (s *steadyReader) Read(b []byte) (int, error) {
	if s.n >= strideBytes {
		time.Sleep(pauseTime)
		s.n = 0
	}
	n, err := s.r.Read(b[:min(len(b), strideBytes)])
	s.n += n
	return n, err
}

// pacedReader calls its pacer after every strideBytes bytes.
type pacedReader struct {
	r     io.Reader
	pacer *pacer
	n     int
}

func (p *pacedReader) Read(b []byte) (int, error) {
	if p.n >= strideBytes {
		p.n = 0
		if err := p.pacer.pause(); err != nil {
			return 0, err
		}
	}
	n, err := p.r.Read(b[:min(len(b), strideBytes)])
	p.n += n
	p.pacer.count(n)
	return n, err
}

// pauseTime is how long the work on a page rests after every strideBytes bytes, which take some 0.3 ms: there the
// runtime looks for what has come on other connections, so that a large page does not hold up the probes' readers.
const pauseTime = time.Millisecond

// pacer measures the work on one answer and breaks it up. The nil pacer does neither.
type pacer struct {
	ctx   context.Context
	bytes int64 // that were packed or unpacked
	spent time.Duration
	since time.Time
}

func (p *pacer) begin() {
	if p != nil {
		p.since = time.Now()
	}
}

func (p *pacer) end() {
	if p != nil {
		p.spent += time.Since(p.since)
	}
}

func (p *pacer) count(n int) {
	if p != nil {
		p.bytes += int64(n)
	}
}

// pause rests for a moment. Its error is the context's.
func (p *pacer) pause() error {
	if p == nil {
		return nil
	}
	p.end()
	time.Sleep(pauseTime)
	p.begin()
	return p.ctx.Err()
}

// transportFailure tells why no answer came.
func (c *client) transportFailure(ctx context.Context, outcome *handshake, err error) *scrapeError {
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
		return fail(reasonInternal, "the prober has no %s: %w", lacks, err)
	case httpclient.IsFault(err):
		return &scrapeError{reasonInternal, err}
	case c.headersTooLarge(): // net/http may have taken the end of what it got for a line
		return &scrapeError{reasonTooLarge, errHeaders}
	case strings.Contains(text, "malformed ") || strings.Contains(text, "Location header"):
		// net/http quotes what it cannot read, and that may be what we sent: a key in the query of the URL.
		return &scrapeError{reasonConnect, errors.New("the server's answer is no HTTP")}
	case errors.Is(err, errRedirect):
		return &scrapeError{reasonHTTPStatus, err}
	case httpclient.IsTLS(err):
		return &scrapeError{reasonTLS, err}
	case errors.As(err, &pathErr):
		return &scrapeError{reasonAuth, fmt.Errorf("reading credentials: %w", err)}
	case ctx.Err() != nil:
		return &scrapeError{reasonTimeout, err}
	case outcome.failed.Load():
		return &scrapeError{reasonTLS, err}
	case outcome.unmet.Load() && (httpclient.IsReset(err) || httpclient.IsEnd(err)):
		return fail(reasonTLS, "the server asked for a client certificate, there is none that it takes, and it closed the connection: %w", err)
	case errors.As(err, &netErr) && netErr.Timeout():
		return &scrapeError{reasonTimeout, err}
	}
	return &scrapeError{reasonConnect, err}
}

// bodyFailure tells why an answer did not become whole.
func bodyFailure(ctx context.Context, err error) *scrapeError {
	var opErr *net.OpError
	switch {
	case errors.Is(err, errTooLarge):
		return &scrapeError{reasonTooLarge, err}
	case ctx.Err() != nil:
		return &scrapeError{reasonTimeout, fmt.Errorf("in the middle of the answer: %w", err)}
	case httpclient.IsTLS(err):
		return &scrapeError{reasonTLS, fmt.Errorf("in the middle of the answer: %w", err)}
	case errors.As(err, &opErr):
		return &scrapeError{reasonConnect, fmt.Errorf("in the middle of the answer: %w", err)}
	default: // cut off (io.ErrUnexpectedEOF) or corrupt
		return &scrapeError{reasonParse, fmt.Errorf("the answer is not whole: %w", err)}
	}
}

// getJSON fetches a JSON object into v.
func (c *client) getJSON(ctx context.Context, u *url.URL, v any) error {
	answer, err := c.get(ctx, question{url: u, accept: "application/json", limit: maxJSON})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answer.body, v); err != nil {
		return fail(reasonParse, "reading %s: %w", u.Path, err)
	}
	return nil
}

// logURL is a URL as it may be logged: without user information and query.
func logURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}
