package prober

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// request is one HTTP request of a probe, but for its headers.
type request struct {
	path string // below that of the API
	body []byte

	model   string
	aliases []string // other names under which the server may answer for the same model
	words   int      // of its prompt, in the user's message
	from    requestSpec
}

// message is one message of a chat.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Fields that a probe adds to a request by itself.
const (
	fieldCacheSalt       = "cache_salt"
	fieldContinuousUsage = "continuous_usage_stats" // stands for that part of stream_options
	fieldStreamOptions   = "stream_options"
	fieldTemplate        = "chat_template_kwargs"
)

// droppable are the fields that a probe may leave out by itself once a server has refused them, in the order of how
// little they matter. Only the last changes the shape of a probe: without it a model that can think does.
var droppable = []string{fieldCacheSalt, fieldContinuousUsage, fieldStreamOptions, fieldTemplate}

// firmFields are those without which the probe would be another. Leaving them out is the configuration's to decide.
var firmFields = []string{"ignore_eos", "min_tokens", "seed", "temperature"}

// optional lists the fields that a request of the workload holds and may do without.
func (w *Workload) optional() []string {
	var fields []string
	for _, field := range droppable {
		outer := field
		if field == fieldContinuousUsage {
			outer = fieldStreamOptions
		}
		if !slices.Contains(w.DropFields, outer) && (field != fieldTemplate || w.defaultTemplate()) {
			fields = append(fields, field)
		}
	}
	return fields
}

// defaultTemplate reports whether the workload sends the chat_template_kwargs that every chat workload has that sets
// none. What somebody wrote instead is sent as it is.
func (w *Workload) defaultTemplate() bool {
	return reflect.DeepEqual(w.ExtraBody[fieldTemplate], map[string]any{"enable_thinking": false})
}

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
	r := request{path: "/chat/completions"}
	if w.API == Completions {
		r.path = "/completions"
		body["prompt"] = p.text()
	} else {
		body["messages"] = p.messages()
	}
	for field := range dropped {
		if field != fieldTemplate || w.defaultTemplate() {
			delete(body, field)
		}
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

// refusedField finds the field that an error body names as the reason for a refusal: first one of those that may be
// dropped without being asked. Any other is the configuration's to change, since without it the shape of the probe
// is another: then advice tells how.
func refusedField(w *Workload, body string, mayDrop []string) (drop, advice string) {
	named := namedFields(body, slices.Concat(droppable, firmFields, []string{"max_tokens", "max_completion_tokens"}))
	for _, field := range mayDrop {
		if named[field] {
			return field, ""
		}
	}
	for _, field := range firmFields {
		if named[field] && !slices.Contains(w.DropFields, field) {
			return "", fmt.Sprintf("if the server cannot take %s, add it to the workload's drop_fields", field)
		}
	}
	if _, set := w.ExtraBody[fieldTemplate]; set && named[fieldTemplate] && !w.defaultTemplate() {
		return "", "the workload's extra_body sets chat_template_kwargs"
	}
	if named[w.MaxTokensField] {
		other := map[string]string{"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}[w.MaxTokensField]
		return "", fmt.Sprintf("the workload's max_tokens_field can be %s instead", other)
	}
	return "", ""
}
