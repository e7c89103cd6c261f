package httpclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	promconfig "github.com/prometheus/common/config"
)

const (
	// leaveAfter is when a request that goes on although its context has ended is left behind, and MaxLeft how many of
	// a client may be: reading a file of credentials may hang.
	leaveAfter = 100 * time.Millisecond
	MaxLeft    = 16
	// tokenTimeout bounds a connection to an endpoint of tokens, from the dial on.
	tokenTimeout = 10 * time.Second
)

// LeftError is that a request was left behind when its context had ended: it goes on alone, and so does all that it
// calls. It unwraps to the context's cause.
type LeftError struct{ cause error }

func (e *LeftError) Error() string { return e.cause.Error() }
func (e *LeftError) Unwrap() error { return e.cause }

// FaultError is a fault of the client itself: the server has no part in it.
type FaultError struct{ text string }

func (e *FaultError) Error() string { return e.text }

// IsFault tells a [*FaultError].
func IsFault(err error) bool {
	var fault *FaultError
	return errors.As(err, &fault)
}

// Bound makes requests return soon after their context has ended, whatever next does: with a [*LeftError] then. Once
// [MaxLeft] go on alone, further requests fail with a [*FaultError]; so does one in which next panics.
func Bound(next http.RoundTripper) http.RoundTripper { return &bound{next: next} }

type bound struct {
	next http.RoundTripper
	left atomic.Int32
}

// RoundTrip implements [http.RoundTripper].
func (b *bound) RoundTrip(req *http.Request) (*http.Response, error) {
	if b.left.Load() >= MaxLeft {
		return nil, &FaultError{fmt.Sprintf("%d requests before this one did not end when they should: do credentials come from a file that cannot be read to its end?", MaxLeft)}
	}
	type answer struct {
		resp *http.Response
		err  error
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		resp, err := b.send(req)
		select {
		case answers <- answer{resp, err}:
		case <-gone:
			b.left.Add(-1)
			if resp != nil {
				resp.Body.Close()
			}
		}
	}()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-req.Context().Done():
	}
	patience := time.NewTimer(leaveAfter)
	defer patience.Stop()
	select {
	case a := <-answers:
		return a.resp, a.err
	case <-patience.C:
		b.left.Add(1)
		close(gone)
		return nil, &LeftError{context.Cause(req.Context())}
	}
}

func (b *bound) send(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, &FaultError{fmt.Sprintf("sending a request: panic: %v", p)}
		}
	}()
	return b.next.RoundTrip(req)
}

// CloseIdleConnections implements what [http.Client.CloseIdleConnections] looks for. While a request that was left behind
// goes on, connections are left to their own time-out: the library's client for tokens may not be closed beside one.
func (b *bound) CloseIdleConnections() {
	if b.left.Load() == 0 {
		closeIdle(b.next)
	}
}

func closeIdle(rt http.RoundTripper) {
	if c, ok := rt.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

type askedKey struct{}

// dialForTokens bounds the connections that no request of ours asked for: the library fetches the tokens of OAuth 2.0
// under a context without end.
func dialForTokens(dial promconfig.DialContextFunc) promconfig.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(askedKey{}) != nil {
			return dial(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := conn.SetDeadline(time.Now().Add(tokenTimeout)); err != nil {
			conn.Close()
			return nil, fmt.Errorf("bounding the request for a token: %w", err)
		}
		return conn, nil
	}
}
