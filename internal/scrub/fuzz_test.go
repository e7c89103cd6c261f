//go:build unix

package scrub

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

func FuzzText(f *testing.F) {
	f.Add("a\xff\u202e🙂 \n x", 5)
	f.Add(strings.Repeat("\u202e\xff ", 100_000), 1000)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, min(limit, 1<<12))
		var got string
		cputest.Linear(t, len(s), func() { got = Text(s, limit) })
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > limit {
			t.Errorf("Text(%q, %d) = %q", s, limit, got)
		}
		for _, r := range got {
			if r != ' ' && !seen(r) {
				t.Errorf("%q is in Text(%q)", r, s)
			}
		}
		if again := Text(got, limit); again != got {
			t.Errorf("cleaned again, %q becomes %q", got, again)
		}
	})
}
