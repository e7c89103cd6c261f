package vllmsim

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// maxBody is the largest request that is read; vLLM has no limit of its own.
const maxBody = 64 << 20

// maxInteger bounds the numbers of a request; vLLM's are Python's and have no bound.
const maxInteger = 1 << 53

// message is one turn of a conversation.
type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a string, or a list of parts of which the texts count.
type content string

// UnmarshalJSON implements [json.Unmarshaler].
func (c *content) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*string)(c)) == nil {
		return nil
	}
	var parts []struct{ Text string }
	if err := json.Unmarshal(data, &parts); err != nil {
		return fmt.Errorf("message content is neither text nor parts: %w", err)
	}
	for _, p := range parts {
		*c += content(p.Text)
	}
	return nil
}

// body is a request body that is read field by field, so that all mistakes are told at once.
type body struct {
	fields   map[string]json.RawMessage
	problems []problem
}

// problem is one line of a validation error, which vLLM prints as a Python dict.
type problem struct{ kind, loc, msg, input string }

func (p problem) String() string {
	return fmt.Sprintf("  {'type': '%s', 'loc': '%s', 'msg': '%s', 'input': '%s'}", p.kind, p.loc, p.msg, p.input)
}

func readBody(r *http.Request) (*body, *apiError) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return nil, validationError("", "  Unsupported Media Type: Only 'application/json' is allowed")
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		return nil, badRequest("", "reading the request: %v", err)
	}
	b := &body{}
	if err := json.Unmarshal(data, &b.fields); err != nil || b.fields == nil {
		return nil, validationError("body", problem{"json_invalid", "body", "JSON decode error", "<dict of 0 items>"}.String())
	}
	return b, nil
}

// validationError is how the framework below vLLM refuses a request.
func validationError(param string, lines ...string) *apiError {
	plural := "s"
	if len(lines) == 1 {
		plural = ""
	}
	e := badRequest(param, "%d validation error%s:\n%s", len(lines), plural, strings.Join(lines, "\n"))
	e.Type = "Bad Request"
	return e
}

// err tells all problems, or nil.
func (b *body) err() *apiError {
	if len(b.problems) == 0 {
		return nil
	}
	lines := make([]string, len(b.problems))
	for i, p := range b.problems {
		lines[i] = p.String()
	}
	return validationError(b.problems[0].loc, lines...)
}

func (b *body) has(name string) bool {
	raw, ok := b.fields[name]
	return ok && string(raw) != "null"
}

// text is a field's value as the messages quote it.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

func (b *body) fail(name, kind, msg string) {
	b.problems = append(b.problems, problem{kind, "body." + name, msg, text(b.fields[name])})
}

func (b *body) number(name string, fallback float64) float64 {
	if !b.has(name) {
		return fallback
	}
	v, err := strconv.ParseFloat(text(b.fields[name]), 64)
	if err != nil {
		b.fail(name, "float_parsing", "Input should be a valid number, unable to parse string as a number")
	}
	return v
}

func (b *body) integer(name string, fallback int) int {
	if !b.has(name) {
		return fallback
	}
	v, err := strconv.ParseFloat(text(b.fields[name]), 64)
	switch {
	case err != nil:
		b.fail(name, "int_parsing", "Input should be a valid integer, unable to parse string as an integer")
	case v != math.Trunc(v):
		b.fail(name, "int_from_float", "Input should be a valid integer, got a number with a fractional part")
	case math.Abs(v) > maxInteger:
		b.fail(name, "int_parsing_size", "Unable to parse input string as an integer, exceeded maximum size")
		return fallback
	}
	return int(v)
}

func (b *body) boolean(name string) bool {
	if !b.has(name) {
		return false
	}
	v, err := strconv.ParseBool(text(b.fields[name]))
	if err != nil {
		b.fail(name, "bool_parsing", "Input should be a valid boolean, unable to interpret input")
	}
	return v
}

// decode reads a field of any other shape.
func (b *body) decode(name string, v any) {
	if b.has(name) && json.Unmarshal(b.fields[name], v) != nil {
		b.fail(name, "type_error", "Input should be of the documented type")
	}
}

// completionRequest is what chat and plain completions have in common.
type completionRequest struct {
	model          string
	maxTokens      int    // -1: not given
	maxTokensField string // that says so
	minTokens      int
	stream         bool
	streamOptions  *streamOptions
	streamInterval int // tokens a chunk
	returnTokenIDs bool
	cacheSalt      string
	requestID      string
	n              int
}

type streamOptions struct {
	IncludeUsage         bool `json:"include_usage"`
	ContinuousUsageStats bool `json:"continuous_usage_stats"`
}

// completion reads a request, given the fields that limit its answer.
func (b *body) completion(limits []string) (completionRequest, *apiError) {
	r := completionRequest{
		maxTokens:      -1,
		minTokens:      b.integer("min_tokens", 0),
		stream:         b.boolean("stream"),
		streamInterval: b.integer("stream_interval", 1),
		returnTokenIDs: b.boolean("return_token_ids"),
		n:              b.integer("n", 1),
	}
	for _, field := range limits {
		if b.has(field) {
			r.maxTokens, r.maxTokensField = b.integer(field, -1), field
		}
	}
	temperature := b.number("temperature", 1)
	b.integer("seed", 0)
	b.boolean("ignore_eos")
	b.decode("model", &r.model)
	b.decode("cache_salt", &r.cacheSalt)
	b.decode("request_id", &r.requestID)
	b.decode("stream_options", &r.streamOptions)
	switch {
	case len(b.problems) > 0:
		return r, b.err()
	case r.streamOptions != nil && !r.stream:
		return r, badRequest("stream_options", "Stream options can only be defined when `stream=True`. (parameter=stream_options)")
	case b.has("cache_salt") && r.cacheSalt == "":
		return r, badRequest("cache_salt", "Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)")
	case temperature < 0:
		return r, badRequest("temperature", "temperature must be non-negative, got %s. (parameter=temperature, value=%[1]s)", pythonFloat(temperature))
	case r.n != 1:
		return r, badRequest("n", "the simulator gives one answer, not n=%d", r.n)
	}
	return r, nil
}

// limit checks the lengths once the prompt is known, and fills in the length of the answer.
func (r *completionRequest) limit(prompt, maxModelLen int) *apiError {
	switch {
	case r.maxTokensField != "" && r.maxTokens < 1:
		return badRequest("max_tokens", "max_tokens must be at least 1, got %d. (parameter=max_tokens, value=%[1]d)", r.maxTokens)
	case r.maxTokens > maxModelLen:
		return badRequest(r.maxTokensField, "%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens. (parameter=%[1]s, value=%[2]d)", r.maxTokensField, r.maxTokens, maxModelLen)
	case prompt >= maxModelLen:
		return badRequest("input_tokens", "This model's maximum context length is %d tokens. However, your prompt contains %d input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=%[2]d)", maxModelLen, prompt)
	case r.maxTokens > 0 && r.minTokens > r.maxTokens:
		return badRequest("", "min_tokens must be less than or equal to max_tokens=%d, got %d.", r.maxTokens, r.minTokens)
	}
	if r.maxTokens < 0 {
		r.maxTokens = maxModelLen - prompt
	}
	return nil
}
