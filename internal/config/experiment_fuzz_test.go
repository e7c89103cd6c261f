//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// Whatever the plan file: no panic, work in proportion to its size, and what is refused is refused with lines inside
// the file.
func FuzzPlan(f *testing.F) {
	files, err := filepath.Glob("testdata/plan*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	level := "  - concurrency: 4\n    requests: 10\n"
	for _, plan := range []string{
		"name: x\ntarget:\n  url: http://h\nlevels:\n" + level,
		"name: x\nlevels:\n" + strings.Repeat(level, 3000),
		"a: " + strings.Repeat("[", 50_000),
		"a: " + strings.Repeat("{a: ", 20_000),
		strings.Repeat("- ", 50_000),
		"a: &a [1, 1, 1, 1]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nd: &d [*c, *c, *c, *c]\ne: [*d, *d, *d, *d]\n",
		"name: \"" + strings.Repeat("x", 100_000) + "\"\n",
		strings.Repeat("name: x\n", 5000),
		"levels:\n" + strings.Repeat("  - concurrency: 1e400\n    rate: .nan\n    requests: -9223372036854775808\n", 500),
		"slos: [" + strings.Repeat("ttft_p95=1s, ", 3000) + "]\n",
		strings.Repeat("# comment\n", 10_000),
		strings.Repeat("? ", 10_000),
	} {
		f.Add([]byte(plan))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cputest.Linear(t, len(data), func() {
			_, err := ParseExperiment("plan.yml", data, ExperimentRules{Objective: func(string) error { return nil }})
			if err != nil {
				checkRefusal(t, err)
			}
		})
	})
}
