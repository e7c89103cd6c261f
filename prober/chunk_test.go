package prober

import (
	"bytes"
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
	add(c.present, "choice")
	add(c.othersChoices, "others")
	add(c.role, "role")
	add(c.blank, "blank")
	add(c.answers && len(c.content) == 0, "answer")
	add(c.reasons && len(c.reasoning) == 0, "thought")
	add(len(c.content) > 0, "content=%s", c.content)
	add(len(c.reasoning) > 0, "reasoning=%s", c.reasoning)
	add(len(c.finish) > 0, "finish=%s", c.finish)
	add(len(c.model) > 0, "model=%s", c.model)
	add(c.present && c.tokenIDs >= 0, "ids=%d", c.tokenIDs)
	add(c.hasUsage, "usage=%d,%d,%d", c.promptTokens, c.completionTokens, c.cachedTokens)
	add(c.reasoningTokens >= 0, "hidden=%d", c.reasoningTokens)
	add(c.badCount, "bad count")
	add(c.err != nil, "error=%s", c.err)
	add(c.err == nil && c.reportsError(), "failed")
	add(c.metrics != nil, "metrics=%s", c.metrics)
	return strings.Join(parts, " ")
}

var chunkCases = []struct{ name, event, want string }{
	{"vLLM role", `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"prompt_text":null}`, "choice role blank model=tiny"},
	{"vLLM content", `{"id":"1","model":"tiny","choices":[{"index":0,"delta":{"content":" wrapper"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`, "choice content= wrapper model=tiny"},
	{"vLLM last", `{"choices":[{"index":0,"delta":{"content":"ra"},"finish_reason":"length","stop_reason":null,"token_ids":[1,2]}]}`, "choice content=ra finish=length ids=2"},
	{"vLLM usage", `{"choices":[],"usage":{"prompt_tokens":24,"total_tokens":36,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":16,"created_cache_tokens":0}},"metrics":{"queue_time_ms":0.1}}`, `usage=24,12,16 metrics={"queue_time_ms":0.1}`},
	{"continuous usage", `{"choices":[{"delta":{"content":""}}],"usage":{"prompt_tokens":24,"completion_tokens":2,"completion_tokens_details":null}}`, "choice blank usage=24,2,-1"},
	{"completions", `{"choices":[{"index":0,"text":"son","logprobs":null,"finish_reason":null}]}`, "choice content=son"},
	{"reasoning", `{"choices":[{"delta":{"reasoning":"hm"}}]}`, "choice reasoning=hm"},
	{"reasoning_content", `{"choices":[{"delta":{"reasoning_content":"hm","content":null}}]}`, "choice reasoning=hm"},
	{"both spellings, one null", `{"choices":[{"delta":{"reasoning":"hm","reasoning_content":null}}]}`, "choice reasoning=hm"},
	{"tool calls", `{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f"}}]}}]}`, "choice answer"},
	{"no tool calls", `{"choices":[{"delta":{"tool_calls":[]}}]}`, "choice"},
	{"role without content", `{"choices":[{"delta":{"role":"assistant","content":null}}]}`, "choice role"},
	{"finish reason of TGI", `{"choices":[{"text":"a","finish_reason":""}]}`, "choice content=a"},
	{"usage null", `{"choices":[{"delta":{"content":"a"}}],"usage":null}`, "choice content=a"},
	{"error object", `{"error": {"message": "x", "code": 500}}`, `error={"message": "x", "code": 500}`},
	{"error string", `{"error":"Input validation error"}`, `error="Input validation error"`},
	{"error null", `{"error":null,"choices":[]}`, ""},
	{"choices null", `{"choices":null}`, ""},
	{"delta null", `{"choices":[{"delta":null}]}`, "choice"},
	{"usage that is none", `{"usage":{"prompt_tokens":"512","completion_tokens":-1}}`, "usage=-1,-1,-1 bad count"},
	{"a count of twenty digits", `{"usage":{"completion_tokens":99999999999999999999}}`, "usage=-1,-1,-1 bad count"},
	{"counts that are null", `{"usage":{"prompt_tokens":null,"completion_tokens":null}}`, "usage=-1,-1,-1"},
	{"reasoning tokens", `{"usage":{"completion_tokens":128,"completion_tokens_details":{"reasoning_tokens":96}}}`, "usage=-1,128,-1 hidden=96"},
	{"reasoning tokens of SGLang", `{"usage":{"completion_tokens":128,"reasoning_tokens":96}}`, "usage=-1,128,-1 hidden=96"},
	{"escaped NUL", `{"choices":[{"delta":{"content":"a\u0000b"}}]}`, `choice content=a\u0000b`},
	{"escaped quotes", `{"choices":[{"delta":{"content":"\"}]\\"}}]}`, `choice content=\"}]\\`},
	{"escaped key", `{"choice\u0073":[{}]}`, "choice"},
	{"invalid UTF-8", "{\"choices\":[{\"delta\":{\"content\":\"bad\xFF\"}}]}", "choice content=bad\xFF"},
	{"a name in the wrong place", `{"x":{"choices":[{}],"error":"e"},"usage":[1]}`, ""},
	{"blanks everywhere", " \t{ \"choices\" : [ { \"delta\" : { \"content\" : \"a\" } } ] \r\n} \n", "choice content=a"},
	{"numbers", `{"a":-0.5e+10,"b":[0,1E5,-1],"usage":{"prompt_tokens":1e2}}`, "usage=-1,-1,-1 bad count"},
	{"empty", `{}`, ""},

	{"content that is a list", `{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}`, "choice answer"},
	{"thinking in the list", `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`, "choice thought"},
	{"thinking by type only", `{"choices":[{"delta":{"content":[{"text":"hm","type":"reasoning"}]}}]}`, "choice thought"},
	{"both in the list", `{"choices":[{"delta":{"content":[{"type":"thinking","thinking":"hm"},"a"]}}]}`, "choice answer thought"},
	{"a list of nothing", `{"choices":[{"delta":{"content":[{"type":"text","text":""}]}}]}`, "choice"},
	{"reasoning_details", `{"choices":[{"delta":{"content":"","reasoning_details":[{"type":"reasoning.text","text":"hm","index":0}]}}]}`, "choice blank thought"},
	{"thinking_blocks", `{"choices":[{"delta":{"thinking_blocks":[{"type":"thinking","thinking":"hm"}]}}]}`, "choice thought"},
	{"function_call", `{"choices":[{"delta":{"function_call":{"arguments":"{"}}}]}`, "choice answer"},
	{"refusal", `{"choices":[{"delta":{"refusal":"no"}}]}`, "choice answer"},
	{"audio", `{"choices":[{"delta":{"audio":{"id":"a","data":"UklG"}}}]}`, "choice answer"},
	{"a member of the future", `{"choices":[{"delta":{"hologram":["x"]}}]}`, "choice answer"},
	{"empty members", `{"choices":[{"delta":{"refusal":null,"audio":{},"tool_calls":[],"annotations":[{}],"reasoning_details":[],"x":"","y":false}}]}`, "choice"},
	{"numbers and labels are no payload", `{"choices":[{"delta":{"index":0,"step":7,"cached":true,"id":"x","type":"delta"}}]}`, "choice"},
	{"a delta that is text", `{"choices":[{"delta":"a"}]}`, "choice content=a"},
	{"text that is null", `{"choices":[{"text":null}]}`, "choice"},
	{"an empty text", `{"choices":[{"text":""}]}`, "choice blank"},
	{"another answer", `{"choices":[{"index":1,"delta":{"content":"b"}}]}`, "others"},
	{"two answers", `{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"},{"delta":{"content":"a"},"index":0}]}`, "choice others content=a"},

	{"error empty", `{"error":"","choices":[]}`, ""},
	{"error of nothing", `{"error":{"code":0,"message":"","param":null,"list":[]}}`, ""},
	{"error false", `{"error":false}`, ""},
	{"error 0", `{"error":0}`, ""},
	{"error true", `{"error":true}`, "error=true"},
	{"error with a code only", `{"error":{"code":500}}`, `error={"code":500}`},
	{"errors", `{"errors":[{"message":"x"}]}`, `error=[{"message":"x"}]`},
	{"error_code", `{"text":"CUDA OOM","error_code":50005}`, "error=50005"},
	{"error_code 0", `{"text":"a","error_code":0}`, ""},
	{"error of a choice", `{"choices":[{"delta":{"content":""},"error":{"message":"x"},"finish_reason":"error"}]}`, `choice blank finish=error error={"message":"x"}`},
	{"error of another choice", `{"choices":[{"index":1,"error":"x"}]}`, `others error="x"`},
	{"error of a delta", `{"choices":[{"delta":{"error":"x"}}]}`, `choice error="x"`},
	{"error of a completion", `{"choices":[{"text":"","error":"x"}]}`, `choice blank error="x"`},
	{"error beside usage", `{"choices":[],"usage":{"completion_tokens":2},"error":{"message":"x"}}`, `usage=-1,2,-1 error={"message":"x"}`},
	{"object error", `{"object":"error","message":"x","type":"InternalServerError","code":500}`, "failed"},
	{"type error", `{"type":"error"}`, "failed"},
	{"code and message", `{"code":500,"message":"x"}`, "failed"},
	{"code as text", `{"code":"503","message":"x"}`, "failed"},
	{"code internal_error", `{"code":"internal_error","message":"x"}`, "failed"},
	{"detail", `{"detail":"Not Found"}`, "failed"},
	{"success false", `{"success":false,"msg":"x"}`, "failed"},
	{"MiniMax's status", `{"choices":[{"finish_reason":"stop"}],"base_resp":{"status_code":1002,"status_msg":"rate limit"}}`, "choice finish=stop failed"},
	{"MiniMax's success", `{"choices":[{"finish_reason":"stop"}],"base_resp":{"status_code":0,"status_msg":"success"}}`, "choice finish=stop"},
	{"code 200", `{"code":200,"message":"ok"}`, ""},
	{"code 0", `{"code":0,"message":"ok"}`, ""},
	{"code beside an answer", `{"code":500,"status":"failing over","choices":[{"delta":{"content":"a"}}]}`, "choice content=a"},
	{"warning", `{"warning":"low on memory"}`, ""},
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

// Every byte, at every place in a text of three words, with and without others after it.
func TestOrdinary(t *testing.T) {
	for b := range 256 {
		for at := range 24 {
			text := bytes.Repeat([]byte{'x'}, 24)
			text[at] = byte(b)
			want := len(text)
			if b == '"' || b == '\\' || b < ' ' {
				want = at
			}
			for _, filler := range []byte{'x', 0x80, 0xff, ' ', '#', '!', ']', '['} {
				for i := range text {
					if i != at {
						text[i] = filler
					}
				}
				if got := ordinary(text); got != want {
					t.Errorf("byte %#x at %d among %#x: %d, want %d", b, at, filler, got, want)
				}
			}
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
		if got.scan.work > 4*len(event)+16 {
			t.Errorf("looked at %d bytes of %d", got.scan.work, len(event))
		}
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
		// encoding/json takes the last of several members of one name; an error may stand in other places as well.
		if strings.Count(strings.ToLower(string(event)), "err") == 1 && !got.hasChoices && bytes.Contains(event, []byte(`"error"`)) {
			if full := says(reference["error"]); full != (got.err != nil) || full && string(reference["error"]) != string(got.err) {
				t.Errorf("error %q, encoding/json %q", got.err, reference["error"])
			}
		}
		var model string
		if json.Unmarshal(reference["model"], &model) == nil && model != unescape(got.model) {
			t.Errorf("model %q, encoding/json %q", unescape(got.model), model)
		}
	})
}

func BenchmarkChunkDecode(b *testing.B) {
	event := []byte(chunkCases[1].event)
	b.Run("a megabyte of text", func(b *testing.B) {
		long := []byte(`{"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("word ", 200_000) + `"}}]}`)
		b.SetBytes(int64(len(long)))
		var c chunk
		for b.Loop() {
			if err := c.decode(long); err != nil {
				b.Fatal(err)
			}
		}
	})
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
