//go:build linux && (amd64 || arm64)

package prober

import (
	"io"
	"net"
	"testing"
	"time"
)

// A prober that was stopped for a while finds in the kernel what came meanwhile. It is judged by when it came: here
// the reader is held up after the first token until the rest has come and its patience is long over.
func TestBacklogIsReadBeforeAFailureOfTime(t *testing.T) {
	keepStamping(t)
	const patience = 300 * time.Millisecond
	whole := []string{"{C:b}{FIN:length}{USAGE:512,128}{DONE}"}
	for _, c := range []struct {
		name  string
		limit func(*Target)
		rest  []string // of the answer; what follows the first part comes once all patience is over
		want  string   // how the probe ends
	}{
		{"a whole answer, past the deadline", func(t *Target) { t.Plans[0].Timeout = patience }, whole, "ok"},
		{"a whole answer without [DONE], past the deadline", func(t *Target) { t.Plans[0].Timeout = patience }, []string{"{C:b}{FIN:length}{USAGE:512,128}"}, "ok"},
		{"an answer whose rest comes after the deadline", func(t *Target) { t.Plans[0].Timeout = patience }, []string{"{C:b}", "{FIN:length}{USAGE:512,128}{DONE}"}, "timeout"},
		{"an answer whose rest never comes", func(t *Target) { t.Plans[0].Timeout = patience }, []string{"{C:b}", ""}, "timeout"},
		{"a whole answer, past the stall timeout", func(t *Target) { t.Plans[0].StallTimeout = patience }, whole, "ok"},
		{"an answer that stalls", func(t *Target) { t.Plans[0].StallTimeout = patience }, []string{"{C:b}", ""}, "stalled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			held, come, end := make(chan struct{}), make(chan struct{}), make(chan struct{})
			address := serveTCP(t, llm(func(conn net.Conn, _ sentRequest) {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"+expand("{ROLE}{C:a}"))
				<-held
				for i, part := range c.rest {
					if i > 0 {
						<-time.After(2 * patience)
					}
					_, _ = io.WriteString(conn, expand(part))
				}
				if c.rest[len(c.rest)-1] == "" {
					<-end
				}
				conn.Close()
				close(come)
			}))
			defer close(end)
			g := newRig(t, nil, at("http", address, c.limit))
			first := true
			g.rec.onToken = func() {
				if !first {
					return
				}
				first = false
				close(held)
				if len(c.rest) == 1 {
					<-come
				}
				<-time.After(2 * patience)
			}
			if res := g.once(t); ending(res) != c.want {
				t.Errorf("%s (%v), want %s", outcome(res), res.Err, c.want)
			}
		})
	}
}
