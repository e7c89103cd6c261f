package vllmsim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// FaultName is one way in which a server can be wrong. The set is closed.
type FaultName string

// The faults. [Faults] tells what each does and what its value means.
const (
	Hang         FaultName = "hang"
	Crash        FaultName = "crash"
	SlowDown     FaultName = "slow_down"
	SlowHeaders  FaultName = "slow_headers"
	Status       FaultName = "status"
	RefuseField  FaultName = "refuse_field"
	HTML         FaultName = "html"
	InBandError  FaultName = "in_band_error"
	Truncated    FaultName = "truncated"
	Reset        FaultName = "reset"
	Garbage      FaultName = "garbage"
	EndlessEvent FaultName = "endless_event"
	Endless      FaultName = "endless"
	LongOutput   FaultName = "long_output"
	ShortOutput  FaultName = "short_output"
	EmptyOutput  FaultName = "empty_output"
	Degenerate   FaultName = "degenerate"
	Drip         FaultName = "drip"
	Coalesced    FaultName = "coalesced"
	WrongPrompt  FaultName = "wrong_prompt_count"
	WrongOutput  FaultName = "wrong_output_count"
	NoUsage      FaultName = "no_usage"
	NoDone       FaultName = "no_done"
	CachedPrompt FaultName = "cached_prompt"
	OtherModel   FaultName = "other_model"

	OldError      FaultName = "old_error"
	ErrorField    FaultName = "error_field"
	Abort         FaultName = "abort"
	NoFinish      FaultName = "no_finish_reason"
	FinishReason  FaultName = "finish_reason"
	MistralPrompt FaultName = "mistral_tokenizer"
)

// Fault switches one fault on. An empty value means the default that [Faults] tells.
type Fault struct {
	Name  FaultName
	Value string
}

// setting is a fault's value, read in the one way that makes sense for it.
type setting struct {
	text     string
	number   float64
	duration time.Duration
	since    time.Time
}

func (v setting) count() int { return int(v.number) }

// kind reads a value.
type kind func(text string) (setting, error)

func none(text string) (setting, error) {
	if text != "" {
		return setting{}, fmt.Errorf("takes no value, got %q", text)
	}
	return setting{}, nil
}

func word(text string) (setting, error) { return setting{text: text}, nil }

func duration(text string) (setting, error) {
	d, err := time.ParseDuration(text)
	return setting{text: text, duration: d}, err
}

func number(text string) (setting, error) {
	f, err := strconv.ParseFloat(text, 64)
	return setting{text: text, number: f}, err
}

func count(text string) (setting, error) {
	n, err := strconv.Atoi(text)
	return setting{text: text, number: float64(n)}, err
}

// plan is how an answer will go. Faults change it.
type plan struct {
	outputTokens int
	finish       string
	cached       int // prompt tokens
	contentType  string

	promptError int // added to the count of prompt tokens
	outputError int
	noUsage     bool
	noDone      bool
	mute        bool // no text and no tokens
	degenerate  bool

	drip  time.Duration
	burst int

	cutAfter int // tokens
	cut      func(*sse)
}

func newPlan(tokens int) plan {
	return plan{outputTokens: tokens, finish: "length", contentType: "text/event-stream; charset=utf-8"}
}

// behaviour is what a fault does, at one or more of four places.
type behaviour struct {
	doc      string
	kind     kind
	fallback string // value if none is given
	// engine switches the scheduler when the fault is set and cleared.
	engine func(s *Server, v setting, on bool)
	// answer replies in place of the API server if it returns true.
	answer func(ctx context.Context, w http.ResponseWriter, v setting) bool
	// refuse finds fault with a request.
	refuse func(b *body, v setting) *apiError
	// plan changes how an answer goes.
	plan func(a *answer, v setting)
}

// cut ends an answer after as many tokens as the value says.
func cut(how func(*sse)) func(*answer, setting) {
	return func(a *answer, v setting) { a.plan.cut, a.plan.cutAfter = how, v.count() }
}

