package vllmsim

import (
	"bytes"
	"context"
	"net/http"
	"time"
)

// sse writes an event stream: one write, and one chunk of the transfer encoding, an event.
type sse struct {
	ctx  context.Context
	w    http.ResponseWriter
	conn *http.ResponseController

	drip  time.Duration // > 0: the bytes of an event take this long
	burst int           // > 0: a proxy holds events back until it has this many

	held   bytes.Buffer
	events int
}

// open sends the headers.
func (o *sse) open() {
	o.w.WriteHeader(http.StatusOK)
	o.conn.Flush() // an error shows at the first event
}

// sendJSON sends one event; nil is none.
func (o *sse) sendJSON(v any) error {
	if v == nil {
		return nil
	}
	return o.send(toJSON(v))
}

func (o *sse) send(data []byte) error {
	event := make([]byte, 0, len("data: ")+len(data)+len("\n\n"))
	event = append(event, "data: "...)
	event = append(event, data...)
	return o.write(append(event, "\n\n"...))
}

// fail ends the stream with an error. A client that has gone does not mind.
func (o *sse) fail(e *apiError) {
	o.send(e.inStream())
	o.send([]byte("[DONE]"))
}

// write sends bytes as they are, or the way a fault wants them to be sent.
func (o *sse) write(p []byte) error {
	switch {
	case o.burst > 0:
		o.held.Write(p)
		if o.events++; o.events%o.burst != 0 {
			return nil
		}
		return o.flush()
	case o.drip > 0:
		return o.dribble(p)
	default:
		return o.put(p)
	}
}

func (o *sse) put(p []byte) error {
	if _, err := o.w.Write(p); err != nil {
		return err
	}
	return o.conn.Flush()
}

// drops is how many pieces a dripping event comes in.
const drops = 8

func (o *sse) dribble(p []byte) error {
	size := (len(p) + drops - 1) / drops
	for {
		n := min(size, len(p))
		if err := o.put(p[:n]); err != nil {
			return err
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
		if err := sleep(o.ctx, o.drip/(drops-1)); err != nil {
			return err
		}
	}
}

// flush sends what is held back.
func (o *sse) flush() error {
	if o.held.Len() == 0 {
		return nil
	}
	defer o.held.Reset()
	return o.put(o.held.Bytes())
}

// reset ends the connection with a TCP reset.
func (o *sse) reset() {
	conn, _, err := o.conn.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		tcp.SetLinger(0) // close drops what is unsent, and sends RST
	}
	conn.Close()
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
