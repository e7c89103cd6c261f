package prober

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// The words of each server, from its source or its reference.
func TestClosingOf(t *testing.T) {
	for _, c := range []struct {
		server string
		words  map[string]closing
	}{
		{"vLLM, vllm/v1/engine/__init__.py", map[string]closing{"stop": stopped, "length": cutOff, "abort": broken, "error": broken, "repetition": stopped}},
		{"SGLang, managers/schedule_batch.py", map[string]closing{"stop": stopped, "length": cutOff, "abort": broken}},
		{"TensorRT-LLM, executor/result.py", map[string]closing{"stop": stopped, "length": cutOff, "timeout": broken, "cancelled": broken}},
		{"TensorRT-LLM's executor", map[string]closing{"NOT_FINISHED": unfinished, "END_ID": stopped, "STOP_WORDS": stopped, "LENGTH": cutOff, "TIMED_OUT": broken, "CANCELLED": broken}},
		{"TGI", map[string]closing{"length": cutOff, "eos_token": stopped, "stop_sequence": stopped}},
		{"Mistral", map[string]closing{"stop": stopped, "length": cutOff, "model_length": cutOff, "error": broken, "tool_calls": stopped}},
		{"Cohere", map[string]closing{
			"COMPLETE": stopped, "STOP_SEQUENCE": stopped, "MAX_TOKENS": cutOff, "TOOL_CALL": stopped,
			"ERROR": broken, "ERROR_LIMIT": broken, "ERROR_TOXIC": broken, "USER_CANCEL": broken,
		}},
		{"Gemini", map[string]closing{
			"STOP": stopped, "MAX_TOKENS": cutOff, "FINISH_REASON_UNSPECIFIED": unfinished, "FINISH_REASON_STOP": stopped,
			"SAFETY": unknownWord, "RECITATION": unknownWord, "BLOCKLIST": unknownWord, "OTHER": unknownWord,
		}},
		{"Anthropic", map[string]closing{"end_turn": stopped, "max_tokens": cutOff, "stop_sequence": stopped, "tool_use": stopped, "refusal": unknownWord, "pause_turn": unknownWord}},
		{"watsonx", map[string]closing{
			"not_finished": unfinished, "max_tokens": cutOff, "eos_token": stopped, "cancelled": broken, "time_limit": broken,
			"stop_sequence": stopped, "token_limit": cutOff, "error": broken, "null": unfinished,
		}},
		{"Ollama", map[string]closing{"stop": stopped, "length": cutOff, "load": unknownWord}},
		{"Together", map[string]closing{"eos": stopped}},
		{"gateways", map[string]closing{
			"tool-calls": stopped, " Stop ": stopped, "content-filter": unknownWord, "resource-exhausted": broken,
			"rate_limit_exceeded": broken, "skill_call": unknownWord, "": unfinished,
		}},
	} {
		for word, want := range c.words {
			if got := closingOf(word); got != want {
				t.Errorf("%s: %q is %d, want %d", c.server, word, got, want)
			}
		}
	}
}

// The definitions list the words that are known.
func TestFinishReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/definitions.md")
	if err != nil {
		t.Fatal(err)
	}
	words := slices.Concat(slices.Sorted(maps.Keys(finishReasons)), brokenStems)
	for _, word := range words[1:] { // the first is ""
		if !strings.Contains(string(page), "`"+word+"`") {
			t.Errorf("docs/definitions.md lacks `%s`", word)
		}
	}
}
