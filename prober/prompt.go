package prober

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// prompt is the words of one probe.
type prompt struct {
	system string // empty: none of ours
	user   string
}

func (p prompt) messages() []message {
	user := message{"user", p.user}
	if p.system == "" {
		return []message{user}
	}
	return []message{{"system", p.system}, user}
}

func (p prompt) text() string { return p.user }

// fit is how prompts of a workload get their exact length on one server: from words that are one token each in
// its tokenizer, any so many of them have that many tokens. Nothing needs to be asked for a probe, and no two
// prompts are alike, from the first cache block on.
type fit struct {
	words  []string
	system int // words in a system message of ours; 0: none is sent
	user   int // words in the user's message

	exact bool    // by the server's tokenizer; else a guess, and what usage has made of it
	again bool    // a guess, and the tokenizer may answer by now
	retry backoff // of asking it then
	lost  bool    // usage does not follow the length of the prompt

	began             int // words in the first prompt that was counted
	atWords, atTokens int // the last prompt whose count has followed it
}

// due reports whether the tokenizer is to be asked again before a probe is sent.
func (f *fit) due() bool { return f.again && f.retry.due(time.Now()) }

// lead begins a message: it gives the first word the space before it that all others have. A word with and
// without one are different tokens.
const lead = "Words:"

// draw makes a new prompt.
func (f *fit) draw(random *rand.Rand) prompt {
	p := prompt{user: f.message(f.user, random)}
	if f.system > 0 {
		p.system = f.message(f.system, random)
	}
	return p
}

func (f *fit) message(words int, random *rand.Rand) string {
	const wordBytes = 8 // a space and a common word, and some to spare
	var b strings.Builder
	b.Grow(len(lead) + words*wordBytes)
	b.WriteString(lead)
	for range words {
		b.WriteByte(' ')
		b.WriteString(f.words[random.IntN(len(f.words))])
	}
	return b.String()
}

// correct takes the server's count of a prompt with so many words, and sets how many the next has. It gives up (lost),
// and goes back to the words that it began with, where the count does not follow.
func (f *fit) correct(words, count, want int) {
	if f.began == 0 {
		f.began, f.atWords, f.atTokens = words, words, count
	}
	each := 1.0 // tokens of one word, until two counts tell
	if grown := words - f.atWords; grown != 0 {
		rise := float64(count-f.atTokens) / float64(grown)
		each = min(max(1, rise), mostRise)
		if max(grown, -grown) > followed(want) {
			if rise < leastRise || rise > mostRise {
				f.user, f.lost = f.began, true
				return
			}
			f.atWords, f.atTokens = words, count
		}
	}
	next := float64(words) + math.Trunc(float64(want-count)/each)
	f.user = int(min(max(1, next), float64(wordsAtMost*want)))
}

// followed is by how many words a prompt must have changed before its count must have too. A guess has words of more
// than one token in it, so that the counts of two prompts of the same length differ by some.
func followed(want int) int { return 32 + want/8 }

const (
	// A word has at least one token, but for some tokenizers that have common pairs of words, and at most one a byte.
	leastRise, mostRise = 0.25, 16
	// wordsAtMost bounds the words for each token that is asked for.
	wordsAtMost = 2
)

const (
	// enoughWords makes 64^10 beginnings before the first block of 16 tokens is full.
	enoughWords = 64
	// maxTokenizeCalls bounds the search. Large vocabularies need one call, one of 8,000 tokens needs about 50.
	maxTokenizeCalls = 150
	// longTemplate is how many tokens a template may add before it is taken to bring a system prompt of its own,
	// whose cache blocks all requests would share. Templates without one add 3 to 15.
	longTemplate = 24
	// systemWords is enough for a random beginning of the first cache block.
	systemWords = 8
	// verifications is how many random prompts must have the exact length before it is believed.
	verifications = 3
	// assumedTemplate is what a chat template adds, until usage tells.
	assumedTemplate = 12
)

//go:embed words.txt
var wordList string

// candidates are common English words; nearly all are one token in every large vocabulary. All share one list, which
// nobody changes.
var candidates = sync.OnceValue(func() []string { return strings.Fields(wordList) })

