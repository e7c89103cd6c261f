package experiment

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docsSection is what docs/sweep.md says under a heading.
func docsSection(t *testing.T, heading string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/sweep.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(data), "\n### "+heading+"\n")
	if !ok {
		t.Fatalf("docs/sweep.md has no heading %q", heading)
	}
	section, _, _ := strings.Cut(rest, "\n#")
	return section
}

// firstCells lists the names in the first cells of a section's table.
func firstCells(section string) (names []string) {
	name := regexp.MustCompile("`([a-z0-9_]+)`")
	for line := range strings.Lines(section) {
		if cell, ok := strings.CutPrefix(line, "| "); ok {
			cell, _, _ = strings.Cut(cell, " |")
			for _, m := range name.FindAllStringSubmatch(cell, -1) {
				names = append(names, m[1])
			}
		}
	}
	return names
}

// jsonKeys lists the keys of a value as JSON.
func jsonKeys(t *testing.T, v any) []string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(object))
}

func TestDocsHaveEveryKeyOfARequest(t *testing.T) {
	all := map[string]bool{}
	for _, r := range storedRun().Requests {
		for _, key := range jsonKeys(t, &r) {
			all[key] = true
		}
	}
	want := slices.Sorted(maps.Keys(all))
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(firstCells(docsSection(t, RequestsFile))))); diff != "" {
		t.Errorf("docs/sweep.md (-code +docs):\n%s", diff)
	}
}

func TestDocsHaveEveryColumnOfTheQueue(t *testing.T) {
	if diff := cmp.Diff(queueColumns(), firstCells(docsSection(t, QueueFile))); diff != "" {
		t.Errorf("docs/sweep.md (-code +docs):\n%s", diff)
	}
}

func TestDocsHaveEveryKeyOfARun(t *testing.T) {
	section, run := docsSection(t, RunFile), storedRun()
	for _, v := range []any{runJSON{FormVersion, run.Facts, run.Plan, run.Levels}, run.Facts, run.Plan, run.Levels[0], run.Levels[1], run.Levels[0].Client} {
		for _, key := range jsonKeys(t, v) {
			if !strings.Contains(section, "`"+key+"`") {
				t.Errorf("docs/sweep.md lacks the key %s of %T", key, v)
			}
		}
	}
	for _, cut := range []string{CutInterrupted, CutLost, CutUnfit, CutWarmup} {
		if !strings.Contains(section, "`"+cut+"`") {
			t.Errorf("docs/sweep.md lacks the cut %q", cut)
		}
	}
}

func TestDocsHaveEveryColumnOfTheSummary(t *testing.T) {
	section := docsSection(t, SummaryCSVFile)
	summary := Summary{Levels: make([]LevelSummary, 1)}
	var out bytes.Buffer
	if err := WriteCSV(&out, &summary); err != nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(out.String(), "\n")
	latency := regexp.MustCompile(`^(ttft_from_schedule|ttft|itl|tpot|duration)_((?:mean|p\d\d|min|max)_seconds|count)$`)
	for _, column := range strings.Split(header, ",") {
		base := strings.TrimSuffix(strings.TrimSuffix(column, "_low"), "_high")
		names := []string{base}
		if m := latency.FindStringSubmatch(base); m != nil {
			names = []string{m[1], "…_" + m[2]}
		}
		for _, name := range names {
			if !strings.Contains(section, "`"+name+"`") {
				t.Errorf("docs/sweep.md lacks %s of column %s", name, column)
			}
		}
	}
}
