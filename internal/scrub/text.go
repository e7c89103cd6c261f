// Package scrub makes text that comes from outside fit to be kept and printed, in a log, on a page, in an answer of
// the API or in a report: [Text] bounds it and leaves nothing in it that a terminal or a browser obeys, [Secrets]
// takes out what was sent along as a credential and may come back in the words of the other end.
//
// Secrets are looked for first, in the whole text: what was cut or cleaned may hold half of one.
package scrub

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cutMark ends a text that was cut.
const cutMark = "…"

// Text is s as one line of at most limit characters, the mark of a cut included: valid UTF-8, white space (line and
// paragraph separators too) as single spaces, and U+FFFD for each character that is not seen or that changes how
// others are read: control, format (bidi, zero width, byte order mark, tags), private and unassigned ones. It takes
// time for limit, not for the length of s.
func Text(s string, limit int) string { return clean(s, limit, false) }

// Lines is Text with line feeds and tabs kept as they are, for places that show or escape them.
func Lines(s string, limit int) string { return clean(s, limit, true) }

// Cut is at most the first limit characters of s, the mark of a cut included, and otherwise as it was.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	n, last := 0, 0 // characters so far, and where the last but one that fits ends
	for i := range s {
		if n == limit-1 {
			last = i
		}
		if n == limit {
			return s[:last] + cutMark
		}
		n++
	}
	return s
}

func clean(s string, limit int, lines bool) string {
	if limit <= 0 {
		return ""
	}
	if len(s) <= limit && plain(s) {
		return s
	}
	room := 2 * utf8.UTFMax * limit // bytes that are looked at: some come to nothing
	w := writer{limit: limit}
	space, bad := false, false // what came last: white space that is not written yet, a byte that is no UTF-8
	for i, r := range s {
		if i >= room {
			return w.cut()
		}
		broken := r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD")
		again := broken && bad
		bad = broken
		switch {
		case again, variation(r): // the latter is how a character is drawn, such as an emoji
			continue
		case lines && (r == '\n' || r == '\t'):
		case unicode.IsSpace(r):
			space = true
			continue
		case !seen(r):
			r = utf8.RuneError
		}
		if space && w.n > 0 && r != '\n' && !w.put(' ') || !w.put(r) {
			return w.cut()
		}
		space = false
	}
	return w.b.String()
}

// writer takes characters until it is full.
type writer struct {
	b        strings.Builder
	n, limit int // characters
	fits     int // bytes of all but the last character, once it is full
}

// put reports false, and writes nothing, if the writer is full.
func (w *writer) put(r rune) bool {
	if w.n == w.limit {
		return false
	}
	if w.n == w.limit-1 {
		w.fits = w.b.Len()
	}
	w.b.WriteRune(r)
	w.n++
	return true
}

// cut is what was written, and the mark of a cut in the place of the last character if there is no room for it.
func (w *writer) cut() string {
	if w.n < w.limit {
		return w.b.String() + cutMark
	}
	return w.b.String()[:w.fits] + cutMark
}

// plain tells a text that stays as it is, as nearly all are.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

// seen reports whether a character is seen and changes nothing of how others are read.
func seen(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// variation reports whether a character chooses between the drawings of the one before.
func variation(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }
