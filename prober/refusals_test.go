package prober

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// Fields that the prober adds by itself are dropped when a server refuses them. That is remembered and told once. It
// makes the one probe suspect, and every one that is another without the field.
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
				changed := slices.Contains(c.refused, "chat_template_kwargs") // then the model may think
				if !second.OK() || second.Suspect.Has(SuspectFieldRefused) != changed || len(s.sent()) != c.requests+1 {
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

// Servers refuse fields with other statuses, and gateways in the stream that they have begun. There a field must be
// named; what is no refusal is not sent twice.
func TestFieldsThatAreRefusedInOtherWays(t *testing.T) {
	inside := func(body string) script { return script("data: " + body + "\n\n{DONE}") }
	for _, c := range []struct {
		name   string
		answer script
		want   Reason // of a probe if no field is dropped
	}{
		{"500", jsonAnswer(500, `{"detail":"create() got an unexpected keyword argument 'cache_salt'"}`), ""},
		{"501", jsonAnswer(501, `{"error":{"message":"not implemented","param":"cache_salt"}}`), ""},
		{"in the stream", inside(`{"error":{"message":"Unknown parameter: 'cache_salt'.","type":"invalid_request_error","code":400}}`), ""},
		{"in an event", "event: error\ndata: {\"message\":\"unknown field cache_salt\"}\n\n{DONE}", ""},
		{"500 that names nothing", jsonAnswer(500, `{"error":"oops"}`), ReasonHTTPStatus},
		{"500 that names what a probe needs", jsonAnswer(500, `{"error":"no such seed"}`), ReasonHTTPStatus},
		{"500 that repeats the request", jsonAnswer(500, `{"error":"oops","input":{"cache_salt":"x"}}`), ReasonHTTPStatus},
		{"in the stream, naming nothing", inside(`{"error":{"message":"engine dead"}}`), ReasonServerError},
		{"in the stream, after a token", "{C:a}" + inside(`{"error":{"message":"unknown field cache_salt"}}`), ReasonServerError},
		{"503", jsonAnswer(503, `{"error":"unknown field cache_salt"}`), ReasonOverloaded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{script: func(_ int, r sentRequest) script {
					if has(r, "cache_salt") {
						return c.answer
					}
					return defaultScript
				}}
				g := newRig(t, s.dial, target())
				requests := 1
				if c.want == "" {
					requests = 2
				}
				res := g.once(t)
				if res.Reason != c.want || len(s.sent()) != requests || res.OK() && res.Suspect != SuspectFieldRefused {
					t.Fatalf("%s (%v), %d requests", outcome(res), res.Err, len(s.sent()))
				}
				if res = g.once(t); c.want == "" && (!res.OK() || res.Suspect != 0 || len(s.sent()) != requests+1) {
					t.Errorf("the next: %s (%v), %d requests", outcome(res), res.Err, len(s.sent()))
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
		if res.Reason != ReasonBadRequest || len(s.sent()) != len(droppable) { // the workload has no chat_template_kwargs
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

// echoOf is how a server repeats a request that it refuses.
var echoOf = map[string]func(r sentRequest) string{
	"JSON": func(r sentRequest) string { return r.raw },
	"a Python dict": func(r sentRequest) string {
		return strings.NewReplacer(`"`, `'`, "true", "True", "false", "False").Replace(r.raw)
	},
	"JSON without its beginning": func(r sentRequest) string { return r.raw[1:] },
	"JSON without its end":       func(r sentRequest) string { return r.raw[:len(r.raw)-20] },
	"arguments": func(r sentRequest) string {
		return "ChatCompletionRequest(messages=[{'role': 'user'}], model='m', cache_salt='" + fmt.Sprint(r.body["cache_salt"]) + "', stream_options=StreamOptions(include_usage=True, continuous_usage_stats=True), chat_template_kwargs={'enable_thinking': False}, ignore_eos=True)"
	},
}

// refusalShapes are ways to say no to a request: words, and the request as it was echoed.
var refusalShapes = map[string]func(words, echo string) string{
	"a Python dict": func(words, echo string) string {
		return `{"error":{"message":` + quoted("1 validation error:\n  {'type': 'value_error', 'loc': ('body',), 'msg': '"+words+"', 'input': "+echo+", 'ctx': {'error': {}}}") + `,"type":"Bad Request","param":null,"code":400}}`
	},
	"pydantic's text": func(words, echo string) string {
		return `{"error":` + quoted("1 validation error for ChatCompletionRequest\n  "+words+" [type=value_error, input_value="+echo+", input_type=dict]") + `}`
	},
	"a list of details": func(words, echo string) string {
		return `{"detail":[{"type":"value_error","loc":["body"],"msg":` + quoted(words) + `,"input":` + quoted(echo) + `}]}`
	},
	"words, then the request": func(words, echo string) string {
		return `{"object":"error","message":` + quoted(words+" Request: "+echo) + `}`
	},
	"an error within an error": func(words, echo string) string {
		return `{"error":{"message":` + quoted(`litellm.BadRequestError: {"error":{"message":`+quoted(words)+`,"body":`+quoted(echo)+`}}`) + `}}`
	},
	"plain text": func(words, echo string) string { return words + "\n" + echo },
}

// vllm-project/vllm#49239, #54684: a refusal that repeats the whole request names no field of it. Five of them are
// five failures, and then all is as it was.
func TestEchoesNameNoField(t *testing.T) {
	for shape, answer := range refusalShapes {
		for kind, echo := range echoOf {
			t.Run(shape+", "+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					refuses := true
					s := &fakeServer{script: func(_ int, r sentRequest) script {
						if refuses {
							return jsonAnswer(400, answer("Value error, model is being reloaded.", echo(r)))
						}
						return defaultScript
					}}
					p := plan()
					p.ExtraBody = map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}
					g := newRig(t, s.dial, target(p))
					for range 5 {
						if res := g.once(t); res.Reason != ReasonBadRequest || strings.Contains(res.Err.Error(), "drop_fields") {
							t.Errorf("%s (%v)", outcome(res), res.Err)
						}
						time.Sleep(15 * time.Second)
					}
					if n := len(s.sent()); n > 7 { // the first probe, and another after a minute, try without what is optional
						t.Errorf("%d requests", n)
					}
					refuses = false
					res := g.once(t)
					last := s.sent()[len(s.sent())-1]
					if !res.OK() || res.Suspect != 0 || !has(last, "cache_salt") || !has(last, "chat_template_kwargs") || !has(last, "continuous_usage_stats") {
						t.Errorf("%s (%v), sent %v", outcome(res), res.Err, last.body)
					}
				})
			})
		}
	}
}

// The field that a refusal names, in the shapes in which servers do.
func TestNamedFields(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"error":{"message":"1 validation error:\n  {'type': 'extra_forbidden', 'loc': 'body.cache_salt', 'msg': 'Extra inputs are not permitted', 'input': 'probe-1'}","param":"body.cache_salt","code":400}}`, "cache_salt"},
		{`{"error":{"message":"[{'type': 'extra_forbidden', 'loc': ('body', 'cache_salt'), 'msg': 'Extra inputs are not permitted', 'input': 'probe-1'}]"}}`, "cache_salt"},
		{`{"detail":[{"type":"extra_forbidden","loc":["body","stream_options","continuous_usage_stats"],"msg":"Extra inputs are not permitted","input":true}]}`, "continuous_usage_stats"},
		{`{"detail":[{"loc":["body","chat_template_kwargs"],"msg":"extra fields not permitted","type":"value_error.extra"}]}`, "chat_template_kwargs"},
		{`{"error":{"message":"Unrecognized request argument supplied: cache_salt","type":"invalid_request_error","param":null,"code":null}}`, "cache_salt"},
		{`{"error":{"message":"Unknown parameter: 'chat_template_kwargs'.","param":"chat_template_kwargs","code":"unknown_parameter"}}`, "chat_template_kwargs"},
		{`{"error":{"message":"Stream options can only be defined when ` + "`stream=True`" + `. (parameter=stream_options)","param":null}}`, "stream_options"},
		{`{"object":"error","message":"[{'type': 'extra_forbidden', 'loc': ('body',), 'msg': 'no'}, {'loc': ('body', 'cache_salt'), 'msg': 'no'}]"}`, "cache_salt"},
		{`1 validation error for ChatCompletionRequest` + "\n" + `cache_salt` + "\n" + `  Extra inputs are not permitted [type=extra_forbidden, input_value='probe-1', input_type=str]`, "cache_salt"},
		{`Failed to deserialize the JSON body into the target type: unknown field ` + "`cache_salt`, expected one of `model`, `messages`, `stream_options`" + ` at line 1 column 80`, "cache_salt"},
		{`{"message":"unknown field foo. Supported fields: cache_salt, stream_options"}`, ""},
		{`{"message":"not supported parameters: cache_salt"}`, "cache_salt"},
		{`{"message":"The following are not supported: ['cache_salt', \"foo\"]"}`, "cache_salt"},
		{`{"error":"cache_salt: Extra inputs are not permitted"}`, "cache_salt"},
		{`{"error":{"message":"{\"detail\":[{\"loc\":[\"body\",\"cache_salt\"]}]}"}}`, "cache_salt"},
		{`{"error":{"message":"chat_template is not supported for Mistral tokenizers."}}`, ""},
		{`{"error":{"message":"no","param":"messages"},"request":{"cache_salt":"x","note":"cache_salt"}}`, ""},
		{`{"input":{"error":{"message":"cache_salt"}},"error":{"message":"no"}}`, ""},
		{`{"error":{"message":"no","cache_salt":"x"`, ""},
		{`\"cache_salt\":\"probe-1\",\"stream_options\":{`, ""},
		{`my_cache_salt cache_salts`, ""},
		{``, ""},
	} {
		var got []string
		named := namedFields(c.body, droppable)
		for _, field := range droppable {
			if named[field] {
				got = append(got, field)
			}
		}
		if text := strings.Join(got, "+"); text != c.want && !(c.want == "continuous_usage_stats" && text == "continuous_usage_stats+stream_options") {
			t.Errorf("%s\nnames %q, want %q", c.body, text, c.want)
		}
	}
}

// linagora/openrag#335 (a Mistral tokenizer): what the prober adds by itself causes no lasting refusal, whatever the
// words. The next probes find out which field it is.
func TestRefusalThatNamesNoField(t *testing.T) {
	for _, c := range []struct {
		field, words string
		status       int
	}{
		{"chat_template_kwargs", "chat_template is not supported for Mistral tokenizers.", 400},
		{"cache_salt", "Bad Request", 422},
		{"stream_options", "", 400},
		{"continuous_usage_stats", "usage", 400},
	} {
		t.Run(c.field, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{script: func(_ int, r sentRequest) script {
					switch {
					case has(r, c.field):
						return jsonAnswer(c.status, `{"error":{"message":`+quoted(c.words)+`}}`)
					case has(r, "stream_options"):
						return defaultScript
					}
					return "{ROLE}<<+100ms>>{C:a}<<+20ms>>{C:b}{FIN:length}{DONE}"
				}}
				p := plan()
				p.ExtraBody = map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}
				g := newRig(t, s.dial, target(p))
				for n := range 10 {
					before := len(s.sent())
					if res := g.once(t); !res.OK() || n == 0 && !res.Suspect.Has(SuspectFieldRefused) {
						t.Fatalf("probe %d: %s (%v)", n, outcome(res), res.Err)
					}
					if took := len(s.sent()) - before; took > 2 {
						t.Errorf("probe %d took %d requests", n, took)
					}
				}
				before := len(s.sent())
				res := g.once(t)
				if took := len(s.sent()) - before; took != 1 || res.Suspect.Has(SuspectFieldRefused) != (c.field == "chat_template_kwargs") {
					t.Errorf("%d requests, %s", took, outcome(res))
				}
				last := s.sent()[before]
				for _, field := range droppable {
					gone := field == c.field || field == "continuous_usage_stats" && c.field == "stream_options"
					if has(last, field) == gone {
						t.Errorf("in the end, %s is there: %v", field, has(last, field))
					}
				}
				if n := strings.Count(g.logs.String(), "level=warn"); n != 1+strings.Count(g.logs.String(), "is suspect") {
					t.Errorf("the log:\n%s", g.logs)
				}
			})
		})
	}
}

