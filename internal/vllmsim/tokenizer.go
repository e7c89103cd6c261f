package vllmsim

import (
	"hash/fnv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The vocabulary: three special tokens, the rest is text.
const (
	vocabSize = 8000

	tokenEndOfText = 0
	tokenStart     = 1 // <|im_start|>
	tokenEnd       = 2 // <|im_end|>
	firstTextToken = 3
)

const (
	pieceBytes = 4 // of a word that is not in the vocabulary
	digitBytes = 3
)

// inVocabulary decides which words are one token after a space. It is as arbitrary as a trained vocabulary:
// three quarters of all words are in it, so a client that takes an ordinary word for one token is found out.
func inVocabulary(word string) bool { return textHash(word)%4 != 0 }

func textHash(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}

func tokenID(piece string) int {
	return firstTextToken + int(textHash(piece)%(vocabSize-firstTextToken))
}

// piece is one token of a text.
type piece struct {
	text string
	id   int
}

// tokenize splits a text: a space belongs to the word after it; a word of the vocabulary that follows a space is
// one token, other words fall into pieces, digits into threes, and whatever else is one token a character.
func tokenize(text string) []piece {
	var pieces []piece
	add := func(s string) { pieces = append(pieces, piece{s, tokenID(s)}) }
	split := func(s string, size int) {
		for len(s) > size {
			add(s[:size])
			s = s[size:]
		}
		add(s)
	}
	for text != "" {
		space := ""
		if text[0] == ' ' {
			space = " "
		}
		rest := text[len(space):]
		switch word, number := leading(rest, unicode.IsLetter), leading(rest, unicode.IsDigit); {
		case word != "" && space != "" && inVocabulary(word):
			add(space + word)
			text = rest[len(word):]
		case word != "":
			split(space+word, pieceBytes)
			text = rest[len(word):]
		case number != "":
			split(space+number, digitBytes)
			text = rest[len(number):]
		case space != "" && (rest == "" || rest[0] == ' '):
			add(space)
			text = rest
		default:
			_, size := utf8.DecodeRuneInString(rest)
			add(space + rest[:size])
			text = rest[size:]
		}
	}
	return pieces
}

// leading returns the start of s whose runes all satisfy f.
func leading(s string, f func(rune) bool) string {
	if end := strings.IndexFunc(s, func(r rune) bool { return !f(r) }); end >= 0 {
		return s[:end]
	}
	return s
}

func ids(pieces []piece) []int {
	ids := make([]int, len(pieces))
	for i, p := range pieces {
		ids[i] = p.id
	}
	return ids
}

// chatPieces applies the chat template, which is ChatML: one user message costs 10 tokens beside its text.
func chatPieces(messages []message, generationPrompt bool) []piece {
	var pieces []piece
	open := func(role string) {
		pieces = append(pieces, piece{"<|im_start|>", tokenStart})
		pieces = append(pieces, tokenize(role+"\n")...)
	}
	for _, m := range messages {
		open(m.Role)
		pieces = append(pieces, tokenize(string(m.Content))...)
		pieces = append(pieces, piece{"<|im_end|>", tokenEnd})
		pieces = append(pieces, tokenize("\n")...)
	}
	if generationPrompt {
		open("assistant")
	}
	return pieces
}
