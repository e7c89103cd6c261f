package prober

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// has reports whether a request sets a field; continuous_usage_stats is one of stream_options.
func has(r sentRequest, field string) bool {
	if field == "continuous_usage_stats" {
		options, _ := r.body["stream_options"].(map[string]any)
		_, ok := options[field]
		return ok
	}
	_, ok := r.body[field]
	return ok
}

// refusing is a server that does not take the given fields, and names the first that it meets.
func refusing(fields ...string) *fakeServer {
	return &fakeServer{script: func(_ int, r sentRequest) script {
		for _, field := range fields {
			if has(r, field) {
				return jsonAnswer(http.StatusBadRequest, fmt.Sprintf(`{"error":{"message":"unknown field %s","code":400}}`, field))
			}
		}
		if has(r, "stream_options") {
			return defaultScript
		}
		return "{ROLE}<<+100ms>>{C:a}<<+20ms>>{C:b}{FIN:length}{DONE}"
	}}
}

// Fields that change nothing of a request's shape are dropped when a server refuses them. That is remembered, told
// once, and makes the one probe suspect.
func TestFieldsThatAreDroppedByThemselves(t *testing.T) {
	for _, c := range []struct {
		refused  []string
		requests int // that the first probe takes
		source   TokenSource
	}{
		{[]string{"cache_salt"}, 2, FromUsage},
		{[]string{"continuous_usage_stats"}, 2, FromUsage},
		{[]string{"stream_options"}, 2, FromChunks},
		{[]string{"chat_template_kwargs"}, 2, FromUsage},
		{[]string{"chat_template_kwargs", "stream_options", "cache_salt"}, 4, FromChunks},
	} {
		t.Run(strings.Join(c.refused, "+"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := refusing(c.refused...)
				p := plan()
				p.ExtraBody = map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}
				g := newRig(t, s.dial, target(p))
				first := g.once(t)
				if !first.OK() || !first.Suspect.Has(SuspectFieldRefused) || first.TokenSource != c.source {
					t.Errorf("first: %s (%v)", outcome(first), first.Err)
				}
				if n := len(s.sent()); n != c.requests {
					t.Errorf("the first probe took %d requests", n)
				}
				if ttft, _ := first.TTFT(); ttft.Value != 100e6 || first.Body != "" || first.Status != 200 {
					t.Errorf("TTFT %v, status %d, body %q", ttft, first.Status, first.Body)
				}
				second := g.once(t)
				if !second.OK() || second.Suspect.Has(SuspectFieldRefused) || len(s.sent()) != c.requests+1 {
					t.Errorf("second: %s (%v), %d requests", outcome(second), second.Err, len(s.sent()))
				}
				last := s.sent()[c.requests]
				for _, field := range []string{"cache_salt", "continuous_usage_stats", "stream_options", "chat_template_kwargs"} {
					gone := slices.Contains(c.refused, field) || field == "continuous_usage_stats" && slices.Contains(c.refused, "stream_options")
					if has(last, field) == gone {
						t.Errorf("field %s is there: %v", field, has(last, field))
					}
				}
				if n := strings.Count(g.logs.String(), "the server refuses a field, sending without it"); n != len(c.refused) {
					t.Errorf("told %d times:\n%s", n, g.logs)
				}
				if len(g.rec.started) != 2 || len(g.rec.results) != 2 {
					t.Errorf("%d started, %d ended", len(g.rec.started), len(g.rec.results))
				}
			})
		})
	}
}

// c09 (sgl-project/genai-bench#116, QuantumNous/new-api#418): without these the probe would be another; that is the
// configuration's to decide, and the failure says how.
func TestFieldsThatAreNotDroppedByThemselves(t *testing.T) {
	for _, field := range []string{"ignore_eos", "min_tokens", "seed", "temperature", "max_tokens"} {
		t.Run(field, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := refusing(field)
				g := newRig(t, s.dial, target())
				res := g.once(t)
				want := fmt.Sprintf("HTTP status 400: unknown field %s (if the server cannot take %s, add it to the workload's drop_fields)", field, field)
				if field == "max_tokens" {
					want = "HTTP status 400: unknown field max_tokens (the workload's max_tokens_field can be max_completion_tokens instead)"
				}
				if res.Reason != ReasonBadRequest || res.Err.Error() != want || len(s.sent()) != 1 {
					t.Errorf("%s (%v), %d requests", outcome(res), res.Err, len(s.sent()))
				}
				if log := g.logs.String(); !strings.Contains(log, want) {
					t.Errorf("log %s", log)
				}

				p := plan()
				p.DropFields = []string{field}
				s = refusing(field)
				if res := probeOnce(t, s, target(p)); !res.OK() || res.Suspect != 0 || has(s.sent()[0], field) {
					t.Errorf("dropped by the configuration: %s (%v)", outcome(res), res.Err)
				}
			})
		})
	}
}

// A server that goes on refusing is a failure, not a loop.
func TestRefusalsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := always(jsonAnswer(400, `{"error":"cache_salt, continuous_usage_stats, stream_options, chat_template_kwargs"}`))
		res := probeOnce(t, s, target())
		if res.Reason != ReasonBadRequest || len(s.sent()) != 1+len(droppable) {
			t.Errorf("%s (%v), %d requests", outcome(res), res.Err, len(s.sent()))
		}
	})
}

// The request holds all that fixes its shape.
func TestRequest(t *testing.T) {
	for _, api := range []API{Chat, Completions} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{}
			p := plan()
			p.API, p.MaxTokensField = api, "max_completion_tokens"
			p.ExtraBody = map[string]any{"top_k": 1}
			probeOnce(t, s, target(p))
			r := s.sent()[0]
			prompt := "messages"
			path := "/v1/chat/completions"
			if api == Completions {
				prompt, path = "prompt", "/v1/completions"
			}
			if r.method != http.MethodPost || r.path != path || r.host != "llm.example:8000" {
				t.Errorf("%s %s at %s", r.method, r.path, r.host)
			}
			id := r.header.Get("X-Request-Id")
			want := map[string]any{
				"model": "m", "stream": true, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true},
				"temperature": 0., "seed": 42., "max_completion_tokens": 128., "min_tokens": 128., "ignore_eos": true, "cache_salt": id, "top_k": 1.,
				prompt: r.body[prompt],
			}
			if diff := cmp.Diff(want, r.body); diff != "" {
				t.Errorf("%s (-want +got):\n%s", api, diff)
			}
			for key, want := range map[string]string{
				"User-Agent": "llm_prober/test", "Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json", "Connection": "close",
			} {
				if got := r.header.Get(key); got != want {
					t.Errorf("%s: %s is %q, want %q", api, key, got, want)
				}
			}
			if !strings.HasPrefix(id, "probe-") {
				t.Errorf("request id %q", id)
			}
		})
	}
}
