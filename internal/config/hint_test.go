package config

import (
	"strings"
	"testing"
)

func TestNearHint(t *testing.T) {
	allowed := []string{"interval", "timeout", "stall_timeout", "warmup", "relay_interval"}
	tests := map[string]string{
		"intervall":                      `did you mean "interval"?`,
		"inteval":                        `did you mean "interval"?`,
		"itnerval":                       `did you mean "interval"?`,
		"Interval":                       `did you mean "interval"?`,
		"stall-timeout":                  `did you mean "stall_timeout"?`,
		"StallTimeout":                   `did you mean "stall_timeout"?`,
		"warm_up":                        `did you mean "warmup"?`,
		"period":                         "",
		"":                               "",
		strings.Repeat("interval", 1000): "",
	}
	for word, want := range tests {
		if got := nearHint(word, allowed); got != want {
			t.Errorf("nearHint(%q) = %q, want %q", clip(word), got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"abc", "abc", 0},
		{"abc", "", 3},
		{"abc", "abd", 1},
		{"abc", "acb", 1},
		{"abc", "ab", 1},
		{"abc", "xabc", 1},
		{"größe", "grösse", 2},
		{"kitten", "sitting", 3},
	}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
		if back := distance(tt.b, tt.a); back != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.b, tt.a, back, tt.want)
		}
	}
}

func TestDurationHint(t *testing.T) {
	for text, want := range map[string]string{
		"15":      `did you mean "15s"?`,
		" 15 ":    `did you mean "15s"?`,
		"1.5s":    `did you mean "1s500ms"?`,
		"30S":     `did you mean "30s"?`,
		"1m 30s":  `did you mean "1m30s"?`,
		"500us":   "write 15s, 1m30s or 500ms",
		"15 secs": "write 15s, 1m30s or 500ms",
		"":        "write 15s, 1m30s or 500ms",
	} {
		if got := durationHint(text); got != want {
			t.Errorf("durationHint(%q) = %q, want %q", text, got, want)
		}
	}
}
