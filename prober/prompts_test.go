package prober

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// counting is a server with a toy tokenizer, which counts the tokens of its prompts too.
func counting(template, ownSystem int) *fakeServer {
	return &fakeServer{tokenize: tokenizer(template, ownSystem), script: func(_ int, r sentRequest) script {
		return script(fmt.Sprintf("{ROLE}<<+100ms>>{C:a}<<+20ms>>{C:b}{FIN:length}{USAGE:%d,128}{DONE}", toyCount(r, template, ownSystem)))
	}}
}

// With the server's tokenizer, prompts have their exact length from the first on.
func TestPromptsHaveTheirExactLength(t *testing.T) {
	for _, c := range []struct {
		name                string
		api                 API
		tokens              int
		template, ownSystem int
		system              bool // a system message of ours is sent
	}{
		{"chat", Chat, 512, 10, 0, false},
		{"chat, short", Chat, 32, 10, 0, false},
		{"chat, long", Chat, 4096, 10, 0, false},
		{"completions", Completions, 512, 0, 0, false},
		{"a template with a system prompt of its own", Chat, 512, 10, 40, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := counting(c.template, c.ownSystem)
				p := plan()
				p.API, p.PromptTokens = c.api, c.tokens
				g := newRig(t, s.dial, target(p))
				for range 5 {
					if res := g.once(t); !res.OK() || res.PromptTokens != c.tokens || res.Suspect != 0 {
						t.Errorf("%s (%v)", outcome(res), res.Err)
					}
				}
				calls := s.asked("/tokenize")
				if calls > maxTokenizeCalls+verifications+3 {
					t.Errorf("%d calls of the tokenizer", calls)
				}
				g.once(t)
				if again := s.asked("/tokenize") - calls; again != 0 {
					t.Errorf("%d calls for one more probe", again)
				}
				for _, r := range s.sent() {
					messages := r.messages()
					if got := len(messages) == 2; got != c.system {
						t.Errorf("%d messages", len(messages))
					}
					if c.system && strings.HasPrefix(messages[0], messages[1][:20]) {
						t.Errorf("system message %q and user's message begin alike", messages[0])
					}
				}
			})
		})
	}
}

// wordwise answers probes with usage of one token a word, 41 more around them, and no tokenizer.
func wordwise(answer string) *fakeServer {
	return &fakeServer{script: func(_ int, r sentRequest) script {
		return script(fmt.Sprintf(answer, len(strings.Fields(r.prompt()))+41))
	}}
}

// c02 (modelscope/evalscope#681, vllm-project/aibrix#726): without a tokenizer, the first probe tells by usage how
// much the template adds, and the second is exact.
func TestPromptLengthIsCorrectedByUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wordwise("{ROLE}{C:a}{FIN:length}{USAGE:%d,128}{DONE}")
		g := newRig(t, s.dial, target())
		first, second := g.once(t), g.once(t)
		if first.PromptTokens != 540 || first.Suspect != SuspectPromptLength {
			t.Errorf("first: %s", outcome(first))
		}
		if second.PromptTokens != 512 || second.Suspect != 0 {
			t.Errorf("second: %s", outcome(second))
		}
	})
}

// Corrections count from the prompt that was counted: answers that overlap do not correct the same error twice.
func TestOverlappingProbesCorrectThePromptLengthOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := wordwise("{ROLE}{C:a}<<+35s>>{C:b}{FIN:length}{USAGE:%d,128}{DONE}")
		g := newRig(t, s.dial, target(every(10*time.Second, time.Minute, 7)))
		g.runFor(t, 3*time.Minute)
		var lengths []int
		for _, r := range g.rec.results {
			if !r.Abandoned {
				lengths = append(lengths, r.PromptTokens)
			}
		}
		if got, want := fmt.Sprint(lengths), "[540 540 540 540 512 512 512 512 512 512 512 512 512 512]"; got != want {
			t.Errorf("prompt lengths %s\nwant %s", got, want)
		}
	})
}

// Prompts do not repeat, not after a restart either, though the decoding seed stays.
func TestPromptsNeverRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := counting(10, 0)
		for range 2 {
			g := newRig(t, s.dial, target())
			for range 20 {
				g.once(t)
			}
		}
		// 64^10 beginnings of a first cache block of 16 tokens.
		heads, salts, ids := map[string]bool{}, map[any]bool{}, map[string]bool{}
		for _, r := range s.sent() {
			heads[strings.Join(strings.Fields(r.prompt())[:12], " ")] = true
			salts[r.body["cache_salt"]] = true
			ids[r.header.Get("X-Request-Id")] = true
			if r.body["seed"] != 42. {
				t.Errorf("seed %v", r.body["seed"])
			}
		}
		if len(heads) != 40 || len(salts) != 40 || len(ids) != 40 {
			t.Errorf("%d beginnings, %d salts, %d ids in 40 requests", len(heads), len(salts), len(ids))
		}
	})
}

