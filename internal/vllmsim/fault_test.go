package vllmsim

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/recording"
)

// outcome is what a client makes of an answer.
type outcome struct {
	Status      int
	ContentType string
	Texts       int  // events with text
	OneChar     bool // over and over
	Finish      string
	Model       string
	Prompt      int // by usage; -1: none
	Completion  int
	Cached      int
	Error       string // its code and type, or the name of the field in question
	Malformed   bool
	Done        bool
	End         string
	Took        time.Duration
	Bursts      int // moments at which something came
}

// event is as much of a chunk as the outcome needs.
type event struct {
	Model   string
	Choices []struct {
		Delta        struct{ Role, Content string }
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error *apiError
}

const streamBody = `{"model":"tiny","messages":[{"role":"user","content":"the of and to in is"}],"min_tokens":12,"max_tokens":12,"ignore_eos":true,"cache_salt":"s","stream":true,"stream_options":{"include_usage":true}}`

// maxAnswer is when a client gives up reading.
const maxAnswer = 1 << 20

// complete sends a streaming request and reads the answer as a client with a patience of 5 s does.
func complete(t *testing.T, client *http.Client, base string) (o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/chat/completions", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	o = outcome{Prompt: -1, Completion: -1, Cached: -1}
	start := time.Now()
	defer func() { o.Took = time.Since(start) }()
	resp, err := client.Do(req)
	if err != nil {
		o.End = ending(err)
		return o
	}
	defer resp.Body.Close()
	o.Status, o.ContentType = resp.StatusCode, resp.Header.Get("Content-Type")
	if o.Status != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		o.End, o.Error = ending(err), string(body)
		return o
	}
	o.readEvents(bufio.NewReader(io.LimitReader(resp.Body, maxAnswer)))
	return o
}

func (o *outcome) readEvents(r *bufio.Reader) {
	chars := map[rune]bool{}
	var last time.Time
	for {
		line, err := r.ReadString('\n')
		if now := time.Now(); line != "" && !now.Equal(last) {
			o.Bursts++
			last = now
		}
		if err != nil {
			o.End = ending(err)
			o.OneChar = len(chars) == 1
			return
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			o.Done = true
		default:
			o.add(data, chars)
		}
	}
}

func (o *outcome) add(data string, chars map[rune]bool) {
	var e event
	if json.Unmarshal([]byte(data), &e) != nil {
		o.Malformed = true
		return
	}
	if e.Error != nil {
		o.Error = fmt.Sprint(e.Error.Code, " ", e.Error.Type)
		return
	}
	o.Model = e.Model
	for _, c := range e.Choices {
		if c.Delta.Role == "" && c.Delta.Content != "" {
			o.Texts++
		}
		for _, r := range c.Delta.Content {
			chars[r] = true
		}
		if c.FinishReason != "" {
			o.Finish = c.FinishReason
		}
	}
	if e.Usage != nil {
		o.Prompt, o.Completion, o.Cached = e.Usage.PromptTokens, e.Usage.CompletionTokens, e.Usage.Details.Cached
	}
}

func ending(err error) string {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return "clean"
	case errors.Is(err, context.DeadlineExceeded):
		return "out of patience"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "broken"
	default:
		return err.Error()
	}
}

