package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// keyHint helps with an unknown key: a key spelled nearly so, or the section that a right key belongs to.
func (s *schema) keyHint(key string, allowed []string) string {
	if hint := nearHint(key, allowed); hint != "" {
		return hint
	}
	if homes := s.homes(key); homes != nil {
		return "it belongs to " + strings.Join(homes, " or ")
	}
	if s.plan && newSchema(false).homes(key) != nil {
		return "a plan has no use for it"
	}
	return foreignKeys()[key]
}

// homes returns the names of the sections that have a key.
func (s *schema) homes(key string) (homes []string) {
	for _, sec := range s.sections() {
		if slices.Contains(s.keysOf(sec), key) {
			homes = append(homes, sec.name)
		}
	}
	return homes
}

// foreignKeys returns what to write for keys that other tools have.
func foreignKeys() map[string]string {
	return map[string]string{
		"api_key":         "write http_client_config: {authorization: {credentials_file: FILE}}",
		"api_key_file":    "write http_client_config: {authorization: {credentials_file: FILE}}",
		"token":           "write http_client_config: {authorization: {credentials_file: FILE}}",
		"base_url":        "write url",
		"base_path":       "write api_path",
		"headers":         "write http_client_config: {http_headers: {NAME: {values: [VALUE]}}}",
		"max_tokens":      "write output_tokens",
		"scrape_interval": "write interval",
		"scrape_timeout":  "write timeout",
	}
}

// nearHint proposes the allowed word that is nearest to word, if one is near enough to be meant.
func nearHint(word string, allowed []string) string {
	best, least := "", max(1, utf8.RuneCountInString(word)/3)+1
	for _, a := range allowed[:min(len(allowed), 1000)] {
		if n := distance(fold(word), fold(a)); n < least {
			best, least = a, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", clip(best))
}

// fold makes words equal that differ only in case or in the separator.
func fold(s string) string {
	return strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(s))
}

// maxTypo is the length in letters beyond which nobody compares words.
const maxTypo = 64

// distance is the number of letters to insert, delete, replace or swap with a neighbour to make b from a
// (optimal string alignment). Words too long to be anybody's typing error are infinitely far.
func distance(a, b string) int {
	s, t := []rune(a), []rune(b)
	if len(s) > maxTypo || len(t) > maxTypo {
		return math.MaxInt
	}
	var older, old []int
	row := make([]int, len(t)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(s); i++ {
		older, old, row = old, row, make([]int, len(t)+1)
		row[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
	}
	return row[len(t)]
}

// durationHint says how to write the duration that text seems to mean.
func durationHint(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), " ", "")
	if strings.Trim(text, "0123456789") == "" && text != "" && len(text) < 10 {
		return fmt.Sprintf("did you mean \"%ss\"?", text)
	}
	if d, err := time.ParseDuration(strings.ToLower(text)); err == nil && d >= time.Millisecond {
		return fmt.Sprintf("did you mean %q?", model.Duration(d))
	}
	return "write 15s, 1m30s or 500ms"
}

// clip shortens text that is repeated in a message. It leaves it as it was written: the messages quote it.
func clip(s string) string { return scrub.Cut(s, 60) }
