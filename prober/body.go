package prober

import (
	"io"
	"runtime"
	"time"
)

// bodyReader reads the body of an answer. net/http may read the connection several times, until a chunk is complete or
// its buffer is full, before it returns anything. So each read of the body tells the connection that the events of
// earlier ones have been seen ([arrival]).
//
// A server that sends without end must not take the processor from the readers of others. What comes faster than any
// model writes is read in bursts, with time for others between them. Once it is longer than any answer, it is read
// slowly.
type bodyReader struct {
	conn  *stampedConn
	body  io.Reader
	total int
	since time.Time // when the burst began
	burst int       // bytes of it
}

const (
	bodyBurst  = 32 << 10         // bytes: the work on them takes some 0.5 ms
	longAnswer = 4 << 20          // bytes: 8,192 tokens of 500
	floodTime  = time.Millisecond // for a burst beyond that
)

func (b *bodyReader) Read(p []byte) (n int, err error) {
	if b.burst >= bodyBurst {
		runtime.Gosched()
		if b.total > longAnswer {
			time.Sleep(floodTime - time.Since(b.since)) // not at all where it is over
		}
		b.burst = 0
	}
	if b.burst == 0 {
		b.since = time.Now()
	}
	b.conn.times.ask()
	n, err = b.body.Read(p)
	b.burst += n
	b.total += n
	return n, err
}
