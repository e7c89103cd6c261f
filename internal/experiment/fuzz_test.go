//go:build unix

package experiment

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// Whatever is in the files of lines: no panic, work in proportion to their size, every line used or told. Of
// the 2 levels of the run one comes after the other in the worst of cases.
func FuzzStored(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "run")
	s, err := NewStore(dir, nil, func(err error) { f.Error(err) })
	if err != nil {
		f.Fatal(err)
	}
	keepAll(s, storedRun())
	requests, err1 := os.ReadFile(filepath.Join(dir, RequestsFile))
	queue, err2 := os.ReadFile(filepath.Join(dir, QueueFile))
	if err := errors.Join(err1, err2); err != nil {
		f.Fatal(err)
	}
	lines := strings.SplitAfter(string(requests), "\n")
	f.Add(requests, queue)
	for _, text := range []string{
		strings.Repeat(lines[0]+lines[2], 2000), // levels one after another
		strings.Repeat(lines[1], 2000),
		strings.Repeat("\n", 200_000),
		strings.Repeat("x\n", 100_000),
		strings.Repeat("{", 300_000) + "\n",
		`{"level":0,"gaps_seconds":[` + strings.Repeat("0,", 200_000) + "0]}\n",
		`{"level":` + strings.Repeat("9", 100_000) + "}\n",
		strings.Replace(lines[1], "0.05,", strings.Repeat("0.05,", 100_000), 1) + strings.Repeat(lines[1], 500),
		strings.Replace(lines[1], "[0,2]", "["+strings.Repeat("2,", 100_000)+"0]", 1),
		`{"level":1,"error":"` + strings.Repeat(`\u202e`, 50_000) + "\"}\n",
	} {
		f.Add([]byte(text), queue)
	}
	f.Add(requests, bytes.Repeat([]byte(","), 300_000))
	f.Add(requests, append(queueHeader(), bytes.Repeat([]byte("2026-11-29T12:00:02Z,0,0,1e300,NaN,-1,Inf,,\n"), 3000)...))
	f.Fuzz(func(t *testing.T, requests, queue []byte) {
		run := t.TempDir()
		head, err := os.ReadFile(filepath.Join(dir, RunFile))
		err = errors.Join(err, os.WriteFile(filepath.Join(run, RunFile), head, 0o600),
			os.WriteFile(filepath.Join(run, RequestsFile), requests, 0o600), os.WriteFile(filepath.Join(run, QueueFile), queue, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		cputest.Linear(t, len(requests)+len(queue), func() { readFuzzed(t, run, requests) })
	})
}

func readFuzzed(t *testing.T, dir string, requests []byte) {
	t.Helper()
	run, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	used := 0
	for level := range run.Levels {
		for r := range run.Each(level) {
			used++
			if r.Level != level {
				t.Errorf("a request of level %d at level %d", r.Level, level)
			}
		}
	}
	left := run.Left.Count
	for level := range run.Levels {
		for range run.Each(level) {
		}
	}
	if run.Left.Count != left {
		t.Errorf("%d lines were left out, and %d when read again", left, run.Left.Count)
	}
	lines := 0
	for line := range bytes.Lines(requests) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines++
		}
	}
	if used+left < lines || len(run.Left.Lines) > maxLeftLines {
		t.Errorf("%d requests and %d lines left out, of which %d are told, of %d lines", used, left, len(run.Left.Lines), lines)
	}
	whole, err := Read(dir)
	if err != nil || len(whole.Requests) != used {
		t.Errorf("%d requests were read at once, %d level by level (%v)", len(whole.Requests), used, err)
	}
}
