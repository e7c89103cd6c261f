package prober

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// courtesyAnswers are what servers answer to questions that are none of a probe's.
var courtesyAnswers = map[string]script{
	"400":                   jsonAnswer(400, `{"error":"no"}`),
	"401, missing scopes":   jsonAnswer(401, `{"error":{"message":"Missing scopes: api.model.read"}}`),
	"403":                   jsonAnswer(403, `{}`),
	"404":                   jsonAnswer(404, `{"detail":"Not Found"}`),
	"429":                   jsonAnswer(429, `{}`),
	"500":                   jsonAnswer(500, `oops`),
	"a redirect":            "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
	"a page":                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<h1>",
	"a string":              jsonAnswer(200, `"m"`),
	"a number":              jsonAnswer(200, `1`),
	"null":                  jsonAnswer(200, `null`),
	"nothing":               jsonAnswer(200, ``),
	"an error with a 200":   jsonAnswer(200, `{"error":{"message":"no"}}`),
	"half of an object":     jsonAnswer(200, `{"data":[{"id":"m"},`),
	"another protocol":      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n<<HANG>>",
	"a list of other kinds": jsonAnswer(200, `{"data":{"m":{}}}`),
	"deep nesting":          jsonAnswer(200, strings.Repeat("[", 1<<20)),
	"silence":               "<<HANG>>HTTP/1.1 200 OK\r\n\r\n",
	"a byte a second":       script("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + strings.Repeat("[<<+1s>>", 99)),
	"an end without answer": "<<CUT>>HTTP/1.1 ",
	"a reset":               "<<RST>>HTTP/1.1 ",
	"no HTTP":               "SSH-2.0-OpenSSH_9.2\r\nHTTP/1.1 ",
	"too much":              script("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("10000\r\n<65536 x a>\r\n", 80)),
}

// fireworks (bilingual_book_maker#527), Together (bifrost#6711): where the model is configured, no answer of
// /v1/models or /tokenize keeps a probe from being sent, and none is told more than once.
func TestCourtesiesDecideNothing(t *testing.T) {
	for name, answer := range courtesyAnswers {
		for _, path := range []string{"/v1/models", "/tokenize"} {
			t.Run(path+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s, log := &fakeServer{}, "prompt length is corrected by the server's usage instead of its tokenizer"
					if s.tokenize = func(sentRequest) script { return answer }; path == "/v1/models" {
						s.models, s.tokenize = string(answer), tokenizer(10, 0)
						log = "the list of models cannot be read"
					}
					g := newRig(t, s.dial, target())
					for n := range 5 {
						res := g.once(t)
						if !res.OK() || res.Suspect != 0 {
							t.Fatalf("probe %d: %s (%v)", n, outcome(res), res.Err)
						}
						wait := res.Sent.Sub(res.Started)
						if n == 0 && wait > 2500*time.Millisecond || n > 0 && wait > 0 { // a quarter of the timeout
							t.Errorf("probe %d was held up for %v", n, wait)
						}
					}
					if n := s.asked(path); n != 1 {
						t.Errorf("asked %d times", n)
					}
					if n := strings.Count(g.logs.String(), log); n != 1 {
						t.Errorf("told %d times:\n%s", n, g.logs)
					}
				})
			})
		}
	}
}

// The whole search for a prompt's length is bounded, be each answer ever so right.
func TestSlowTokenizer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := counting(10, 0)
		quick := s.tokenize
		s.tokenize = func(r sentRequest) script { return "<<+900ms>>" + quick(r) }
		res := probeOnce(t, s, target())
		if wait := res.Sent.Sub(res.Started); !res.OK() || wait > 2500*time.Millisecond {
			t.Errorf("%s (%v), held up for %v", outcome(res), res.Err, wait)
		}
	})
}

// A list that could not be read is asked for again every ten minutes, while no probe waits for it.
func TestListIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{models: string(courtesyAnswers["silence"])}
		g := newRig(t, s.dial, target(every(10*time.Second, 35*time.Second, 5)))
		end := g.begin(t)
		time.Sleep(time.Hour)
		if n := s.asked("/v1/models"); n < 5 || n > 7 {
			t.Errorf("asked %d times in an hour", n)
		}
		s.mu.Lock()
		s.models = fakeModels
		s.mu.Unlock()
		time.Sleep(15 * time.Minute)
		end()
		for _, r := range g.rec.results[1:] {
			if wait := r.Sent.Sub(r.Started); !r.Abandoned && wait > 0 {
				t.Errorf("held up for %v", wait)
			}
		}
		if got := g.Model().MaxLen; got != 8192 {
			t.Errorf("max_model_len %d", got)
		}
	})
}

