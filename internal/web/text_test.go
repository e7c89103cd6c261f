package web

import (
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

func TestFormat(t *testing.T) {
	const nb = "\u00a0"
	for _, tc := range []struct{ got, want string }{
		{formatDuration(0), "0.00" + nb + "ms"},
		{formatDuration(350 * time.Microsecond), "0.35" + nb + "ms"},
		{formatDuration(19_840 * time.Microsecond), "19.8" + nb + "ms"},
		{formatDuration(872 * time.Millisecond), "872" + nb + "ms"},
		{formatDuration(999_700 * time.Microsecond), "1.00" + nb + "s"},
		{formatDuration(2180 * time.Millisecond), "2.18" + nb + "s"},
		{formatDuration(65 * time.Second), "65.0" + nb + "s"},
		{formatAge(-time.Second), "0" + nb + "s"},
		{formatAge(59 * time.Second), "59" + nb + "s"},
		{formatAge(200 * time.Second), "3" + nb + "min" + nb + "20" + nb + "s"},
		{formatAge(2 * time.Hour), "2" + nb + "h"},
		{formatAge(76 * time.Hour), "3" + nb + "d" + nb + "4" + nb + "h"},
		{formatNumber(ptr(12.0)), "12"},
		{formatNumber(ptr(0.25)), "0.2"},
		{formatNumber(nil) + formatPercent(nil), "––"},
		{formatPercent(ptr(0.934)), "93" + nb + "%"},
		{formatCount(1, "probe") + ", " + formatCount(2, "probe"), "1 probe, 2 probes"},
		{formatClock(time.Date(2026, 5, 1, 3, 4, 5, 0, time.UTC), time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)), "03:04:05"},
		{formatClock(time.Date(2026, 4, 30, 3, 4, 5, 0, time.UTC), time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)), "2026-04-30 03:04:05"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}

func TestEveryReasonHasAdvice(t *testing.T) {
	all := advices()
	for _, reason := range prober.Reasons() {
		if a := all[reason]; a.Means == "" || len(a.Check) == 0 {
			t.Errorf("reason %s has no advice", reason)
		}
		delete(all, reason)
	}
	for reason := range all {
		t.Errorf("advice for %s, which is no reason", reason)
	}
	meanings := suspectMeanings()
	for _, name := range prober.SuspectNames() {
		if meanings[name] == "" {
			t.Errorf("suspect reason %s is not explained", name)
		}
		delete(meanings, name)
	}
	for name := range meanings {
		t.Errorf("%s is explained, but is no suspect reason", name)
	}
}

func TestNiceTop(t *testing.T) {
	for _, tc := range []struct{ d, want time.Duration }{
		{0, 0},
		{90 * time.Millisecond, 100 * time.Millisecond},
		{100 * time.Millisecond, 100 * time.Millisecond},
		{101 * time.Millisecond, 150 * time.Millisecond},
		{2100 * time.Millisecond, 3 * time.Second},
		{80 * time.Second, 100 * time.Second},
	} {
		if got := niceTop(tc.d); got != tc.want {
			t.Errorf("niceTop(%s) = %s, want %s", tc.d, got, tc.want)
		}
	}
}
