package web

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Longest texts that are kept and shown, in bytes.
const (
	maxBody  = 2 << 10
	maxThin  = 256 // of a body or an error that has grown old
	maxError = 1 << 10
	maxName  = 256
	maxID    = 128
	maxURL   = 512
	maxWord  = 64 // finish reason, version, engine
)

const cutMark = "…"

// clean makes text that a server sent fit to be kept and shown: valid UTF-8, no control characters (bidi
// overrides included, which make a text read as another), at most limit bytes and a mark where it was cut.
func clean(s string, limit int) string {
	cut := false
	if len(s) > limit {
		s, cut = cutAt(s, limit), true
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return -1
		case r >= ' ' && r <= '~': // nearly all there is
			return r
		case unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r):
			return utf8.RuneError
		}
		return r
	}, s)
	if len(s) > limit { // a replacement is three bytes
		s, cut = cutAt(s, limit), true
	}
	if cut {
		s += cutMark // a new string, so the long one can go
	}
	return s
}

// cutAt is the first limit bytes of s, or fewer so as not to cut a rune.
func cutAt(s string, limit int) string {
	s = s[:limit]
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}
