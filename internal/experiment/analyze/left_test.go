package analyze

import (
	"slices"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// What was left out of the results is told beside the figures that were made of the others.
func TestLeftOutIsTold(t *testing.T) {
	run := hundred(t, nil)
	run.Left = &experiment.LeftOut{Count: 1000, Lines: []experiment.LeftLine{{File: "requests.jsonl", Line: 7, Why: "it names no level"}}}
	s := Summarize(run)
	if s.Left == nil || s.Left.Count != 1000 {
		t.Fatalf("left out: %+v", s.Left)
	}
	var table strings.Builder
	if err := WriteTable(&table, &s); err != nil {
		t.Fatal(err)
	}
	if want := "! 1000 lines of the results cannot be used and are left out (requests.jsonl, line 7: it names no level)"; !strings.Contains(strings.Join(strings.Fields(table.String()), " "), want) {
		t.Errorf("the table lacks %q:\n%s", want, table.String())
	}
	if c := Compare(run, run, nil); !slices.ContainsFunc(c.Warnings, func(w string) bool {
		return strings.HasPrefix(w, "Of run B 1000 lines of the results cannot be used")
	}) {
		t.Errorf("warnings %q", c.Warnings)
	}
}
