package experiment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// The files of a results directory. docs/sweep.md tells what is in each.
const (
	PlanFile       = "plan.yml"
	RunFile        = "run.json"
	RequestsFile   = "requests.jsonl"
	QueueFile      = "queue.csv"
	SummaryFile    = "summary.json"
	SummaryCSVFile = "summary.csv"
)

// FormVersion is the version of the form in which runs are stored. Those of lower versions are read too.
const FormVersion = 1

// Store keeps a run in a results directory while it goes on. It is a [Watcher]. The first error is told at once and
// ends all writing: what is there then stays as it is, whole line by whole line.
type Store struct {
	dir    string
	failed func(error) // called once, from the goroutine that writes

	create   func(dir *os.Root, name string) (file, error)
	requests file
	queue    file
	starts   map[int]time.Time // of levels
	err      error
}

// file is what is asked of a file that grows.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
}

var _ Watcher = (*Store)(nil)

// NewStore makes a results directory, which must not be there yet unless it is empty, and begins it with the plan.
// failed is called, once, with the first error of all later writes.
func NewStore(dir string, plan []byte, failed func(error)) (*Store, error) {
	if err := MakeDir(dir); err != nil {
		return nil, err
	}
	return newStore(dir, plan, failed, createFile)
}

func newStore(dir string, plan []byte, failed func(error), create func(dir *os.Root, name string) (file, error)) (*Store, error) {
	s := &Store{dir: dir, failed: failed, create: create, starts: map[int]time.Time{}}
	if err := s.Write(PlanFile, plan); err != nil {
		return nil, err
	}
	for name, f := range map[string]*file{RequestsFile: &s.requests, QueueFile: &s.queue} {
		err := within(dir, func(root *os.Root) (err error) {
			*f, err = create(root, name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("making the results: %w", err)
		}
		*f = &lines{file: *f}
	}
	if _, err := s.queue.Write(queueHeader()); err != nil {
		return nil, fmt.Errorf("making the results: %w", err)
	}
	return s, nil
}

// Dir is the results directory.
func (s *Store) Dir() string { return s.dir }

// Write writes a whole file of the results.
func (s *Store) Write(name string, data []byte) error { return replace(s.dir, name, data, s.create) }

// note remembers and tells the first error.
func (s *Store) note(err error) {
	if err != nil && s.err == nil {
		s.err = err
		s.failed(err)
	}
}

// Began implements [Watcher].
func (s *Store) Began(run *Run) { s.saveRun(run) }

// LevelBegan implements [Watcher].
func (s *Store) LevelBegan(_ int, run *Run) { s.saveRun(run) }

// Entered implements [Watcher].
func (s *Store) Entered(index int, phase Phase, at time.Time) {
	if phase == Loading {
		s.starts[index] = at
	}
}

// Ended implements [Watcher].
func (s *Store) Ended(r *Request) {
	line, err := json.Marshal(r)
	if err == nil {
		err = s.line(s.requests, append(line, '\n'))
	}
	if err != nil {
		s.note(fmt.Errorf("storing a request in %s: %w", filepath.Join(s.dir, RequestsFile), err))
	}
}

// Sampled implements [Watcher].
func (s *Store) Sampled(q QueueSample) {
	if err := s.line(s.queue, queueLine(q, s.starts[q.Level])); err != nil {
		s.note(fmt.Errorf("storing a sample in %s: %w", filepath.Join(s.dir, QueueFile), err))
	}
}

func (s *Store) line(f file, line []byte) error {
	if s.err != nil {
		return nil // told once
	}
	_, err := f.Write(line)
	return err
}

// LevelEnded implements [Watcher].
func (s *Store) LevelEnded(_ int, run *Run) { s.saveRun(run) }

// Noted implements [Watcher].
func (s *Store) Noted(string) {}

// Finished implements [Watcher]. It tries once more to write what is known of the run.
func (s *Store) Finished(run *Run) {
	for _, f := range []file{s.requests, s.queue} {
		if err := f.Close(); err != nil {
			s.note(fmt.Errorf("closing the results: %w", err))
		}
	}
	s.note(s.saveOnce(run))
}

func (s *Store) saveRun(run *Run) {
	if s.err == nil {
		s.note(s.saveOnce(run))
	}
}

// runJSON is run.json: all of a run but what is in lines.
type runJSON struct {
	Version int        `json:"version"` // of the form of the files; of before 0.3, which had none: 0
	Facts   Facts      `json:"facts"`
	Plan    Plan       `json:"plan"`
	Levels  []LevelRun `json:"levels"`
}

func (s *Store) saveOnce(run *Run) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(runJSON{FormVersion, run.Facts, run.Plan, run.Levels}); err != nil {
		return fmt.Errorf("encoding %s: %w", RunFile, err)
	}
	return s.Write(RunFile, out.Bytes())
}

// lines is a file that holds whole writes only: what a full disk took of one is cut off again.
type lines struct {
	file
	size int64
}

func (l *lines) Write(p []byte) (int, error) {
	n, err := l.file.Write(p)
	if err != nil {
		return 0, errors.Join(err, l.file.Truncate(l.size))
	}
	l.size += int64(n)
	return n, nil
}
