package chart

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestColumns(t *testing.T) {
	c := NewColumns(0.42, Key{Class: "failed", Name: "failed"}, Key{Class: "queue", Name: "queue"}, Key{Class: "prefill", Name: "prefill"})
	c.Add(1, 0, 0.1, 0, 0.1)
	c.Add(2, 0, 0.1, 0.1, 0.4)
	c.Add(2, 0.5, 0.1, 0, 0) // nothing to see
	c.Mark(0.25, Key{Class: "usual", Name: "usual", Value: "250 ms"})
	wantKeys := []Key{{Class: "queue", Name: "queue"}, {Class: "prefill", Name: "prefill"}, {Class: "usual", Name: "usual", Value: "250 ms"}}
	if diff := cmp.Diff(wantKeys, c.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	want := `<svg viewBox="0 0 600 100" preserveAspectRatio="none" role="img" aria-label="a &lt; b">` +
		`<path class="grid" d="M0 .5H600M0 50H600M0 99.5H600"/>` +
		`<path class="queue" d="M0.00 100.0h60.00v-20.0h-60.00z"/>` +
		`<path class="prefill" d="M0.00 80.0h60.00v-60.0h-60.00z"/>` +
		`<path class="usual" d="M0 50H600"/></svg>`
	if diff := cmp.Diff(strings.ReplaceAll(want, "><", ">\n<"), strings.ReplaceAll(string(c.Inline("a < b")), "><", ">\n<")); diff != "" {
		t.Errorf("drawing (-want +got):\n%s", diff)
	}
}

func TestHighOfColumns(t *testing.T) {
	for _, tc := range []struct{ most, want float64 }{{0, 0}, {0.09, 0.1}, {0.1, 0.1}, {0.101, 0.15}, {2.1, 3}, {80, 100}} {
		if got := NewColumns(tc.most).High; !(got > tc.want*0.9999 && got < tc.want*1.0001) && got != tc.want {
			t.Errorf("up to %v: %v, want %v", tc.most, got, tc.want)
		}
	}
}