func TestFaults(t *testing.T) {
	const prompt = 16 // tokens of streamBody
	const step = 11 * time.Millisecond
	const first = 15*time.Millisecond + prompt*100*time.Microsecond
	healthy := outcome{
		Status: 200, ContentType: "text/event-stream; charset=utf-8", Texts: 12, Finish: "length", Model: "tiny",
		Prompt: prompt, Completion: 12, Cached: 0, Done: true, End: "clean", Took: first + 11*step, Bursts: 12,
	}
	// cut is the outcome of an answer that ends after 5 tokens.
	cut := func(o *outcome) {
		o.Texts, o.Finish, o.Prompt, o.Completion, o.Cached, o.Done = 5, "", -1, -1, -1, false
		o.Took, o.Bursts = first+5*step, 6
	}
	refused := func(status int, body string) func(*outcome) {
		return func(o *outcome) {
			*o = outcome{Status: status, ContentType: "application/json", Error: body, Prompt: -1, Completion: -1, Cached: -1, End: "clean"}
		}
	}
	for _, tc := range []struct {
		fault  Fault
		change func(*outcome) // of a healthy outcome
	}{
		{Fault{}, func(*outcome) {}},
		{Fault{Name: Hang}, func(o *outcome) {
			*o = outcome{Status: 200, ContentType: o.ContentType, Prompt: -1, Completion: -1, Cached: -1, End: "out of patience", Took: 5 * time.Second}
		}},
		{Fault{Name: Crash}, refused(500, `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`)},
		{Fault{SlowDown, "10"}, func(o *outcome) { o.Took *= 10 }},
		{Fault{SlowHeaders, "1s"}, func(o *outcome) { o.Took += time.Second }},
		{Fault{SlowHeaders, "10s"}, func(o *outcome) {
			*o = outcome{Prompt: -1, Completion: -1, Cached: -1, End: "out of patience", Took: 5 * time.Second}
		}},
		{Fault{Status, "401"}, refused(401, `{"error":"Unauthorized"}`)},
		{Fault{Status, "404"}, refused(404, "{\"error\":{\"message\":\"The model `gone` does not exist. Valid aliases: .\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}")},
		{Fault{Status, "429"}, refused(429, `{"error":{"message":"Too Many Requests","type":"Too Many Requests","param":null,"code":429}}`)},
		{Fault{Status, "500"}, refused(500, `{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause.","type":"InternalServerError","param":null,"code":500}}`)},
		{Fault{Name: Status}, refused(503, `{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}`)},
		{Fault{Status, "302"}, func(o *outcome) {
			*o = outcome{Status: 302, Prompt: -1, Completion: -1, Cached: -1, End: "clean"}
		}},
		{Fault{RefuseField, "cache_salt"}, refused(400, `{"error":{"message":"1 validation error:\n  {'type': 'extra_forbidden', 'loc': 'body.cache_salt', 'msg': 'Extra inputs are not permitted', 'input': 's'}","type":"Bad Request","param":"body.cache_salt","code":400}}`)},
		{Fault{RefuseField, "chat_template_kwargs"}, func(*outcome) {}}, // the request does not set it
		{Fault{Name: HTML}, func(o *outcome) { o.ContentType = "text/html; charset=utf-8" }},
		{Fault{Name: InBandError}, func(o *outcome) { cut(o); o.Error, o.Done = "500 InternalServerError", true }},
		{Fault{InBandError, "0"}, func(o *outcome) {
			cut(o)
			o.Error, o.Done, o.Texts, o.Model, o.Took, o.Bursts = "500 InternalServerError", true, 0, "", first, 1
		}},
		{Fault{Name: OldError}, func(o *outcome) { cut(o); o.Model, o.Done = "", true }}, // an event that names no model
		{Fault{Name: ErrorField}, func(o *outcome) { cut(o); o.Done = true }},
		{Fault{Name: Abort}, func(o *outcome) {
			o.Texts, o.Completion, o.Took, o.Bursts, o.Finish = 5, 5, first+4*step, 5, "abort"
		}},
		{Fault{Name: NoFinish}, func(o *outcome) { cut(o); o.Done = true }},
		{Fault{Name: FinishReason}, func(o *outcome) { o.Finish = "done" }},
		{Fault{Name: MistralPrompt}, func(*outcome) {}}, // the request does not set it
		{Fault{Name: Truncated}, func(o *outcome) { cut(o); o.Bursts = 5 }},
		{Fault{Name: Reset}, func(o *outcome) { cut(o); o.End, o.Bursts = "broken", 5 }},
		{Fault{Name: Garbage}, func(o *outcome) { cut(o); o.Malformed, o.Done = true, true }},
		{Fault{Name: EndlessEvent}, func(o *outcome) { cut(o) }},
		{Fault{Name: Endless}, func(o *outcome) {
			cut(o)
			o.Texts, o.End, o.Took, o.Bursts = 454, "out of patience", 5*time.Second, 454
		}},
		{Fault{Name: LongOutput}, func(o *outcome) {
			o.Texts, o.Completion, o.Took, o.Bursts = 36, 36, first+35*step, 36
		}},
		{Fault{Name: ShortOutput}, func(o *outcome) {
			o.Texts, o.Completion, o.Took, o.Bursts, o.Finish = 3, 3, first+2*step, 3, "stop"
		}},
		{Fault{Name: EmptyOutput}, func(o *outcome) {
			o.Texts, o.Completion, o.Took, o.Bursts, o.Finish = 0, 0, first, 1, "stop"
		}},
		{Fault{Name: Degenerate}, func(o *outcome) { o.OneChar = true }},
		{Fault{Drip, "7ms"}, func(o *outcome) { o.Took, o.Bursts = o.Took+(7+7+6)*time.Millisecond, 15 }}, // the last text, usage, [DONE]
		{Fault{Name: Coalesced}, func(o *outcome) { o.Bursts = 1 }},
		{Fault{Coalesced, "4"}, func(o *outcome) { o.Bursts = 4 }}, // role and 12 texts, usage, [DONE]: 15 events
		{Fault{Name: WrongPrompt}, func(o *outcome) { o.Prompt += 7 }},
		{Fault{Name: WrongOutput}, func(o *outcome) { o.Completion -= 2 }},
		{Fault{Name: NoUsage}, func(o *outcome) { o.Prompt, o.Completion, o.Cached = -1, -1, -1 }},
		{Fault{Name: NoDone}, func(o *outcome) { o.Done = false }},
		{Fault{Name: CachedPrompt}, func(*outcome) {}}, // 16 tokens: the only block holds the last one
		{Fault{OtherModel, "llama"}, func(o *outcome) { o.Model = "llama" }},
	} {
		t.Run(string(tc.fault.Name)+" "+tc.fault.Value, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := plainConfig()
				c.Engine = clockwork()
				s, n := serve(t, c)
				if tc.fault.Name != "" {
					if err := s.SetFault(tc.fault); err != nil {
						t.Fatal(err)
					}
				}
				want := healthy
				tc.change(&want)
				got := complete(t, n.client(), "http://sim")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				s.ClearFault()
				time.Sleep(time.Second) // abandoned requests leave the engine
				if diff := cmp.Diff(healthy, complete(t, n.client(), "http://sim")); diff != "" && tc.fault.Name != Crash {
					t.Errorf("after the fault (-healthy +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDripSpreadsTheBytesOfAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plainConfig()
		c.Engine = clockwork()
		s, n := serve(t, c)
		if err := s.SetFault(Fault{Drip, "7ms"}); err != nil {
			t.Fatal(err)
		}
		var at []time.Duration // of the pieces of [DONE], 14 bytes
		reads := n.exchange(t, "POST", "/v1/chat/completions", jsonHeader(), streamBody)
		for _, r := range reads[len(reads)-1-7 : len(reads)-1] {
			if len(chunks(t, "\r\n\r\n"+r.bytes)[0]) != 2 {
				t.Errorf("piece %q", r.bytes)
			}
			at = append(at, r.at-reads[len(reads)-1].at)
		}
		const ms = time.Millisecond
		if diff := cmp.Diff([]time.Duration{-6 * ms, -5 * ms, -4 * ms, -3 * ms, -2 * ms, -ms, 0}, at); diff != "" {
			t.Errorf("pieces came at (-want +got):\n%s", diff)
		}
	})
}

func jsonHeader() map[string]string { return map[string]string{"Content-Type": "application/json"} }

// load reads a recording as the reads of an exchange.
func load(t *testing.T, name string) (recording.Recording, []read) {
	t.Helper()
	rec, err := recording.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	var reads []read
	for _, r := range rec.Reads {
		reads = append(reads, read{r.At(), r.Bytes})
	}
	return rec, reads
}

// hang is what can be seen of a server whose engine stops for a while in mid stream.
type hang struct {
	stream       []read
	health       string
	early, later string // /metrics pages while it stands
}

func (h hang) check(t *testing.T) {
	t.Helper()
	var silence time.Duration
	for i := 1; i < len(h.stream); i++ {
		silence = max(silence, h.stream[i].at-h.stream[i-1].at)
	}
	if silence < 5*time.Second || silence > 7*time.Second {
		t.Errorf("the stream was silent for %v", silence)
	}
	all := joined(h.stream)
	if got := strings.Count(all, `"token_ids"`); got != 60 || !strings.Contains(all, `"completion_tokens":60`) || !strings.Contains(all, "data: [DONE]") {
		t.Errorf("%d tokens, and then %q", got, all[len(all)-600:])
	}
	if got := outline(t, h.health)[0]; got != "HTTP/1.1 200 OK" {
		t.Errorf("/health says %q", got)
	}
	early, later := engineLines(h.early), engineLines(h.later)
	if diff := cmp.Diff(early, later); diff != "" {
		t.Errorf("the engine's metrics moved:\n%s", diff)
	}
	if !strings.Contains(early, "vllm:num_requests_running{engine=\"0\",model_name=\"tiny\"} 1.0\n") {
		t.Error("no request is running")
	}
}

// engineLines are the lines of a page that tell of the engine.
func engineLines(page string) string {
	var b strings.Builder
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "vllm:") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestHang(t *testing.T) {
	rec, stream := load(t, "hang-midstream-7s-then-resume")
	t.Run("vLLM", func(t *testing.T) {
		h := hang{stream: stream}
		for name, page := range map[string]*string{"hang-health": &h.health, "hang-metrics-1": &h.early, "hang-metrics-2": &h.later} {
			_, reads := load(t, name)
			*page = joined(reads)
		}
		h.check(t)
	})
	t.Run("simulator", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, n := serve(t, plainConfig())
			h, ended := hang{}, make(chan struct{})
			go func() {
				defer close(ended)
				h.stream = n.exchange(t, "POST", rec.Request.Path, jsonHeader(), bodyOf(rec))
			}()
			time.Sleep(300 * time.Millisecond) // some tokens
			if err := s.SetFault(Fault{Name: Hang}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			h.early = n.get(t, "/metrics")
			h.health = joined(n.exchange(t, "GET", "/health", nil, ""))
			time.Sleep(5 * time.Second)
			h.later = n.get(t, "/metrics")
			s.ClearFault(Hang)
			<-ended
			h.check(t)
		})
	})
}

