package prober

import (
	"fmt"
	"net/http"
	"strings"
)

// toyTokens counts the tokens of a text: one a word, but two for a word of more than seven letters, and two for
// what begins a text ("Words" and ":").
func toyTokens(text string) int {
	n := 0
	for i, word := range strings.Fields(text) {
		n++
		if i == 0 || len(word) > 7 {
			n++
		}
	}
	return n
}

// toyCount counts the tokens of a request: template tokens around the messages, four more for each message, and
// longTemplate more where no system message of ours replaces the template's own.
func toyCount(r sentRequest, template, ownSystem int) int {
	if text, ok := r.body["prompt"].(string); ok {
		n := toyTokens(text)
		if special, ok := r.body["add_special_tokens"].(bool); !ok || special {
			n++ // the beginning of the sequence
		}
		return n
	}
	n := template
	for _, text := range r.messages() {
		n += toyTokens(text) + 4
	}
	if len(r.messages()) == 1 {
		n += ownSystem
	}
	return n
}

// tokenizer answers POST /tokenize.
func tokenizer(template, ownSystem int) func(sentRequest) script {
	return func(r sentRequest) script {
		return jsonAnswer(http.StatusOK, fmt.Sprintf(`{"count":%d,"max_model_len":8192}`, toyCount(r, template, ownSystem)))
	}
}
