package quantile

import "testing"

func TestRank(t *testing.T) {
	for _, tc := range []struct {
		n    int
		q    float64
		want int
	}{
		{0, 0.5, 0},
		{1, 0, 1},
		{1, 0.5, 1},
		{1, 1, 1},
		{2, 0.5, 1},
		{3, 0.5, 2},
		{4, 0.25, 1},
		{5, 0.25, 2},
		{19, 0.95, 19},
		{20, 0.95, 19},
		{21, 0.95, 20},
		{100, 0.95, 95},
		{100, 0.99, 99},
		{101, 0.99, 100},
		{10, 0.7, 7},
		{100, 0.07, 7},
		{100, 0.29, 29}, // 0.7·10 is a little more than 7, and so are the others
		{5, 1.5, 5},
		{5, -1, 1},
	} {
		if got := Rank(tc.n, tc.q); got != tc.want {
			t.Errorf("rank of %v among %d: %d, want %d", tc.q, tc.n, got, tc.want)
		}
	}
	if got := NearestRank([]string{"a", "b", "c"}, 0.5); got != "b" {
		t.Errorf("the median is %q", got)
	}
}

// The rank of a p95 in whole numbers: n − ⌊n/20⌋.
func TestRankInWholeNumbers(t *testing.T) {
	for n := 1; n <= 5000; n++ {
		if got := Rank(n, 0.95); got != n-n/20 {
			t.Errorf("rank of 0.95 among %d: %d", n, got)
		}
	}
}
