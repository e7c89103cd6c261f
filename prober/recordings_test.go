package prober

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llm-prober/llm_prober/internal/recording"
)

// recordedEndings is how a probe ends that gets the answer of each recording; "ok" where all is well.
var recordedEndings = map[string]struct{ ending, tells string }{
	"auth-good-key-request-id":      {ending: "ok"},
	"chat-cache-salt":               {ending: "ok"},
	"chat-continuous-usage":         {ending: "ok"},
	"chat-include-usage":            {ending: "ok"},
	"chat-one-token":                {ending: "ok"},
	"chat-plain":                    {ending: "ok"},
	"chat-stream-interval-4":        {ending: "ok"},
	"chat-token-ids":                {ending: "ok"},
	"completion-include-usage":      {ending: "ok"},
	"completion-token-prompt":       {ending: "ok"},
	"hang-midstream-7s-then-resume": {ending: "ok"},
	"multi-chat":                    {ending: "ok"},
	"multi-chat-continuous":         {ending: "ok"},
	"queued-0":                      {ending: "ok"},

	"after-kill-chat":          {"http_status", "HTTP status 500: EngineCore encountered an issue. See stack trace (above) for the root cause."},
	"auth-missing-key":         {"auth", "HTTP status 401: Unauthorized"},
	"auth-wrong-key":           {"auth", "HTTP status 401: Unauthorized"},
	"chat-nonstream":           {"content_type", `the server did not stream: Content-Type "application/json"`},
	"engine-killed-midstream":  {"server_error", "EngineCore encountered an issue. See stack trace (above) for the root cause."},
	"error-400-min-gt-max":     {"bad_request", "min_tokens must be less than or equal to max_tokens=12, got 20. (if the server cannot take min_tokens, add it to the workload's drop_fields)"},
	"error-400-stream-options": {"bad_request", "HTTP status 400: Stream options can only be defined when `stream=True`."},
	"error-400-too-long":       {"bad_request", "HTTP status 400: This model's maximum context length is 4096 tokens."},
	"error-400-type":           {"bad_request", "HTTP status 400: 1 validation error: {'type': 'float_parsing', 'loc': 'body.temperature'"},
	"error-404-model":          {"model_not_found", "HTTP status 404: The model `nope` does not exist."},
	"error-404-path":           {"http_status", "HTTP status 404: Not Found"},
	"multi-400":                {"bad_request", "min_tokens must be less than or equal to max_tokens=6, got 20."},
	"multi-404":                {"model_not_found", "HTTP status 404: The model `nope` does not exist."},
	"queued-1":                 {"server_error", "The engine is currently busy and cannot accept new requests."},
	"rejected-queue-full-0":    {"overloaded", "HTTP status 503: The engine is currently busy and cannot accept new requests."},
}

// chat-n2 has two answers in one stream, which no probe asks for.
var notAProbe = []string{"chat-n2"}

func TestRecordings(t *testing.T) {
	for _, name := range recording.Names() {
		rec := load(t, name)
		if !strings.Contains(rec.Request.Path, "/completion") || slices.Contains(notAProbe, name) {
			continue
		}
		want, ok := recordedEndings[name]
		if !ok {
			t.Errorf("nobody says how a probe that gets %q ends", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res := replay(t, rec, nil)
				if got := ending(res); got != want.ending {
					t.Errorf("%s (%v), want %s", outcome(res), res.Err, want.ending)
				}
				if res.Err != nil && !strings.Contains(res.Err.Error(), want.tells) {
					t.Errorf("error %q, want it to tell %q", res.Err, want.tells)
				}
				if want.ending == "ok" {
					compareWithRecording(t, res, rec)
				}
			})
		})
	}
}

