package scrub

import (
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "HTTP 500: out of memory", "HTTP 500: out of memory"},
		{"lines", " a\r\n\tb  c\n", "a b c"},
		{"other lines and spaces", "a\u2028b\u2029c\u0085d\u00a0e", "a b c d e"},
		{"umlauts and emoji", "größer 🙂", "größer 🙂"},
		{"an emoji's variation", "⚠\uFE0F hot", "⚠ hot"},
		{"invalid UTF-8", "a\xff\xfeb\xc3", "a\uFFFDb\uFFFD"},
		{"a replacement character", "a\uFFFD\uFFFD", "a\uFFFD\uFFFD"},
		{"control characters", "a\x00b\x1b[31mc\u009b", "a\uFFFDb\uFFFD[31mc\uFFFD"},
		{"bidi overrides", "user\u202Egnp.exe", "user\uFFFDgnp.exe"},
		{"all bidi", "\u200e\u200f\u061c\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069", strings.Repeat("\uFFFD", 11)},
		{"zero width", "a\u200bb\u200cc\u200dd\u2060e\ufefff", "a\uFFFDb\uFFFDc\uFFFDd\uFFFDe\uFFFDf"},
		{"tags", "a\U000E0041\U000E007F", "a\uFFFD\uFFFD"},
		{"unassigned, private, fillers", "\uFFFE\uE000\u3164\u034f", strings.Repeat("\uFFFD", 4)},
		{"exactly as long", strings.Repeat("x", 30), strings.Repeat("x", 30)},
		{"too long", strings.Repeat("x", 31), strings.Repeat("x", 29) + "…"},
		{"exactly as long in runes", strings.Repeat("🙂", 30), strings.Repeat("🙂", 30)},
		{"too long in runes", strings.Repeat("🙂", 31), strings.Repeat("🙂", 29) + "…"},
		{"grows when replaced", strings.Repeat("\x00", 40), strings.Repeat("\uFFFD", 29) + "…"},
		{"nothing but halves of runes", strings.Repeat("\x80", 50), "\uFFFD"},
		{"too far behind spaces", strings.Repeat(" ", 10_000) + "x", "…"},
		{"empty", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Text(tc.in, 30); got != tc.want {
				t.Errorf("Text(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
	if got := Lines("a:\n\tb\r\nc\u202e", 30); got != "a:\n\tb\nc\uFFFD" {
		t.Errorf("Lines: %q", got)
	}
	for _, tc := range []struct {
		in    string
		limit int
		want  string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöü\x00", 3, "äö…"}, {"\x00\x01", 2, "\x00\x01"}} {
		if got := Cut(tc.in, tc.limit); got != tc.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", tc.in, tc.limit, got, tc.want)
		}
	}
}