// p21: a request that the model cannot hold is found before the first probe and told once, with the numbers. The
// slots are missed; it is no failure of the server. When the server has grown, probing begins.
func TestWorkloadThatTheModelCannotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{models: `{"data":[{"id":"m","max_model_len":512}]}`}
		g := newRig(t, s.dial, target(every(10*time.Second, 35*time.Second, 5)))
		end := g.begin(t)
		time.Sleep(20 * time.Minute)
		if n := len(s.sent()); n != 0 {
			t.Errorf("%d requests were sent", n)
		}
		// It is looked at again every five minutes, and each of 120 slots is missed.
		if got := g.rec.tally(); got != "4 started, 4 ended, 120 missed" || g.rec.reasons()["abandoned"] != 4 {
			t.Errorf("%s: %v", got, g.rec.reasons())
		}
		want := `workload=w err="prompt_tokens 512 and output_tokens 128 are 640 together; model \"m\" takes at most 512 (max_model_len)"`
		if n := strings.Count(g.logs.String(), "level=error"); n != 1 || !strings.Contains(g.logs.String(), want) {
			t.Errorf("told %d times:\n%s", n, g.logs)
		}
		s.mu.Lock()
		s.models = fakeModels
		s.mu.Unlock()
		time.Sleep(unfitRecheck + 20*time.Second)
		end()
		if g.rec.reasons()["ok"] < 1 {
			t.Errorf("a server that has grown is not probed: %v", g.rec.reasons())
		}
	})
}

// The same limit, told by the tokenizer only; and a template that leaves no room.
func TestPromptThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		tokens   int
		template int
		tells    string
	}{
		"the tokenizer's limit":   {8100, 10, "takes at most 8192 (max_model_len)"},
		"a template without room": {16, 30, "prompt_tokens: 16 leaves no room: the server's template alone has"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := counting(c.template, 0)
				s.models = `{"data":[{"id":"m"}]}`
				p := plan()
				p.PromptTokens = c.tokens
				g := newRig(t, s.dial, target(p))
				if res := g.once(t); !res.Abandoned || len(s.sent()) != 0 || !strings.Contains(g.logs.String(), c.tells) {
					t.Errorf("%s, %d requests, log %s", outcome(res), len(s.sent()), g.logs)
				}
			})
		})
	}
}

// Without a configured model, it is the first that the server lists; when another takes its place, prompts are
// fitted again.
func TestModelThatTheServerLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := counting(10, 0)
		s.models = `{"data":[{"id":"first"},{"id":"second"}]}`
		refuse := false
		s.dialing = func(string, string) error {
			if refuse {
				return refusedError
			}
			return nil
		}
		target := target()
		target.Model = ""
		g := newRig(t, s.dial, target)
		if res := g.once(t); res.Model != "first" || res.PromptTokens != 512 {
			t.Errorf("model %q, %s", res.Model, outcome(res))
		}
		refuse = true
		g.once(t) // the server is gone
		refuse = false
		s.models = `{"data":[{"id":"new"}]}`
		asked := s.asked("/tokenize")
		if res := g.once(t); res.Model != "new" || !res.OK() {
			t.Errorf("model %q, %s (%v)", res.Model, outcome(res), res.Err)
		}
		if s.asked("/tokenize") == asked {
			t.Error("the new model's tokenizer was not asked")
		}
		sent := s.sent()
		if got := sent[len(sent)-1].body["model"]; got != "new" {
			t.Errorf("asked for the model %v", got)
		}
	})
}

// A restart that becomes known while the server is being asked does not mix what was known before and after.
func TestRestartWhileTheServerIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := counting(10, 0)
		var g *rig
		calls := 0
		answer := s.tokenize
		s.tokenize = func(r sentRequest) script {
			if calls++; calls == 3 {
				g.WarmUp()
			}
			return answer(r)
		}
		g = newRig(t, s.dial, target())
		if res := g.once(t); !res.OK() || res.Model != "m" || res.PromptTokens != 512 {
			t.Errorf("%s (%v), model %q", outcome(res), res.Err, res.Model)
		}
		if got := s.sent()[0].body["model"]; got != "m" {
			t.Errorf("asked for the model %q", got)
		}
	})
}