// errNoTokenizer: the server cannot count tokens, or not as it counts those of a request.
var errNoTokenizer = errors.New("the server does not tell how it tokenizes")

// guess is the fit to begin with where the server has no tokenizer to ask; it is corrected from usage.
func guess(w *Workload) *fit {
	f := &fit{words: candidates(), user: w.PromptTokens - 2}
	if w.API == Chat {
		f.user -= assumedTemplate
	}
	f.user = max(1, f.user)
	return f
}

// counter tells how many tokens a request with the given prompt has, template included, or how many a bare text
// has if bare is set.
type counter func(ctx context.Context, p prompt, bare bool) (int, error)

// findFit finds words that are one token each and how many of them make the prompt exactly as long as asked.
func findFit(ctx context.Context, w *Workload, count counter, random *rand.Rand) (*fit, error) {
	s := &wordSearch{count: count}
	if err := s.search(ctx); err != nil {
		return nil, err
	}
	if len(s.found) < enoughWords {
		return nil, fmt.Errorf("%w: only %d of its words are one token each", errNoTokenizer, len(s.found))
	}
	f := &fit{words: s.found, user: systemWords, exact: true}
	around, err := f.overhead(ctx, count, random)
	if err != nil {
		return nil, err
	}
	if w.API == Chat && around > longTemplate {
		f.system = systemWords
		if around, err = f.overhead(ctx, count, random); err != nil {
			return nil, err
		}
	}
	f.user = w.PromptTokens - around
	if f.user < 1 {
		// That stops the workload, so it takes a tokenizer that counts: twice the words are so many tokens more.
		longer := *f
		longer.user = 2 * systemWords
		if got, err := longer.overhead(ctx, count, random); err != nil || got != around {
			return nil, fmt.Errorf("%w: it counts %d tokens around %d words and %d around %d", errNoTokenizer, around, systemWords, got, longer.user)
		}
		return nil, &unfitError{err: fmt.Errorf("prompt_tokens: %d leaves no room: the server's template alone has %d tokens", w.PromptTokens, around)}
	}
	for range verifications {
		got, err := count(ctx, f.draw(random), false)
		if err != nil {
			return nil, err
		}
		if got != w.PromptTokens {
			return nil, fmt.Errorf("%w: a prompt meant to have %d tokens has %d", errNoTokenizer, w.PromptTokens, got)
		}
	}
	return f, nil
}

// overhead is how many tokens a request has beside the user's words.
func (f *fit) overhead(ctx context.Context, count counter, random *rand.Rand) (int, error) {
	n, err := count(ctx, f.draw(random), false)
	if err == nil && n < f.user+f.system {
		err = fmt.Errorf("%w: it counts %d tokens in a request with %d words", errNoTokenizer, n, f.user+f.system)
	}
	return n - f.user, err
}

// wordSearch sorts out the words that are one token each: a list of them has as many tokens as words, so a list
// that has not is halved.
type wordSearch struct {
	count counter
	base  int // tokens of the lead
	calls int
	found []string
}

func (s *wordSearch) search(ctx context.Context) (err error) {
	if s.base, err = s.count(ctx, prompt{user: lead}, true); err != nil {
		return err
	}
	for list := range slices.Chunk(candidates(), enoughWords) {
		if err := s.sift(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

func (s *wordSearch) sift(ctx context.Context, list []string) error {
	if len(s.found) >= enoughWords || s.calls >= maxTokenizeCalls {
		return nil
	}
	s.calls++
	n, err := s.count(ctx, prompt{user: lead + " " + strings.Join(list, " ")}, true)
	switch {
	case err != nil:
		return err
	case n <= s.base:
		return fmt.Errorf("%w: it counts %d tokens, and %d with %d words more", errNoTokenizer, s.base, n, len(list))
	case n-s.base == len(list):
		s.found = append(s.found, list...)
		return nil
	case len(list) == 1:
		return nil
	}
	half := len(list) / 2
	if err := s.sift(ctx, list[:half]); err != nil {
		return err
	}
	return s.sift(ctx, list[half:])
}
