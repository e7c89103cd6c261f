package vllmsim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// post answers one request without a network.
func post(s *Server, path, contentType, body string, headers ...string) *http.Response {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Result()
}

// TestRefusals holds the simulator against answers that a real vLLM 0.32.0 gave to the same bodies.
func TestRefusals(t *testing.T) {
	const chat, completions, tokenize = "/v1/chat/completions", "/v1/completions", "/tokenize"
	for _, tc := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{
			"token out of vocabulary", completions, `{"model":"tiny","prompt":[9000],"max_tokens":3}`, 400,
			`{"error":{"message":"Token id 9000 is out of vocabulary","type":"BadRequestError","param":null,"code":400}}`,
		},
		{
			"no prompt", completions, `{"model":"tiny","max_tokens":3}`, 400,
			`{"error":{"message":"Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)","type":"BadRequestError","param":"prompt","code":400}}`,
		},
		{
			"no message", chat, `{"model":"tiny","messages":[]}`, 400,
			`{"error":{"message":"Cannot apply chat template to an empty conversation. Provide at least one message.","type":"BadRequestError","param":null,"code":400}}`,
		},
		{
			"no messages", chat, `{"model":"tiny"}`, 400,
			`{"error":{"message":"1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': '<dict of 1 items>'}","type":"Bad Request","param":"body.messages","code":400}}`,
		},
		{
			"longer than the context", chat, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":5000}`, 400,
			`{"error":{"message":"max_tokens=5000 cannot be greater than max_model_len=4096. Please request fewer output tokens. (parameter=max_tokens, value=5000)","type":"BadRequestError","param":"max_tokens","code":400}}`,
		},
		{
			"nothing asked", chat, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":0}`, 400,
			`{"error":{"message":"max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)","type":"BadRequestError","param":"max_tokens","code":400}}`,
		},
		{
			"two mistakes", chat, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":"x","temperature":"hot"}`, 400,
			`{"error":{"message":"2 validation errors:\n  {'type': 'int_parsing', 'loc': 'body.max_tokens', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'x'}\n  {'type': 'float_parsing', 'loc': 'body.temperature', 'msg': 'Input should be a valid number, unable to parse string as a number', 'input': 'hot'}","type":"Bad Request","param":"body.max_tokens","code":400}}`,
		},
		{
			"empty salt", chat, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":2,"cache_salt":""}`, 400,
			`{"error":{"message":"Parameter 'cache_salt' must be a non-empty string if provided. (parameter=cache_salt)","type":"BadRequestError","param":"cache_salt","code":400}}`,
		},
		{
			"too cold", chat, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":2,"temperature":-1}`, 400,
			`{"error":{"message":"temperature must be non-negative, got -1.0. (parameter=temperature, value=-1.0)","type":"BadRequestError","param":"temperature","code":400}}`,
		},
		{
			"neither true nor false", chat, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":"maybe"}`, 400,
			`{"error":{"message":"1 validation error:\n  {'type': 'bool_parsing', 'loc': 'body.stream', 'msg': 'Input should be a valid boolean, unable to interpret input', 'input': 'maybe'}","type":"Bad Request","param":"body.stream","code":400}}`,
		},
		{
			"half a token", chat, `{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":2.5}`, 400,
			`{"error":{"message":"1 validation error:\n  {'type': 'int_from_float', 'loc': 'body.max_tokens', 'msg': 'Input should be a valid integer, got a number with a fractional part', 'input': '2.5'}","type":"Bad Request","param":"body.max_tokens","code":400}}`,
		},
		{
			"other model", tokenize, `{"model":"nope","prompt":"hi"}`, 404,
			"{\"error\":{\"message\":\"The model `nope` does not exist. Valid aliases: tiny.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := New(Config{})
			defer s.Close()
			resp := post(s, tc.path, "application/json", tc.body)
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.status {
				t.Error(resp.Status)
			}
			if diff := cmp.Diff(tc.want, string(body)); diff != "" {
				t.Errorf("vLLM (-) and the simulator (+) differ:\n%s", diff)
			}
		})
	}
}

