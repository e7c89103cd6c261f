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

// remarks are what a server wrote into a stream beside the answer. Nobody knows what they mean, so that they decide
// nothing; where a probe fails, they may say why.
type remarks struct {
	first, last []string
}

// add keeps a remark, and forgets one of those in the middle. The text is safe to print.
func (r *remarks) add(text string) {
	text = scrub.Text(text, maxRemark)
	switch {
	case text == "" || slices.Contains(r.first, text) || slices.Contains(r.last, text):
	case len(r.first) < keptRemarks:
		r.first = append(r.first, text)
	default:
		if len(r.last) == keptRemarks {
			r.last = slices.Delete(r.last, 0, 1)
		}
		r.last = append(r.last, text)
	}
}

// String is all that was kept, in the order in which it came.
func (r *remarks) String() string { return strings.Join(slices.Concat(r.first, r.last), " … ") }
