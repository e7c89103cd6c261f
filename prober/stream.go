package prober

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

const (
	// tailTimeout is how long the prober waits, after finish_reason, for usage and [DONE].
	tailTimeout = 5 * time.Second
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
	req, err := http.NewRequest(http.MethodPost, c.url(c.target.endpoint(r.path)), bytes.NewReader(r.body))
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
	res.setCert(decidingCert(resp.TLS))
	conn := x.slot.conn.Load()
	s := &streaming{
		res: res, obs: obs, conn: conn, sse: newSSEReader(&bodyReader{conn: conn, body: resp.Body}), answer: newAnswer(res, c.secrets.Hide, r.aliases),
		stamper: newStamper(conn, &c.tails, resp.TLS != nil), late: &c.late, stall: stall, stop: cancel, secrets: &c.secrets,
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusSwitchingProtocols:
		return errSwitched
	default:
		body := s.errorBody(resp.Body)
		return c.secrets.Error(&refusal{statusFailure(resp.StatusCode, res.Model, body), body})
	}
	if err := s.checkContentType(resp.Header); err != nil {
		return c.secrets.Error(err)
	}
	err = s.read(x.slot.work)
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
	late    *atomic.Int64 // of the client
	stall   time.Duration
	stop    context.CancelCauseFunc
	secrets *scrub.Secrets
	events  int
}

// read reads the stream until [DONE], its end, or the point where the answer is cut.
func (s *streaming) read(ctx context.Context) error {
	res := s.res
	silence := newSilence(s.conn, func() { s.stop(errStalled) })
	defer silence.end()
	res.Gaps = make([]time.Duration, 0, max(0, min(res.Workload.OutputTokens, 1<<16)-1))
	var err, left error
	cut := false
	for !s.answer.done && !cut {
		var e sseEvent
		if e, err = s.sse.next(); err != nil {
			left = s.answer.left(s.sse.rest())
			break
		}
		s.events++
		var token bool
		if token, err = s.answer.take(e); err != nil {
			break
		}
		early := s.stamper.event(token, s.sse.unfinished())
		if token {
			silence.atMost(s.stall) // the first token may take as long as the whole probe
			s.answer.arrived(s.conn.times.arrival.at)
			s.obs.Token(res.Probe, res.LastToken, early)
			cut = s.answer.tooLong()
		}
		if s.answer.ended() && !token {
			silence.atMost(min(s.stall, tailTimeout))
		}
	}
	res.KernelStamps, res.ReadDelay = s.conn.kernel != nil, s.stamper.readDelay
	switch late := s.stamper.finish(res); {
	case s.stamper.readDelay > starvedFor:
		s.late.Store(0)
	case late:
		s.late.Store(time.Now().UnixNano())
	}
	res.SentLate = s.conn.heldBack()
	if err = s.explain(ctx, err); left != nil && !errors.Is(err, errAbandoned) {
		err = s.explain(ctx, left)
	}
	return s.answer.finish(cut, err)
}

// silence ends a stream in which nothing comes for too long. What has come by then is read first: a prober that was
// stopped for a while finds all of it in the kernel, and its own clock far ahead.
type silence struct {
	conn *stampedConn
	stop func()

	mu    sync.Mutex
	timer *time.Timer // nil: not begun
	armed time.Time   // when the timer fires
	until time.Time   // when the silence is too long
	fired time.Time   // when it was first found that the time had passed; zero: it was not
}

func newSilence(conn *stampedConn, stop func()) *silence { return &silence{conn: conn, stop: stop} }

// atMost begins it anew. A timer that fires before the end is left as it is, and set again when it fires: setting one
// for each token costs more than reading the token.
func (s *silence) atMost(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.until, s.fired = now.Add(d), time.Time{}
	switch {
	case s.timer == nil:
		s.armed = s.until
		s.timer = time.AfterFunc(d, s.due)
	case s.until.Before(s.armed):
		s.arm(now, d)
	}
}

// arm lets the timer fire after d.
func (s *silence) arm(now time.Time, d time.Duration) {
	s.armed = now.Add(d)
	s.timer.Reset(d)
}

func (s *silence) due() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if left := s.until.Sub(now); left > 0 {
		s.arm(now, left)
		return
	}
	if s.fired.IsZero() {
		s.fired = now
	}
	if s.conn.pending() && now.Sub(s.fired) < backlogTimeout {
		s.arm(now, backlogPoll)
	} else {
		s.stop()
	}
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = func() {} // the timer may just have fired
	if s.timer != nil {
		s.timer.Stop()
	}
}

// explain gives the end of a stream its reason, and says how far it had come. nil is a clean end.
func (s *streaming) explain(ctx context.Context, err error) error {
	if err == nil || err == io.EOF {
		return nil
	}
	err = classify(ctx, phaseBody, s.secrets.Error(err))
	return wrap(err, "after %d bytes, %d events and %d token events", s.sse.total, s.events, s.answer.tokens)
}

// checkContentType lets an event stream pass, whatever the server calls it.
func (s *streaming) checkContentType(h http.Header) error {
	if coding := h.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return failf(ReasonContentType, "the server compressed the stream (Content-Encoding %q)", s.secrets.Text(coding, 40))
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
	s.res.Body = s.secrets.Text(string(head), maxBody)
	return failf(ReasonContentType, "the server did not stream: Content-Type %q, body %s",
		s.secrets.Text(h.Get("Content-Type"), 80), errorMessage([]byte(s.res.Body)))
}

// errorBody reads the start of the body of an error, for the log and the status page.
func (s *streaming) errorBody(body io.Reader) string {
	data, _ := io.ReadAll(io.LimitReader(body, maxErrorBody)) // what was read before an error is all there is to show
	text := s.secrets.Hide(string(data))
	s.res.Body = scrub.Text(text, maxBody)
	return text
}

// drain reads what little may follow [DONE], so that the connection ends in order.
func (s *streaming) drain(body io.Reader) {
	if s.conn.SetReadDeadline(time.Now().Add(drainTimeout)) == nil {
		_, _ = io.CopyN(io.Discard, body, drainBytes)
	}
}
