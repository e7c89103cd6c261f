package prober

import "strings"

// closing is what a finish_reason says about an answer.
type closing int

const (
	unfinished  closing = iota // nothing: the answer goes on
	stopped                    // the model came to its end
	cutOff                     // the answer has the length that was asked for, or the longest that there can be
	broken                     // the server says that it had to give up
	unknownWord                // it says something that nobody knows
)

// complete reports whether the server says that the answer is complete.
func (c closing) complete() bool { return c == stopped || c == cutOff }

// finishReasons are the words of finish_reasons in lower case, with underscores and without Gemini's "FINISH_REASON_".
var finishReasons = map[string]closing{
	"": unfinished, "null": unfinished, "none": unfinished, "undefined": unfinished, // KoboldCpp, and other ways to print nothing
	"not_finished": unfinished, // IBM's TGIS and watsonx, TensorRT-LLM's executor
	"unspecified":  unfinished, // Gemini

	"stop": stopped, "tool_calls": stopped, "function_call": stopped, // OpenAI, vLLM, SGLang, llama.cpp, Ollama, Mistral
	"repetition": stopped,                                                 // vLLM, with repetition_detection
	"eos":        stopped, "eos_token": stopped, "stop_sequence": stopped, // Together, TGI, watsonx; Anthropic and Cohere behind gateways
	"end_turn": stopped, "tool_use": stopped, "tool_call": stopped, // Anthropic, Cohere
	"complete": stopped, "completed": stopped, // Cohere
	"end_id": stopped, "stop_words": stopped, // TensorRT-LLM's executor

	"length":     cutOff,                              // OpenAI and all that speak as it does, TGI
	"max_tokens": cutOff, "max_output_tokens": cutOff, // Anthropic, Cohere, Gemini, watsonx; OpenAI's Responses
	"token_limit":  cutOff, // watsonx
	"model_length": cutOff, // Mistral: the context is full
}

// brokenStems are parts of the words by which a server says that it gave up: abort of vLLM and SGLang (shutdown,
// sleep, scale-down), error and engine_error of gateways, TensorRT-LLM's timeout and cancelled, watsonx' time_limit,
// Cohere's error_limit and user_cancel, LMDeploy's parse_error, DeepSeek's insufficient_system_resource, Zhipu's
// network_error, and whatever else was built of them.
var brokenStems = []string{
	"abort", "error", "cancel", "fail", "exception", "timeout", "timed_out", "time_limit", "interrupt", "disconnect", "overload", "unavailable",
	"insufficient", "exhaust", "rate_limit", "preempt", "evict", "killed", "terminated", "shutdown", "shut_down", "crash", "out_of_memory",
}

// closingOf is what a finish_reason says. content_filter, which ends an answer for its text, is an unknown word, as are
// Gemini's safety and Ollama's load: whether the answer is as long as asked decides.
func closingOf(reason string) closing {
	word := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(reason)))
	word = strings.TrimPrefix(word, "finish_reason_")
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

// errorEvent tells the name of an event by which a server says that it failed or gave up: error, response.failed, abort.
func errorEvent(name []byte) bool {
	return len(name) > 0 && len(name) <= maxWord && closingOf(string(name)) == broken
}
