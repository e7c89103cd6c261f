package prober

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// eventSource gives one event a read, for ever, as a reader that keeps up finds them.
type eventSource struct{ event []byte }

func (s *eventSource) Read(p []byte) (int, error) { return copy(p, s.event), nil }

// BenchmarkEvent is what the prober does with a token event of 250 bytes beyond what any client does: find its
// lines. System calls and net/http, which cost ten times as much, are in neither; e2e/bench measures all of it.
func BenchmarkEvent(b *testing.B) {
	const chunk = `data: {"id":"chatcmpl-probe-ABCDEFGHIJKLMNOPQRSTUVWXYZ","object":"chat.completion.chunk","created":1795966996,"model":"mock","choices":[{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n"
	event := fmt.Sprintf(chunk, " w"+strings.Repeat("o", 250-len(chunk)))
	if len(event) != 250 {
		b.Fatalf("the event has %d bytes", len(event))
	}
	b.Run("prober", func(b *testing.B) {
		client, server := net.Pipe()
		defer client.Close()
		defer server.Close()
		conn := newStampedConn(client, func(time.Time) {})
		w := &Workload{OutputTokens: 1 << 40}
		res := &Result{Probe: &Probe{Workload: w}, Model: "mock"}
		sse, a, stamps := newSSEReader(&eventSource{[]byte(event)}), newAnswer(res, nil, nil), newStamper(conn, &tailDelays{}, false)
		res.Gaps = make([]time.Duration, 0, 1<<16)
		timer := time.NewTimer(time.Hour)
		b.ReportAllocs()
		for b.Loop() {
			conn.note(len(event), false, received{tried: time.Now()})
			sse.total = 0 // or the stream would be too large
			e, err := sse.next()
			if err != nil {
				b.Fatal(err)
			}
			token, err := a.take(e)
			if err != nil || !token {
				b.Fatalf("token %v, %v", token, err)
			}
			stamps.event(token, false)
			timer.Reset(time.Hour)
			if len(res.Gaps) == cap(res.Gaps) {
				res.Gaps, stamps.tokens, stamps.batch.first = res.Gaps[:0], stamps.tokens[:0], 0
			}
			a.arrived(conn.times.arrival.at)
		}
	})
	b.Run("bare", func(b *testing.B) {
		in := bufio.NewReaderSize(io.Reader(&eventSource{[]byte(event)}), 4<<10)
		for b.Loop() {
			for range 2 {
				if _, err := in.ReadSlice('\n'); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
