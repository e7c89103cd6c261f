package bound

import (
	"math"
	"testing"
	"time"
)

func TestQuantities(t *testing.T) {
	for _, c := range []struct {
		q    Quantity
		want string
	}{
		{Quantity{"n", 0, 0, 0}, ""},
		{Quantity{"n", -1, -1, 1}, ""},
		{Quantity{"n", 1.5, 0, 1}, "n is 1.5, not from 0 to 1"},
		{Quantity{"n", -2, -1, 1}, "n is -2, not from -1 to 1"},
		{Quantity{"n", math.NaN(), 0, 1}, "n is NaN, not from 0 to 1"},
		{Quantity{"n", math.Inf(1), 0, 1}, "n is +Inf, not from 0 to 1"},
	} {
		told(t, Quantities(Quantity{"first", 1, 0, 1}, c.q), c.want)
	}
}

func TestInOrder(t *testing.T) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		second time.Time
		want   string
	}{
		{at, ""},
		{time.Time{}, ""},
		{at.Add(-time.Second), ""},
		{at.Add(-2 * time.Second), "b is 2s before a"},
		{at.AddDate(8000, 0, 0), "b is in the year 10026"},
		{time.Unix(-1, 0).UTC(), "b is in the year 1969"},
	} {
		told(t, InOrder(time.Second, Moment{"a", at}, Moment{"b", c.second}), c.want)
	}
	told(t, InOrder(0, Moment{"a", at}, Moment{}, Moment{"c", at.Add(-1)}), "c is 1ns before a")
}

func told(t *testing.T, err error, want string) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("the error is %q, not %q", got, want)
	}
}
