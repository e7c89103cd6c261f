package web

import (
	"net/http"
	"time"
)

const (
	// patience is how long a client may take to read a piece of an answer. Prometheus gives up a whole scrape after
	// ten seconds by default; a client that reads, however slowly, takes much less for a piece.
	patience = 10 * time.Second
	// patiencePiece is how many bytes that is at most.
	patiencePiece = 32 << 10
)

// HTTP2 is what a server of these pages needs under HTTP/2: there a deadline on an answer ends its stream, and the word of
// it waits behind all else for a connection that is not read. So a connection that takes nothing for as long is closed.
func HTTP2() *http.HTTP2Config { return &http.HTTP2Config{WriteByteTimeout: patience} }

// patientWriter gives up a client that does not read: an answer that nobody reads holds its memory, and one of the
// scrapes that may run at once.
type patientWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements http.ResponseWriter.
func (w *patientWriter) Write(p []byte) (written int, err error) {
	for {
		piece := p[written:min(len(p), written+patiencePiece)]
		// What cannot have a deadline, a recorder of a test, is no connection.
		_ = w.control.SetWriteDeadline(time.Now().Add(patience))
		n, err := w.ResponseWriter.Write(piece)
		if written += n; err != nil || written == len(p) {
			return written, err
		}
	}
}
