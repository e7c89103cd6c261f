package prober

import (
	"strings"
	"testing"
)

func TestSameModel(t *testing.T) {
	for _, c := range []struct {
		asked, answered string
		same            bool
	}{
		{"m", "m", true},
		{"gpt-4.1-mini", "gpt-4.1-mini-2025-04-14", true},
		{"gpt-4.1-mini-2025-04-14", "gpt-4.1-mini", true},
		{"openai/gpt-4.1-mini", "gpt-4.1-mini", true},
		{"openai/gpt-4.1-mini", "azure/gpt-4.1-mini-2025-04-14", true},
		{"gpt-4", "gpt-4-0613", true},
		{"mistral-large-latest", "mistral-large-2411", true},
		{"claude-3-5-sonnet", "claude-3-5-sonnet@20240620", true},
		{"claude-3-5-sonnet-20240620", "claude-3-5-sonnet@2024-06-20", true},
		{"gemini-1.5-flash", "models/gemini-1.5-flash-001", true},
		{"gemini-2.5-pro-preview", "gemini-2.5-pro-preview-05-06", true},
		{"llama3", "llama3:latest", true},
		{"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b-instruct", true},
		{"accounts/fireworks/models/llama-v3p1-8b", "llama-v3p1-8b", true},
		{"llama-3", `C:\models\llama-3.gguf`, true},

		{"llama-3", "/models/llama-3/", true},
		{"/models/llama-3/", "/models/llama-3", true},

		{"/models/llama-3/", "/models/llama-2/", false},
		{"m", "other", false},
		{"m", "", false},
		{"gpt-4.1-mini", "gpt-4.1", false},
		{"gpt-4.1", "gpt-4.1-mini-2025-04-14", false},
		{"gpt-4-0613", "gpt-4-1106", false},
		{"llama3:8b", "llama3:70b", false},
		{"llama-3-8b", "llama-3-70b", false},
		{"llama-3-8b", "llama-3-8b-awq", false},
		{"llama-3", "llama-2", false},
		{"-0613", "-1106", false},
		{"m", "m-" + strings.Repeat("2024-01-01", 100), false},
	} {
		if got := sameModel(c.asked, c.answered); got != c.same {
			t.Errorf("asked %q, answered %q: same %v, want %v", c.asked, c.answered, got, c.same)
		}
	}
}
