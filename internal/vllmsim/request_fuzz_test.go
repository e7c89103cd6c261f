//go:build unix

package vllmsim

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// Whatever the body of a request: no panic, work in proportion to its size, and a request that is taken fits.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true}`,
		`{"model":"tiny","prompt":[1,2,3],"max_tokens":2,"min_tokens":2}`,
		`{"model":"tiny","prompt":"hi there","max_tokens":-5,"n":1e300,"stream_interval":"Infinity"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"b"}]}],"stream_options":{}}`,
		`{"messages":` + strings.Repeat("[", 200_000),
		`{"messages":[{"content":` + strings.Repeat(`[{"text":`, 9000) + `1` + strings.Repeat("}]", 9000) + `}]}`,
		`{"messages":[` + strings.Repeat(`{"role":"user","content":""},`, 20_000) + `{}]}`,
		`{"messages":[{"role":"user","content":"` + strings.Repeat("a", 300_000) + `"}]}`,
		`{"prompt":"` + strings.Repeat("a ", 150_000) + `"}`,
		`{"prompt":"` + strings.Repeat(`\ud800`, 50_000) + `"}`,
		`{"prompt":[` + strings.Repeat("1,", 100_000) + `1]}`,
		`{"max_tokens":` + strings.Repeat("9", 200_000) + `}`,
		`{` + strings.Repeat(`"max_tokens":1,`, 20_000) + `"max_tokens":1}`,
		"\xff\xfe", "null", "[]", "",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := New(Config{MaxModelLen: 64})
		defer s.Close()
		cputest.Linear(t, len(body), func() {
			for path, a := range map[string]api{"/v1/chat/completions": chatAPI{}, "/v1/completions": completionsAPI{}} {
				r := httptest.NewRequest("POST", path, strings.NewReader(string(body)))
				r.Header.Set("Content-Type", "application/json")
				b, refusal := readBody(r)
				if refusal != nil {
					continue
				}
				req, prompt, refusal := s.check(s.process(), a, b)
				if refusal == nil && (len(prompt) < 1 || len(prompt) >= 64 || req.maxTokens < 1 || req.maxTokens > 64) {
					t.Errorf("%s took a prompt of %d tokens and an answer of %d", path, len(prompt), req.maxTokens)
				}
			}
			r := httptest.NewRequest("POST", "/tokenize", strings.NewReader(string(body)))
			r.Header.Set("Content-Type", "application/json")
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
		})
	})
}
