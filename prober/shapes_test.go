package prober

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The tables below hold streams of gateways, of old and of broken servers. Most come from public reports; their
// siblings are shapes that the same code would have taken for the same thing.

// two are two tokens, 20 ms apart.
const two = script("<<+20ms>>{C:a}<<+20ms>>{C:b}")

// event is a data line with some JSON.
func event(json string) script { return script("data: " + json + "\n\n") }

// after is what comes after two tokens, whatever it is.
func after(text string) script { return two + script(text) }

// errorCases: an error fails the probe in whatever shape it comes, and is told in the server's words.
var errorCases = []streamCase{
	{source: "vLLM before 0.10, FastChat", what: "object error", script: two + event(`{"object":"error","message":"KV load failed","type":"InternalServerError","code":500}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "inside the stream: KV load failed"},
	{source: "FastChat's worker", what: "error_code", script: two + event(`{"text":"CUDA out of memory","error_code":50002}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "CUDA out of memory"},
	{source: "ggml-org/llama.cpp#16109", what: "a field named error", script: after("error: {\"code\":500,\"message\":\"context shift is disabled\"}\n\n{DONE}"), want: "server_error tokens=2/chunks", err: "context shift is disabled"},
	{source: "ggml-org/llama.cpp#16109", what: "a field named error, CRLF, without an end", script: after("error:{\"message\":\"shift\"}\r\n<<CUT>>"), want: "server_error tokens=2/chunks", err: "shift"},
	{source: "ggml-org/llama.cpp#16109", what: "a field named error within an event", script: after("data: {\"choices\":[]}\nerror: boom\n\n{DONE}"), want: "server_error tokens=2/chunks", err: "boom"},
	{source: "ggml-org/llama.cpp#16109", what: "a field named error that is empty", script: after("error: null\n\n{FIN:length}{DONE}"), want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks"},
	{source: "ggml-org/llama.cpp#16109", what: "a line of JSON", script: after("{\"error\":{\"message\":\"boom\"}}\n\n{DONE}"), want: "server_error tokens=2/chunks", err: "boom"},
	{source: "ggml-org/llama.cpp#16109", what: "JSON over several lines", script: after("{\n  \"error\": {\n    \"message\": \"boom\"\n  }\n}\n<<END>>"), want: "server_error tokens=2/chunks", err: "stream: boom"},
	{source: "genkit-ai/genkit#6259", what: "an error of the choice", script: two + event(`{"choices":[{"index":0,"delta":{},"error":{"message":"upstream died","code":502},"finish_reason":"error"}]}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "upstream died"},
	{source: "genkit-ai/genkit#6259", what: "an error of a completion's choice", script: two + event(`{"choices":[{"index":0,"text":"","error":"upstream died"}]}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "upstream died"},
	{source: "OpenAI SDKs", what: "a list of errors", script: two + event(`{"errors":[{"message":"boom"}]}`), want: "server_error tokens=2/chunks", err: "boom"},
	{source: "API gateways", what: "code and message", script: two + event(`{"code":500,"message":"boom"}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "boom"},
	{source: "MiniMax", what: "a status beside stop", script: two + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"base_resp":{"status_code":1013,"status_msg":"boom"}}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "boom"},
	{source: "API gateways", what: "a code only", script: two + event(`{"error":{"code":500}}`) + "{DONE}", want: "server_error tokens=2/chunks", err: `{"code":500}`},
	{source: "FastAPI", what: "detail", script: two + event(`{"detail":"Internal Server Error"}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "Internal Server Error"},
	{source: "Anthropic", what: "type error", script: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", want: "server_error tokens=0/chunks", err: "stream: Overloaded"},
	{source: "OpenAI's Responses", what: "an event that failed", script: after("event: response.failed\ndata: {\"message\":\"boom\"}\n\n{DONE}"), want: "server_error tokens=2/chunks", err: "boom"},
	{source: "triton-inference-server/perf_analyzer#440", what: "an event named error that is no JSON", script: after("event: error\r\ndata: engine dead\r\n\r\n{DONE}"), want: "server_error tokens=2/chunks", err: "engine dead"},
	{source: "triton-inference-server/perf_analyzer#440", what: "an event named error without data", script: after("event: error\n\n{DONE}"), want: "server_error tokens=2/chunks", err: `(an event named "error" without words)`},
	{source: "ai-dynamo/dynamo", what: "the comment of an event named error", script: after("event: error\n: \"worker lost\"\n\n{DONE}"), want: "server_error tokens=2/chunks", err: "worker lost"},
	{source: "OpenRouter", what: "an error beside usage", script: two + event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":2},"error":{"message":"boom"}}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "boom"},
	{source: "vllm-project/vllm#57519", what: "an error after finish_reason", script: two + "{FIN:length}" + event(`{"error":{"message":"boom"}}`) + "{DONE}", want: "server_error tokens=2/chunks", err: "boom"},
	{source: "vllm-project/vllm#57519", what: "an error in the last event, which has no end", script: after("data: {\"error\":{\"message\":\"boom\"}}\n<<END>>"), want: "server_error tokens=2/chunks", err: "boom"},
	{source: "the SSE standard", what: "the default name with half an object", script: after("event: message\ndata: {\"choices\":[{\"del\n\n{DONE}"), want: "malformed tokens=2/chunks", err: `invalid JSON at byte 17 of the event: {"choices":[{"del`},
	{source: "the SSE standard", what: "the default name with a chunk", script: after("event: message\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}\n\n{DONE}"), want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks"},
	{source: "Oaklight/llm-rosetta#454", what: "empty errors", script: script(strings.Join(each(`data: {"error":%s,"choices":[{"index":0,"delta":{"content":"t%[1]s"},"error":%[1]s}]}`+"\n\n", `null`, `{}`, `false`, `[]`, `0`), "<<+20ms>>")) + "{FIN:length}{DONE}", want: "ok ttft=0s gaps=[4×20ms] tpot=20ms duration=80ms tokens=5/chunks"},
	{source: "Oaklight/llm-rosetta#454", what: "empty errors that are text", script: event(`{"error":"","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}]}`) + "{DONE}", want: "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks"},
	{source: "API gateways", what: "an error of another name", script: two + event(`{"api_error":{"message":"boom"}}`) + "{FIN:length}{DONE}", want: "server_error tokens=2/chunks", err: "boom"},
	{source: "API gateways", what: "an event named as a server that gave up", script: after("event: cancelled\ndata: {}\n\n{FIN:length}{DONE}"), want: "server_error tokens=2/chunks", err: `(an event named "cancelled" without words)`},
	{source: "API gateways", what: "an event named abort, with words", script: after("event: abort\ndata: {\"reason\":\"scaled down\"}\n\n{FIN:length}{DONE}"), want: "server_error tokens=2/chunks", err: "scaled down"},
	{source: "Oaklight/llm-rosetta#454", what: "words for no error", script: script(strings.Join(each(`data: {"error":%s,"error_code":"0","choices":[{"index":0,"delta":{"content":"ab"}}]}`+"\n\n", `"none"`, `"null"`, `{"code":"0","message":"Success"}`, `"OK"`, `"False"`), "<<+20ms>>")) + "error: none\n\n{FIN:length}{DONE}", want: "ok ttft=0s gaps=[4×20ms] tpot=20ms duration=80ms tokens=5/chunks"},
	{source: "Oaklight/llm-rosetta#454", what: "a rate of errors", script: event(`{"error_rate":0.01,"choices":[{"index":0,"delta":{"content":"ab"},"finish_reason":"length"}]}`) + "{DONE}", want: "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks"},
	{source: "API gateways", what: "a message beside an empty list of choices", script: two + event(`{"choices":[],"message":"engine is shutting down"}`) + "{DONE}", want: "truncated tokens=2/chunks", err: `the stream held: {"choices":[],"message":"engine is shutting down"}`},
	{source: "langwatch/langwatch#7421", what: "a warning", script: two + event(`{"warning":"slow"}`) + "{FIN:length}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks"},
	{source: "langwatch/langwatch#7421", what: "annotations", script: after("event: request_id\n: 17\n\nevent: note\ndata: hello\n\n{FIN:length}{DONE}"), want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks"},
	{source: "langwatch/langwatch#7421", what: "a warning, and then no end", script: two + event(`{"warning":"slow"}`) + "{DONE}", want: "truncated tokens=2/chunks", err: `without finish_reason, after 2 of 128 tokens; beside the answer the stream held: {"warning":"slow"}`},
	{source: "proxies", what: "words that nobody asked for, and then no end", script: after("upstream went away\n\nevent: note\ndata: bye\n\n<<END>>"), want: "truncated tokens=2/chunks", err: "beside the answer the stream held: upstream went away … bye"},
	{source: "proxies", what: "a message, then a reset", script: two + event(`{"message":"drained"}`) + "<<RST>>", want: "conn_reset tokens=2/chunks", err: `the stream held: {"message":"drained"}`},
}

// each formats every value.
func each(format string, values ...string) (texts []string) {
	for _, v := range values {
		texts = append(texts, fmt.Sprintf(format, v))
	}
	return texts
}

// endingCases: what completes an answer, and what does not.
var endingCases = []streamCase{
	{source: "can1357/oh-my-pi#9433, openclaw/openclaw#4300", what: "[DONE] proves nothing", script: two + two + "{DONE}", want: "truncated tokens=4/chunks", err: "[DONE] but without finish_reason, after 4 of 128 tokens"},
	{source: "openclaw/openclaw#4300", what: "[DONE] and a count of less", script: two + "{USAGE:512,127}{DONE}", want: "truncated tokens=127/usage", err: "after 127 of 128 tokens"},
	{source: "openclaw/openclaw#4300", what: "[DONE] and a count of all", script: two + "{USAGE:512,128}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512"},
	{source: "openclaw/openclaw#4300", what: "a count of all, but no [DONE]", script: two + "{USAGE:512,128}", want: "truncated tokens=128/usage"},
	{source: "openclaw/openclaw#4300", what: "[DONE] and a count that cannot be", script: two + "{USAGE:512,999999}{DONE}", want: "truncated tokens=2/chunks"},
	{source: "vllm-project/vllm#57082", what: "abort", script: two + "{FIN:abort}{DONE}", want: "server_error tokens=2/chunks", err: `finish_reason "abort"`},
	{source: "vllm-project/vllm#57082", what: "abort and a count", script: two + "{FIN:abort}{USAGE:512,128}{DONE}", want: "server_error tokens=2/chunks", err: `finish_reason "abort"`},
	{source: "vllm-project/vllm#57082", what: "abort after a good one", script: two + "{FIN:length}{FIN:abort}{DONE}", want: "server_error tokens=2/chunks", err: `finish_reason "abort"`},
	{source: "gateways", what: "error", script: two + "{FIN:error}{DONE}", want: "server_error tokens=2/chunks", err: `finish_reason "error"`},
	{source: "gateways", what: "cancelled", script: two + "{FIN:CANCELLED}{DONE}", want: "server_error tokens=2/chunks", err: `finish_reason "CANCELLED"`},
	{source: "DeepSeek", what: "insufficient_system_resource", script: two + "{FIN:insufficient_system_resource}{DONE}", want: "server_error tokens=2/chunks", err: "insufficient_system_resource"},
	{source: "LMDeploy", what: "parse_error", script: two + "{FIN:parse_error}{DONE}", want: "server_error tokens=2/chunks", err: "parse_error"},
	{source: "PowerShell/AIShell#350", what: "the word null", script: null(5) + "<<CUT>>", want: "truncated tokens=5/chunks"},
	{source: "PowerShell/AIShell#350", what: "the word null, then [DONE]", script: null(5) + "{DONE}", want: "truncated tokens=5/chunks"},
	{source: "PowerShell/AIShell#350", what: "the word null, then a pause", script: null(5) + "<<+6500ms>>{C:f}{FIN:stop}{USAGE:512,128}{DONE}", want: "ok ttft=20ms gaps=[4×20ms 6.5s] tpot=51.811023ms duration=6.6s tokens=128/usage prompt=512"},
	{source: "TGI", what: "eos_token", script: two + "{FIN:eos_token}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks suspect=short_output"},
	{source: "Gemini behind a gateway", what: "capitals", script: two + "{FIN:MAX_TOKENS}{USAGE:512,128}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512"},
	{source: "SGLang", what: "an object that aborts", script: two + event(`{"choices":[{"index":0,"delta":{},"finish_reason":{"type":"abort","message":"Aborted"}}]}`) + "{DONE}", want: "server_error tokens=2/chunks", err: `finish_reason "abort"`},
	{source: "SGLang", what: "an object that ends", script: two + event(`{"choices":[{"index":0,"delta":{},"finish_reason":{"type":"length","length":2}}]}`) + "{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks"},
	{source: "watsonx", what: "not_finished on every chunk", script: script(strings.ReplaceAll(string(null(5)), `"null"`, `"not_finished"`)) + "<<+6500ms>>{C:f}{FIN:max_tokens}{DONE}", want: "ok ttft=20ms gaps=[4×20ms 6.5s] tpot=1.316s duration=6.6s tokens=6/chunks"},
	{source: "nobody yet", what: "an unknown word and all tokens", script: two + "{FIN:contented}{USAGE:512,128}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 suspect=finish_reason"},
	{source: "nobody yet", what: "an unknown word and all events", script: script(strings.Repeat("<<+1ms>>{C:ab}", 128)) + "{FIN:contented}{DONE}", want: "ok ttft=1ms gaps=[127×1ms] tpot=1ms duration=128ms tokens=128/chunks suspect=finish_reason"},
	{source: "nobody yet", what: "an unknown word and too little", script: two + "{FIN:contented}{DONE}", want: "truncated tokens=2/chunks", err: `finish_reason "contented", which does not say that the answer is complete, after 2 of 128 tokens`},
	{source: "a hostile server", what: "a word of 100 kB", script: two + script("{FIN:"+strings.Repeat("abort", 20_000)+"}{DONE}"), want: "truncated tokens=2/chunks", err: `finish_reason "abortabort`},
	{source: "OpenAI", what: "content_filter and too little", script: two + "{FIN:content_filter}{DONE}", want: "truncated tokens=2/chunks", err: "content_filter"},
	{source: "nobody yet", what: "a good one, then a reset", script: two + "{FIN:stop}<<RST>>", want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks suspect=short_output,no_done"},
	{source: "proxies", what: "only [DONE]", script: "{DONE}", want: "empty_output tokens=0/chunks"},
}

// null are tokens whose finish_reason is the word null.
func null(n int) script {
	return script(strings.Repeat("<<+20ms>>"+`data: {"choices":[{"index":0,"delta":{"content":"ab"},"finish_reason":"null"}]}`+"\n\n", n))
}

// tokenCases: what is a token, and when it came.
var tokenCases = []streamCase{
	{
		source: "BerriAI/litellm#28735, ARahim3/mlx-dspark#37", what: "usage beside an empty delta, late",
		script: script(strings.Repeat("<<+10ms>>{C:ab}", 32)) + "{FIN:length}<<+600ms>>" + event(`{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":512,"completion_tokens":32}}`) + "{DONE}",
		want:   "ok ttft=10ms gaps=[31×10ms] tpot=10ms duration=320ms tokens=32/usage prompt=512 suspect=short_output",
	},
	{
		source: "BerriAI/litellm#28735", what: "usage beside an empty text, late",
		script: script(strings.Repeat("<<+10ms>>{C:ab}", 32)) + "{FIN:length}<<+600ms>>" + event(`{"choices":[{"index":0,"text":""}],"usage":{"prompt_tokens":512,"completion_tokens":32}}`) + "{DONE}",
		want:   "ok ttft=10ms gaps=[31×10ms] tpot=10ms duration=320ms tokens=32/usage prompt=512 suspect=short_output",
	},
	{
		source: "BerriAI/litellm#28735", what: "usage beside the finish_reason",
		script: script(strings.Repeat("<<+10ms>>{C:ab}", 32)) + "<<+600ms>>" + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":512,"completion_tokens":32}}`) + "{DONE}",
		want:   "ok ttft=10ms gaps=[31×10ms] tpot=10ms duration=320ms tokens=32/usage prompt=512 suspect=short_output",
	},
	{
		source: "BerriAI/litellm#28735", what: "usage beside an empty delta before the finish_reason",
		script: script(strings.Repeat("<<+10ms>>{C:ab}", 32)) + "<<+600ms>>" + event(`{"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":512,"completion_tokens":32}}`) + "{FIN:length}{DONE}",
		want:   "ok ttft=10ms gaps=[31×10ms] tpot=10ms duration=320ms tokens=32/usage prompt=512 suspect=short_output",
	},
	{
		source: "BerriAI/litellm#28735", what: "empty deltas after the finish_reason",
		script: two + "{FIN:length}" + script(strings.Repeat("<<+10ms>>{C:}", 3)) + "{USAGE:512,2}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		source: "Perplexity, OpenRouter, LiteLLM", what: "what is beside an answer, after the finish_reason",
		script: two + "{FIN:length}" + script(strings.Join(each("<<+200ms>>data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\",%s}}]}\n\n",
			`"annotations":[{"type":"url_citation","url":"http://x"}]`, `"citations":["http://x"]`, `"provider_specific_fields":{"trace":"abc"}`), "")) + "{USAGE:512,2}{DONE}",
		want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		source: "Perplexity, OpenRouter, LiteLLM", what: "what is beside an answer, with the finish_reason",
		script: two + "<<+200ms>>" + event(`{"choices":[{"index":0,"delta":{"content":"","citations":["http://x"]},"finish_reason":"length"}]}`) + "{USAGE:512,2}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		source: "Gemini behind a gateway", what: "a call of a tool with the finish_reason",
		script: two + "<<+200ms>>" + event(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`) + "{USAGE:512,3}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms 200ms] tpot=110ms duration=240ms tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		source: "MiniMax", what: "the name of who answers",
		script: event(`{"choices":[{"index":0,"delta":{"role":"assistant","name":"MiniMax AI","content":""}}]}`) + two +
			"<<+200ms>>" + event(`{"choices":[{"index":0,"delta":{"content":"","name":"MiniMax AI"},"finish_reason":"length"}]}`) + "{USAGE:512,2}{DONE}",
		want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		source: "BerriAI/litellm#28735", what: "text after the finish_reason",
		script: two + "{FIN:length}<<+10ms>>{C:c}{USAGE:512,3}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms 10ms] tpot=15ms duration=50ms tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		source: "BerriAI/litellm#16272, symfony/ai#2422", what: "a content of parts",
		script: script(strings.Repeat("<<+10ms>>"+string(event(`{"choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}}]}`)), 20)) +
			script(strings.Repeat("<<+10ms>>{C:ab}", 12)) + "{FIN:length}{USAGE:512,32}{DONE}",
		want: "ok ttft=10ms answer=210ms gaps=[31×10ms] tpot=10ms duration=320ms tokens=32/usage prompt=512 suspect=short_output",
	},
	{
		source: "OpenRouter", what: "reasoning_details",
		script: script(strings.Repeat("<<+10ms>>"+string(event(`{"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_details":[{"type":"reasoning.text","text":"hm"}]}}]}`)), 2)) + "<<+10ms>>{C:ab}{FIN:length}{DONE}",
		want:   "ok ttft=10ms answer=30ms gaps=[2×10ms] tpot=10ms duration=30ms tokens=3/chunks",
	},
	{
		source: "awslabs/llmeter#99", what: "reasoning that was never streamed",
		script: "<<+960ms>>" + script(strings.Repeat("<<+20ms>>{C:ab}", 32)) + "{FIN:length}" + event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":128,"completion_tokens_details":{"reasoning_tokens":96}}}`) + "{DONE}",
		want:   "ok ttft=980ms gaps=[31×20ms] tpot=20ms duration=1.6s tokens=128/usage prompt=512",
	},
	{
		source: "awslabs/llmeter#99", what: "reasoning that was streamed",
		script: script(strings.Repeat("<<+20ms>>{R:ab}", 96)+strings.Repeat("<<+20ms>>{C:ab}", 32)) + "{FIN:length}" + event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":128,"completion_tokens_details":{"reasoning_tokens":96}}}`) + "{DONE}",
		want:   "ok ttft=20ms answer=1.94s gaps=[127×20ms] tpot=20ms duration=2.56s tokens=128/usage prompt=512",
	},
	{
		source: "xAI", what: "reasoning that usage counts apart",
		script: script(strings.Repeat("<<+20ms>>{C:ab}", 32)) + "{FIN:length}" + event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":32,"completion_tokens_details":{"reasoning_tokens":96}}}`) + "{DONE}",
		want:   "ok ttft=20ms gaps=[31×20ms] tpot=20ms duration=640ms tokens=32/usage prompt=512 suspect=short_output",
	},
	{
		source: "aaif-goose/goose#11948", what: "empty deltas keep alive, the answer comes",
		script: two + script(strings.Repeat("<<+100ms>>"+string(event(`{"choices":[{"index":0,"delta":{}}]}`)), 4)) + "<<+100ms>>{C:c}{FIN:length}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms 500ms] tpot=260ms duration=540ms tokens=3/chunks",
	},
	{
		source: "aaif-goose/goose#11948", what: "null content is no token",
		script: two + "<<+100ms>>" + event(`{"choices":[{"index":0,"delta":{"content":null,"reasoning_content":""}}]}`) + "<<+100ms>>{C:c}{FIN:length}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms 200ms] tpot=110ms duration=240ms tokens=3/chunks",
	},
	{
		source: "aaif-goose/goose#11948", what: "empty deltas that keep alive are silence", took: 10 * time.Second,
		script: two + script(strings.Repeat("<<+100ms>>"+string(event(`{"choices":[{"index":0,"delta":{}}]}`)), 200)),
		want:   "timeout tokens=2/chunks",
	},
	{
		source: "PaddlePaddle/FastDeploy#8113", what: "text under a count that stands still",
		script: script(strings.Repeat("<<+20ms>>"+string(event(`{"choices":[{"index":0,"delta":{"content":"ab"}}],"usage":{"prompt_tokens":512,"completion_tokens":1}}`)), 3)) + "{FIN:length}{USAGE:512,3}{DONE}",
		want:   "ok ttft=20ms gaps=[2×20ms] tpot=20ms duration=60ms tokens=3/usage prompt=512 suspect=short_output,usage_mismatch",
	},
	{
		source: "vllm-project/vllm", what: "text beside an empty list of token ids",
		script: script(strings.Repeat("<<+20ms>>"+string(event(`{"choices":[{"index":0,"delta":{"content":"ab"},"token_ids":[]}]}`)), 3)) + "{FIN:length}{DONE}",
		want:   "ok ttft=20ms gaps=[2×20ms] tpot=20ms duration=60ms tokens=3/chunks",
	},
	{
		source: "Ollama", what: "a usage of nothing in every chunk",
		script: script(strings.Repeat("<<+20ms>>"+string(event(`{"choices":[{"index":0,"text":"ab","finish_reason":null}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`)), 3)) + "{FIN:length}{USAGE:512,3}{DONE}",
		want:   "ok ttft=20ms gaps=[2×20ms] tpot=20ms duration=60ms tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		source: "n of 2", what: "another choice",
		script: script(strings.Repeat("<<+10ms>>{C:ab}<<+10ms>>"+string(event(`{"choices":[{"index":1,"delta":{"content":"xy"},"finish_reason":"stop"}]}`)), 3)) + "{FIN:length}{DONE}",
		want:   "ok ttft=10ms gaps=[2×20ms] tpot=20ms duration=50ms tokens=3/chunks",
	},
}

// Empty deltas are no progress: the stream has stalled while they come.
func TestEmptyDeltasAreSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan()
		p.StallTimeout = 3 * time.Second
		s := always(two + script(strings.Repeat("<<+100ms>>"+string(event(`{"choices":[{"index":0,"delta":{}}]}`)), 40)) + "{C:c}{FIN:length}{DONE}")
		res := probeOnce(t, s, target(p))
		if silent := res.Ended.Sub(res.LastToken); res.Reason != ReasonStalled || silent != p.StallTimeout {
			t.Errorf("%s after a silence of %v", outcome(res), silent)
		}
	})
}

// A name under which the list of models has the model too is no other model.
func TestAliasesOfTheModel(t *testing.T) {
	for name, want := range map[string]bool{"m": false, "M-2025-01-31": false, "org/base": false, "base-2025-01-31": false, "other": true} {
		res := &Result{Probe: &Probe{Workload: &Workload{OutputTokens: 1}}, Model: "m"}
		a := newAnswer(res, func(text string) string { return text }, []string{"base"})
		a.noteModel([]byte(name))
		if got := res.Suspect.Has(SuspectOtherModel); got != want {
			t.Errorf("%q is another model: %v, want %v", name, got, want)
		}
	}
}

// countCases: no number of a server is believed that cannot be right.
var countCases = []streamCase{
	{
		source: "gateways that split usage", what: "the prompt first, the answer last",
		script: event(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":512,"completion_tokens":0}}`) + two + "{FIN:length}{USAGE:0,128}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512",
	},
	{
		source: "gateways that split usage", what: "the answer first, the prompt last",
		script: two + "{FIN:length}{USAGE:0,128}{USAGE:512,0}{DONE}",
		want:   "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512",
	},
	{source: "a hostile server", what: "more tokens than bytes", script: two + "{FIN:length}{USAGE:512,900000000}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks prompt=512 suspect=usage_mismatch"},
	{source: "a hostile server", what: "a count beyond all integers", script: two + "{FIN:length}" + event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":18446744073709551617}}`) + "{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks prompt=512 suspect=usage_mismatch"},
	{source: "a hostile server", what: "counts below 0", script: two + "{FIN:length}{USAGE:-1,-7}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=20ms duration=40ms tokens=2/chunks suspect=usage_mismatch"},
	{source: "a hostile server", what: "a prompt of a hundred million tokens", script: two + "{FIN:length}{USAGE:100000000,128}{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage suspect=usage_mismatch"},
	{source: "a hostile server", what: "more cached than there was", script: two + "{FIN:length}" + event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":128,"prompt_tokens_details":{"cached_tokens":513}}}`) + "{DONE}", want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 suspect=usage_mismatch"},
	{source: "a hostile server", what: "a first token after 1e300 ms", script: two + "{FIN:length}" + timings("0.1", "1e300"), want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 suspect=usage_mismatch"},
	{source: "a hostile server", what: "a queue of 1e300 ms", script: two + "{FIN:length}" + timings("1e300", "1"), want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 suspect=usage_mismatch"},
	{source: "a hostile server", what: "times below 0", script: two + "{FIN:length}" + timings("-1", "1"), want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 suspect=usage_mismatch"},
	{source: "a hostile server", what: "parts that are longer than the whole", script: two + "{FIN:length}" + timings("11", "11"), want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 suspect=usage_mismatch"},
	{source: "vLLM", what: "parts of the whole", script: two + "{FIN:length}" + timings("5", "15"), want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 queue=5ms prefill=15ms"},
	{
		source: "a hostile server", what: "continuous counts beyond the bound", script: script(strings.Repeat("<<+20ms>>"+string(event(`{"choices":[{"index":0,"delta":{"content":"ab"}}],"usage":{"completion_tokens":900000000}}`)), 2)) + "{FIN:length}{USAGE:512,128}{DONE}",
		want: "ok ttft=20ms gaps=[20ms] tpot=157.48µs duration=40ms tokens=128/usage prompt=512 suspect=usage_mismatch",
	},
}

// timings is the usage chunk with vLLM's account, then the end.
func timings(queue, prefill string) script {
	return event(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":128},"metrics":{"queue_time_ms":%s,"time_to_first_token_ms":%s}}`, queue, prefill)) + "{DONE}"
}
