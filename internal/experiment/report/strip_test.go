package report

import (
	"math"
	"testing"
)

func TestThinKeepsWhatStandsOut(t *testing.T) {
	var all [][2]float64
	for i := range 100_000 {
		all = append(all, [2]float64{float64(i), 1})
	}
	all[77_777][1], all[33_333][1] = 50, 0.01
	kept, every := thin(all, 2000)
	if len(kept) > 2000 || every != 100 {
		t.Errorf("%d of each %d kept", len(kept), every)
	}
	low, high := math.Inf(1), 0.0
	for _, at := range kept {
		low, high = min(low, at[1]), max(high, at[1])
	}
	if low != 0.01 || high != 50 {
		t.Errorf("from %g to %g, want 0.01 to 50", low, high)
	}
	if few, every := thin(all[:2000], 2000); len(few) != 2000 || every != 1 {
		t.Errorf("%d of 2000 kept", len(few))
	}
}
