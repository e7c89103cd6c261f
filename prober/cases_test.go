package prober

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// streamCase is a stream and what a probe makes of it.
type streamCase struct {
	id     string
	source string
	what   string
	script script
	want   string
	err    string        // part of the error
	took   time.Duration // from start to end; 0: not looked at
}

// The cases below are public bug reports of other stream clients, benchmarks and probers, each with what is right.
// Where an answer is shorter than the 128 tokens that the workload asks for, it is suspect for that (short_output)
// beside whatever else the case is about.
//
// Not here, since they are about the way from results to metrics, pages and processes: the medians of p15, p16 to
// p19, p23 and p26. b13 is a benchmark. c09, p11, p13 and p21 are in the tests of the runner, e16 in those of
// secrets.
var streamCases = []streamCase{
	// a: server-sent events
	{
		id: "a01", source: "zendev-sh/goai#70, openai/openai-go#368", what: "an event of 70 kB",
		script: "{ROLE}{C:<70000 x a>}{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512 suspect=degenerate",
	},
	{
		id: "a01", source: "infiniflow/ragflow#15381", what: "an event of 1.2 MB",
		script: "{ROLE}{C:<1200000 x a>}{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512 suspect=degenerate",
	},
	{
		id: "a01", source: "SamSaffron/term-llm#298", what: "an event of 4 MB",
		script: "{ROLE}{C:<4000000 x a>}{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512 suspect=degenerate",
	},
	{
		id: "a01", source: "SamSaffron/term-llm#298", what: "an event above the cap",
		script: "{ROLE}{C:<9000000 x a>}{FIN:length}{USAGE:512,128}{DONE}",
		want:   "too_large tokens=0/chunks", err: "event exceeds 8388608 bytes",
	},
	{
		id: "a02", source: "spiceai/spiceai#12588, vllm-project/aibrix#2653", what: "one byte a write",
		script: script("{ROLE}{C:hello}{C: world}{FIN:length}{USAGE:512,2}{DONE}").bytewise(),
		want:   "ok ttft=0s gaps=[0s] tpot=0s duration=0s tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		id: "a02", source: "atomantic/PortOS#7558, clidey/whodb#972", what: "an event has the time of its last byte",
		script: "data: {\"choices\":[{\"delta\":<<+50ms>>{\"content\":\"a\"}}]}\n<<+30ms>>\n<<+20ms>>{C:b}{FIN:length}{USAGE:512,2}{DONE}",
		want:   "ok ttft=80ms gaps=[20ms] tpot=20ms duration=100ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		id: "a03", source: "sgl-project/genai-bench#159, openai/openai-python#498", what: "no space after data:",
		script: "data:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\ndata:{\"choices\":[{\"index\":0,\"delta\":{\"content\":\" b\"},\"finish_reason\":\"length\"}]}\n\ndata:[DONE]\n\n",
		want:   "ok ttft=0s gaps=[0s] tpot=0s duration=0s tokens=2/chunks",
	},
	{
		id: "a04", source: "hey-api/hey-api#3054, openai/openai-node#2309", what: "CRLF, torn apart",
		script: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\r\n\r<<+100ms>>\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"length\"}]}\r\n\r\ndata: [DONE]\r\n\r\n",
		want:   "ok ttft=0s gaps=[100ms] tpot=100ms duration=100ms tokens=2/chunks",
	},
	{
		id: "a05", source: "a2aproject/a2a-js#714, EdamAme-x/pentect#1438", what: "bare CR",
		script: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}\r\r<<+200ms>>data: [DONE]\r\r",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks",
	},
	{
		id: "a07", source: "deepnoodle-ai/dive#206, coder/coder#28185", what: "comments before the first token",
		script: ": PROCESSING\n\n:\n\n<<+300ms>>{ROLE}: ping\n{C:hi}:\n\n{FIN:length}{USAGE:512,1}{DONE}",
		want:   "ok ttft=300ms gaps=[] tpot=none duration=300ms tokens=1/usage prompt=512 suspect=short_output",
	},
	{
		id: "a10", source: "sashabaranov/go-openai#71", what: "a thousand comments",
		script: "{ROLE}" + script(strings.Repeat(":\n\n", 1000)) + "{C:x}{FIN:length}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks",
	},
	{
		id: "a11", source: "SamSaffron/term-llm#456, kubernetes-sigs/inference-perf#781", what: "JSON over several data lines",
		script: "data: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}]}\n\n{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks",
	},
	{
		id: "a12", source: "ai-dynamo/aiperf#368, triton-inference-server/perf_analyzer#431", what: "several events in one read",
		script: "{ROLE}<<+200ms>>{C:a}{C:b}{C:c}{FIN:length}{USAGE:512,3}{DONE}",
		want:   "ok ttft=200ms gaps=[2×0s] tpot=0s duration=200ms tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		id: "a13", source: "modelscope/evalscope#1642, kagent-dev/kagent#1480", what: "Unicode line separators are text",
		script: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xE2\x80\xA8b\xE2\x80\xA9c\xC2\x85d\"},\"finish_reason\":\"length\"}]}\n\n{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks",
	},
	{
		id: "a14", source: "danielmiessler/Fabric#2203, simstudioai/sim#3068", what: "a character torn apart, and an invalid byte",
		script: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\xF0\x9F<<+50ms>>\x8C\x8D\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"bad\xFF\"},\"finish_reason\":\"length\"}]}\n\n{DONE}",
		want:   "ok ttft=50ms gaps=[0s] tpot=0s duration=50ms tokens=2/chunks",
	},
	{
		id: "a15, p03", source: "NVIDIA/TensorRT-LLM#18289, SamSaffron/term-llm#955", what: "a clean end without a terminal signal",
		script: "{ROLE}{C:a}{C:b}<<END>>",
		want:   "truncated tokens=2/chunks", err: "without finish_reason or [DONE]",
	},
	{
		id: "a17, p03", source: "kubernetes-sigs/inference-perf#531", what: "Content-Length not reached",
		script: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 5000\r\n\r\n{ROLE}{C:a}",
		want:   "truncated tokens=1/chunks", err: "after 174 bytes, 2 events and 1 token events: unexpected EOF",
	},
	{
		id: "a17, p03", source: "kubernetes-sigs/inference-perf#712", what: "no last chunk",
		script: "{ROLE}{C:a}<<CUT>>",
		want:   "truncated tokens=1/chunks", err: "after 174 bytes, 2 events and 1 token events: unexpected EOF",
	},
	{
		id: "a17, p03", source: "UKGovernmentBEIS/inspect_ai#4321", what: "connection reset",
		script: "{ROLE}{C:a}<<RST>>",
		want:   "conn_reset tokens=1/chunks", err: "after 174 bytes, 2 events and 1 token events: read pipe: read: connection reset by peer",
	},
	{
		id: "a18, p01", source: "vllm-project/vllm#57519, vllm-project/guidellm#743", what: "an error after a token, then [DONE]",
		script: `{ROLE}{C:a}data: {"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}` + "\n\n{DONE}",
		want:   "server_error tokens=1/chunks", err: "the server reported inside the stream: EngineCore died",
	},
	{
		id: "a18, p02", source: "sgl-project/sglang#38868", what: "an error as the first event",
		script: `data: {"error":{"message":"EngineCore died","type":"InternalServerError","param":null,"code":500}}` + "\n\n{DONE}",
		want:   "server_error tokens=0/chunks", err: "EngineCore died",
	},
	{
		id: "a19", source: "kubernetes-sigs/inference-perf#744, ai-dynamo/aiperf#1076", what: "an error that is a string",
		script: `data: {"error":"Input validation error"}` + "\n\n",
		want:   "server_error tokens=0/chunks", err: "Input validation error",
	},
	{
		id: "a19", source: "triton-inference-server/perf_analyzer#440", what: "an event named error",
		script: "event: error\ndata: {\"message\":\"overloaded\",\"code\":529}\n\n",
		want:   "server_error tokens=0/chunks", err: "overloaded",
	},
	{
		id: "a21", source: "tinyhumansai/tinyagents#56, nicedreamzapp/claude-code-local#39", what: "stream: true ignored",
		script: jsonAnswer(200, `{"choices":[{"message":{"content":"hi"},"finish_reason":"length"}],"usage":{"prompt_tokens":512,"completion_tokens":128}}`),
		want:   "content_type", err: `the server did not stream: Content-Type "application/json"`,
	},
	{
		id: "a23", source: "sashabaranov/go-openai#776, Lambdua/openai4j#60", what: "no choices in the usage chunk",
		script: "{ROLE}{C:a}{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512",
	},
	{
		id: "a23", source: "aaif-goose/goose#5248", what: "an empty object",
		script: "{ROLE}{C:a}<<+5ms>>data: {}\n\n{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512",
	},
	{
		id: "a23", source: "mattermost/mattermost-plugin-agents#359", what: "choices null",
		script: "{ROLE}{C:a}<<+5ms>>data: {\"choices\":null}\n\n{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512",
	},
	{
		id: "a23", source: "sashabaranov/go-openai#776", what: "a choice without a delta",
		script: "{ROLE}{C:a}<<+5ms>>data: {\"choices\":[{}]}\n\n{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512",
	},
	{
		id: "a23", source: "sashabaranov/go-openai#776", what: "a delta that is null",
		script: "{ROLE}{C:a}<<+5ms>>data: {\"choices\":[{\"delta\":null}]}\n\n{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=128/usage prompt=512",
	},
	{
		id: "a26", source: "chand1012/openai-cf-workers-ai#7, vercel/workflow#427", what: "the connection stays open after [DONE]",
		script: "{ROLE}{C:a}{FIN:length}{USAGE:512,1}{DONE}<<+5000ms>>{C:late}<<END>>",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/usage prompt=512 suspect=short_output",
		took:   drainTimeout,
	},
	{
		id: "a28", source: "mostlygeek/llama-swap#236, sgl-project/genai-bench#228", what: "all at once",
		script: "<<+3000ms>>{ROLE}" + script(strings.Repeat("{C:t}", 128)) + "{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=3s gaps=none tpot=none duration=3s tokens=128/usage prompt=512 suspect=coalesced,degenerate",
	},
	{
		id: "a28", source: "confidential-dot-ai/c8s#140, dstackai/dstack#4269", what: "in bursts of 64",
		script: script(strings.Repeat("<<+1600ms>>"+strings.Repeat("{C:to}", 64), 2)) + "{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=1.6s gaps=none tpot=none duration=3.2s tokens=128/usage prompt=512 suspect=coalesced",
	},
	{
		id: "a29", source: "BerriAI/litellm#24314, plastic-labs/honcho#1095", what: "an escaped NUL",
		script: `data: {"choices":[{"index":0,"delta":{"content":"a\u0000b"},"finish_reason":"length"}]}` + "\n\n{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks",
	},
	{
		id: "a29", source: "Davidvandijcke/coarse#34", what: "a raw NUL",
		script: `data: {"choices":[{"index":0,"delta":{"content":"a\u0000b"}}]}` + "\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"raw\x00\"},\"finish_reason\":\"length\"}]}\n\n{DONE}",
		want:   "malformed tokens=1/chunks", err: "invalid JSON at byte",
	},
	{
		id: "a32", source: "vllm-project/vllm vllm/benchmarks/lib/endpoint_request_func.py", what: "blanks at the edge of a write are text",
		script: "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a<<W>>  b\"}}]}\n<<W>>\n{FIN:length}{DONE}",
		want:   "ok ttft=0s gaps=[] tpot=none duration=0s tokens=1/chunks",
	},
	{
		id: "a32", source: "vllm-project/vllm vllm/benchmarks/lib/endpoint_request_func.py", what: "half a number is no event",
		script: "data: 1<<W>>28\n\n",
		want:   "malformed tokens=0/chunks", err: "after 11 bytes, 1 events and 0 token events: malformed: event is not a JSON object",
	},

	// b: the numbers
	{
		id: "b01", source: "vllm-project/vllm#3759, api7/aisix#869", what: "a role is no token",
		script: "{ROLE}<<+300ms>>{C:a}<<+20ms>>{C:b}{FIN:length}{USAGE:512,2}{DONE}",
		want:   "ok ttft=300ms gaps=[20ms] tpot=20ms duration=320ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		id: "b01", source: "vllm-project/vllm#3768, tingly-dev/tingly-box#1235", what: "a role with null is no token",
		script: script(delta(`"role":"assistant","content":null`, "null")) + "<<+300ms>>{C:a}<<+20ms>>{C:b}{FIN:length}{USAGE:512,2}{DONE}",
		want:   "ok ttft=300ms gaps=[20ms] tpot=20ms duration=320ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		id: "b02", source: "vllm-project/vllm#15106", what: "a role in the middle of prefill",
		script: "<<+900ms>>{ROLE}<<+1300ms>>{C:a}<<+20ms>>{C:b}<<+20ms>>{C:c}{FIN:length}{USAGE:5000,3}{DONE}",
		want:   "ok ttft=2.2s gaps=[2×20ms] tpot=20ms duration=2.24s tokens=3/usage prompt=5000 suspect=prompt_length,short_output",
	},
	{
		id: "b03", source: "vllm-project/guidellm#737, api7/aisix#869", what: "reasoning, then an answer",
		script: "{ROLE}<<+100ms>>{R:hm}<<+20ms>>{R:ok}<<+2000ms>>{C:x}{FIN:length}{USAGE:512,3}{DONE}",
		want:   "ok ttft=100ms answer=2.12s gaps=[20ms 2s] tpot=1.01s duration=2.12s tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		id: "b03, p05", source: "vllm-project/guidellm#742, kubernetes-sigs/inference-perf#559", what: "reasoning only",
		script: "{ROLE}<<+100ms>>{R:hm}<<+20ms>>{R:ok}{FIN:length}",
		want:   "ok ttft=100ms gaps=[20ms] tpot=20ms duration=120ms tokens=2/chunks suspect=no_done",
	},
	{
		id: "b03, p05", source: "vllm-project/guidellm#742", what: "the field named reasoning",
		script: "{ROLE}<<+100ms>>" + script(delta(`"reasoning":"hm"`, "null")) + "<<+20ms>>" + script(delta(`"reasoning":"ok"`, "null")) + "<<+2000ms>>{C:x}{FIN:length}{USAGE:512,3}{DONE}",
		want:   "ok ttft=100ms answer=2.12s gaps=[20ms 2s] tpot=1.01s duration=2.12s tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		id: "b05", source: "vllm-project/vllm#6064", what: "no text",
		script: "{ROLE}{FIN:stop}{USAGE:512,1}{DONE}",
		want:   "empty_output tokens=0/chunks", err: `the stream ended (finish_reason "stop") without a token; usage says 1`,
	},
	{
		id: "b05", source: "vllm-project/vllm#5895, vllm-project/vllm#14795", what: "empty text",
		script: "{ROLE}{C:}{C:}{FIN:length}{USAGE:512,2}{DONE}",
		want:   "empty_output tokens=0/chunks", err: "usage says 2",
	},
	{
		id: "b06", source: "vllm-project/vllm#7242", what: "the first token is no gap",
		script: "{ROLE}<<+500ms>>{C:a}<<+20ms>>{C:b}<<+20ms>>{C:c}{FIN:length}{USAGE:512,3}{DONE}",
		want:   "ok ttft=500ms gaps=[2×20ms] tpot=20ms duration=540ms tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		id: "b08", source: "vllm-project/vllm-omni#6693, CentML/flexible-inference-bench#68", what: "one token",
		script: "{ROLE}<<+100ms>>{C:a}{FIN:length}{USAGE:512,1}{DONE}",
		want:   "ok ttft=100ms gaps=[] tpot=none duration=100ms tokens=1/usage prompt=512 suspect=short_output",
	},
	{
		id: "b08", source: "openshift-psap/llm-load-test#54", what: "one token that usage denies",
		script: "{ROLE}<<+100ms>>{C:a}{FIN:length}{USAGE:512,0}{DONE}",
		want:   "ok ttft=100ms gaps=[] tpot=none duration=100ms tokens=1/chunks prompt=512 suspect=usage_mismatch",
	},
	{
		id: "b09", source: "kubernetes-sigs/inference-perf#392, vllm-project/vllm endpoint_request_func.py", what: "a late end",
		script: "{ROLE}<<+100ms>>{C:a}<<+20ms>>{C:b}<<+800ms>>{FIN:length}{USAGE:512,2}{DONE}",
		want:   "ok ttft=100ms gaps=[20ms] tpot=20ms duration=120ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		// The last chunk carries a token but no count, so the stream's own counts end at 10.
		id: "b16", source: "PaddlePaddle/FastDeploy#8113", what: "text withheld while the count grows",
		script: withheld() + "<<+20ms>>{C:long text}{FIN:length}{USAGE:512,11}{DONE}",
		want:   "ok ttft=100ms gaps=[10×20ms] tpot=20ms duration=300ms tokens=11/usage prompt=512 suspect=short_output,usage_mismatch",
	},

	// c: counts and lengths
	{
		id: "c04", source: "vllm-project/vllm#44708, vllm-project/aibrix#726", what: "usage counts, not the text",
		script: script(strings.Repeat("<<+10ms>>{C:日本語}", 128)) + "{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=10ms gaps=[127×10ms] tpot=10ms duration=1.28s tokens=128/usage prompt=512",
	},
	{
		id: "c08, p10", source: "kubernetes-sigs/inference-perf#83, NVIDIA/TensorRT-LLM#12358", what: "the model stops early",
		script: "{ROLE}{C:a}<<+20ms>>{C:b}{FIN:stop}{USAGE:512,2}{DONE}",
		want:   "ok ttft=0s gaps=[20ms] tpot=20ms duration=20ms tokens=2/usage prompt=512 suspect=short_output",
	},
	{
		id: "c08, p10", source: "vllm-project/vllm tenstorrent/vllm#344", what: "the model stops early, no usage",
		script: "{ROLE}{C:a}<<+20ms>>{C:b}{FIN:stop}{DONE}",
		want:   "ok ttft=0s gaps=[20ms] tpot=20ms duration=20ms tokens=2/chunks suspect=short_output",
	},
	{
		id: "c10", source: "kubernetes-sigs/inference-perf#564, eugr/llama-benchy#18", what: "chunks counted, not pieces of text",
		script: "{ROLE}{C:Hel}{C:lo}{C: world}{FIN:length}{DONE}",
		want:   "ok ttft=0s gaps=[2×0s] tpot=0s duration=0s tokens=3/chunks",
	},
	{
		id: "c11", source: "Wei-Shaw/sub2api#6298, sgl-project/sglang#40555", what: "usage denies the text",
		script: "{ROLE}{C:a}<<+20ms>>{C:b}{FIN:length}{USAGE:512,0}{DONE}",
		want:   "ok ttft=0s gaps=[20ms] tpot=20ms duration=20ms tokens=2/chunks prompt=512 suspect=usage_mismatch",
	},
	{
		id: "c11, p06", source: "tenstorrent/vllm#354", what: "usage claims tokens that never came",
		script: "{ROLE}{FIN:length}{USAGE:512,128}{DONE}",
		want:   "empty_output tokens=0/chunks", err: "usage says 128",
	},
	{
		id: "c13", source: "lvyufeng/PocketLLM#244", what: "the length limit ignored",
		script: "{ROLE}" + script(strings.Repeat("{C:hm}<<+1ms>>", 5000)) + "{DONE}",
		want:   "ok ttft=0s gaps=[255×1ms] tpot=none duration=none tokens=256/chunks suspect=long_output",
		took:   255 * time.Millisecond,
	},

	// p: faults of other probers
	{
		id: "p04", source: "rivals", what: "200 with an error as JSON",
		script: jsonAnswer(200, `{"error":{"message":"model is loading"}}`),
		want:   "content_type", err: "model is loading",
	},
	{
		id: "p04", source: "rivals", what: "200 with a page",
		script: "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 25\r\n\r\n<html>Please log in</html",
		want:   "content_type", err: `the server did not stream: Content-Type "text/html", body <html>Please log in</html`,
	},
	{
		id: "p07", source: "rivals", what: "a line of 200 kB",
		script: "{ROLE}{C:<200000 x a>}{C:b}{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=0s gaps=[0s] tpot=0s duration=0s tokens=128/usage prompt=512",
	},
	{
		id: "p08", source: "rivals", what: "comments between tokens are no tokens",
		script: "{ROLE}<<+50ms>>{C:a}<<+10ms>>: x\n\n<<+10ms>>{C:b}<<+10ms>>:\r\n\r\n{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=50ms gaps=[20ms] tpot=157.48µs duration=70ms tokens=128/usage prompt=512",
	},
	{
		id: "p09", source: "rivals", what: "ten tokens in one event make no gap",
		script: "{ROLE}<<+50ms>>{C:ten tokens at once}{FIN:length}{USAGE:512,10}{DONE}",
		want:   "ok ttft=50ms gaps=[] tpot=none duration=50ms tokens=10/usage prompt=512 suspect=short_output",
	},
	{
		id: "p09", source: "rivals", what: "usage 3 s after the last token",
		script: "{ROLE}<<+50ms>>{C:a}<<+20ms>>{C:b}<<+20ms>>{C:c}{FIN:length}<<+3s>>{USAGE:512,3}{DONE}",
		want:   "ok ttft=50ms gaps=[2×20ms] tpot=20ms duration=90ms tokens=3/usage prompt=512 suspect=short_output",
	},
	{
		id: "p25", source: "rivals", what: "the stream is read to its end: an error long after the first token",
		script: "{ROLE}{C:a}<<+5s>>" + `data: {"error":"out of memory"}` + "\n\n",
		want:   "server_error tokens=1/chunks", err: "out of memory", took: 5 * time.Second,
	},
	{
		id: "p27", source: "rivals", what: "one character for ever",
		script: script(strings.Repeat("<<+10ms>>{C:////}", 32)) + "{FIN:length}{USAGE:512,128}{DONE}",
		want:   "ok ttft=10ms gaps=[31×10ms] tpot=2.440944ms duration=320ms tokens=128/usage prompt=512 suspect=degenerate",
	},
}