// compact leaves out lines that repeat the one before: a stream that breaks has any number of tokens.
func compact(lines []string) []string { return slices.Compact(lines) }

func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := serve(t, plainConfig())
		rec, want := load(t, "engine-killed-midstream")
		ended := make(chan []read)
		go func() { ended <- n.exchange(t, "POST", rec.Request.Path, jsonHeader(), bodyOf(rec)) }()
		time.Sleep(time.Second)
		if err := s.SetFault(Fault{Crash, "1s"}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(compact(outline(t, joined(want))), compact(outline(t, joined(<-ended)))); diff != "" {
			t.Errorf("in mid stream, vLLM (-) and the simulator (+) differ:\n%s", diff)
		}
		for _, name := range []string{"after-kill-chat", "after-kill-health"} {
			rec, want := load(t, name)
			got := n.exchange(t, rec.Request.Method, rec.Request.Path, rec.Request.Headers, bodyOf(rec))
			if diff := cmp.Diff(outline(t, joined(want)), outline(t, joined(got))); diff != "" {
				t.Errorf("%s: vLLM (-) and the simulator (+) differ:\n%s", name, diff)
			}
		}
		time.Sleep(time.Second)
		for _, path := range []string{"/health", "/metrics"} {
			if got := n.exchange(t, "GET", path, nil, ""); len(got) != 0 {
				t.Errorf("%s answers %.50q when the process is gone", path, joined(got))
			}
		}
		s.ClearFault(Crash)
		started := float64(time.Now().Unix())
		check(t, n.get(t, "/metrics"), map[string]float64{"process_start_time_seconds": started, "vllm:generation_tokens_total": 0})
		if got := complete(t, n.client(), "http://sim"); got.Finish != "length" {
			t.Errorf("after the new start: %+v", got)
		}
	})
}

