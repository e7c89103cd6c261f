package analyze

import (
	"bytes"
	"encoding/csv"
	"flag"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/goldenfile"
	"github.com/llm-prober/llm_prober/prober"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares what is written with a file of testdata.
func golden(t *testing.T, name string, write func(w io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	goldenfile.Check(t, path, b.String(), *update)
	return b.String()
}

// slowing is a server that is slower the more requests are in flight.
func slowing() server {
	return server{
		ttft: func(n, _ int, r *rand.Rand) float64 { return 0.08 + 0.01*float64(n)*(0.5+r.Float64()) },
		gap:  func(n, _ int, r *rand.Rand) float64 { return 0.02 + 0.0003*float64(n)*r.Float64() },
	}
}

// troubled is a closed loop with something of everything.
func troubled() *experiment.Run {
	plan := experiment.Plan{Name: "troubled", Levels: steps(256, 1, 8, 64, 256)}
	plan.SLOs, _ = experiment.ParseObjectives([]string{"ttft_p95=1s", "itl_p99=100ms"})
	run := slowing().run(plan)
	fails, ended := 0, time.Time{}
	for i := range run.Requests {
		switch r := &run.Requests[i]; {
		case r.Level == 2 && i%20 == 0:
			r.Reason = prober.ReasonOverloaded
			fails++
		case r.Level == 3:
			ended = r.Ended
		}
	}
	for at := epoch; !at.After(ended); at = at.Add(time.Second) {
		level := 0
		for level+1 < len(run.Levels) && !at.Before(run.Levels[level+1].Start) {
			level++
		}
		running := min(106, run.Plan.Levels[level].Concurrency)
		run.Queue = append(run.Queue, experiment.QueueSample{
			At: at, Level: level, Running: float64(running), Waiting: float64(run.Plan.Levels[level].Concurrency - running),
		})
	}
	run.Levels[3].Cut = "interrupted"
	run.Facts.Before = &experiment.Load{Seconds: 5, Running: 2, OutputTokensPerSecond: 100}
	return run
}

// rates is an open loop that outruns its server at the end.
func rates() *experiment.Run {
	levels := make([]experiment.Level, 3)
	for i, rate := range []float64{2, 4, 8} {
		levels[i] = experiment.Level{Rate: rate, Arrival: prober.Poisson, PromptTokens: 512, OutputTokens: 128, Requests: int(120 * rate)}
	}
	run := slowing().run(experiment.Plan{Name: "rates", Levels: levels, SLOs: []experiment.Objective{{Indicator: experiment.TTFTFromSchedule, Quantile: 0.9, Threshold: time.Second}}})
	for i := range run.Requests {
		if r := &run.Requests[i]; r.Level == 2 {
			slower(r, time.Duration(i-720)*25*time.Millisecond)
		}
	}
	return run
}

// promptLengths is closed loops of other requests.
func promptLengths() *experiment.Run {
	levels := steps(128, 4, 4)
	levels[0].PromptTokens, levels[1].PromptTokens = 128, 8192
	return slowing().run(experiment.Plan{Name: "prompts", Levels: levels})
}

func TestWriteTable(t *testing.T) {
	for name, run := range map[string]*experiment.Run{
		"table-concurrency.txt":   troubled(),
		"table-rate.txt":          rates(),
		"table-prompt-length.txt": promptLengths(),
		"table-nothing.txt":       {Plan: experiment.Plan{Levels: steps(1, 1)}, Levels: []experiment.LevelRun{{Cut: "server lost"}}},
	} {
		summary := Summarize(run)
		narrow(t, name, golden(t, name, func(w io.Writer) error { return WriteTable(w, &summary) }))
	}
}

// The widest figures fit too.
func TestWriteTableWidest(t *testing.T) {
	wide := interval(0.0999, nan, nan)
	d := experiment.Distribution{P50: wide, P95: wide, P99: wide}
	l := experiment.LevelSummary{
		Level: experiment.Level{Concurrency: 256, PromptTokens: 8192, OutputTokens: 512}, Requests: 2048, Failed: 2048,
		OutputRate: interval(99999, nan, nan), TTFT: d, ITL: d, Duration: d, PeakWaiting: 9999, Drain: 79.5,
		Doubts: []experiment.Doubt{{Kind: KindCut, Text: strings.Repeat("very long ", 30)}},
	}
	other := l
	other.Level.PromptTokens = 1
	var b strings.Builder
	if err := WriteTable(&b, &experiment.Summary{Levels: []experiment.LevelSummary{l, other}}); err != nil {
		t.Fatal(err)
	}
	narrow(t, "the widest table", b.String())
}

func narrow(t *testing.T, name, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > tableWidth {
			t.Errorf("%s: a line of %d columns: %s", name, n, line)
		}
	}
}

func TestWriteComparison(t *testing.T) {
	a, b := pair()
	fail(b, 50)
	comparison := Compare(a, b, []experiment.Objective{{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: 550 * time.Millisecond}})
	narrow(t, "comparison", golden(t, "comparison.txt", func(w io.Writer) error { return WriteComparison(w, &comparison) }))
}

func TestWriteCSV(t *testing.T) {
	summary := Summarize(troubled())
	text := golden(t, "summary.csv", func(w io.Writer) error { return experiment.WriteCSV(w, &summary) })
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := make(map[string]int)
	for i, name := range rows[0] {
		if _, twice := column[name]; twice {
			t.Errorf("column %s is there twice", name)
		}
		column[name] = i
	}
	for name, want := range map[string]string{
		"concurrency": "64", "rate_per_second": "", "prompt_tokens": "512", "requests": "256", "failed": "13",
		"cached_prompt_tokens_mean": "", "peak_running": "64", "doubts": "failures", "itl_count": "30861",
	} {
		if got := rows[3][column[name]]; got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
}

// What cannot be written is told.
func TestWriteErrors(t *testing.T) {
	summary, comparison := Summarize(promptLengths()), Comparison{Warnings: []string{"none"}}
	for name, write := range map[string]func(io.Writer) error{
		"table":      func(w io.Writer) error { return WriteTable(w, &summary) },
		"comparison": func(w io.Writer) error { return WriteComparison(w, &comparison) },
		"CSV":        func(w io.Writer) error { return experiment.WriteCSV(w, &summary) },
	} {
		if err := write(full{}); err == nil {
			t.Errorf("%s was written to a full disk", name)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
