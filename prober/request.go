package prober

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// request is one HTTP request of a probe, but for its headers.
type request struct {
	path string
	body []byte

	model   string
	aliases []string        // other names by which the server may call the model in its answer
	words   int             // of its prompt, in the user's message
	dropped map[string]bool // fields that it leaves out because the server refuses them
}

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// droppable are the fields that a probe may leave out by itself once a server has refused them: none of them
// changes the shape of the request. continuous_usage_stats stands for that part of stream_options.
var droppable = []string{"cache_salt", "continuous_usage_stats", "stream_options", "chat_template_kwargs"}

// build makes the request of a workload. The prompt, the salt and the id are new for every probe; dropped are
// the fields that the server refuses.
func (w *Workload) build(model string, p prompt, salt string, dropped map[string]bool) (request, error) {
	body := maps.Clone(w.ExtraBody)
	if body == nil {
		body = map[string]any{}
	}
	body["model"] = model
	body["stream"] = true
	body["stream_options"] = map[string]any{"include_usage": true, "continuous_usage_stats": true}
	body["temperature"] = w.Temperature
	body["seed"] = w.Seed
	body[w.MaxTokensField] = w.OutputTokens
	body["min_tokens"] = w.OutputTokens
	body["ignore_eos"] = true
	body["cache_salt"] = salt
	r := request{path: "/v1/chat/completions"}
	if w.API == Completions {
		r.path = "/v1/completions"
		body["prompt"] = p.text()
	} else {
		body["messages"] = p.messages()
	}
	for field := range dropped {
		delete(body, field)
	}
	if options, ok := body["stream_options"].(map[string]any); ok && dropped["continuous_usage_stats"] {
		delete(options, "continuous_usage_stats")
	}
	for _, field := range w.DropFields {
		delete(body, field)
	}
	var err error
	if r.body, err = json.Marshal(body); err != nil {
		return request{}, fmt.Errorf("workload %q: encoding the request: %w", w.Name, err)
	}
	return r, nil
}

// refusedField finds the field that an error body names as the reason for a refusal: first one that may be
// dropped without being asked, in the order of how little it matters. Any other is the configuration's to change,
// since without it the shape of the probe is another: then advice tells how.
func refusedField(w *Workload, body string, dropped map[string]bool) (drop, advice string) {
	for _, field := range droppable {
		if strings.Contains(body, field) && !dropped[field] && !slices.Contains(w.DropFields, field) {
			return field, ""
		}
	}
	for _, field := range []string{"ignore_eos", "min_tokens", "seed", "temperature"} {
		if strings.Contains(body, field) {
			return "", fmt.Sprintf("if the server cannot take %s, add it to the workload's drop_fields", field)
		}
	}
	for field, other := range map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"} {
		if field == w.MaxTokensField && strings.Contains(body, field) {
			return "", fmt.Sprintf("the workload's max_tokens_field can be %s instead", other)
		}
	}
	return "", ""
}