// behaviours is the table of all faults.
func behaviours() map[FaultName]behaviour {
	return map[FaultName]behaviour{
		Hang: {
			doc: "the engine stops stepping; /health stays 200 and /metrics stands still", kind: none,
			engine: func(s *Server, _ setting, on bool) { s.proc.engine.SetPaused(on) },
		},
		Crash: {
			doc: "the engine dies in mid stream, then 500s and /health 503; after VALUE the process is gone and connections close unanswered (0s: never). Clearing it restarts the server", kind: duration, fallback: "0s",
			engine: func(s *Server, _ setting, on bool) {
				if on {
					s.proc.engine.Kill()
				} else {
					s.restart()
				}
			},
		},
		SlowDown: {
			doc: "every engine step takes VALUE times as long", kind: number, fallback: "3",
			engine: func(s *Server, v setting, on bool) {
				if !on {
					v.number = 1
				}
				s.proc.engine.SetSlowdown(v.number)
			},
		},
		SlowHeaders: {
			doc: "completions answer nothing for VALUE", kind: duration, fallback: "2s",
			answer: func(ctx context.Context, _ http.ResponseWriter, v setting) bool { return sleep(ctx, v.duration) != nil },
		},
		Status: {
			doc: "completions answer with status VALUE", kind: count, fallback: "503",
			answer: func(_ context.Context, w http.ResponseWriter, v setting) bool {
				answerStatus(w, v.count())
				return true
			},
		},
		RefuseField: {
			doc: "requests that set the field VALUE get a 400 that names it", kind: word, fallback: "cache_salt",
			refuse: func(b *body, v setting) *apiError {
				if _, set := b.fields[v.text]; !set {
					return nil
				}
				loc := "body." + v.text
				return validationError(loc, problem{"extra_forbidden", loc, "Extra inputs are not permitted", text(b.fields[v.text])}.String())
			},
		},
		HTML: {
			doc: "streams say that they are text/html", kind: none,
			plan: func(a *answer, _ setting) { a.plan.contentType = "text/html; charset=utf-8" },
		},
		InBandError: {
			doc: "an error inside the stream after VALUE tokens", kind: count, fallback: "5",
			plan: cut(func(o *sse) { o.fail(engineDead()) }),
		},
		OldError: {
			doc: "an error inside the stream after VALUE tokens, in the shape of vLLM before 0.10", kind: count, fallback: "5",
			plan: cut(func(o *sse) {
				e := engineDead()
				o.send(fmt.Appendf(nil, `{"object": "error", "message": %s, "type": %s, "param": null, "code": %d}`, toJSON(e.Message), toJSON(e.Type), e.Code))
				o.send([]byte("[DONE]"))
			}),
		},
		ErrorField: {
			doc: "an error inside the stream after VALUE tokens, in a field of its own instead of data, as llama.cpp sent it", kind: count, fallback: "5",
			plan: cut(func(o *sse) {
				o.write([]byte(`error: {"code":500,"message":"context shift is disabled","type":"server_error"}` + "\n\n"))
				o.send([]byte("[DONE]"))
			}),
		},
		Abort: {
			doc: "answers end after VALUE tokens with finish_reason abort, as vLLM ends them when it shuts down or sleeps", kind: count, fallback: "5",
			plan: func(a *answer, v setting) {
				a.plan.outputTokens, a.plan.finish = max(1, min(v.count(), a.plan.outputTokens)), "abort"
			},
		},
		NoFinish: {
			doc: "streams end after VALUE tokens with [DONE], but without a finish reason", kind: count, fallback: "5",
			plan: cut(func(o *sse) { o.send([]byte("[DONE]")) }),
		},
		FinishReason: {
			doc: "answers end with finish_reason VALUE", kind: word, fallback: "done",
			plan: func(a *answer, v setting) { a.plan.finish = v.text },
		},
		MistralPrompt: {
			doc: "requests that set chat_template_kwargs get a 400, as of a vLLM with a Mistral tokenizer", kind: none,
			refuse: func(b *body, _ setting) *apiError {
				if _, set := b.fields["chat_template_kwargs"]; !set {
					return nil
				}
				return badRequest("", "chat_template is not supported for Mistral tokenizers.")
			},
		},
		Truncated: {
			doc: "the stream ends cleanly after VALUE tokens, without a finish reason", kind: count, fallback: "5",
			plan: cut(func(*sse) {}),
		},
		Reset: {
			doc: "the connection is reset after VALUE tokens", kind: count, fallback: "5",
			plan: cut((*sse).reset),
		},
		Garbage: {
			doc: "an event after VALUE tokens is no JSON", kind: count, fallback: "5",
			plan: cut(func(o *sse) {
				o.send([]byte(`{"id":"chatcmpl-0","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"cont`))
				o.send([]byte("[DONE]"))
			}),
		},
		EndlessEvent: {
			doc: "an event after VALUE tokens has no end", kind: count, fallback: "5",
			plan: cut(func(o *sse) {
				block := []byte(`data: {"pad":"` + string(slices.Repeat([]byte("x"), 64<<10)))
				for o.ctx.Err() == nil && o.put(block) == nil {
				}
			}),
		},
		Endless: {
			doc: "answers never end", kind: none,
			plan: func(a *answer, _ setting) { a.plan.outputTokens = math.MaxInt32 },
		},
		LongOutput: {
			doc: "answers are VALUE times as long as asked", kind: number, fallback: "3",
			plan: func(a *answer, v setting) { a.plan.outputTokens = max(1, int(v.number*float64(a.plan.outputTokens))) },
		},
		ShortOutput: {
			doc: "answers stop after VALUE tokens", kind: count, fallback: "3",
			plan: func(a *answer, v setting) {
				if n := max(1, v.count()); n < a.plan.outputTokens {
					a.plan.outputTokens, a.plan.finish = n, "stop"
				}
			},
		},
		EmptyOutput: {
			doc: "answers finish without a token", kind: none,
			plan: func(a *answer, _ setting) { a.plan.outputTokens, a.plan.finish, a.plan.mute = 1, "stop", true },
		},
		Degenerate: {
			doc: "every token is an exclamation mark", kind: none,
			plan: func(a *answer, _ setting) { a.plan.degenerate = true },
		},
		Drip: {
			doc: "the bytes of each event take VALUE to come", kind: duration, fallback: "10ms",
			plan: func(a *answer, v setting) { a.plan.drip = v.duration },
		},
		Coalesced: {
			doc: "a proxy holds VALUE events back and sends them at once (0: the whole answer)", kind: count, fallback: "0",
			plan: func(a *answer, v setting) { a.plan.burst = cmp.Or(v.count(), math.MaxInt) },
		},
		WrongPrompt: {
			doc: "usage counts VALUE prompt tokens too many", kind: count, fallback: "7",
			plan: func(a *answer, v setting) { a.plan.promptError = v.count() },
		},
		WrongOutput: {
			doc: "usage counts VALUE output tokens too many", kind: count, fallback: "-2",
			plan: func(a *answer, v setting) { a.plan.outputError = v.count() },
		},
		NoUsage: {
			doc: "no usage, although it was asked for", kind: none,
			plan: func(a *answer, _ setting) { a.plan.noUsage = true },
		},
		NoDone: {
			doc: "streams end without [DONE]", kind: none,
			plan: func(a *answer, _ setting) { a.plan.noDone = true },
		},
		CachedPrompt: {
			doc: "all but the last tokens of a prompt come from the prefix cache, whatever its salt", kind: none,
			plan: func(a *answer, _ setting) { a.plan.cached, a.created = (len(a.prompt)-1)/blockSize*blockSize, 0 },
		},
		OtherModel: {
			doc: "the stream names the model VALUE", kind: word, fallback: "other",
			plan: func(a *answer, v setting) { a.model = v.text },
		},
	}
}