func TestRefusalsOfTheFramework(t *testing.T) {
	s := New(Config{})
	defer s.Close()
	for _, tc := range []struct {
		contentType, body, want string
	}{
		{"text/plain", `{}`, `{"error":{"message":"1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed","type":"Bad Request","param":null,"code":400}}`},
		{"application/json", `{"model":`, `{"error":{"message":"1 validation error:\n  {'type': 'json_invalid', 'loc': 'body', 'msg': 'JSON decode error', 'input': '<dict of 0 items>'}","type":"Bad Request","param":"body","code":400}}`},
	} {
		resp := post(s, "/v1/completions", tc.contentType, tc.body)
		body, _ := io.ReadAll(resp.Body)
		if diff := cmp.Diff(tc.want, string(body)); diff != "" || resp.StatusCode != 400 {
			t.Errorf("%s %s: %s (-want +got):\n%s", tc.contentType, tc.body, resp.Status, diff)
		}
	}
	r := httptest.NewRequest("GET", "/v1/chat/completions", nil)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code != 405 || w.Header().Get("Allow") != "POST" || w.Body.String() != `{"detail":"Method Not Allowed"}` {
		t.Errorf("GET: %d, allowed %q, %s", w.Code, w.Header().Get("Allow"), w.Body)
	}
}

