package main

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/model"
)

func TestParametersInATable(t *testing.T) {
	none := experiment.Figure(math.NaN())
	var out strings.Builder
	printParameters(&out, &model.Fit{
		Steps: 120, Used: 100, Step: 0.020, Residual: 0.0001,
		Parameters: []model.Parameter{
			{Name: "base", Unit: "s", Value: 0.0197, Error: 4e-5},
			{Name: "per-intake", Unit: "s/token", Error: none, Note: "no request met an idle server alone"},
			{Name: "running-cap", Unit: "requests", Value: 64, Error: none},
			{Name: "async", Value: 1, Error: none},
			{Name: "async", Value: 0, Error: none},
			{Name: "async", Value: 1, Error: none, Note: "not clear"},
		},
		Notes: []string{"a word"},
	})
	want := []string{
		"120 engine steps were told apart, and 100 of them serve the fit; a step takes 20.0 ms in the mean, and the model is off by 100 µs.",
		"",
		"parameter    value        error",
		"base         19.7 ms      ± 40.0 µs",
		"per-intake   –                       no request met an idle server alone",
		"running-cap  64 requests",
		"async        yes",
		"async        no",
		"async        –                       not clear",
		"- a word",
	}
	if d := cmp.Diff(want, printed(out.String())); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
