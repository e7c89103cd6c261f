//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/llm-prober/llm_prober/e2e/figures"
)

// micro runs the benchmarks that stand beside the code they measure.
func micro(o options) (string, error) {
	var t figures.Table
	t.Header("benchmark", "ns", "bytes", "allocations")
	for _, b := range []struct{ dir, pattern string }{
		{"./prober", "BenchmarkChunkDecode|BenchmarkEvent"},
		{"./internal/relay", "BenchmarkRelayReading|BenchmarkExposition"},
	} {
		command := exec.Command("go", "test", "-run", "^$", "-bench", b.pattern, "-benchmem", "-benchtime", "0.5s", "-cpu", "1",
			"-count", strconv.Itoa(o.runs), b.dir)
		command.Dir = o.root
		out, err := command.CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s: %w\n%s", command, err, out)
		}
		results := parseBenchmarks(string(out))
		for _, name := range results.names {
			t.Row("`"+name+"`", fmt.Sprintf("%.0f", figures.Median(results.of[name]["ns/op"])),
				fmt.Sprintf("%.0f", figures.Median(results.of[name]["B/op"])), fmt.Sprintf("%.0f", figures.Median(results.of[name]["allocs/op"])))
		}
	}
	return t.String(), nil
}

// benchmarks are the values of each benchmark by unit, one a run.
type benchmarks struct {
	names []string
	of    map[string]map[string][]float64
}

func parseBenchmarks(out string) benchmarks {
	b := benchmarks{of: map[string]map[string][]float64{}}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if !slices.Contains(b.names, name) {
			b.names = append(b.names, name)
			b.of[name] = map[string][]float64{}
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				b.of[name][fields[i+1]] = append(b.of[name][fields[i+1]], v)
			}
		}
	}
	return b
}
