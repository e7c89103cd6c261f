package experiment

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llm-prober/llm_prober/internal/humanize"
)

// LeftOut is what of a results directory could not be used.
type LeftOut struct {
	Count int        `json:"count"`
	Lines []LeftLine `json:"lines"` // the first few
}

// LeftLine is a line that could not be used.
type LeftLine struct {
	File string `json:"file"`
	Line int    `json:"line"` // from 1
	Why  string `json:"why"`
}

// String is the line in words: "requests.jsonl, line 7: unexpected end of JSON input".
func (l LeftLine) String() string { return fmt.Sprintf("%s, line %d: %s", l.File, l.Line, l.Why) }

const (
	maxLeftLines = 10  // that are told
	maxLeftWhy   = 200 // bytes of what is wrong with a line
)

func (l *LeftOut) add(file string, line int, why error) {
	if l.Count++; len(l.Lines) < maxLeftLines {
		text := why.Error()
		if len(text) > maxLeftWhy {
			text = strings.ToValidUTF8(text[:maxLeftWhy], "") + "…"
		}
		l.Lines = append(l.Lines, LeftLine{file, line, text})
	}
}

// None reports whether nothing was left out.
func (l *LeftOut) None() bool { return l == nil || l.Count == 0 }

// String tells how much was left out, and the first of it.
func (l *LeftOut) String() string {
	is := "is"
	if l.Count > 1 {
		is = "are"
	}
	return fmt.Sprintf("%s of the results cannot be used and %s left out (%s)", humanize.Count(l.Count, "line"), is, l.Lines[0])
}

// maxLine bounds a line, in bytes. A request of a million tokens has 10 MB.
const maxLine = 16 << 20

// line is a line of a file.
type line struct {
	number     int    // from 1
	from, size int64  // where it is, in bytes, its end included
	text       []byte // without its end; valid until the next line
	err        error  // why there is no text
}

var (
	errLongLine = fmt.Errorf("longer than %d MB", maxLine>>20)
	errCutLine  = errors.New("cut off in the middle")
)

// newLines makes what [scanLines] reads from.
func newLines(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 64<<10) }

// scanLines calls a function with each line that is not blank. What cannot be read is the last line.
func scanLines(in *bufio.Reader, visit func(line)) {
	var long []byte // a line that does not fit into the reader's memory
	for l := (line{number: 1}); ; l = (line{number: l.number + 1, from: l.from + l.size}) {
		var err error
		l, long, err = l.read(in, long[:0])
		switch {
		case err == io.EOF && l.size == 0:
			return
		case err == io.EOF && l.err == nil:
			l.err = errCutLine
		case err != nil && err != io.EOF:
			l.err = err
		}
		if l.text = bytes.TrimSpace(l.text); l.err != nil || len(l.text) > 0 {
			visit(l)
		}
		if err != nil {
			return
		}
	}
}

// read reads a line. Its text is in long if it does not fit into the reader's memory.
func (l line) read(in *bufio.Reader, long []byte) (line, []byte, error) {
	for {
		piece, err := in.ReadSlice('\n')
		l.size += int64(len(piece))
		switch {
		case l.size > maxLine:
			l.err = errLongLine
		case err == nil && len(long) == 0:
			l.text = piece
		default:
			long = append(long, piece...)
			l.text = long
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l, long, err
		}
	}
}
