package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What flags add to a request and leave out of it, alone and in place of what a file says.
func TestRequestFlags(t *testing.T) {
	bodies := make(chan map[string]any, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path == "/tokenize" {
			http.NotFound(w, r)
			return
		}
		data, _ := io.ReadAll(r.Body)
		var body map[string]any
		_ = json.Unmarshal(data, &body)
		bodies <- body
		http.Error(w, "seen enough", http.StatusTeapot)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "config.yml")
	text := "workloads: [{name: w, temperature: 0.5, drop_fields: [cache_salt], extra_body: {top_k: 3, chat_template_kwargs: {thinking: false}}}]\n" +
		"targets: [{name: a, model: n, url: '" + server.URL + "'}]"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	off := map[string]any{"enable_thinking": false}
	thinking := map[string]any{"thinking": false}
	for _, c := range []struct {
		name string
		args []string
		want map[string]any // of the fields below; nil: left out
	}{
		{"none", []string{"--model=m", server.URL}, map[string]any{"model": "m", "temperature": 0., "seed": 42., "chat_template_kwargs": off, "top_k": nil}},
		{"thinking left out", []string{"--model=m", "--drop-field=chat_template_kwargs", "--drop-field=seed", server.URL}, map[string]any{"seed": nil, "chat_template_kwargs": nil}},
		{"thinking said", []string{"--model=m", `--extra-body={"chat_template_kwargs": {"enable_thinking": true}, "top_k": 1}`, server.URL}, map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": true}, "top_k": 1.}},
		{"a file", []string{"--config.file=" + file}, map[string]any{"model": "n", "temperature": 0.5, "cache_salt": nil, "seed": 42., "chat_template_kwargs": thinking, "top_k": 3.}},
		{"flags in place of a file", []string{"--config.file=" + file, "--model=m", "--drop-field=seed", `--extra-body={"top_k": 1}`}, map[string]any{"model": "m", "temperature": 0.5, "seed": nil, "chat_template_kwargs": off, "top_k": 1.}},
		{"completions have no template", []string{"--config.file=" + file, "--api=completions", `--extra-body={"top_k": 1}`}, map[string]any{"chat_template_kwargs": nil, "messages": nil}},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := outcome(t.Context(), append([]string{"probe"}, c.args...)...)
			if code != exitFailed || stderr != "" {
				t.Fatalf("exit code %d, %q, %q", code, stdout, stderr)
			}
			body, got := <-bodies, make(map[string]any)
			for field := range c.want {
				got[field] = body[field]
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("fields of the request (-want +got):\n%s", d)
			}
		})
	}
}
