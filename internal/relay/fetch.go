package relay

import (
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
	largePage  = 1 << 20 // relays that share [LargePages] read on in one at a time
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

// question is a request for a page of at most limit bytes.
type question struct {
	url    *url.URL
	accept string
	limit  int
	pacer  *pacer
}

// get asks for a page and has it read from its body. Its error is a *scrapeError: one that read returns stays as it
// is, and any other error of read is taken for one of the body.
func (c *client) get(ctx context.Context, ask question, read func(body io.Reader, contentType string) error) error {
	resp, err := c.open(ctx, ask.url, ask.accept)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// net/http ends the reading of most bodies with the context, but not of all.
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
	if err := checkStatus(resp); err != nil {
		drain(resp)
		return err
	}
	ask.pacer.begin()
	defer ask.pacer.end()
	body, err := bodyOf(resp, ask)
	if err == nil {
		err = read(body, resp.Header.Get("Content-Type"))
	}
	var known *scrapeError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return bodyFailure(ctx, err)
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

// bodyOf is the body of an answer, unpacked, at a measured pace and within the bounds: a small answer can be made to
// take long, whether it grows or not.
func bodyOf(resp *http.Response, ask question) (io.Reader, error) {
	encoding := resp.Header.Get("Content-Encoding")
	limit := ask.limit
	if encoding == "gzip" {
		limit = min(limit, maxPacked)
	}
	if resp.ContentLength > int64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", errTooLarge, resp.ContentLength, limit)
	}
	body := &pacedReader{r: resp.Body, pacer: ask.pacer, limit: limit, waits: true}
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
		return &pacedReader{r: unzipped, pacer: ask.pacer, limit: ask.limit}, nil
	}
	return nil, fmt.Errorf("content encoding %.40q was not asked for", encoding)
}

// pacedReader reads at most limit bytes, and calls its pacer after every strideBytes.
type pacedReader struct {
	r     io.Reader
	pacer *pacer
	limit int
	waits bool // for the server, which is no work

	n, stride int // bytes: all, since the last pause
}

// Read implements [io.Reader].
func (p *pacedReader) Read(b []byte) (n int, err error) {
	if p.stride >= strideBytes {
		p.stride = 0
		if err := p.pacer.pause(p.n); err != nil {
			return 0, err
		}
	}
	b = b[:min(len(b), strideBytes)]
	if p.waits {
		p.pacer.end()
		n, err = p.r.Read(b)
		p.pacer.begin()
	} else {
		n, err = p.r.Read(b)
		p.pacer.unpacked += int64(n)
	}
	p.n, p.stride = p.n+n, p.stride+n
	if p.n > p.limit {
		return 0, fmt.Errorf("%w: more than %d bytes", errTooLarge, p.limit)
	}
	return n, err
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
	ask := question{url: u, accept: "application/json", limit: maxJSON, pacer: &pacer{ctx: ctx}}
	return c.get(ctx, ask, func(body io.Reader, _ string) error {
		text, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, v); err != nil {
			return fail(reasonParse, "reading %s: %w", u.Path, err)
		}
		return nil
	})
}

// logURL is a URL as it may be logged: without user information and query.
func logURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}