// withheld is ten chunks of no text whose count grows.
func withheld() script {
	var b strings.Builder
	b.WriteString("{ROLE}<<+80ms>>")
	for n := 1; n <= 10; n++ {
		fmt.Fprintf(&b, "<<+20ms>>data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\"}}],\"usage\":{\"prompt_tokens\":512,\"completion_tokens\":%d}}\n\n", n)
	}
	return script(b.String())
}

func TestStreamCases(t *testing.T) {
	for _, c := range slices.Concat(streamCases, errorCases, endingCases, tokenCases, countCases) {
		t.Run(c.id+" "+c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := always(c.script)
				g := newRig(t, s.dial, target())
				res := g.once(t)
				if got := outcome(res); got != c.want {
					t.Errorf("got  %s (%v)\nwant %s", got, res.Err, c.want)
				}
				if c.err != "" && (res.Err == nil || !strings.Contains(res.Err.Error(), c.err)) {
					t.Errorf("error %v, want it to tell %q", res.Err, c.err)
				}
				if took := res.Ended.Sub(res.Started); c.took != 0 && took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if text := g.logs.String(); !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
					t.Errorf("log %q", text)
				}
				synctest.Wait()
				if s.open != 0 || len(s.sent()) != 1 {
					t.Errorf("%d connections open, %d requests", s.open, len(s.sent()))
				}
			})
		})
	}
}

