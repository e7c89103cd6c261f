package prober

import (
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

const (
	// keptRemarks is how many remarks are kept from the beginning, and how many from the end.
	keptRemarks = 4
	// maxRemark is the length of one in characters, so that all together have at most 2 KiB of ASCII.
	maxRemark = 240
)

// maxRawRemark bounds a remark in bytes before it is made fit to be printed: a character has at most four.
const maxRawRemark = 4 * maxRemark

// remarks are what a server wrote into a stream beside the answer. Nobody knows what they mean, so that they decide
// nothing; where a probe fails, they may say why. They are kept as they came: a flood of them must cost next to nothing.
type remarks struct {
	first, last []string
}

// add keeps a remark, and forgets one of those in the middle.
func (r *remarks) add(raw []byte) {
	text := string(raw[:min(len(raw), maxRawRemark)])
	switch {
	case slices.Contains(r.first, text) || slices.Contains(r.last, text):
	case len(r.first) < keptRemarks:
		r.first = append(r.first, text)
	default:
		if len(r.last) == keptRemarks {
			r.last = slices.Delete(r.last, 0, 1)
		}
		r.last = append(r.last, text)
	}
}

// text is all that was kept, in the order in which it came, safe to print. hide takes out secrets.
func (r *remarks) text(hide func(string) string) string {
	var words []string
	for _, raw := range slices.Concat(r.first, r.last) {
		if text := scrub.Text(hide(raw), maxRemark); text != "" {
			words = append(words, text)
		}
	}
	return strings.Join(words, " … ")
}
