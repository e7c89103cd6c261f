package prober

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

const (
	// trailTimeout is how long the prober waits, after finish_reason, for usage and [DONE].
	trailTimeout = 5 * time.Second
	// drainTimeout and drainBytes bound the reading after [DONE]: a connection closed with the end of the body
	// unread shows up as an aborted request in the logs of every proxy on the way.
	drainTimeout = 100 * time.Millisecond
	drainBytes   = 4 << 10
)

// stream sends one request of a probe and reads its answer to the end. It fills in the result and tells the
// observer; the error has a reason (failure) or is errAbandoned.
func (c *client) stream(ctx context.Context, r request, stall time.Duration, res *Result, obs Observer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequest(http.MethodPost, c.url(r.path), bytes.NewReader(r.body))
	if err != nil {
		return failf(ReasonInternal, "building the request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("X-Request-Id", res.RequestID)
	x, resp, err := c.do(ctx, req, func(at time.Time) {
		res.Sent = at
		obs.Sent(res.Probe, at)
	})
	res.DialStart, res.Connected, res.RemoteAddr = x.dialStart, x.connected, x.remote
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if res.Sent.IsZero() {
		return failf(ReasonMalformed, "the server answered before it was asked")
	}
	res.Headers, res.Status = time.Now(), resp.StatusCode
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		res.CertExpiry = resp.TLS.PeerCertificates[0].NotAfter
	}
	conn := x.slot.conn.Load()
	s := &streaming{
		res: res, obs: obs, conn: conn, sse: newSSEReader(askingBody{conn, resp.Body}), answer: newAnswer(res, x.secrets.scrub),
		stamper: newStamper(conn, &c.tails, resp.TLS != nil), stall: stall, stop: cancel, secrets: &x.secrets,
	}
	if resp.StatusCode != http.StatusOK {
		return x.secrets.scrubError(statusFailure(resp.StatusCode, res.Model, s.errorBody(resp.Body)))
	}
	if err := s.checkContentType(resp.Header); err != nil {
		return x.secrets.scrubError(err)
	}
	err = s.read(ctx)
	if s.answer.done {
		s.drain(resp.Body)
	}
	return err
}

// streaming is the reading of one answer.
type streaming struct {
	res     *Result
	obs     Observer
	conn    *stampedConn
	sse     *sseReader
	answer  *answer
	stamper *stamper
	stall   time.Duration
	stop    context.CancelCauseFunc
	secrets *secrets
	events  int
}

// read reads the stream until [DONE], its end, or the point where the answer is cut.
func (s *streaming) read(ctx context.Context) error {
	res := s.res
	timer := time.AfterFunc(s.stall, func() { s.stop(errStalled) })
	timer.Stop() // the first token may take as long as the whole probe
	defer timer.Stop()
	res.Gaps = make([]time.Duration, 0, max(0, min(res.Workload.OutputTokens, 1<<16)-1))
	var err error
	cut := false
	for !s.answer.done && !cut {
		var e sseEvent
		if e, err = s.sse.next(); err != nil {
			break
		}
		s.events++
		var token bool
		if token, err = s.answer.take(e); err != nil {
			break
		}
		early := s.stamper.event(token, s.sse.unfinished())
		if token {
			timer.Reset(s.stall)
			s.answer.arrived(s.conn.arrival.at)
			s.obs.Token(res.Probe, res.LastToken, early)
			cut = s.answer.tooLong()
		}
		if s.answer.terminal {
			timer.Reset(min(s.stall, trailTimeout))
		}
	}
	res.KernelStamps, res.ReadDelay = s.conn.kernel != nil, s.stamper.delay
	res.Early, res.SentLate = s.stamper.end(), s.conn.heldBack()
	return s.answer.finish(cut, s.explain(ctx, err))
}

// explain gives the end of a stream its reason, and says how far it had come. nil is a clean end.
func (s *streaming) explain(ctx context.Context, err error) error {
	if err == nil || err == io.EOF {
		return nil
	}
	err = classify(ctx, phaseBody, s.secrets.scrubError(err))
	return wrap(err, "after %d bytes, %d events and %d token events", s.sse.total, s.events, s.answer.tokens)
}

// checkContentType lets an event stream pass, whatever the server calls it.
func (s *streaming) checkContentType(h http.Header) error {
	if coding := h.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return failf(ReasonContentType, "the server compressed the stream (Content-Encoding %q)", clip(s.secrets.scrub(coding), 40))
	}
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil && kind == "text/event-stream" {
		return nil
	}
	head := s.sse.peek()
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(bytes.TrimLeft(head, "\xEF\xBB\xBF\r\n"), []byte(field)) {
			s.res.Suspect |= SuspectContentType
			return nil
		}
	}
	s.res.Body = clip(s.secrets.scrub(string(head)), maxBody)
	return failf(ReasonContentType, "the server did not stream: Content-Type %q, body %s",
		clip(s.secrets.scrub(h.Get("Content-Type")), 80), errorMessage([]byte(s.res.Body)))
}

// errorBody reads the start of the body of an error, for the log and the status page.
func (s *streaming) errorBody(body io.Reader) string {
	data, _ := io.ReadAll(io.LimitReader(body, 16<<10)) // what was read before an error is all there is to show
	text := strings.ToValidUTF8(s.secrets.scrub(string(data)), "\uFFFD")
	s.res.Body = clip(text, maxBody)
	return text
}

// drain reads what little may follow [DONE], so that the connection ends in order.
func (s *streaming) drain(body io.Reader) {
	if s.conn.SetReadDeadline(time.Now().Add(drainTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, body, drainBytes)
	}
}