func load(t *testing.T, name string) recording.Recording {
	t.Helper()
	rec, err := recording.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// replay sends a probe of the recorded shape to a server that lists its models and has no tokenizer, as recorded,
// and then plays the recording.
func replay(t *testing.T, rec recording.Recording, change func(*Plan)) *Result {
	t.Helper()
	answers := []recording.Recording{load(t, "models"), load(t, "error-404-path"), rec}
	dial := func(context.Context, string, string) (net.Conn, error) {
		next := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return next.Dial(), nil
	}
	var asked struct {
		MaxTokens int `json:"max_tokens"`
	}
	if err := json.Unmarshal(rec.Request.Body, &asked); err != nil {
		t.Fatal(err)
	}
	p := plan()
	p.StallTimeout = 30 * time.Second
	p.OutputTokens = asked.MaxTokens
	p.PromptTokens = max(1, recordedUsage(rec).Usage.PromptTokens)
	if rec.Request.Path == "/v1/completions" {
		p.API = Completions
	}
	if change != nil {
		change(&p)
	}
	target := target(p)
	target.Model = "tiny"
	res := newRig(t, dial, target).once(t)
	time.Sleep(time.Minute) // the recording plays on
	return res
}

// recordedChunk is what the tests want to know of a recorded event.
type recordedChunk struct {
	Choices []struct{ Delta struct{ Role string } }
	Usage   struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          *struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Metrics *struct {
		Queue   float64 `json:"queue_time_ms"`
		Prefill float64 `json:"time_to_first_token_ms"`
	}
}

var recordedData = regexp.MustCompile(`data: (\{.*\})`)

// recordedChunks are the events of one read. vLLM writes an event at once, so none is torn apart.
func recordedChunks(read recording.Read) (chunks []recordedChunk) {
	for _, m := range recordedData.FindAllStringSubmatch(read.Bytes, -1) {
		var c recordedChunk
		if err := json.Unmarshal([]byte(m[1]), &c); err != nil {
			panic(err)
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// recordedUsage is the usage chunk; zero where there is none.
func recordedUsage(rec recording.Recording) (usage recordedChunk) {
	for _, read := range rec.Reads {
		for _, c := range recordedChunks(read) {
			if len(c.Choices) == 0 {
				usage = c
			}
		}
	}
	return usage
}

// recordedTokens are the times of the events with tokens: in vLLM, those with a choice that does not name a role.
func recordedTokens(rec recording.Recording) (times []time.Duration) {
	for _, read := range rec.Reads {
		for _, c := range recordedChunks(read) {
			if len(c.Choices) > 0 && c.Choices[0].Delta.Role == "" {
				times = append(times, read.At())
			}
		}
	}
	return times
}

func compareWithRecording(t *testing.T, res *Result, rec recording.Recording) {
	t.Helper()
	tokens := recordedTokens(rec)
	first, last := tokens[0], tokens[len(tokens)-1]
	var gaps []time.Duration
	for i, at := range tokens[1:] {
		gaps = append(gaps, at-tokens[i])
	}
	usage := recordedUsage(rec)
	want := fmt.Sprintf("ok ttft=%v gaps=%s", first, gapText(append([]time.Duration{}, gaps...)))
	n, source := usage.Usage.CompletionTokens, FromUsage
	if n == 0 {
		n, source = len(tokens), FromChunks
	}
	if n == 1 {
		want += " tpot=none"
	} else {
		want += fmt.Sprintf(" tpot=%v", (last-first)/time.Duration(n-1))
	}
	want += fmt.Sprintf(" duration=%v tokens=%d/%s", last, n, source)
	if source == FromUsage {
		want += fmt.Sprintf(" prompt=%d", usage.Usage.PromptTokens)
	}
	if usage.Usage.Details != nil {
		want += fmt.Sprintf(" cached=%d", usage.Usage.Details.Cached)
	}
	if m := usage.Metrics; m != nil {
		queue, prefill := time.Duration(m.Queue*1e6), time.Duration(m.Prefill*1e6)
		want += fmt.Sprintf(" queue=%v prefill=%v", queue, prefill)
		if ttft, _ := res.TTFT(); queue+prefill > ttft.Value {
			t.Errorf("the server alone took %v, longer than %v", queue+prefill, ttft)
		}
	}
	if got := outcome(res); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if res.FinishReason != "length" || res.Model != "tiny" {
		t.Errorf("finish reason %q, model %q", res.FinishReason, res.Model)
	}
}

// A few of the recorded values, read off the files by eye: the comparison above could err in the same way twice.
func TestRecordedValues(t *testing.T) {
	for name, want := range map[string]string{
		"queued-0":               "ok ttft=3.520817s gaps=",
		"chat-stream-interval-4": "ok ttft=14.631ms gaps=[17.978ms 17.095ms 13.197ms] tpot=4.388181ms duration=62.901ms tokens=12/usage prompt=24 cached=0",
		"multi-chat":             "ok ttft=45.764ms gaps=[11.379ms 4.397ms 7.42ms 7.01ms 6.902ms] tpot=7.4216ms duration=82.872ms tokens=6/usage prompt=24 cached=0",
		"chat-one-token":         "ok ttft=11.344ms gaps=[] tpot=none duration=11.344ms tokens=1/usage prompt=24 cached=0 queue=22.467µs prefill=5.53075ms",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if got := outcome(replay(t, load(t, name), nil)); !strings.HasPrefix(got, want) {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

// The comments that keep a queued request alive are no tokens; the server's account tells waiting from prefill.
func TestRecordedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		res := replay(t, load(t, "queued-0"), nil)
		if res.Server == nil || res.Server.Queue != 3491107810*time.Nanosecond || res.Server.Prefill != 8669072*time.Nanosecond {
			t.Errorf("the server's account is %+v", res.Server)
		}
		if ttft, _ := res.TTFT(); ttft.Value != 3520817*time.Microsecond {
			t.Errorf("TTFT %v", ttft)
		}
	})
}

// An engine that stops for 6 s in mid stream: one long gap, or a failure where stall_timeout is shorter.
func TestRecordedHang(t *testing.T) {
	rec := load(t, "hang-midstream-7s-then-resume")
	for _, c := range []struct {
		stall time.Duration
		want  string
	}{
		{30 * time.Second, "ok"},
		{3 * time.Second, "stalled tokens=8/chunks"},
	} {
		synctest.Test(t, func(t *testing.T) {
			res := replay(t, rec, func(p *Plan) { p.StallTimeout = c.stall })
			if got := outcome(res); !strings.HasPrefix(got, c.want) {
				t.Errorf("with a stall timeout of %v: %s, want %s", c.stall, got, c.want)
			}
			if !res.OK() {
				if silent := res.Ended.Sub(res.LastToken); silent != c.stall {
					t.Errorf("given up after a silence of %v", silent)
				}
				return
			}
			long := 0
			for _, gap := range res.Gaps {
				if gap > time.Second {
					long++
				}
			}
			if longest := slices.Max(res.Gaps); long != 1 || longest != 6038905*time.Microsecond {
				t.Errorf("%d long gaps, the longest %v", long, longest)
			}
		})
	}
}

// A server with a key refuses the question for its models already, where the target names none.
func TestRecordedModelsWithoutKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			return load(t, "auth-models-missing-key").Dial(), nil
		}
		w := target()
		w.Model = ""
		res := newRig(t, dial, w).once(t)
		if res.Reason != ReasonAuth || !strings.Contains(res.Err.Error(), "GET /v1/models: HTTP status 401: Unauthorized") {
			t.Errorf("%s (%v)", outcome(res), res.Err)
		}
	})
}
