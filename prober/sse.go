package prober

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxEventBytes bounds one event, and with it the reader's memory. Public reports show data lines of a
	// few megabytes from healthy servers (tool calls, log probabilities); nothing healthy comes near 8 MiB.
	maxEventBytes = 8 << 20
	// maxStreamBytes bounds a whole answer. 8,192 tokens of 400 bytes each are 3 MiB.
	maxStreamBytes = 64 << 20
	// readBufferBytes holds sixteen ordinary events. net/http's own buffer has the same size, so a larger
	// one would not be filled.
	readBufferBytes = 4 << 10
	// maxReadBytes bounds one read, and with it what is still looked at when the deadline has passed meanwhile: a buffer
	// that has grown for one event would take thousands of small ones at once.
	maxReadBytes = 64 << 10
	// maxStray bounds what is kept of an event beside its data.
	maxStray = 16 << 10
)

// errTooLarge: the event or the whole stream exceeds its bound.
var errTooLarge = errors.New("too large")

// sseEvent is one server-sent event. Its fields are valid until the next call of next.
type sseEvent struct {
	name []byte // the event field, empty for most servers
	data []byte // the data lines, joined with LF

	// What the standard throws away, and where servers write why they failed: lines of no known field, joined with
	// LF, and the last comment. Each is cut at maxStray.
	stray   []byte
	comment []byte
}

// sseReader splits a stream into events as the HTML standard, section "Server-sent events", defines them:
// lines end with CR, LF or CRLF, an empty line ends an event, lines that begin with a colon are comments.
// An event is returned as soon as the first byte of its last line end is there: a CR is not held back to see
// whether an LF follows. It allocates nothing for an event whose data is on one line.
type sseReader struct {
	src      io.Reader
	buf      []byte
	begin    int // start of what must be kept: the data line of the unfinished event, or the unfinished line
	line     int // start of the unfinished line
	lineStop int // end of the last complete line, its line end excluded
	scan     int // up to here the unfinished line has no line end
	lf       int // up to here there is no LF behind scan
	end      int // end of what was read
	total    int64
	work     int64 // bytes looked at and moved: a test holds that they are few for each byte that was read

	started bool // the place where a byte order mark may stand has passed
	skipLF  bool // the last line ended with CR: an LF now belongs to it

	hasData          bool
	dataAt, dataStop int    // the data in buf, while there is one data line
	joined           []byte // the data, from the second data line on
	isJoined         bool
	name             []byte
	stray, comment   []byte
}

func newSSEReader(src io.Reader) *sseReader {
	return &sseReader{src: src, buf: make([]byte, readBufferBytes)}
}

// next returns the next event that has data, a name or lines of no known field. The error is io.EOF at a clean end of the stream (an
// unfinished event is dropped, as the standard says), wraps errTooLarge, or is that of the source.
func (s *sseReader) next() (sseEvent, error) {
	s.forget()
	for {
		line, ok := s.nextLine()
		if !ok {
			if err := s.fill(); err != nil {
				return sseEvent{}, err
			}
			continue
		}
		if len(line) == 0 {
			if s.hasData || len(s.name) > 0 || len(s.stray) > 0 {
				return s.event(), nil
			}
			s.forget()
			continue
		}
		if err := s.field(line); err != nil {
			return sseEvent{}, err
		}
		if !s.hasData || s.isJoined {
			s.begin = s.line
		}
	}
}

// forget drops the event that was returned last.
func (s *sseReader) forget() {
	s.hasData, s.isJoined = false, false
	s.name, s.stray, s.comment = s.name[:0], s.stray[:0], s.comment[:0]
	s.begin = s.line
}

func (s *sseReader) event() sseEvent {
	e := sseEvent{name: s.name, stray: s.stray, comment: s.comment}
	switch {
	case s.isJoined:
		e.data = s.joined
	case s.hasData:
		e.data = s.buf[s.dataAt:s.dataStop]
	}
	return e
}

// rest returns, after an error of next, the event that had no end. The standard drops it.
func (s *sseReader) rest() sseEvent {
	if s.line < s.end {
		s.lineStop = s.end
		line := s.buf[s.line:s.end]
		s.line = s.end
		_ = s.field(line) // too large is too large already
	}
	return s.event()
}

// unfinished reports whether something follows the event that was returned last in what was read.
func (s *sseReader) unfinished() bool {
	rest := s.buf[s.line:s.end]
	if s.skipLF {
		rest = bytes.TrimPrefix(rest, []byte{'\n'})
	}
	return len(rest) > 0
}