// answerStatus replies as a server or a gateway does with that status.
func answerStatus(w http.ResponseWriter, status int) {
	switch status {
	case http.StatusSwitchingProtocols:
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "websocket")
		w.WriteHeader(status)
	case http.StatusUnauthorized:
		writeJSON(w, status, map[string]string{"error": "Unauthorized"})
	case http.StatusNotFound:
		modelNotFound("gone", nil).write(w)
	case http.StatusInternalServerError:
		engineDead().write(w)
	case http.StatusServiceUnavailable:
		queueFull().write(w)
	case http.StatusFound:
		w.Header().Set("Location", "/v1/models")
		w.WriteHeader(status)
	default:
		w.Header().Set("Retry-After", "1")
		(&apiError{Message: http.StatusText(status), Type: http.StatusText(status), Code: status}).write(w)
	}
}

// FaultInfo describes a fault to a person.
type FaultInfo struct {
	Name    FaultName `json:"name"`
	Doc     string    `json:"doc"`
	Default string    `json:"default,omitempty"`
	Active  bool      `json:"active"`
	Value   string    `json:"value,omitempty"`
}

// Faults lists every fault and whether it is on, by name.
func (s *Server) Faults() []FaultInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var infos []FaultInfo
	for _, name := range slices.Sorted(maps.Keys(s.behaviours)) {
		v, active := s.faults[name]
		infos = append(infos, FaultInfo{name, s.behaviours[name].doc, s.behaviours[name].fallback, active, v.text})
	}
	return infos
}

