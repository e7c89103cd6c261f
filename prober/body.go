package prober

import "io"

// bodyReader reads the body of an answer. net/http may read the connection several times, until a chunk is complete or
// its buffer is full, before it returns anything. So each read of the body tells the connection that the events of
// earlier ones have been seen ([arrival]).
type bodyReader struct {
	conn *stampedConn
	body io.Reader
}

func (b *bodyReader) Read(p []byte) (int, error) {
	b.conn.times.ask()
	return b.body.Read(p)
}
