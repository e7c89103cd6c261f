package bound

import (
	"math"
	"testing"
)

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		n, most float64
		ok      bool
	}{
		{0, 0, true},
		{1, 1, true},
		{0.5, 1, true},
		{1.1, 1, false},
		{-1, 1, false},
		{1e300, 1e3, false},
		{math.NaN(), 1, false},
		{math.Inf(1), 1, false},
		{math.Inf(-1), 1, false},
		{1, math.NaN(), false},
	} {
		if value, ok := Within(c.n, c.most); ok != c.ok || ok && value != c.n || !ok && value != 0 {
			t.Errorf("Within(%v, %v) = %v, %v", c.n, c.most, value, ok)
		}
	}
	if _, ok := Within(math.MinInt, 10); ok {
		t.Error("a negative number passes")
	}
}
