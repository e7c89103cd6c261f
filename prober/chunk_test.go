package prober

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// seen is a chunk as text, so that a table can be read.
func seen(c *chunk) string {
	var parts []string
	add := func(ok bool, format string, args ...any) {
		if ok {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(c.hasChoice, "choice")
	add(c.role, "role")
	add(c.tools, "tools")
	add(len(c.content) > 0, "content=%s", c.content)
	add(len(c.reasoning) > 0, "reasoning=%s", c.reasoning)
	add(len(c.finish) > 0, "finish=%s", c.finish)
	add(len(c.model) > 0, "model=%s", c.model)
	add(c.tokenIDs >= 0, "ids=%d", c.tokenIDs)
	add(c.hasUsage, "usage=%d,%d,%d", c.promptTokens, c.completionTokens, c.cachedTokens)
	add(c.err != nil, "error=%s", c.err)
	add(c.metrics != nil, "metrics=%s", c.metrics)
	return strings.Join(parts, " ")
}

var chunkCases = []struct{ name, event, want string }{
	{"vLLM role", `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`, "choice role model=tiny"},
	{"vLLM content", `{"id":"1","model":"tiny","choices":[{"index":0,"delta":{"content":" wrapper"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`, "choice content= wrapper model=tiny"},
	{"vLLM last", `{"choices":[{"index":0,"delta":{"content":"ra"},"finish_reason":"length","stop_reason":null,"token_ids":[1,2]}]}`, "choice content=ra finish=length ids=2"},
	{"vLLM usage", `{"choices":[],"usage":{"prompt_tokens":24,"total_tokens":36,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":16,"created_cache_tokens":0}},"metrics":{"queue_time_ms":0.1}}`, `usage=24,12,16 metrics={"queue_time_ms":0.1}`},
	{"continuous usage", `{"choices":[{"delta":{"content":""}}],"usage":{"prompt_tokens":24,"completion_tokens":2,"completion_tokens_details":null}}`, "choice usage=24,2,-1"},
	{"completions", `{"choices":[{"index":0,"text":"son","logprobs":null,"finish_reason":null}]}`, "choice content=son"},
	{"reasoning", `{"choices":[{"delta":{"reasoning":"hm"}}]}`, "choice reasoning=hm"},
	{"reasoning_content", `{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}`, "choice reasoning=hm"},
	{"both spellings, one null", `{"choices":[{"delta":{"reasoning":"hm","reasoning_content":null}}]}`, "choice reasoning=hm"},
	{"tool calls", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}`, "choice tools"},
	{"no tool calls", `{"choices":[{"delta":{"tool_calls":[]}}]}`, "choice"},
	{"role without content", `{"choices":[{"delta":{"role":"assistant","content":null}}]}`, "choice role"},
	{"finish reason of TGI", `{"choices":[{"text":"a","finish_reason":""}]}`, "choice content=a"},
	{"usage null", `{"choices":[{"delta":{"content":"a"}}],"usage":null}`, "choice content=a"},
	{"error object", `{"error": {"message": "x", "code": 500}}`, `error={"message": "x", "code": 500}`},
	{"error string", `{"error":"Input validation error"}`, `error="Input validation error"`},
	{"error null", `{"error":null,"choices":[]}`, ""},
	{"choices null", `{"choices":null}`, ""},
	{"delta null", `{"choices":[{"delta":null}]}`, "choice"},
	{"usage that is none", `{"usage":{"prompt_tokens":"512","completion_tokens":-1}}`, "usage=-1,-1,-1"},
	{"escaped NUL", `{"choices":[{"delta":{"content":"a\u0000b"}}]}`, `choice content=a\u0000b`},
	{"escaped quotes", `{"choices":[{"delta":{"content":"\"}]\\"}}]}`, `choice content=\"}]\\`},
	{"escaped key", `{"choice\u0073":[{}]}`, "choice"},
	{"invalid UTF-8", "{\"choices\":[{\"delta\":{\"content\":\"bad\xFF\"}}]}", "choice content=bad\xFF"},
	{"a name in the wrong place", `{"x":{"choices":[{}],"error":"e"},"usage":[1]}`, ""},
	{"blanks everywhere", " \t{ \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } } ] \r\n} \n", "choice content=a"},
	{"numbers", `{"a":-0.5e+10,"b":[0,1E5,-1],"usage":{"prompt_tokens":1e2}}`, "usage=-1,-1,-1"},
	{"empty", `{}`, ""},
}

func TestChunkDecode(t *testing.T) {
	for _, c := range chunkCases {
		t.Run(c.name, func(t *testing.T) {
			var got chunk
			if err := got.decode([]byte(c.event)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, seen(&got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestChunkDecodeRefusesWhatIsNotAJSONObject(t *testing.T) {
	for _, event := range []string{
		"", "128", "[1]", `"a"`, "null", "{", "}", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{a:1}`, `{'a':1}`,
		`{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"a":.5}`, `{"a":1e}`, `{"a":-}`, `{"a":nul}`, `{"a":NaN}`, `{"a":tru}`,
		`{"a":"b}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\u12`, "{\"a\":\"raw\x00\"}", "{\"a\":\"\n\"}",
		`{"a":[1,]}`, `{"a":[1 2]}`, `{}x`, `{}{}`, "data: {}", "<html>",
	} {
		var c chunk
		if err := c.decode([]byte(event)); !errors.Is(err, errMalformed) {
			t.Errorf("%q: error %v", event, err)
		}
	}
}

func TestChunkDecodeAllocatesNothing(t *testing.T) {
	for _, c := range chunkCases {
		if c.name == "escaped key" {
			continue
		}
		event := []byte(c.event)
		var got chunk
		if n := testing.AllocsPerRun(100, func() {
			if err := got.decode(event); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func TestSameCharacter(t *testing.T) {
	for raw, want := range map[string]string{
		"////": "/", "ab": "", "aab": "", "ééé": "é", "éèé": "", `\n\n`: `\n`, `\n\t`: "", `\u0041\u0041`: `\u0041`, `\u0041\u0042`: "", "  ": " ", "/": "/",
	} {
		first, same := sameCharacter([]byte(raw))
		if got := string(first); same != (want != "") || same && got != want {
			t.Errorf("%q: %q %v", raw, got, same)
		}
	}
}

// FuzzChunkDecode holds the scanner against encoding/json: it accepts the same texts and finds the same values.
func FuzzChunkDecode(f *testing.F) {
	for _, c := range chunkCases {
		f.Add([]byte(c.event))
	}
	f.Fuzz(func(t *testing.T, event []byte) {
		var got chunk
		err := got.decode(event)
		var reference map[string]json.RawMessage
		referenceErr := json.Unmarshal(event, &reference)
		if reference == nil && referenceErr == nil {
			referenceErr = errors.New("null is no object")
		}
		if (err == nil) != (referenceErr == nil) {
			t.Fatalf("ours %v, encoding/json %v", err, referenceErr)
		}
		if err != nil {
			return
		}
		wantError := reference["error"]
		if string(wantError) == "null" {
			wantError = nil
		}
		if strings.TrimSpace(string(wantError)) != strings.TrimSpace(string(got.err)) {
			t.Errorf("error %q, encoding/json %q", got.err, wantError)
		}
		var model string
		if json.Unmarshal(reference["model"], &model) == nil && model != unescape(got.model) {
			t.Errorf("model %q, encoding/json %q", unescape(got.model), model)
		}
	})
}

func BenchmarkChunkDecode(b *testing.B) {
	event := []byte(chunkCases[1].event)
	b.Run("scanner", func(b *testing.B) {
		b.ReportAllocs()
		var c chunk
		for b.Loop() {
			if err := c.decode(event); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var c struct {
				Choices []struct {
					Delta        struct{ Content string }
					FinishReason string `json:"finish_reason"`
				}
			}
			if err := json.Unmarshal(event, &c); err != nil {
				b.Fatal(err)
			}
		}
	})
}
