package model

import (
	"math"
	"testing"

	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

func TestModelReproducesTheSeeds(t *testing.T) {
	results, err := SimulateSeeds(t.Context(), Virtual{Model: vllmsim.DefaultModel(), Turnaround: SeedTurnaround}, analyze.Summarize)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, r := range results {
		for _, row := range r.Rows {
			rows++
			off := math.Abs(row.Ratio() - 1)
			t.Logf("%-14s %-18s %-30s %10.4g %10.4g %+6.1f %%", r.Name, row.Level, row.Figure, row.Ours, row.Published, 100*(row.Ratio()-1))
			if row.Tolerance == 0 && row.Ours > 5 || row.Tolerance > 0 && !(off <= row.Tolerance) {
				t.Errorf("%s, %s: %s is %.4g, was %.4g on the real server", r.Name, row.Level, row.Figure, row.Ours, row.Published)
			}
		}
	}
	if rows != 32 {
		t.Errorf("%d figures were held against the real server, want 32", rows)
	}
}
