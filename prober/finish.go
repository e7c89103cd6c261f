package prober

import "strings"

// closing is what a finish_reason says about an answer.
type closing int

const (
	unfinished  closing = iota // nothing: the answer goes on
	complete                   // the server says that the answer is complete
	broken                     // it says that it had to give up
	unknownWord                // it says something that nobody knows
)

// finishReasons are the words by which an answer is complete, in lower case, and those that are none.
var finishReasons = map[string]closing{
	"": unfinished, "null": unfinished, "none": unfinished, "undefined": unfinished, // KoboldCpp, and other ways to print nothing

	"stop": complete, "length": complete, "tool_calls": complete, "function_call": complete, // OpenAI, vLLM, SGLang, llama.cpp
	"repetition": complete,                                                   // vLLM, with repetition_detection
	"eos":        complete, "eos_token": complete, "stop_sequence": complete, // TGI, llama.cpp's own API
	"model_length": complete,                                                                      // Mistral: the context is full
	"end_turn":     complete, "max_tokens": complete, "tool_use": complete, "tool_call": complete, // Anthropic and Gemini behind gateways
	"complete": complete, "completed": complete, // Cohere
	"end_id": complete, "stop_words": complete, // TensorRT-LLM
}

// brokenStems are parts of the words by which a server says that it gave up: vLLM's abort (shutdown, sleep,
// scale-down), error and engine_error of gateways, LMDeploy's parse_error, DeepSeek's insufficient_system_resource,
// Zhipu's network_error, and whatever else was built of them.
var brokenStems = []string{
	"abort", "error", "cancel", "fail", "exception", "timeout", "timed_out", "interrupt", "disconnect", "overload", "unavailable",
	"insufficient", "preempt", "evict", "kill", "terminated", "shutdown", "shut_down", "crash", "out_of_memory",
}

// closingOf is what a finish_reason says. content_filter, which ends an answer for its text, is an unknown word: whether
// the answer is as long as asked decides.
func closingOf(reason string) closing {
	word := strings.ToLower(strings.TrimSpace(reason))
	if e, ok := finishReasons[word]; ok {
		return e
	}
	for _, stem := range brokenStems {
		if strings.Contains(word, stem) {
			return broken
		}
	}
	return unknownWord
}