// nextLine returns the next complete line without its end.
func (s *sseReader) nextLine() (line []byte, ok bool) {
	if s.skipLF && s.line < s.end {
		if s.buf[s.line] == '\n' {
			s.line++
			s.scan = s.line
			if !s.hasData {
				s.begin = s.line
			}
		}
		s.skipLF = false
	}
	if !s.started && !s.passBOM() {
		return nil, false
	}
	stop := s.nextLF()
	window := s.buf[s.scan:stop]
	if cr := bytes.IndexByte(window, '\r'); cr >= 0 {
		stop, s.skipLF = s.scan+cr, true
	}
	s.work += int64(stop - s.scan)
	if stop == s.end {
		s.scan = s.end
		return nil, false
	}
	s.lineStop = stop
	line = s.buf[s.line:s.lineStop]
	s.line = s.lineStop + 1
	s.scan = s.line
	return line, true
}

// nextLF returns where the next LF is, or the end of what was read. No byte is looked at twice: lines that end with
// CR may be many before the next LF.
func (s *sseReader) nextLF() int {
	s.lf = max(s.lf, s.scan)
	window := s.buf[s.lf:s.end]
	n := bytes.IndexByte(window, '\n')
	if n < 0 {
		n = len(window)
	}
	s.work += int64(n)
	s.lf += n
	return s.lf
}

// passBOM skips a byte order mark at the start. It reports false while too little is there to tell.
func (s *sseReader) passBOM() bool {
	const bom = "\xEF\xBB\xBF"
	head := s.buf[s.line:min(s.end, s.line+len(bom))]
	if len(head) < len(bom) && string(head) == bom[:len(head)] {
		return false
	}
	if string(head) == bom {
		s.line += len(bom)
		s.scan, s.begin = s.line, s.line
	}
	s.started = true
	return true
}

// field takes one line of an event.
func (s *sseReader) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:] // exactly one space belongs to the separator
	}
	switch string(name) {
	case "data":
		return s.addData(value, s.lineStop)
	case "event":
		s.work += int64(len(value))
		s.name = append(s.name[:0], value...)
	case "":
		s.comment = s.keep(s.comment[:0], value)
	case "id", "retry":
	default:
		if len(s.stray) > 0 {
			s.stray = s.keep(s.stray, []byte{'\n'})
		}
		s.stray = s.keep(s.stray, line)
	}
	return nil
}

// keep appends as much of a text as may be kept.
func (s *sseReader) keep(to, text []byte) []byte {
	text = text[:min(len(text), maxStray-len(to))]
	s.work += int64(len(text))
	return append(to, text...)
}

// addData takes the value of a data line that ends at stop in the buffer.
func (s *sseReader) addData(value []byte, stop int) error {
	if !s.hasData {
		s.hasData = true
		s.dataAt, s.dataStop = stop-len(value), stop
		return nil
	}
	if !s.isJoined {
		s.work += int64(s.dataStop - s.dataAt)
		s.joined = append(s.joined[:0], s.buf[s.dataAt:s.dataStop]...)
		s.isJoined = true
	}
	s.work += int64(len(value) + 1)
	s.joined = append(s.joined, '\n')
	s.joined = append(s.joined, value...)
	if len(s.joined) > maxEventBytes {
		return fmt.Errorf("%w: event exceeds %d bytes", errTooLarge, maxEventBytes)
	}
	return nil
}

// fill reads once more from the source.
func (s *sseReader) fill() error {
	if s.total > maxStreamBytes {
		return fmt.Errorf("%w: stream exceeds %d bytes", errTooLarge, maxStreamBytes)
	}
	if s.end-s.begin >= maxEventBytes {
		return fmt.Errorf("%w: event exceeds %d bytes", errTooLarge, maxEventBytes)
	}
	s.makeRoom()
	for range 100 { // a reader may return nothing without an error, but not for ever
		n, err := s.src.Read(s.buf[s.end:min(len(s.buf), s.end+maxReadBytes)])
		s.end += n
		s.total += int64(n)
		if n > 0 {
			return nil // an error that came along comes again
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom makes the buffer's tail free: by starting over when all was used, by moving what must be kept to the
// front, or by doubling the buffer when all of it must be kept.
func (s *sseReader) makeRoom() {
	switch {
	case s.begin == s.end:
		s.shift(s.buf)
	case s.end < len(s.buf):
	case s.begin > 0:
		s.shift(s.buf)
	default:
		s.shift(make([]byte, 2*len(s.buf)))
	}
}

// shift copies what must be kept to the front of a buffer, which becomes the reader's.
func (s *sseReader) shift(to []byte) {
	s.work += int64(copy(to, s.buf[s.begin:s.end]))
	s.buf = to
	for _, offset := range []*int{&s.dataAt, &s.dataStop, &s.line, &s.lineStop, &s.scan, &s.lf, &s.end} {
		*offset -= s.begin
	}
	s.begin = 0
}

// peek returns the first bytes of the stream without taking them.
func (s *sseReader) peek() []byte {
	if s.end == 0 {
		_ = s.fill() // the error comes again with next
	}
	return s.buf[:s.end]
}
