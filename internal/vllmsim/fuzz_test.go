package vllmsim

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// FuzzRequest: whatever is asked, there is an answer, and neither it nor the memory for it is out of proportion to
// the longest that the model allows.
func FuzzRequest(f *testing.F) {
	for _, body := range []string{
		`{"model":"tiny","messages":[{"role":"user","content":"a b"}],"max_tokens":3,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		`{"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"max_completion_tokens":1e9,"n":1e9,"logprobs":true,"top_logprobs":1e9}`,
		`{"model":"tiny","prompt":[1,2,3],"max_tokens":-1,"min_tokens":9223372036854775807,"ignore_eos":true,"echo":true,"best_of":1e308}`,
		`{"model":"tiny","prompt":[[1],[2]],"max_tokens":18446744073709551616,"stop":["a"],"seed":-1e400}`,
		`{"model":"tiny","prompt":"a","max_tokens":null,"return_token_ids":true,"cache_salt":"x","temperature":"NaN"}`,
		`{"model":` + strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000) + `}`,
		`[]`, `null`, "\xff", "", `{"messages":{}}`, `{"prompt":"` + strings.Repeat("a ", 20000) + `"}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/chat/completions", "/v1/completions", "/tokenize"} {
			inBubble(t, Config{}, func(t *testing.T, s *Server) {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				resp := post(s, path, "application/json", body)
				answer, err := io.ReadAll(resp.Body)
				runtime.ReadMemStats(&after)
				if err != nil || resp.StatusCode < 200 || resp.StatusCode >= 600 || resp.StatusCode == http.StatusInternalServerError {
					t.Errorf("%s: status %d, %v: %.200s", path, resp.StatusCode, err, answer)
				}
				if len(answer) > 16<<20+8*len(body) {
					t.Errorf("%s: %d bytes for %d", path, len(answer), len(body))
				}
				if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 256<<20+uint64(200*len(body)) {
					t.Errorf("%s: %d MB allocated for %d bytes", path, allocated>>20, len(body))
				}
			})
		}
	})
}