// c13: the server learns that nobody reads what is beyond the limit.
func TestAnswerThatIsTooLongIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always("{ROLE}" + script(strings.Repeat("{C:hm}<<+1ms>>", 5000)) + "{DONE}")
		probeOnce(t, s, target())
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		if s.left != 1 {
			t.Errorf("the server has seen %d clients leave", s.left)
		}
	})
}

// b11 (restbeast/restbeast#36, hatoo/oha#212): connecting is not waiting for the token.
func TestConnectTimeIsNotTTFT(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		connect := 300 * time.Millisecond
		s := always("{ROLE}<<+100ms>>{C:a}{FIN:length}{USAGE:512,128}{DONE}")
		s.dialing = func(string, string) error {
			time.Sleep(connect)
			return nil
		}
		g := newRig(t, s.dial, target())
		for _, connect = range []time.Duration{300 * time.Millisecond, 0} {
			res := g.once(t)
			if got, known := res.ConnectTime(); !known || got != connect {
				t.Errorf("connect time %v %v, want %v", got, known, connect)
			}
			if got, known := res.TTFT(); !known || got.Value != 100*time.Millisecond {
				t.Errorf("after a connect of %v: TTFT %v %v", connect, got, known)
			}
		}
	})
}

// b12 (gpustack/gpustack#2324, vllm-project/vllm#39963): no probe waits for another's connection.
func TestOverlappingProbesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan()
		p.Interval, p.MaxInFlight = 100*time.Millisecond, 64
		s := always("{ROLE}<<+50ms>>{C:a}<<+1950ms>>{C:b}{FIN:length}{USAGE:512,128}{DONE}")
		g := newRig(t, s.dial, target(p))
		go func() {
			time.Sleep(2050 * time.Millisecond)
			g.Drain()
		}()
		g.Run(t.Context())
		results := g.rec.results
		if len(results) < 20 {
			t.Fatalf("%d probes", len(results))
		}
		for _, r := range results {
			if ttft, ok := r.TTFT(); !ok || ttft.Value != 50*time.Millisecond || r.StartDelay() != 0 {
				t.Errorf("%s, started %v late", outcome(r), r.StartDelay())
			}
		}
	})
}

