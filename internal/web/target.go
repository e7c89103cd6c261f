package web

import (
	"cmp"
	"math"
	"net/url"
	"time"

	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// Target is a probed server as the page shows it.
type Target struct {
	*prober.Target
	Labels map[string]string // the target's custom labels
	Group  string            // the target group that it was found for; empty: none
	// SilenceLimit is how long a probe may wait for its next token before the page calls the target silent:
	// at least the largest TTFT that is still good. 0 means DefaultSilenceLimit.
	SilenceLimit time.Duration
	// SLOs are those that cover the target, with their verdicts.
	SLOs []SLO
}

// DefaultSilenceLimit is as long as the hang alert waits.
const DefaultSilenceLimit = 10 * time.Second

// Server is what the relay last read from a server's own metrics page, as the API tells it too. A number that is not
// known, or too old, is nil.
type Server struct {
	Up         bool      `json:"up"`              // the last scrape worked
	Error      string    `json:"error,omitempty"` // why it did not
	Engine     string    `json:"engine,omitempty"`
	Version    string    `json:"version,omitempty"`
	Healthy    Health    `json:"health,omitempty"`
	Running    *float64  `json:"requests_running,omitempty"`     // being computed now
	Waiting    *float64  `json:"requests_waiting,omitempty"`     // queued in the engine now
	KVCache    *float64  `json:"kv_cache_usage_ratio,omitempty"` // share in use, 0 to 1
	LastScrape time.Time `json:"last_scrape,omitzero"`           // zero: never
	LastChange time.Time `json:"last_change,omitzero"`           // when any of its numbers last moved; zero: never
}

// Health is the answer of the server's /health page.
type Health string

// Answers of /health; the zero value is an answer that is not known.
const (
	Healthy   Health = "healthy"
	Unhealthy Health = "unhealthy"
)

func (t Target) silenceLimit() time.Duration { return cmp.Or(t.SilenceLimit, DefaultSilenceLimit) }

// shownURL is the base of a target as a person may see it: without user information, query and fragment,
// which may carry secrets.
func shownURL(u *url.URL) string {
	if u == nil {
		return ""
	}
	return scrub.Text((&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), maxURL)
}

// finite is v, or nil if it is no number that can be shown.
func finite(v *float64) *float64 {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return nil
	}
	return v
}

// some reports whether v is known and above 0.
func some(v *float64) bool { return v != nil && *v > 0 }
