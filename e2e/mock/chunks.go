//go:build linux

package mock

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// api is one of the two ways to ask for a completion.
type api int

const (
	chat api = iota
	completions
)

// events builds the chunks of one stream, in the form of vLLM 0.32. Each is good until the next is built.
type events struct {
	api    api
	id     string
	model  string
	prompt int
	tokens int
	usage  bool // the count of tokens in every event
	size   int  // pad each token's event to so many bytes

	head, data, out []byte
	middle          []byte // a token that is not the last, where all are the same
}

// role is the chunk that opens a chat; nil for completions, which have none.
func (e *events) role() []byte {
	if e.api != chat {
		return nil
	}
	return e.event(`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}`, 0)
}

// token is the i-th token's chunk, from 1.
func (e *events) token(i int) []byte {
	if e.usage || i == e.tokens {
		return e.build(i)
	}
	if e.middle == nil { // what does not change need not be built again
		e.middle = bytes.Clone(e.build(i))
	}
	return e.middle
}

func (e *events) build(i int) []byte {
	event := e.event(e.choice(i, 0), i)
	if short := e.size - len("data: \n\n") - len(e.data); short > 0 {
		return e.event(e.choice(i, short), i)
	}
	return event
}

// choice is what a chunk says of its token, which is a word of five bytes or more.
func (e *events) choice(i, more int) string {
	word := " word" + strings.Repeat("s", more)
	end := `"finish_reason":null,`
	switch last := i == e.tokens; {
	case last:
		end = `"finish_reason":"length","stop_reason":null,`
	case e.api == completions:
		end = `"finish_reason":null,"stop_reason":null,`
	}
	if e.api == completions {
		return `{"index":0,"text":"` + word + `","logprobs":null,` + end + `"prompt_token_ids":null,"token_ids":null}`
	}
	return `{"index":0,"delta":{"content":"` + word + `"},"logprobs":null,` + end + `"token_ids":null}`
}

// last is the chunk that holds the usage alone.
func (e *events) last() []byte {
	return e.frame(fmt.Appendf(nil, `%s],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}}`,
		e.opening(), e.prompt, e.prompt+e.tokens, e.tokens))
}

func (e *events) event(choice string, count int) []byte {
	b := append(e.data[:0], e.opening()...)
	b = append(append(b, choice...), ']')
	if e.usage {
		b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":`...), int64(e.prompt), 10)
		b = strconv.AppendInt(append(b, `,"total_tokens":`...), int64(e.prompt+count), 10)
		b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(count), 10)
		b = append(b, `,"completion_tokens_details":null}`...)
	}
	e.data = append(b, '}')
	return e.frame(e.data)
}

// opening is what all chunks of a stream begin with.
func (e *events) opening() []byte {
	if e.head == nil {
		prefix, object := "chatcmpl-", "chat.completion.chunk"
		if e.api == completions {
			prefix, object = "cmpl-", "text_completion"
		}
		e.head = fmt.Appendf(nil, `{"id":"%s%s","object":%q,"created":1795966996,"model":%q,"choices":[`, prefix, e.id, object, e.model)
	}
	return e.head
}

// frame makes a chunk of the transfer encoding that is one event.
func (e *events) frame(data []byte) []byte {
	b := strconv.AppendInt(e.out[:0], int64(len("data: ")+len(data)+len("\n\n")), 16)
	b = append(b, "\r\ndata: "...)
	e.out = append(append(b, data...), "\n\n\r\n"...)
	return e.out
}