// One refusal by chance drops nothing for long: the next probe is as before.
func TestOneRefusalByChance(t *testing.T) {
	for _, at := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			s := &fakeServer{script: func(n int, _ sentRequest) script {
				if n == at {
					return jsonAnswer(400, `{"error":"try again"}`)
				}
				return defaultScript
			}}
			g := newRig(t, s.dial, target())
			for n := range 6 {
				res := g.once(t)
				// What the server has taken before is not what it refuses now.
				if failed := n == at && at > 0; (res.Reason == ReasonBadRequest) != failed || res.Suspect.Has(SuspectFieldRefused) != (n == at && at == 0) {
					t.Errorf("refused at %d, probe %d: %s", at, n, outcome(res))
				}
			}
			if last := s.sent()[2]; !has(last, "cache_salt") || !has(last, "continuous_usage_stats") {
				t.Errorf("refused at %d: then sent %v", at, last.body)
			}
		})
	}
}

// A field that was refused is sent again every ten minutes, by one probe, and stays where the server takes it.
func TestRefusedFieldIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var takes atomic.Bool
		s := &fakeServer{script: func(_ int, r sentRequest) script {
			if !takes.Load() && has(r, "cache_salt") {
				return jsonAnswer(400, `{"error":{"message":"no","param":"cache_salt"}}`)
			}
			return defaultScript
		}}
		g := newRig(t, s.dial, target(every(10*time.Second, 35*time.Second, 5)))
		end := g.begin(t)
		time.Sleep(35 * time.Minute)
		with := 0
		for _, r := range s.sent() {
			if has(r, "cache_salt") {
				with++
			}
		}
		if with != 4 {
			t.Errorf("sent %d times in 35 minutes", with)
		}
		takes.Store(true)
		time.Sleep(11 * time.Minute)
		end()
		if r := s.sent(); !has(r[len(r)-1], "cache_salt") || !strings.Contains(g.logs.String(), "the server takes fields again") {
			t.Errorf("not sent again: %v\n%s", r[len(r)-1].body, g.logs)
		}
		suspect := 0
		for _, r := range g.rec.results {
			if r.Suspect.Has(SuspectFieldRefused) {
				suspect++
			}
		}
		if n := strings.Count(g.logs.String(), "refuses a field"); n != 1 || suspect != 1 || g.rec.reasons()["bad_request"] != 0 {
			t.Errorf("told %d times, %d suspect, %v", n, suspect, g.rec.reasons())
		}
	})
}

