package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Read reads a results directory back, also one of a run that was interrupted or whose disk was full: a torn last
// line is left out, and a file of lines that is missing is an empty one.
func Read(dir string) (*Run, error) {
	run := &Run{}
	data, err := os.ReadFile(filepath.Join(dir, RunFile))
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	var j runJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("reading results: %s: %w", filepath.Join(dir, RunFile), err)
	}
	run.Facts, run.Plan, run.Levels = j.Facts, j.Plan, j.Levels
	for _, part := range []struct {
		name string
		read func([]byte) error
	}{
		{RequestsFile, func(data []byte) (err error) { run.Requests, err = readRequests(data); return err }},
		{QueueFile, func(data []byte) (err error) { run.Queue, err = readQueue(data); return err }},
	} {
		path := filepath.Join(dir, part.name)
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = part.read(data)
		}
		if err != nil {
			return nil, fmt.Errorf("reading results: %s: %w", path, err)
		}
	}
	return run, run.check()
}

// readRequests reads requests.jsonl. A torn last line is left out.
func readRequests(data []byte) (requests []Request, err error) {
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			break
		}
		data = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		requests = append(requests, r)
	}
	return requests, nil
}

// check finds what others would stumble over, and closes a level in which the process was killed.
func (run *Run) check() error {
	for i := range run.Requests {
		r := &run.Requests[i]
		if r.Level < 0 || r.Level >= len(run.Levels) {
			return fmt.Errorf("reading results: a request of level %d, but only %d were begun", r.Level, len(run.Levels))
		}
	}
	for i := range run.Levels {
		if l := &run.Levels[i]; l.Start.IsZero() {
			l.closeFrom(run.measured(i), run.Facts.Began)
		}
	}
	return nil
}

// closeFrom ends a level whose end nobody has written.
func (l *LevelRun) closeFrom(requests []*Request, otherwise time.Time) {
	l.Start, l.Cut = otherwise, CutInterrupted
	for _, r := range requests {
		if r == requests[0] || r.Scheduled.Before(l.Start) {
			l.Start = r.Scheduled
		}
		if r.Ended.After(l.End) {
			l.End = r.Ended
		}
	}
	if l.End.IsZero() {
		l.End = l.Start
	}
}