// c03 (vllm-project/vllm#12600, lm-sys/FastChat#2432): told once, not tried again and again.
func TestTooLongForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always(jsonAnswer(400, `{"error":{"message":"maximum context length is 512 tokens, requested 640","type":"BadRequestError","code":400}}`))
		g := newRig(t, s.dial, target())
		for range 3 {
			if res := g.once(t); res.Reason != ReasonBadRequest || res.Status != 400 {
				t.Errorf("%s, status %d", outcome(res), res.Status)
			}
		}
		if n := len(s.sent()); n != 3 {
			t.Errorf("%d requests for 3 probes", n)
		}
		if n := strings.Count(g.logs.String(), "maximum context length is 512 tokens, requested 640"); n != 1 {
			t.Errorf("told %d times:\n%s", n, g.logs)
		}
	})
}

// c05 (vllm-project/guidellm#217): a server that has seen the beginning of a prompt is fast; none has.
func TestPromptsDifferFromTheirBeginning(t *testing.T) {
	for _, api := range []API{Chat, Completions} {
		synctest.Test(t, func(t *testing.T) {
			seen := map[string]bool{}
			s := &fakeServer{tokenize: tokenizer(10, 0), script: func(_ int, r sentRequest) script {
				head := r.prompt()[:64]
				wait := "500ms"
				if seen[head] {
					wait = "20ms"
				}
				seen[head] = true
				return script(fmt.Sprintf("{ROLE}<<+%s>>{C:a}{FIN:length}{USAGE:%d,128}{DONE}", wait, toyCount(r, 10, 0)))
			}}
			p := plan()
			p.API = api
			g := newRig(t, s.dial, target(p))
			for range 10 {
				if got, want := outcome(g.once(t)), "ok ttft=500ms gaps=[] tpot=none duration=500ms tokens=128/usage prompt=512"; got != want {
					t.Errorf("%s: got  %s\nwant %s", api, got, want)
				}
			}
			if len(seen) != 10 {
				t.Errorf("%s: %d beginnings in 10 prompts", api, len(seen))
			}
		})
	}
}

// g13 (Azure/azure-openai-benchmark#34): a refusal is neither waited out nor tried again.
func TestRateLimitIsNotHiddenByRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{script: func(n int, _ sentRequest) script {
			if n < 3 {
				return "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n"
			}
			return defaultScript
		}}
		g := newRig(t, s.dial, target())
		for _, want := range []string{"rate_limited", "rate_limited", "rate_limited", "ok"} {
			if res := g.once(t); ending(res) != want || res.Ended.Sub(res.Started) > time.Second {
				t.Errorf("%s after %v, want %s", outcome(res), res.Ended.Sub(res.Started), want)
			}
		}
		if n := len(s.sent()); n != 4 {
			t.Errorf("%d requests for 4 probes", n)
		}
	})
}
