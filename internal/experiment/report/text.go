package report

import (
	"net/url"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// Bounds on what is shown of a text, in characters.
const (
	maxText   = 400  // that a server or a plan brought along
	maxSpoken = 4000 // of our own sentences, which may quote such texts
)

// clean makes a text fit to be shown. Escaping is left to whoever writes it.
func clean(s string) string { return scrub.Text(s, maxText) }

// spoken is clean for sentences.
func spoken(s string) string { return humanize.NoBreak(scrub.Text(s, maxSpoken)) }

// cleanURL is clean without what may be a secret: user, password, query and fragment.
func cleanURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return clean("(an address that cannot be read)")
	}
	u.User, u.RawQuery, u.Fragment, u.ForceQuery, u.RawFragment = nil, "", "", false, ""
	return clean(u.String())
}
