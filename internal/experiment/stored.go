package experiment

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
)

// Stored is requests.jsonl, of which one level at a time is in memory: a run may have more requests than memory.
type Stored struct {
	file   *os.File
	levels [][]extent // where the lines of each level are
	told   []bool     // whether what is wrong with the lines of a level has been told
}

// extent is lines of one level that stand together.
type extent struct {
	from, size int64 // bytes
	line       int   // number of the first
}

// openRequests finds out where the lines of each level are. What cannot be told apart is left out.
func openRequests(root *os.Root, levels int, left *LeftOut) (*Stored, error) {
	s := &Stored{levels: make([][]extent, levels), told: make([]bool, levels)}
	var err error
	if s.file, err = openFile(root, RequestsFile); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return s, err
	}
	scanLines(newLines(s.file), func(l line) {
		level, err := l.level()
		switch {
		case err != nil:
			left.add(RequestsFile, l.number, err)
		case level < 0 || level >= levels:
			left.add(RequestsFile, l.number, fmt.Errorf("a request of level %d, but only %d were begun", level, levels))
		default:
			s.note(level, l)
		}
	})
	return s, nil
}

// note remembers where a line of a level is.
func (s *Stored) note(level int, l line) {
	extents := s.levels[level]
	if last := len(extents) - 1; last >= 0 && extents[last].from+extents[last].size == l.from {
		extents[last].size += l.size
		return
	}
	s.levels[level] = append(extents, extent{l.from, l.size, l.number})
}

// level is the level that a line is of. The writer puts it first; a line that begins otherwise is read whole.
func (l line) level() (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	if rest, is := bytes.CutPrefix(l.text, []byte(`{"level":`)); is {
		if end := bytes.IndexByte(rest[:min(len(rest), 10)], ','); end > 0 {
			if n, err := strconv.Atoi(string(rest[:end])); err == nil {
				return n, nil
			}
		}
	}
	var r struct{ Level *int }
	if err := json.Unmarshal(l.text, &r); err != nil {
		return 0, err
	}
	if r.Level == nil {
		return 0, errors.New("it names no level")
	}
	return *r.Level, nil
}

// of reads the requests of a level, in their order in the file.
func (s *Stored) of(level int, left *LeftOut) (requests []*Request) {
	if s.told[level] {
		left = &LeftOut{}
	}
	s.told[level] = true
	in := newReader()
	in.level = level
	for _, e := range s.levels[level] {
		requests = append(requests, in.extent(s.file, e, left)...)
	}
	return requests
}

// all reads the requests of all levels, in their order in the file.
func (s *Stored) all(left *LeftOut) (requests []Request) {
	type part struct {
		extent
		level int
	}
	var parts []part
	for level, extents := range s.levels {
		for _, e := range extents {
			parts = append(parts, part{e, level})
		}
		s.told[level] = true
	}
	slices.SortFunc(parts, func(a, b part) int { return a.line - b.line })
	in := newReader()
	for _, p := range parts {
		in.level = p.level
		for _, r := range in.extent(s.file, p.extent, left) {
			requests = append(requests, *r)
		}
	}
	return requests
}

func (s *Stored) close() error {
	if s == nil || s.file == nil {
		return nil
	}
	return s.file.Close()
}

// reader reads lines into requests of one level. It asks for memory in pieces of many requests.
type reader struct {
	level int
	lines *bufio.Reader
	line  Request // of which only the room for gaps is kept
	room  []Request
	gaps  []float64
}

func newReader() *reader { return &reader{lines: newLines(nil)} }

const (
	roomRequests = 128
	roomGaps     = 16 << 10
)

func (in *reader) extent(file *os.File, e extent, left *LeftOut) (requests []*Request) {
	in.lines.Reset(io.NewSectionReader(file, e.from, e.size))
	scanLines(in.lines, func(l line) {
		number := e.line + l.number - 1
		err := l.err
		if err == nil {
			err = in.decode(l.text)
		}
		if err != nil {
			left.add(RequestsFile, number, err)
			return
		}
		requests = append(requests, in.keep())
	})
	return requests
}

// decode reads a line. The one before is lost unless it was kept.
func (in *reader) decode(text []byte) error {
	clear(in.line.Gaps) // a null would leave what is there
	in.line = Request{Gaps: in.line.Gaps[:0]}
	if err := json.Unmarshal(text, &in.line); err != nil {
		return err
	}
	if in.line.Level != in.level {
		return errors.New("it names two levels")
	}
	return in.line.plausible()
}

// keep copies the line to where it stays.
func (in *reader) keep() *Request {
	if len(in.room) == 0 {
		in.room = make([]Request, roomRequests)
	}
	r := &in.room[0]
	in.room = in.room[1:]
	*r = in.line
	n := len(r.Gaps)
	if n == 0 {
		r.Gaps = nil
		return r
	}
	if n > len(in.gaps) {
		in.gaps = make([]float64, max(n, roomGaps))
	}
	copy(in.gaps, r.Gaps)
	r.Gaps, in.gaps = in.gaps[:n:n], in.gaps[n:]
	return r
}