// SetFault switches a fault on, beside those that are. It fails for a name or a value that makes no sense.
func (s *Server) SetFault(f Fault) error {
	b, known := s.behaviours[f.Name]
	if !known {
		return fmt.Errorf("no fault is named %q", f.Name)
	}
	v, err := b.kind(cmp.Or(f.Value, b.fallback))
	if err != nil {
		return fmt.Errorf("fault %s: %w", f.Name, err)
	}
	v.since = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[f.Name] = v
	if b.engine != nil {
		b.engine(s, v, true)
	}
	return nil
}

// ClearFault switches faults off: those named, or all. Answers that have begun keep theirs.
func (s *Server) ClearFault(names ...FaultName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(s.faults))
	}
	for _, name := range names {
		v, active := s.faults[name]
		delete(s.faults, name)
		if b := s.behaviours[name]; active && b.engine != nil {
			b.engine(s, v, false)
		}
	}
}

// activeFault is a fault that is on, with its value.
type activeFault struct {
	behaviour
	setting setting
}

func (s *Server) activeFaults() []activeFault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var active []activeFault
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		active = append(active, activeFault{s.behaviours[name], s.faults[name]})
	}
	return active
}

// breakIfGone ends the connection unanswered if a crash took the process with it.
func (s *Server) breakIfGone() {
	s.mu.Lock()
	v, crashed := s.faults[Crash]
	s.mu.Unlock()
	if crashed && v.duration > 0 && time.Since(v.since) >= v.duration {
		panic(http.ErrAbortHandler)
	}
}

// serveFault lists faults (GET), switches one on (POST name, value) or off (DELETE name; all without a name).
func (s *Server) serveFault(w http.ResponseWriter, r *http.Request) {
	name := FaultName(r.FormValue("name"))
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		if err := s.SetFault(Fault{name, r.FormValue("value")}); err != nil {
			badRequest("name", "%v", err).write(w)
			return
		}
	case http.MethodDelete:
		if name == "" {
			s.ClearFault()
		} else {
			s.ClearFault(name)
		}
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		writeJSON(w, http.StatusMethodNotAllowed, detail{"Method Not Allowed"})
		return
	}
	writeJSON(w, http.StatusOK, s.Faults())
}
