package prober

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"unicode"
)

const (
	// maxListed is how many models of a list are read. OpenRouter, the longest list known, has about 400.
	maxListed = 10_000
	// maxModelName is how many bytes a model's name may have: it becomes a label. Names of files and hubs have up to 200.
	maxModelName = 256
	// maxContext bounds max_model_len. The longest context of any model is 10 million tokens.
	maxContext = 1 << 30
	// maxAliases is how many other names of a model are kept; --served-model-name has two or three.
	maxAliases = 64
	// maxParents bounds the way from an adapter to its base model, which a list could make a circle.
	maxParents = 8
)

// listedModel is one entry of a list of models.
type listedModel struct {
	id           string
	root, parent string // what vLLM tells: the weights, and the base model of an adapter
	maxLen       int    // 0: unknown
}

// parseModels reads a list of models in the shapes that servers send: {"data": […]} as OpenAI has it, {"models": […]}
// as Ollama and llama.cpp have it, a bare array (Together), of objects with an id, a name or a model, or of names. Entries
// without a usable name are left out.
func parseModels(data []byte) ([]listedModel, error) {
	if data = bytes.TrimSpace(data); len(data) > 0 && data[0] == '{' {
		var object struct{ Data, Models json.RawMessage }
		if err := json.Unmarshal(data, &object); err != nil {
			return nil, err
		}
		if data = object.Data; object.Data == nil {
			data = object.Models
		}
		if string(data) == "null" { // Ollama without a model
			return nil, nil
		}
	}
	if len(data) == 0 || data[0] != '[' {
		return nil, errors.New("the answer holds no list of models")
	}
	var list []listedModel
	decoder := json.NewDecoder(bytes.NewReader(data))
	_, _ = decoder.Token()
	for range maxListed {
		if !decoder.More() {
			break
		}
		var entry json.RawMessage
		if err := decoder.Decode(&entry); err != nil {
			return nil, err
		}
		if m := parseModel(entry); m.id != "" {
			list = append(list, m)
		}
	}
	return list, nil
}

// parseModel reads one entry; its id is empty where it has no usable name.
func parseModel(data []byte) listedModel {
	var name string
	if json.Unmarshal(data, &name) == nil {
		return listedModel{id: modelName(name)}
	}
	var raw struct {
		ID, Name, Model, Root, Parent json.RawMessage
		MaxLen                        json.RawMessage `json:"max_model_len"`
	}
	if json.Unmarshal(data, &raw) != nil {
		return listedModel{}
	}
	text := func(data json.RawMessage) (s string) {
		_ = json.Unmarshal(data, &s) // anything but a string is none
		return modelName(s)
	}
	m := listedModel{id: cmp.Or(text(raw.ID), text(raw.Name), text(raw.Model)), root: text(raw.Root), parent: text(raw.Parent)}
	m.maxLen, _ = wholeNumber(raw.MaxLen, maxContext)
	return m
}

// modelName returns a name that can be a label and stand in a log line, or "".
func modelName(name string) string {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) } // bidi controls included
	if len(name) > maxModelName || strings.ContainsFunc(name, unprintable) {
		return ""
	}
	return name
}

// wholeNumber is the door through which numbers of a courtesy's answer pass: a JSON number without a fraction or an
// exponent, from 0 to most. Anything else is unknown.
func wholeNumber(raw json.RawMessage, most int) (n int, ok bool) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < 0 || n > most {
		return 0, false
	}
	return n, true
}

// findModel returns the entry of a model.
func findModel(list []listedModel, id string) (m listedModel, ok bool) {
	for _, m := range list {
		if m.id == id {
			return m, true
		}
	}
	return listedModel{}, false
}

// contextOf is the longest request that a model takes: its own limit, or that of the model which it adapts. 0: unknown.
func contextOf(list []listedModel, id string) int {
	for range maxParents {
		m, ok := findModel(list, id)
		if !ok || m.maxLen > 0 {
			return m.maxLen
		}
		id = m.parent
	}
	return 0
}

// aliasesOf lists the other names under which a server may answer for a model: those of the same weights
// (--served-model-name a b), and for an adapter those of the model which it adapts, by which some servers answer. An
// adapter is no alias of its base: asked for the base, its answer is another model's.
func aliasesOf(list []listedModel, id string) []string {
	var names []string
	seen := map[string]bool{id: true}
	for range maxParents {
		m, listed := findModel(list, id)
		if !listed {
			break
		}
		for _, other := range list {
			if m.root != "" && other.root == m.root && other.parent == m.parent && !seen[other.id] && len(names) < maxAliases {
				seen[other.id] = true
				names = append(names, other.id)
			}
		}
		if id = m.parent; id == "" {
			break
		}
		if !seen[id] {
			seen[id] = true
			names = append(names, id)
		}
	}
	return names
}