// whole is as much as the tests need of an answer that does not stream.
type whole struct {
	ID      string
	Model   string
	Choices []struct {
		Text         string
		Message      struct{ Content, Reasoning string }
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Details    struct {
			Cached  int `json:"cached_tokens"`
			Created int `json:"created_cache_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
}

func ask(t *testing.T, s *Server, path, body string, headers ...string) (w whole) {
	t.Helper()
	resp := post(s, path, "application/json", body, headers...)
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("%s: %s", resp.Status, body)
	}
	if err := json.NewDecoder(resp.Body).Decode(&w); err != nil {
		t.Fatal(err)
	}
	return w
}

// inBubble runs a test with a server in virtual time.
func inBubble(t *testing.T, cfg Config, f func(*testing.T, *Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(cfg)
		defer s.Close()
		f(t, s)
	})
}

func TestAnswerIDs(t *testing.T) {
	inBubble(t, Config{Models: []string{"a", "b"}, Seed: 1}, func(t *testing.T, s *Server) {
		const body = `{"prompt":"x","max_tokens":1%s}`
		for _, tc := range []struct {
			fields  string
			headers []string
			id      string
			model   string
		}{
			{"", []string{"X-Request-Id", "probe-1"}, "cmpl-probe-1", "a"},
			{`,"model":"b","request_id":"r"`, nil, "cmpl-r", "b"},
			{`,"request_id":"r"`, []string{"X-Request-Id", "probe-1"}, "cmpl-probe-1", "a"},
		} {
			got := ask(t, s, "/v1/completions", fmt.Sprintf(body, tc.fields), tc.headers...)
			if got.ID != tc.id || got.Model != tc.model {
				t.Errorf("%s: id %s of model %s", tc.fields, got.ID, got.Model)
			}
		}
		a, b := ask(t, s, "/v1/completions", fmt.Sprintf(body, "")), ask(t, s, "/v1/completions", fmt.Sprintf(body, ""))
		if len(a.ID) != len("cmpl-")+16 || a.ID == b.ID {
			t.Errorf("random ids %q and %q", a.ID, b.ID)
		}
		if a.Choices[0].Text != b.Choices[0].Text {
			t.Errorf("one prompt has two answers: %q, %q", a.Choices[0].Text, b.Choices[0].Text)
		}
	})
}

// In chat max_completion_tokens wins over max_tokens, which is deprecated there; plain completions do not know it
// (vLLM 0.32: entrypoints/openai/chat_completion/protocol.py, sampling_params.py).
func TestLimitOfTheAnswer(t *testing.T) {
	const chat, completions = "/v1/chat/completions", "/v1/completions"
	const tooFew = "min_tokens must be less than or equal to max_tokens=4, got 5."
	for _, tc := range []struct {
		path, fields string
		want         string // tokens, or the message of the refusal
	}{
		{chat, `"max_tokens":4`, "4"},
		{chat, `"max_completion_tokens":4`, "4"},
		{chat, `"max_tokens":9,"max_completion_tokens":4`, "4"},
		{chat, `"max_completion_tokens":4,"max_tokens":2`, "4"},
		{chat, `"max_completion_tokens":null,"max_tokens":2`, "2"},
		{chat, `"max_tokens":null,"max_completion_tokens":4`, "4"},
		{chat, `"max_tokens":200,"max_completion_tokens":4`, "4"}, // 200 alone would be refused
		{chat, `"max_completion_tokens":4,"min_tokens":4`, "4"},
		{chat, `"max_completion_tokens":4,"min_tokens":5`, tooFew},
		{chat, `"max_tokens":9,"max_completion_tokens":4,"min_tokens":5`, tooFew},
		{chat, `"max_tokens":4,"max_completion_tokens":9,"min_tokens":5`, "9"},
		{chat, `"max_tokens":4,"min_tokens":5`, tooFew},
		{chat, `"max_completion_tokens":0,"max_tokens":4`, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"},
		{chat, `"max_completion_tokens":200`, "max_completion_tokens=200 cannot be greater than max_model_len=100. Please request fewer output tokens. (parameter=max_completion_tokens, value=200)"},
		{
			chat, `"max_completion_tokens":"y","max_tokens":"x"`,
			"2 validation errors:\n" +
				"  {'type': 'int_parsing', 'loc': 'body.max_tokens', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'x'}\n" +
				"  {'type': 'int_parsing', 'loc': 'body.max_completion_tokens', 'msg': 'Input should be a valid integer, unable to parse string as an integer', 'input': 'y'}",
		},
		{completions, `"max_tokens":4,"max_completion_tokens":9`, "4"},
		{completions, `"max_tokens":4,"max_completion_tokens":9,"min_tokens":5`, tooFew},
		{completions, `"max_tokens":4,"max_completion_tokens":"x"`, "4"},
	} {
		inBubble(t, Config{MaxModelLen: 100}, func(t *testing.T, s *Server) {
			prompt := `"prompt":"hi",`
			if tc.path == chat {
				prompt = `"messages":[{"role":"user","content":"hi"}],`
			}
			var got struct {
				whole
				Error struct{ Message string }
			}
			if err := json.NewDecoder(post(s, tc.path, "application/json", "{"+prompt+tc.fields+"}").Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			answer := got.Error.Message
			if answer == "" {
				answer = fmt.Sprint(got.Usage.Completion)
			}
			if diff := cmp.Diff(tc.want, answer); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", tc.path, tc.fields, diff)
			}
		})
	}
}

func TestContextLimit(t *testing.T) {
	inBubble(t, Config{MaxModelLen: 100}, func(t *testing.T, s *Server) {
		prompt := "[" + strings.Repeat("5,", 94) + "5]" // 95 tokens
		// vLLM cuts an answer at the end of the context, and says so by "length".
		got := ask(t, s, "/v1/completions", `{"prompt":`+prompt+`,"max_tokens":50}`)
		if got.Usage.Completion != 5 || got.Choices[0].FinishReason != "length" {
			t.Errorf("%d tokens, %s", got.Usage.Completion, got.Choices[0].FinishReason)
		}
		got = ask(t, s, "/v1/completions", `{"prompt":`+prompt+`}`)
		if got.Usage.Completion != 5 {
			t.Errorf("without max_tokens: %d tokens", got.Usage.Completion)
		}
	})
}

// A server whose KV cache holds less than its longest context has a shorter one: vLLM would not begin with it.
func TestContextIsNoLongerThanTheCache(t *testing.T) {
	model := DefaultModel()
	model.KVTokens = 100
	inBubble(t, Config{Engine: model}, func(t *testing.T, s *Server) {
		prompt := "[" + strings.Repeat("5,", 199) + "5]"
		answer := post(s, "/v1/completions", "application/json", `{"prompt":`+prompt+`,"max_tokens":1}`)
		want := `{"error":{"message":"This model's maximum context length is 96 tokens. However, your prompt contains 200 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=200)","type":"BadRequestError","param":"input_tokens","code":400}}`
		body, _ := io.ReadAll(answer.Body)
		if got := string(body); answer.StatusCode != 400 || got != want {
			t.Errorf("%d %s", answer.StatusCode, got)
		}
		prompt = "[" + strings.Repeat("5,", 89) + "5]"
		if got := ask(t, s, "/v1/completions", `{"prompt":`+prompt+`,"max_tokens":50}`); got.Usage.Completion != 6 {
			t.Errorf("%d tokens, want the 6 that fit", got.Usage.Completion)
		}
	})
}

func TestPrefixCache(t *testing.T) {
	for _, disabled := range []bool{false, true} {
		t.Run(fmt.Sprint("disabled ", disabled), func(t *testing.T) {
			inBubble(t, Config{PromptTokensDetails: true, DisablePrefixCache: disabled}, func(t *testing.T, s *Server) {
				tokens := func(n, first int) string {
					list := []string{fmt.Sprint(first)}
					for i := 1; i < n; i++ {
						list = append(list, fmt.Sprint(i))
					}
					return strings.Join(list, ",")
				}
				for _, step := range []struct {
					prompt, salt    string
					cached, created int
				}{
					{tokens(40, 7), "", 0, 32},
					{tokens(40, 7), "", 32, 0},
					{tokens(64, 7), "", 32, 32},
					{tokens(48, 7), "", 32, 0},  // its last token has to be computed, and with it the block
					{tokens(40, 8), "", 0, 32},  // another first word: nothing in common
					{tokens(40, 7), "x", 0, 32}, // another salt: nothing in common
					{tokens(40, 7), "x", 32, 0},
					{tokens(15, 7), "", 0, 0}, // less than a block
				} {
					salt := ""
					if step.salt != "" {
						salt = `,"cache_salt":"` + step.salt + `"`
					}
					got := ask(t, s, "/v1/completions", `{"prompt":[`+step.prompt+`],"max_tokens":1`+salt+`}`).Usage.Details
					want := step.cached
					if disabled {
						want = 0
					}
					if got.Cached != want {
						t.Errorf("prompt %.20s… salt %q: %d cached, want %d", step.prompt, step.salt, got.Cached, want)
					}
				}
			})
		})
	}
}

func TestPrefixCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	c := newPrefixCache(2)
	prompt := func(word int) []int { return append(make([]int, blockSize), word) }
	for i, step := range []struct {
		salt string
		want int
	}{{"a", 0}, {"b", 0}, {"a", 16}, {"c", 0}, {"a", 16}, {"b", 0}} {
		if got, _ := c.use(step.salt, prompt(1)); got != step.want {
			t.Errorf("step %d, salt %s: %d cached, want %d", i, step.salt, got, step.want)
		}
	}
}

func TestReasoning(t *testing.T) {
	for _, tc := range []struct {
		tokens, reasoning int
		thinks, answers   bool
	}{
		{0, 8, true, false}, // all of it
		{3, 3, true, true},
	} {
		inBubble(t, Config{ReasoningParser: true, ReasoningTokens: tc.tokens}, func(t *testing.T, s *Server) {
			got := ask(t, s, "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}],"max_tokens":8}`)
			text := got.Choices[0].Message
			if got.Usage.CompletionDetails.Reasoning != tc.reasoning || (text.Reasoning != "") != tc.thinks || (text.Content != "") != tc.answers {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestEmptyTokens(t *testing.T) {
	inBubble(t, Config{EmptyTokens: 0.5}, func(t *testing.T, s *Server) {
		resp := post(s, "/v1/completions", "application/json", `{"prompt":"x","max_tokens":200,"stream":true}`)
		body, _ := io.ReadAll(resp.Body)
		empty, all := strings.Count(string(body), `"text":""`), strings.Count(string(body), `"text":"`)
		if all != 200 || empty < 80 || empty > 120 {
			t.Errorf("%d of %d tokens decode to nothing, want about half of 200", empty, all)
		}
	})
}

func TestClientThatLeavesFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := serve(t, Config{Engine: clockwork()})
		if err := s.SetFault(Fault{Name: Endless}); err != nil {
			t.Fatal(err)
		}
		if got := complete(t, n.client(), "http://sim"); got.End != "out of patience" || got.Texts < 100 {
			t.Fatalf("%+v", got)
		}
		time.Sleep(time.Second)
		if got := s.Engine().Stats(); got.Running != 0 || got.KVUsage != 0 || len(got.Finished) != 0 {
			t.Errorf("%d running, KV usage %v, finished %v", got.Running, got.KVUsage, got.Finished)
		}
	})
}
