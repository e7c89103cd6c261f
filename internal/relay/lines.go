package relay

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Bounds on a line, in bytes.
const (
	lineBuffer = 16 << 10 // a line up to it is read in place; the longest of vLLM has 1.5 kB
	maxLine    = 1 << 20  // of what is kept of a longer one
	maxQuoted  = maxLabelValue + 1
)

// errLine: a line exceeds maxLine.
var errLine = errors.New("the line is longer than is read")

// lineReader reads lines one by one, so that a page is never held as a whole. Of a line longer than lineBuffer it
// leaves out what cannot be relayed: a quoted string is cut one byte after the longest label value that is, and a comment
// is empty.
//
// The zero value is ready for [lineReader.reset]. A line is valid until the next is read.
type lineReader struct {
	r     *bufio.Reader
	short shortener
	bytes int // that were read since the reset
}

func (l *lineReader) reset(r io.Reader) {
	if l.r == nil {
		l.r = bufio.NewReaderSize(nil, lineBuffer)
	}
	l.r.Reset(r)
	l.bytes = 0
}

// release forgets the reader and the memory for long lines. It returns how many bytes were read.
func (l *lineReader) release() (read int) {
	l.r.Reset(nil)
	l.short = shortener{}
	return l.bytes
}

// next returns a line without its line feed. Only the last line of a page may lack one; it may be empty. The error
// [io.EOF] says that there is no line left; any other but errLine is that of the reader.
func (l *lineReader) next() (line []byte, terminated bool, err error) {
	line, err = l.read()
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.long(line)
	}
	switch {
	case err == nil:
		return line[:len(line)-1], true, nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		return line, false, nil
	default:
		return nil, false, err
	}
}

// read returns a line, or as much of it as the buffer holds.
func (l *lineReader) read() ([]byte, error) {
	piece, err := l.r.ReadSlice('\n')
	l.bytes += len(piece)
	return piece, err
}

// long reads on in a line of which the buffer holds only the beginning.
func (l *lineReader) long(piece []byte) (line []byte, err error) {
	l.short.begin(piece)
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); piece, err = l.read() {
		if !l.short.add(piece) {
			return nil, errLine
		}
	}
	if !l.short.add(piece) {
		return nil, errLine
	}
	return l.short.line, err
}

// shortener makes a shorter line of the pieces of a long one.
type shortener struct {
	line            []byte
	comment         bool
	quoted, escaped bool // the byte that comes is inside a quoted string, is behind a backslash
	length          int  // of the quoted string so far
}

func (s *shortener) begin(piece []byte) {
	*s = shortener{line: s.line[:0], comment: bytes.HasPrefix(bytes.TrimLeft(piece, " \t"), []byte("#"))}
}

// add adds a piece, and reports whether the line is not too long.
func (s *shortener) add(piece []byte) bool {
	for _, c := range piece {
		if s.keep(c) {
			s.line = append(s.line, c)
		}
	}
	return len(s.line) <= maxLine
}

// keep reports whether a byte of the line is kept. NUL is, wherever it stands: it is a fault.
func (s *shortener) keep(c byte) bool {
	switch {
	case c == 0 || c == '\n':
		return true
	case s.comment:
		return len(s.line) == 0 && c == '#'
	case !s.quoted:
		s.quoted, s.length = c == '"', 0
		return true
	case s.escaped: // goes with its backslash
		s.escaped = false
	case c == '"':
		s.quoted = false
		return true
	default:
		s.length++
		s.escaped = c == '\\'
	}
	return s.length <= maxQuoted
}
