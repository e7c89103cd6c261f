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

// each reads the requests of a level, in their order in the file.
func (s *Stored) each(level int, left *LeftOut, yield func(*Request) bool) {
	if s.told[level] {
		left = &LeftOut{}
	}
	s.told[level] = true
	in, more := newLines(nil), true
	for _, e := range s.levels[level] {
		if more {
			in.Reset(io.NewSectionReader(s.file, e.from, e.size))
			e.scan(in, level, left, func(r *Request) { more = more && yield(r) })
		}
	}
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
	in := newLines(nil)
	for _, p := range parts {
		in.Reset(io.NewSectionReader(s.file, p.from, p.size))
		p.scan(in, p.level, left, func(r *Request) { requests = append(requests, *r) })
	}
	return requests
}

// scan reads the requests of lines of one level.
func (e extent) scan(in *bufio.Reader, level int, left *LeftOut, visit func(*Request)) {
	scanLines(in, func(l line) {
		r, err := &Request{}, l.err
		if err == nil {
			err = json.Unmarshal(l.text, r)
		}
		if err == nil && r.Level != level {
			err = errors.New("it names two levels")
		}
		if err != nil {
			left.add(RequestsFile, e.line+l.number-1, err)
			return
		}
		visit(r)
	})
}

func (s *Stored) close() error {
	if s == nil || s.file == nil {
		return nil
	}
	return s.file.Close()
}
