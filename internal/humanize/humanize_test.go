package humanize

import (
	"math"
	"testing"
	"time"
)

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s reads %q, want %q", what, got, want)
	}
}

func TestSeconds(t *testing.T) {
	for _, tc := range []struct {
		v    float64
		want string
	}{
		{0, "0 s"},
		{2e-12, "< 1 ns"},
		{1e-9, "1.00 ns"},
		{35.23e-9, "35.2 ns"},
		{999.4e-9, "999 ns"},
		{999.6e-9, "1.00 µs"},
		{352e-6, "352 µs"},
		{0.9994e-3, "999 µs"},
		{0.9996e-3, "1.00 ms"},
		{9.996e-3, "10.0 ms"},
		{0.01982, "19.8 ms"},
		{0.05, "50.0 ms"},
		{0.8722, "872 ms"},
		{0.9996, "1.00 s"},
		{1.5, "1.50 s"},
		{2.1834, "2.18 s"},
		{120, "120 s"},
		{12345.6, "12,346 s"},
		{-0.0123, "-12.3 ms"},
		{math.NaN(), "–"},
		{math.Inf(1), "∞"},
		{math.Inf(-1), "-∞"},
	} {
		check(t, "a measured time", Seconds(tc.v), tc.want)
	}
	check(t, "a duration", Duration(352*time.Microsecond), "352 µs")
}

func TestChosen(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{Chosen(0), "0 s"},
		{Chosen(0.0005), "500 µs"},
		{Chosen(0.05), "50 ms"},
		{Chosen(1.5), "1.5 s"},
		{Chosen(1.234), "1.234 s"},
		{Chosen(120), "120 s"},
		{Exact(1048576), "1,048,576"},
		{Exact(0.1 + 0.2), "0.3"},
		{Exact(99.95), "99.95"},
		{Exact(12.375), "12.375"},
		{Exact(math.NaN()), "–"},
	} {
		check(t, "what was chosen", tc.got, tc.want)
	}
}

func TestNumber(t *testing.T) {
	for _, tc := range []struct {
		v    float64
		want string
	}{
		{0, "0"},
		{0.3521, "0.352"},
		{0.5, "0.500"},
		{2, "2"},
		{9.999, "10.0"},
		{19.84, "19.8"},
		{99.96, "100"},
		{511.7, "512"},
		{1234.5, "1234"},
		{9999.6, "10,000"},
		{1e6, "1,000,000"},
		{-1234.7, "-1235"},
		{-12345, "-12,345"},
		{-123, "-123"},
		{1.2e-12, "0"},
		{math.NaN(), "–"},
	} {
		check(t, "a number", Number(tc.v), tc.want)
	}
}

func TestShare(t *testing.T) {
	for _, tc := range []struct {
		ratio float64
		want  string
	}{
		{0, "0 %"},
		{1, "100 %"},
		{0.000523, "0.052 %"},
		{0.0052, "0.52 %"},
		{0.052, "5.2 %"},
		{0.1, "10 %"},
		{0.5234, "52 %"},
		{0.887, "89 %"},
		{0.9, "90 %"},
		{0.9642, "96.4 %"},
		{0.99, "99 %"},
		{0.9995, "99.95 %"},
		{0.99999, "99.999 %"},
		{0.9999973, "99.99973 %"},
		{1.5, "150 %"},
		{-0.123, "-12 %"},
		{math.NaN(), "–"},
		{math.Inf(1), "–"},
	} {
		check(t, "a share", Share(tc.ratio), tc.want)
	}
}

func TestCountsBytesSpansAndRanges(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{Count(1, "probe"), "1 probe"},
		{Count(0, "probe"), "0 probes"},
		{Count(12345, "success"), "12,345 successes"},
		{Tally(map[string]int{"tls": 1, "timeout": 3, "dns": 1}), "3 timeout, 1 dns, 1 tls"},
		{Whole(-1), "–"},
		{Whole(1234567), "1,234,567"},
		{Whole(999), "999"},
		{Bytes(0), "–"},
		{Bytes(512), "512 B"},
		{Bytes(1536), "1.50 KiB"},
		{Bytes(128 << 20), "128 MiB"},
		{Bytes(3 << 29), "1.50 GiB"},
		{Span(0), "0 s"},
		{Span(-time.Second), "0 s"},
		{Span(8999 * time.Millisecond), "8 s"},
		{Span(time.Minute), "1 min"},
		{Span(200 * time.Second), "3 min 20 s"},
		{Span(125 * time.Minute), "2 h 5 min"},
		{Span(76 * time.Hour), "3 d 4 h"},
		{Setting(15 * time.Second), "15 s"},
		{Setting(2 * time.Minute), "2 min"},
		{Setting(1500 * time.Millisecond), "1.5 s"},
		{Setting(0), "0 s"},
		{Range(0.58, 0.66, Seconds), "580 to 660 ms"},
		{Range(0.98, 1.02, Seconds), "980 ms to 1.02 s"},
		{Range(0.914, 1, Number), "0.914 to 1"},
	} {
		check(t, "it", tc.got, tc.want)
	}
}

func TestNoBreak(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"First token in 19.8 ms, then 2 gaps.", "First token in 19.8\u00a0ms, then 2\u00a0gaps."},
		{"96 %", "96\u00a0%"},
		{"at 12:00:05 2 probes 3 4 ", "at 12:00:05 2\u00a0probes 3 4 "},
		{"none", "none"},
		{"", ""},
	} {
		check(t, "it", NoBreak(tc.in), tc.want)
	}
}