func TestRestartBreaksConnectionsAndKeepsFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := serve(t, plainConfig())
		if err := s.SetFault(Fault{SlowDown, "10"}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan outcome)
		go func() { ended <- complete(t, n.client(), "http://sim") }()
		time.Sleep(time.Second)
		s.Restart()
		if got := <-ended; got.End != "broken" || got.Done || got.Error != "" {
			t.Errorf("the answer in progress: %+v", got)
		}
		if got := complete(t, n.client(), "http://sim"); got.Took < 2*time.Second {
			t.Errorf("the new process is not slow: %+v", got)
		}
	})
}

func TestCachedPromptFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plainConfig()
		c.DisablePrefixCache = true
		s, n := serve(t, c)
		if err := s.SetFault(Fault{Name: CachedPrompt}); err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"prompt":%s,"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
			strings.Replace(fmt.Sprint(make([]int, 40)), " ", ",", -1))
		got := joined(n.exchange(t, "POST", "/v1/completions", jsonHeader(), body))
		if !strings.Contains(got, `"prompt_tokens":40,"total_tokens":42,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":32}`) {
			t.Error(got)
		}
		check(t, n.get(t, "/metrics"), map[string]float64{"vllm:prefix_cache_hits_total": 32, "vllm:prompt_tokens_cached_total": 32})
	})
}

