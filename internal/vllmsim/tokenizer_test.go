package vllmsim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTokenize(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"the", []string{"the"}},
		{"the of and", []string{"the", " of", " and"}},
		{"something", []string{"some", "thin", "g"}}, // no space before it: never one token
		{" weather", []string{" weather"}},
		{" wonderful", []string{" wonderful"}},
		{" everything", []string{" eve", "ryth", "ing"}}, // not in the vocabulary
		{"a.b", []string{"a", ".", "b"}},
		{"a  b", []string{"a", " ", " b"}},
		{"x 12345", []string{"x", " 12", "345"}},
		{"é 世界", []string{"é", " 世界"}},
		{"\n", []string{"\n"}},
		{" \n", []string{" \n"}},
	} {
		var got []string
		for _, p := range tokenize(tc.text) {
			got = append(got, p.text)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestWordsOfAnswersAreOneTokenEach(t *testing.T) {
	for _, w := range vocabulary {
		if got := tokenize(" " + w); len(got) != 1 {
			t.Errorf("%q is %d tokens", w, len(got))
		}
	}
}

// A client that draws words must check them: most are one token, some are not.
func TestSomeOrdinaryWordsAreNotOneToken(t *testing.T) {
	ordinary := strings.Fields(`weather market garden kitchen window station morning evening picture history
		science teacher student machine library village captain journey mountain holiday`)
	one := 0
	for _, w := range ordinary {
		if len(tokenize(" "+w)) == 1 {
			one++
		}
	}
	if one < len(ordinary)/2 || one == len(ordinary) {
		t.Errorf("%d of %d words are one token", one, len(ordinary))
	}
}

func TestChatTemplateCostsTenTokens(t *testing.T) {
	const text = "the of and"
	plain := len(tokenize(text))
	if got := len(chatPieces([]message{{"user", text}}, true)); got != plain+10 {
		t.Errorf("%d tokens, the text alone %d", got, plain)
	}
	if got := len(chatPieces([]message{{"user", text}}, false)); got != plain+5 {
		t.Errorf("without generation prompt %d tokens, the text alone %d", got, plain)
	}
	if got := len(chatPieces([]message{{"system", text}, {"user", text}}, true)); got < 2*plain+15 {
		t.Errorf("two messages: %d tokens", got)
	}
}