// What a server did not tell while it was down is asked for once it is there.
func TestCourtesiesOfAServerThatComesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := counting(10, 0)
		loading := jsonAnswer(503, `{"error":"loading"}`)
		answer, chat := s.tokenize, s.script
		s.models, s.tokenize, s.script = string(loading), func(sentRequest) script { return loading }, func(int, sentRequest) script { return loading }
		g := newRig(t, s.dial, target())
		for range 3 {
			if res := g.once(t); res.Reason != ReasonOverloaded {
				t.Errorf("%s", outcome(res))
			}
			time.Sleep(time.Minute)
		}
		if log := g.logs.String(); strings.Contains(log, "tokenizer") || strings.Contains(log, "list of models") {
			t.Errorf("told of a server that is down: %s", log)
		}
		s.models, s.tokenize, s.script = fakeModels, answer, chat
		if res := g.once(t); !res.OK() || res.PromptTokens != 512 || g.Model().MaxLen != 8192 {
			t.Errorf("%s, %+v", outcome(res), g.Model())
		}
	})
}

// A server that always fails is not asked for courtesies before each probe, but at last as seldom as one that succeeds.
func TestCourtesiesOfAServerThatAlwaysFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{
			models: string(courtesyAnswers["500"]), tokenize: func(sentRequest) script { return courtesyAnswers["404"] },
			script: func(int, sentRequest) script { return courtesyAnswers["500"] },
		}
		g := newRig(t, s.dial, target(every(10*time.Second, 5*time.Second, 5)))
		end := g.begin(t)
		defer end()
		before := map[string]int{}
		for _, c := range []struct {
			time  time.Duration
			least int
		}{{10 * time.Minute, 5}, {time.Hour, 5}} { // after 0, 10, 30, 70, 150, 310 s, then every 600 s at most
			time.Sleep(c.time)
			for _, path := range []string{"/v1/models", "/tokenize"} {
				if n := s.asked(path) - before[path]; n < c.least || n > 7 {
					t.Errorf("%s was asked for %d times in %v, not %d to 7 times", path, n, c.time, c.least)
				}
				before[path] = s.asked(path)
			}
		}
	})
}

// Where no model is configured, the list is part of the probe, in whatever shape it comes.
func TestListsOfModels(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"OpenAI", `{"object":"list","data":[{"id":"a","object":"model"},{"id":"b"}]}`, "a"},
		{"Together, a bare array", `[{"id":"a","type":"chat"}]`, "a"},
		{"Ollama", `{"models":[{"name":"a:latest","model":"a:latest"}]}`, "a:latest"},
		{"llama.cpp, both", `{"models":[{"name":"file.gguf"}],"object":"list","data":[{"id":"a"}]}`, "a"},
		{"names", `["a","b"]`, "a"},
		{"models by another key", `{"data":[{"model":"a"}]}`, "a"},
		{"names below data", `{"data":["a"]}`, "a"},
		{"entries that are none", `{"data":[null,1,{},{"id":7},{"id":""},{"id":"a"}]}`, "a"},
		{"an id of a megabyte", `{"data":[{"id":"` + strings.Repeat("x", 1<<20) + `"},{"id":"a"}]}`, "a"},
		{"control characters", `{"data":[{"id":"x\n\u001b[31m"},{"id":"x\u202ey"},{"id":"a"}]}`, "a"},
		{"twice the same", `{"data":[{"id":"a"},{"id":"a"}]}`, "a"},
		{"none", `{"data":[]}`, "model_not_found"},
		{"null", `{"object":"list","data":null}`, "model_not_found"},
		{"no usable name", `[{"id":"\u0000"}]`, "model_not_found"},
		{"another object", `{"error":"no"}`, "malformed"},
		{"no JSON", `<html>`, "malformed"},
		{"401", string(courtesyAnswers["401, missing scopes"]), "auth"},
		{"429", string(courtesyAnswers["429"]), "rate_limited"},
		{"a reset", string(courtesyAnswers["a reset"]), "conn_reset"},
		{"too much", string(courtesyAnswers["too much"]), "too_large"},
		{"silence", string(courtesyAnswers["silence"]), "timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w := &fakeServer{models: c.body}, target()
				w.Model = ""
				res := probeOnce(t, s, w)
				got := string(res.Reason)
				if res.OK() {
					got = s.sent()[0].body["model"].(string)
				}
				if got != c.want || res.OK() && res.Model != c.want {
					t.Errorf("%s, want %s (%v)", got, c.want, res.Err)
				}
			})
		})
	}
}

