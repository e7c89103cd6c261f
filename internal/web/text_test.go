package web

import (
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/prober"
)

func TestFormat(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{gauge(ptr(0.25), humanize.Number) + gauge(nil, humanize.Number), "0.250–"},
		{latency(0) + known(0, true) + known(time.Second, false), "–0 s–"},
		{usually(0) + usually(time.Second), "usually 1.00 s"},
		{clock(time.Date(2026, 5, 1, 3, 4, 5, 0, time.UTC), time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)), "03:04:05"},
		{clock(time.Date(2026, 4, 30, 3, 4, 5, 0, time.UTC), time.Date(2026, 5, 1, 23, 0, 0, 0, time.UTC)), "2026-04-30 03:04:05"},
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
