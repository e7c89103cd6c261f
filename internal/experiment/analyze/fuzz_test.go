//go:build unix

package analyze

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/cputest"
	"github.com/llm-prober/llm_prober/internal/experiment"
)

// Whatever requests are stored: figures of those that can be used, and work in proportion to their size.
func FuzzSummarize(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "run")
	s, err := experiment.NewStore(dir, nil, func(err error) { f.Error(err) })
	if err != nil {
		f.Fatal(err)
	}
	run := hundred(f, func(run *experiment.Run) { fail(run, 1) })
	for i := range run.Requests {
		s.Ended(&run.Requests[i])
	}
	s.Finished(run)
	requests, err := os.ReadFile(filepath.Join(dir, experiment.RequestsFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(requests)
	f.Add([]byte(strings.Repeat(string(requests), 20)))
	f.Add([]byte(strings.Replace(string(requests), "0.01,", strings.Repeat("0.01,", 100_000), 1)))
	f.Fuzz(func(t *testing.T, requests []byte) {
		to := t.TempDir()
		head, err := os.ReadFile(filepath.Join(dir, experiment.RunFile))
		err = errors.Join(err, os.WriteFile(filepath.Join(to, experiment.RunFile), head, 0o600),
			os.WriteFile(filepath.Join(to, experiment.RequestsFile), requests, 0o600))
		if err != nil {
			t.Fatal(err)
		}
		cputest.Linear(t, len(requests), func() {
			run, err := experiment.Open(to)
			if err != nil {
				t.Fatal(err)
			}
			defer run.Close()
			Summarize(run)
		})
	})
}