// A model that was found before is asked for again when its list fails.
func TestModelIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := &fakeServer{}, target()
		w.Model = ""
		g := newRig(t, s.dial, w)
		g.once(t)
		s.models = string(courtesyAnswers["500"])
		s.script = func(n int, _ sentRequest) script {
			if n == 1 {
				return jsonAnswer(400, `{"error":"no"}`)
			}
			return defaultScript
		}
		g.once(t) // refused: the next asks again
		if res := g.once(t); !res.OK() || res.Model != "m" {
			t.Errorf("%s (%v)", outcome(res), res.Err)
		}
	})
}

// llm-d-inference-sim#442: limits that are none are unknown, and an adapter has its base's.
func TestContextOfAModel(t *testing.T) {
	for raw, want := range map[string]int{
		"4096": 4096, "0": 0, "-1": 0, "1e30": 0, "4096.5": 0, `"4096"`: 0, "null": 0, "[1]": 0, "99999999999999999999": 0,
	} {
		list, err := parseModels(fmt.Appendf(nil, `{"data":[{"id":"m","max_model_len":%s}]}`, raw))
		if got := contextOf(list, "m"); err != nil || got != want {
			t.Errorf("%s: %d, want %d (%v)", raw, got, want, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{models: `{"data":[{"id":"base","root":"./b","parent":null,"max_model_len":512},{"id":"m","root":"./l","parent":"base","max_model_len":null}]}`}
		if res := probeOnce(t, s, target()); !res.Abandoned || len(s.sent()) != 0 {
			t.Errorf("a prompt that the base cannot hold: %s, %d requests", outcome(res), len(s.sent()))
		}
	})
}

// vllm-project/vllm#2894, #51266: the other names of a model.
func TestAliasesOfAModel(t *testing.T) {
	list, err := parseModels([]byte(`{"data":[{"id":"a","root":"./x"},{"id":"b","root":"./x"},{"id":"lora","root":"./l","parent":"a"},
		{"id":"trick","root":"./x","parent":"c"},{"id":"c","root":"./y"},{"id":"loop","parent":"loop2"},{"id":"loop2","parent":"loop"},{"id":"plain"},{"id":"plain2"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][]string{
		"a": {"b"}, "b": {"a"}, "lora": {"a", "b"}, "c": nil, "loop": {"loop2"}, "plain": nil, "unlisted": nil,
	} {
		if got := aliasesOf(list, id); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{models: `{"data":[{"id":"m","root":"./x"},{"id":"b","root":"./x"}]}`}
		g := newRig(t, s.dial, target())
		g.once(t)
		if d := g.prepare(g.loops[0]); !slices.Equal(d.request.aliases, []string{"b"}) {
			t.Errorf("the request knows the names %q", d.request.aliases)
		}
	})
}

// Counts that cannot be: the tokenizer is no tokenizer, and the length is found in another way.
func TestCountsThatCannotBe(t *testing.T) {
	honest := func(r sentRequest) int { return toyCount(r, 10, 0) }
	chat := func(r sentRequest) bool { return r.body["messages"] != nil }
	asked := 0
	for name, count := range map[string]func(sentRequest) string{
		"below 0 for messages": func(r sentRequest) string {
			if chat(r) {
				return "-2000000000"
			}
			return fmt.Sprint(honest(r))
		},
		"huge for messages": func(r sentRequest) string {
			if chat(r) {
				return "2000000000"
			}
			return fmt.Sprint(honest(r))
		},
		"fewer than words": func(r sentRequest) string {
			if chat(r) {
				return "0"
			}
			return fmt.Sprint(honest(r))
		},
		"the same for any messages": func(r sentRequest) string {
			if chat(r) {
				return "8000"
			}
			return fmt.Sprint(honest(r))
		},
		"always 1": func(sentRequest) string { return "1" },
		"rising by itself": func(sentRequest) string {
			asked++
			return fmt.Sprint(asked)
		},
		"a string":      func(r sentRequest) string { return fmt.Sprintf("%q", fmt.Sprint(honest(r))) },
		"a fraction":    func(r sentRequest) string { return fmt.Sprintf("%d.5", honest(r)) },
		"an exponent":   func(sentRequest) string { return "1e300" },
		"over an int64": func(sentRequest) string { return "99999999999999999999" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := wordwise("{ROLE}{C:a}{FIN:length}{USAGE:%d,128}{DONE}")
				s.tokenize = func(r sentRequest) script { return jsonAnswer(200, `{"count":`+count(r)+`}`) }
				g := newRig(t, s.dial, target())
				g.once(t)
				if res := g.once(t); !res.OK() || res.PromptTokens != 512 {
					t.Errorf("%s (%v)", outcome(res), res.Err)
				}
			})
		})
	}
}

// A count of usage that does not follow the prompt ends its correction: prompts stay bounded and are as they were at
// first, which is told once.
func TestUsageThatDoesNotFollow(t *testing.T) {
	for name, count := range map[string]func(n, words int) int{
		"always 1":      func(int, int) int { return 1 },
		"always 500":    func(int, int) int { return 500 },
		"always 600":    func(int, int) int { return 600 },
		"falling":       func(n, words int) int { return max(1, 400-words/2) },
		"by chance":     func(n, _ int) int { return []int{300, 9000, 40, 700, 2, 511}[n%6] },
		"huge":          func(int, int) int { return 20_000 },
		"once in three": func(n, words int) int { return []int{words + 14, 1, 1}[n%3] },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{script: func(n int, r sentRequest) script {
					return script(fmt.Sprintf("{ROLE}{C:a}{FIN:length}{USAGE:%d,128}{DONE}", count(n, len(strings.Fields(r.prompt()))-1)))
				}}
				g := newRig(t, s.dial, target())
				for range 100 {
					if res := g.once(t); !res.OK() || (res.PromptTokens != 512) != res.Suspect.Has(SuspectPromptLength) {
						t.Fatalf("%s (%v)", outcome(res), res.Err)
					}
				}
				sent := s.sent()
				for _, r := range sent {
					if words := len(strings.Fields(r.prompt())); words > 2*512+1 {
						t.Fatalf("a prompt of %d words", words)
					}
				}
				if first, last := len(strings.Fields(sent[0].prompt())), len(strings.Fields(sent[99].prompt())); first != last {
					t.Errorf("the first prompt has %d words, the last %d", first, last)
				}
				if n := strings.Count(g.logs.String(), "does not follow"); n != 1 {
					t.Errorf("told %d times:\n%s", n, g.logs)
				}
			})
		})
	}
}

// A count that does follow is corrected, however far off the guess is.
func TestUsageThatFollows(t *testing.T) {
	for name, count := range map[string]func(words int) int{
		"a template of 300":      func(words int) int { return words + 300 },
		"two tokens a word":      func(words int) int { return 2*words + 12 },
		"a token a byte":         func(words int) int { return 6*words + 40 },
		"two words in one token": func(words int) int { return words/2 + 12 },
	} {
		f, last := guess(&Workload{PromptTokens: 512, API: Chat}), 0
		for range 60 {
			last = count(f.user)
			f.correct(f.user, last, 512)
		}
		if f.lost || last < 512-40 || last > 512+40 {
			t.Errorf("%s: %d tokens, lost %v", name, last, f.lost)
		}
	}
}

// Any count of a tokenizer: it is refused, or between 0 and the number of bytes.
func FuzzCount(f *testing.F) {
	for _, seed := range []string{"1", "-1", "1e9", `"1"`, "null", "1.0", "99999999999999999999"} {
		f.Add(seed, 100)
	}
	f.Fuzz(func(t *testing.T, raw string, most int) {
		if n, ok := wholeNumber(json.RawMessage(raw), most); n < 0 || n > max(0, most) || !ok && n != 0 {
			t.Errorf("%d, %v", n, ok)
		}
	})
}