// TestResetOverTCP needs a real socket: only TCP can reset.
func TestResetOverTCP(t *testing.T) {
	s := New(Config{Engine: Model{RunningCap: 1, TokenBudget: 100, KVTokens: 1600, Base: time.Millisecond}})
	defer s.Close()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	if err := s.SetFault(Fault{Name: Reset}); err != nil {
		t.Fatal(err)
	}
	client := web.Client()
	defer client.CloseIdleConnections()
	resp, err := client.Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after %d bytes: %v, want a reset", len(body), err)
	}
}

func TestFaultEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, n := serve(t, Config{APIKey: "sk-test"}) // the control needs no key
		active := func() map[FaultName]string {
			var infos []FaultInfo
			if err := json.Unmarshal([]byte(n.get(t, "/sim/fault")), &infos); err != nil {
				t.Fatal(err)
			}
			values := map[FaultName]string{}
			for _, f := range infos {
				if f.Doc == "" {
					t.Errorf("%s has no description", f.Name)
				}
				if f.Active {
					values[f.Name] = f.Value
				}
			}
			return values
		}
		for _, step := range []struct {
			method, query string
			status        int
			want          map[FaultName]string
		}{
			{"POST", "name=hang", 200, map[FaultName]string{Hang: ""}},
			{"POST", "name=status&value=429", 200, map[FaultName]string{Hang: "", Status: "429"}},
			{"POST", "name=drip", 200, map[FaultName]string{Hang: "", Status: "429", Drip: "10ms"}},
			{"POST", "name=nonsense", 400, map[FaultName]string{Hang: "", Status: "429", Drip: "10ms"}},
			{"POST", "name=drip&value=soon", 400, map[FaultName]string{Hang: "", Status: "429", Drip: "10ms"}},
			{"POST", "name=hang&value=1", 400, map[FaultName]string{Hang: "", Status: "429", Drip: "10ms"}},
			{"PUT", "name=endless", 405, map[FaultName]string{Hang: "", Status: "429", Drip: "10ms"}},
			{"DELETE", "name=hang", 200, map[FaultName]string{Status: "429", Drip: "10ms"}},
			{"DELETE", "", 200, map[FaultName]string{}},
		} {
			resp := parse(t, joined(n.exchange(t, step.method, "/sim/fault?"+step.query, nil, "")))
			if resp.StatusCode != step.status {
				t.Errorf("%s %s: %s", step.method, step.query, resp.Status)
			}
			if diff := cmp.Diff(step.want, active()); diff != "" {
				t.Errorf("after %s %s (-want +got):\n%s", step.method, step.query, diff)
			}
		}
		// A page that is open in somebody's browser is refused, whatever it asks for; its own page is not.
		for _, step := range []struct {
			method, name, value string
			status              int
		}{
			{"POST", "Sec-Fetch-Site", "cross-site", 403},
			{"POST", "Origin", "http://elsewhere.example", 403},
			{"POST", "Origin", "null", 403},
			{"DELETE", "Origin", "http://elsewhere.example", 403},
			{"POST", "Origin", "http://sim", 200},
			{"DELETE", "Sec-Fetch-Site", "same-origin", 200},
		} {
			before := active()
			resp := parse(t, joined(n.exchange(t, step.method, "/sim/fault?name=hang", map[string]string{step.name: step.value}, "")))
			if resp.StatusCode != step.status {
				t.Errorf("%s with %s: %s: %s", step.method, step.name, step.value, resp.Status)
			}
			if diff := cmp.Diff(before, active()); step.status == 403 && diff != "" {
				t.Errorf("%s with %s: %s changes the faults:\n%s", step.method, step.name, step.value, diff)
			}
		}
	})
}
