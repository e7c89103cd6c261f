package report

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds on what is shown of a text, in runes.
const (
	maxText   = 400  // that a server or a plan brought along
	maxSpoken = 4000 // of our own sentences, which may quote such texts
)

// clean makes a text fit to be shown: valid UTF-8, one line, no control characters (bidi overrides included, which
// make a text read as another), at most maxText runes. Escaping is left to whoever writes it.
func clean(s string) string { return cleanTo(s, maxText) }

// spoken is clean for sentences.
func spoken(s string) string { return cleanTo(s, maxSpoken) }

func cleanTo(s string, limit int) string {
	if len(s) > utf8.UTFMax*limit { // not to go through megabytes
		s = s[:utf8.UTFMax*limit]
	}
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Bidi_Control, r), r >= 0xFFFE && r <= 0xFFFF:
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if runes := []rune(s); len(runes) > limit {
		s = string(runes[:limit-1]) + "…"
	}
	return s
}

// cleanURL is clean without what may be a secret: user, password, query and fragment.
func cleanURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return clean("(an address that cannot be read)")
	}
	u.User, u.RawQuery, u.Fragment, u.ForceQuery, u.RawFragment = nil, "", "", false, ""
	return clean(u.String())
}
