package experiment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"time"
)

// maxRunFile bounds run.json, in bytes. One of 1000 levels has less than 1 MB.
const maxRunFile = 64 << 20

// Open opens a results directory, also one of a run that was interrupted or whose disk was full. The requests stay in
// their file: [Run.Of] reads those of one level. A line that cannot be used is left out and told in Run.Left, and a
// file of lines that is missing is an empty one. The run must be closed.
func Open(dir string) (run *Run, err error) {
	run = &Run{Left: &LeftOut{}}
	err = within(dir, func(root *os.Root) error {
		if err := run.readHead(root); err != nil {
			return err
		}
		if err := run.readQueue(root); err != nil {
			return err
		}
		run.Stored, err = openRequests(root, len(run.Levels), run.Left)
		return err
	})
	var missing *os.PathError
	if errors.As(err, &missing) && missing.Path == dir { // what is missed is a run, whatever dir is
		missing.Path = filepath.Join(dir, RunFile)
	}
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	run.closeLevels()
	return run, nil
}

// Read reads a results directory whole: [Open] takes less memory.
func Read(dir string) (*Run, error) {
	run, err := Open(dir)
	if err != nil {
		return nil, err
	}
	run.Requests = run.Stored.all(run.Left)
	err = run.Close()
	if run.Stored = nil; run.Left.None() {
		run.Left = nil
	}
	return run, err
}

// Close closes the file of requests of a run that was opened.
func (run *Run) Close() error { return run.Stored.close() }

// readHead reads run.json.
func (run *Run) readHead(root *os.Root) error {
	f, err := openFile(root, RunFile)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRunFile+1))
	if err == nil && len(data) > maxRunFile {
		err = fmt.Errorf("it has more than %d MB", maxRunFile>>20)
	}
	var j runJSON
	if err == nil {
		err = json.Unmarshal(data, &j)
	}
	if err == nil {
		err = j.plausible()
	}
	if err != nil {
		return &os.PathError{Op: "reading", Path: RunFile, Err: err}
	}
	run.Facts, run.Plan, run.Levels = j.Facts, j.Plan, j.Levels
	return nil
}

// readQueue reads queue.csv.
func (run *Run) readQueue(root *os.Root) error {
	f, err := openFile(root, QueueFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	run.Queue = readQueue(f, len(run.Levels), run.Left)
	return nil
}

// closeLevels closes a level in which the process was killed.
func (run *Run) closeLevels() {
	for i := range run.Levels {
		if l := &run.Levels[i]; l.Start.IsZero() {
			l.closeFrom(run.Measured(i), run.Facts.Began)
		}
	}
}

// closeFrom ends a level whose end nobody has written.
func (l *LevelRun) closeFrom(requests iter.Seq[*Request], otherwise time.Time) {
	l.Cut = CutInterrupted
	for r := range requests {
		if l.Start.IsZero() || r.Scheduled.Before(l.Start) {
			l.Start = r.Scheduled
		}
		if r.Ended.After(l.End) {
			l.End = r.Ended
		}
	}
	if l.Start.IsZero() {
		l.Start = otherwise
	}
	if l.End.IsZero() {
		l.End = l.Start
	}
}
