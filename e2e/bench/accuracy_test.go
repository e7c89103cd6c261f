//go:build linux

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
)

// What each rule records of a probe, and how far that is from what the server knows.
func TestComparison(t *testing.T) {
	const ms = time.Millisecond
	// The request came at 0; tokens at 50, 60, 70 and 80 ms, each written in a tenth of a millisecond.
	served := mock.Account{Received: 0}
	for i := range int64(4) {
		at := int64(50*ms) + i*int64(10*ms)
		served.Writes = append(served.Writes, at)
		served.Returns = append(served.Returns, at+int64(ms/10))
	}
	gaps := func(second, third, fourth time.Duration) []time.Duration {
		return []time.Duration{second, third, fourth}
	}
	all := []bool{true, true, true}
	for _, c := range []struct {
		name           string
		probe          probe
		whole, byToken string
	}{
		{
			"read in time",
			probe{TTFT: 50 * ms, TTFTKnown: true, Gaps: gaps(10*ms, 10*ms, 10*ms), GapsKnown: all},
			"4 recorded, 0 wrong, worst 0.0, 0 withheld, 0 of them wrong", "4 recorded, 0 wrong, worst 0.0, 0 withheld, 0 of them wrong",
		},
		{
			"a token that was late",
			probe{Late: true, TTFT: 50 * ms, TTFTKnown: true, Gaps: gaps(10*ms, 20*ms, 0), GapsKnown: []bool{true, false, false}},
			"0 recorded, 0 wrong, worst 0.0, 4 withheld, 2 of them wrong", "2 recorded, 0 wrong, worst 0.0, 2 withheld, 2 of them wrong",
		},
		{
			"the first, within what a write takes",
			probe{Late: true, TTFT: 50*ms + ms/20, Gaps: gaps(10*ms, 10*ms, 10*ms), GapsKnown: []bool{false, true, true}},
			"0 recorded, 0 wrong, worst 0.0, 4 withheld, 0 of them wrong", "2 recorded, 0 wrong, worst 0.0, 2 withheld, 0 of them wrong",
		},
		{
			"one that nobody noticed",
			probe{TTFT: 50 * ms, TTFTKnown: true, Gaps: gaps(10*ms, 15*ms, 10*ms), GapsKnown: all},
			"4 recorded, 1 wrong, worst 4.9, 0 withheld, 0 of them wrong", "4 recorded, 1 wrong, worst 4.9, 0 withheld, 0 of them wrong",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.probe.ID = "p"
			got, err := compareWith(map[string]mock.Account{"p": served}, clientResult{Probes: []probe{c.probe}})
			if err != nil {
				t.Fatal(err)
			}
			text := func(r recorded) string {
				return fmt.Sprintf("%d recorded, %d wrong, worst %.1f, %d withheld, %d of them wrong",
					r.count(), r.wrong(), max(worst(r.ttft.errors), worst(r.itl.errors)), r.ttft.withheld+r.itl.withheld, r.hidden())
			}
			if text(got.whole) != c.whole {
				t.Errorf("by probe: %s\nwant %s", text(got.whole), c.whole)
			}
			if text(got.byToken) != c.byToken {
				t.Errorf("by token: %s\nwant %s", text(got.byToken), c.byToken)
			}
			if len(got.ttft) != 1 || len(got.itl) != 3 {
				t.Errorf("%d TTFT and %d gaps were served", len(got.ttft), len(got.itl))
			}
		})
	}
}

// Shares are of what was served; the bias is of what is left.
func TestSharesAndBias(t *testing.T) {
	var s samples
	for i, known := range []bool{true, true, true, false} {
		s.add(known, float64(10*(i+1)), float64(10*(i+1))+0.5, 0)
	}
	if got := fmt.Sprintf("%.1f %% withheld, off by %.2f", s.share(), s.off(figures.Mean)); got != "25.0 % withheld, off by 0.50" {
		t.Error(got)
	}
	c := comparison{ttft: []float64{10, 20, 30, 40}}
	c.byToken.ttft = s
	if got := bias(c.byToken.ttft, c.ttft, figures.Mean); got != -4.5 {
		t.Errorf("the mean is off by %v against all that were served, want -4.5", got)
	}
}