// What somebody wrote is sent as it is.
func TestWrittenTemplateArgumentsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := refusing("chat_template_kwargs")
		p := plan()
		p.ExtraBody = map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": true}}
		res := probeOnce(t, s, target(p))
		if res.Reason != ReasonBadRequest || !strings.Contains(res.Err.Error(), "the workload's extra_body sets chat_template_kwargs") || len(s.sent()) != 1 {
			t.Errorf("%s (%v), %d requests", outcome(res), res.Err, len(s.sent()))
		}
	})
}

// Bytes of any kind from a server that refuses: they are read once, and name only what was asked for.
func FuzzNamedFields(f *testing.F) {
	for _, seed := range []string{
		`{"error":{"message":"{'loc': ('body', 'cache_salt'), 'input': {'a': [1]}}"}}`, "cache_salt, expected one of `a`", `\"cache_salt\":\"x`, `("'[{(=,'`,
		strings.Repeat("[", 1000), strings.Repeat("{'error':", 1000), strings.Repeat(`("`, 1000), strings.Repeat("('", 1000), strings.Repeat("\\", 999),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for field := range namedFields(body, droppable) {
			if !strings.Contains(body, "_") && !strings.Contains(body, `\`) {
				t.Errorf("%q names %s", body, field)
			}
		}
		n := naming{fields: droppable, found: map[string]bool{}}
		if n.read(body, 0); n.work > maxNested*len(body)+maxNested {
			t.Errorf("%d steps for %d bytes", n.work, len(body))
		}
	})
}

// Requests of an experiment that are refused together for a field which nobody names all succeed, and it ends with
// that field alone being left out.
func TestUnnamedRefusalToManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams = 20
		s := &fakeServer{script: func(_ int, r sentRequest) script {
			if has(r, "cache_salt") {
				return jsonAnswer(400, `{"error":"no"}`)
			}
			return defaultScript
		}}
		g := newRig(t, s.dial, target())
		if err := g.Prepare(t.Context(), "w"); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			for _, r := range g.send(t, slices.Repeat([]Order{{Workload: "w"}}, streams)...) {
				if !r.OK() {
					t.Errorf("%s (%v)", outcome(r), r.Err)
				}
			}
		}
		before := len(s.sent())
		if res := g.once(t); !res.OK() || res.TokenSource != FromUsage || len(s.sent()) != before+1 {
			t.Errorf("%s (%v), %d requests", outcome(res), res.Err, len(s.sent())-before)
		}
		if refused := before - 5*streams; refused > streams+3 { // all at first, and then one for each trial
			t.Errorf("%d requests were refused", refused)
		}
		if n := strings.Count(g.logs.String(), "level=warn"); n != 1 {
			t.Errorf("told %d times:\n%s", n, g.logs)
		}
	})
}
