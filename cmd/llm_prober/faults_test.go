package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// scene is a healthy simulated server at production settings, probed for a while, to which a fault happens.
type scene struct {
	t      *testing.T
	n      *network
	server *host
	rig    *rig
}

// fault is a row of docs/faults.md.
type fault struct {
	name string
	// happen makes the fault. It persists until the end.
	happen func(*scene)
	// mid: it happens one second after a probe was sent, in its stream, and times count from the fault. Else it
	// happens just before a probe is due, and times count from the moment that probe is sent.
	mid bool
	// output is the length of the answers, 128 tokens if 0; they come at 20 ms a token.
	output int

	first string        // the signal that moves first; where several do, one of them
	by    time.Duration // when at the latest
	quiet []string      // what must not move, as quietGroups has it
}

// Signals. Each is a metric and, where its mere rise is not meant, what about it.
const (
	failures   = "llm_probe_request_failures_total"
	suspects   = "llm_probe_suspect_total"
	bad        = "llm_probe_slo_bad_events_total"
	badTTFT    = bad + `{slo="ttft-fast"}`
	silence    = "llm_probe_silence_seconds above 1"
	missed     = "llm_probe_missed_total"
	warmups    = "llm_probe_warmup_requests_total"
	down       = "llm_probe_up is 0"
	inARow     = "llm_probe_consecutive_failures above 0"
	chunks     = `llm_probe_output_tokens_total{source="chunks"}`
	ttft       = "llm_probe_time_to_first_token_seconds"
	itl        = "llm_probe_inter_token_latency_seconds"
	relayDown  = "llm_server_up is 0"
	sick       = "llm_server_healthy is 0"
	frozen     = "llm_server_last_change_timestamp_seconds older than 15 s"
	restarted  = "llm_server_start_time_seconds changed"
	queue      = "llm_server_requests_waiting above 0"
	withdrawn  = "llm_server_requests_waiting absent"
	misscrapes = "llm_server_scrape_failures_total"
)

func reason(name string) string   { return fmt.Sprintf("%s{reason=%q}", failures, name) }
func doubt(name string) string    { return fmt.Sprintf("%s{reason=%q}", suspects, name) }
func misscrape(why string) string { return fmt.Sprintf("%s{reason=%q}", misscrapes, why) }

// quietGroups are what the page calls quiet: beginnings of signals that must not move.
func quietGroups() map[string][]string {
	return map[string][]string{
		"everything": {"llm_"},
		"all probes": {"llm_probe_"},
		"relay":      {relayDown, misscrapes, withdrawn},
		"health":     {sick},
		"restart":    {restarted, warmups},
		"change":     {frozen},
		"failures":   {failures, inARow, down},
		"SLOs":       {bad},
		"doubts":     {suspects},
		"silence":    {silence},
		"missed":     {missed},
		"TTFT":       {ttft},
		"ITL":        {itl},
	}
}

// sim switches a fault of the simulator on.
func sim(name vllmsim.FaultName, value string) func(*scene) {
	return func(s *scene) {
		if err := s.server.SetFault(vllmsim.Fault{Name: name, Value: value}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// instead puts a handler in the place of one page of the server.
func instead(path string, handler http.HandlerFunc) func(*scene) {
	return func(s *scene) { s.server.answer(map[string]http.HandlerFunc{path: handler}) }
}

func remove(s *scene)  { s.server.remove() }
func restart(s *scene) { s.server.Restart() }
func healthy(*scene)   {}

// soon is "with the probe itself"; only the steps in which moments are found lie between.
const soon = 300 * time.Millisecond

// faults is the table. Failures must not be silence, nor be measured; what is only doubted must not fail; what
// the server does must not be blamed on its relay, nor the other way round.
func faults() []fault {
	server := []string{"relay", "health", "restart", "missed"}
	failed := slices.Concat(server, []string{"silence", "doubts", "TTFT", "ITL"})
	slow := slices.Concat(server, []string{"failures"})
	doubted := slices.Concat(slow, []string{"SLOs", "silence", "change"})
	measured := slices.Concat(doubted, []string{"TTFT", "ITL"})
	and := func(quiet []string, more ...string) []string { return slices.Concat(quiet, more) }
	return []fault{
		{name: "none: answers of 30 s", happen: healthy, output: 1500, quiet: []string{"everything"}},
		{name: "hang while idle", happen: sim(vllmsim.Hang, ""), first: badTTFT, by: 2 * time.Second, quiet: server},
		{name: "hang", mid: true, happen: sim(vllmsim.Hang, ""), first: silence, by: 1100 * time.Millisecond, quiet: server},
		{name: "engine dies while idle", happen: sim(vllmsim.Crash, ""), first: reason("http_status"), by: soon, quiet: []string{"relay", "restart", "silence", "missed", "doubts"}},
		{name: "engine dies", mid: true, happen: sim(vllmsim.Crash, ""), first: reason("server_error"), by: soon, quiet: []string{"relay", "restart", "silence", "missed", "doubts"}},
		{name: "engine dies and the process, its port stays", mid: true, happen: sim(vllmsim.Crash, "1ns"), first: reason("server_error"), by: soon, quiet: []string{"restart", "silence", "missed", "doubts"}},
		{name: "server removed: connections refused", happen: remove, first: reason("connect"), by: soon, quiet: []string{"restart", "silence", "missed", "doubts", "TTFT", "ITL"}},
		{name: "server removed", mid: true, happen: remove, first: reason("truncated"), by: soon, quiet: []string{"restart", "silence", "missed", "doubts"}},
		{name: "host name gone", happen: func(s *scene) { s.n.forgetNames() }, first: reason("dns"), by: soon, quiet: failed},
		{name: "no file descriptors left for the prober", happen: func(s *scene) { s.n.useUp() }, first: reason("internal"), by: soon, quiet: []string{"restart", "missed", "silence", "doubts", "SLOs", "TTFT", "ITL"}},
		{name: "server restarted in a moment", happen: restart, first: restarted, by: time.Second, quiet: []string{"relay", "health", "failures", "SLOs", "silence", "missed", "doubts"}},
		{name: "server restarted in a moment", mid: true, happen: restart, first: reason("truncated"), by: soon, quiet: []string{"silence", "missed", "doubts"}},
		{name: "every step takes 3 times as long", happen: sim(vllmsim.SlowDown, "3"), first: itl + " rises", by: 8 * time.Second, quiet: doubted},
		{name: "every step takes 12 times as long", happen: sim(vllmsim.SlowDown, "12"), first: badTTFT, by: 2 * time.Second, quiet: slow},
		{name: "other users ask for twice what it can do", happen: overload, first: queue, by: 2 * time.Second, quiet: and(slow, "change")},
		{name: "no headers for 2 s", happen: sim(vllmsim.SlowHeaders, "2s"), first: badTTFT, by: 2 * time.Second, quiet: and(slow, "ITL")},
		{name: "status 401", happen: sim(vllmsim.Status, "401"), first: reason("auth"), by: soon, quiet: failed},
		{name: "status 404 that names the model", happen: sim(vllmsim.Status, "404"), first: reason("model_not_found"), by: soon, quiet: failed},
		{name: "status 429", happen: sim(vllmsim.Status, "429"), first: reason("rate_limited"), by: soon, quiet: failed},
		{name: "status 500", happen: sim(vllmsim.Status, "500"), first: reason("http_status"), by: soon, quiet: failed},
		{name: "status 503", happen: sim(vllmsim.Status, "503"), first: reason("overloaded"), by: soon, quiet: failed},
		{name: "status 101", happen: sim(vllmsim.Status, "101"), first: reason("http_status"), by: soon, quiet: failed},
		{name: "redirect", happen: sim(vllmsim.Status, "302"), first: reason("http_status"), by: soon, quiet: failed},
		{name: "`cache_salt` refused", happen: sim(vllmsim.RefuseField, "cache_salt"), first: doubt("field_refused"), by: 3 * time.Second, quiet: doubted},
		{name: "`chat_template_kwargs` refused", happen: sim(vllmsim.RefuseField, "chat_template_kwargs"), first: doubt("field_refused"), by: 3 * time.Second, quiet: doubted},
		{name: "`chat_template_kwargs` refused for a Mistral tokenizer, after it was taken", happen: sim(vllmsim.MistralPrompt, ""), first: reason("bad_request"), by: soon, quiet: failed},
		{name: "status 400 that names no field and repeats the request", happen: instead("/v1/chat/completions", reloading), first: reason("bad_request"), by: soon, quiet: failed},
		{name: "`ignore_eos` refused", happen: sim(vllmsim.RefuseField, "ignore_eos"), first: reason("bad_request"), by: soon, quiet: failed},
		{name: "event stream called text/html", happen: sim(vllmsim.HTML, ""), first: doubt("content_type"), by: 3 * time.Second, quiet: measured},
		{name: "error inside the stream after 5 tokens", happen: sim(vllmsim.InBandError, "5"), first: reason("server_error"), by: soon, quiet: failed},
		{name: "error inside the stream in the shape of vLLM before 0.10", happen: sim(vllmsim.OldError, "5"), first: reason("server_error"), by: soon, quiet: failed},
		{name: "error inside the stream in a field of its own", happen: sim(vllmsim.ErrorField, "5"), first: reason("server_error"), by: soon, quiet: failed},
		{name: "answers end after 5 tokens with finish_reason `abort`", happen: sim(vllmsim.Abort, "5"), first: reason("server_error"), by: soon, quiet: failed},
		{name: "`[DONE]` after 5 tokens without finish_reason", happen: sim(vllmsim.NoFinish, "5"), first: reason("truncated"), by: soon, quiet: failed},
		{name: "finish_reason that nobody knows, all tokens there", happen: sim(vllmsim.FinishReason, "done"), first: doubt("finish_reason"), by: 3 * time.Second, quiet: measured},
		{name: "stream ends after 5 tokens", happen: sim(vllmsim.Truncated, "5"), first: reason("truncated"), by: soon, quiet: failed},
		{name: "connection reset after 5 tokens", happen: sim(vllmsim.Reset, "5"), first: reason("conn_reset"), by: soon, quiet: failed},
		{name: "event that is no JSON", happen: sim(vllmsim.Garbage, "5"), first: reason("malformed"), by: soon, quiet: failed},
		{name: "event without an end", happen: sim(vllmsim.EndlessEvent, "5"), first: reason("too_large"), by: soon, quiet: failed},
		{name: "answers without a token", happen: sim(vllmsim.EmptyOutput, ""), first: reason("empty_output"), by: soon, quiet: failed},
		{name: "answers without an end", happen: sim(vllmsim.Endless, ""), first: doubt("long_output"), by: 6 * time.Second, quiet: measured},
		{name: "answers 1.5 times as long as asked", happen: sim(vllmsim.LongOutput, "1.5"), first: doubt("long_output"), by: 5 * time.Second, quiet: measured},
		{name: "answers of 3 tokens", happen: sim(vllmsim.ShortOutput, "3"), first: doubt("short_output"), by: soon, quiet: measured},
		{name: "answers of one character", happen: sim(vllmsim.Degenerate, ""), first: doubt("degenerate"), by: 3 * time.Second, quiet: measured},
		{name: "each event drips for 200 ms", happen: sim(vllmsim.Drip, "200ms"), first: bad + `{slo="itl-smooth"}`, by: 3 * time.Second, quiet: and(slow, "doubts", "silence")},
		{name: "proxy holds the whole answer back", happen: sim(vllmsim.Coalesced, "0"), first: badTTFT, by: 2 * time.Second, quiet: and(slow, "ITL")},
		{name: "proxy sends 32 events at a time", happen: sim(vllmsim.Coalesced, "32"), first: doubt("coalesced"), by: 3 * time.Second, quiet: and(doubted, "ITL")},
		{name: "usage counts 7 prompt tokens too many", happen: sim(vllmsim.WrongPrompt, "7"), first: doubt("prompt_length"), by: 3 * time.Second, quiet: measured},
		{name: "usage counts 2 output tokens too few", happen: sim(vllmsim.WrongOutput, "-2"), first: doubt("usage_mismatch"), by: 3 * time.Second, quiet: measured},
		{name: "usage counts a thousand million prompt tokens too many", happen: sim(vllmsim.WrongPrompt, "1000000000"), first: doubt("usage_mismatch"), by: 3 * time.Second, quiet: measured},
		{name: "usage counts a thousand million output tokens too many", happen: sim(vllmsim.WrongOutput, "1000000000"), first: doubt("usage_mismatch"), by: 3 * time.Second, quiet: measured},
		{name: "no usage", happen: sim(vllmsim.NoUsage, ""), first: chunks, by: 3 * time.Second, quiet: and(measured, "doubts")},
		{name: "no `[DONE]`", happen: sim(vllmsim.NoDone, ""), first: doubt("no_done"), by: 3 * time.Second, quiet: measured},
		{name: "prompts come from the prefix cache", happen: sim(vllmsim.CachedPrompt, ""), first: doubt("cached_prompt"), by: 3 * time.Second, quiet: and(doubted, "ITL")},
		{name: "another model answers", happen: sim(vllmsim.OtherModel, "other"), first: doubt("other_model"), by: 3 * time.Second, quiet: measured},
		{name: "`/v1/models` answers 401", happen: instead("/v1/models", unauthorized), quiet: []string{"everything"}},
		{name: "`/metrics` is a page of HTML", happen: instead("/metrics", signIn), first: misscrape("parse"), by: time.Second, quiet: []string{"all probes", "health"}},
		{name: "`/metrics` does not answer", happen: instead("/metrics", never), first: withdrawn, by: 3 * time.Second, quiet: []string{"all probes", "health"}},
		{name: "`/metrics` is one line of 200,000 labels", happen: instead("/metrics", manyLabels), first: misscrape("too_large"), by: time.Second, quiet: []string{"all probes", "health"}},
		{name: "`/metrics` does not end", happen: instead("/metrics", endless), first: misscrape("too_large"), by: time.Second, quiet: []string{"all probes", "health"}},
		{name: "`/metrics` shows a queue of NaN", happen: noNumber, first: "llm_server_dropped_samples_total", by: time.Second, quiet: []string{"all probes", "health", "restart"}},
		{name: "`/health` answers 503", happen: instead("/health", unavailable), first: sick, by: time.Second, quiet: []string{"all probes", "relay", "change"}},
		{name: "a second server behind the address", happen: secondServer, first: restarted, by: 2 * time.Second, quiet: []string{"all probes", "health"}},
	}
}

// reloading refuses as vLLM does while it loads a model again.
func reloading(w http.ResponseWriter, r *http.Request) {
	request, _ := io.ReadAll(r.Body)
	dict := strings.NewReplacer(`"`, `'`, "true", "True", "false", "False").Replace(string(request))
	answer, _ := json.Marshal(map[string]any{"error": map[string]any{
		"message": "1 validation error:\n  {'type': 'value_error', 'loc': ('body',), 'msg': 'Value error, model is being reloaded', 'input': " + dict + "}",
		"type":    "Bad Request", "param": nil, "code": 400,
	}})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(answer)
}

func signIn(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<html><body>Sign in</body></html>")
}

func manyLabels(w http.ResponseWriter, _ *http.Request) {
	var labels strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&labels, `l%d="",`, i)
	}
	fmt.Fprint(w, "vllm:num_requests_running{"+labels.String()+"} 1\n")
}

func endless(w http.ResponseWriter, _ *http.Request) {
	for line := []byte(strings.Repeat("#", 1<<20) + "\n"); ; {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// noNumber puts NaN in the place of the queue, and leaves the rest of the page.
func noNumber(s *scene) {
	page := regexp.MustCompile(`(?m)^(vllm:num_requests_waiting\{.*\}) .*$`)
	s.server.answer(map[string]http.HandlerFunc{"/metrics": func(w http.ResponseWriter, r *http.Request) {
		whole := httptest.NewRecorder()
		s.server.Handler().ServeHTTP(whole, r)
		_, _ = w.Write(page.ReplaceAll(whole.Body.Bytes(), []byte("$1 NaN")))
	}})
}

func never(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
func unavailable(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
}

func unauthorized(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }

// overload is twice what the server can do.
func overload(s *scene) {
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	go s.server.RunLoad(ctx, vllmsim.Load{Rate: 14, Period: time.Hour, PromptTokens: 512, OutputTokens: 128})
}

// secondServer answers every other request.
func secondServer(s *scene) {
	other := vllmsim.New(vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true})
	s.t.Cleanup(other.Close)
	turn := make(chan bool, 1)
	turn <- true
	s.server.answer(map[string]http.HandlerFunc{"/metrics": func(w http.ResponseWriter, r *http.Request) {
		ours := <-turn
		turn <- !ours
		if ours {
			s.server.Handler().ServeHTTP(w, r)
		} else {
			other.Handler().ServeHTTP(w, r)
		}
	}})
}

// production are the settings of the page: the defaults, and the SLOs of the README.
func production(output int) string {
	return fmt.Sprintf(`
global: {interval: 15s, timeout: 60s, stall_timeout: 30s, warmup: 5, relay_interval: 1s}
workloads: [{name: chat, prompt_tokens: 512, output_tokens: %d}]
targets: [{name: server, url: "http://llm:8000"}]
slos:
  - {name: ttft-fast, indicator: ttft, threshold: 1s, objective: 99}
  - {name: itl-smooth, indicator: itl_p95, threshold: 100ms, objective: 99}
  - {name: availability, indicator: success, objective: 99.5}
`, output)
}

// watched is how long a fault is looked at: a little longer than the timeout.
const watched = 65 * time.Second

// newScene is at the end of the warm-up and of a few probes more.
func newScene(t *testing.T, output int) *scene {
	s := &scene{t: t, n: &network{}}
	s.server = serve(t, s.n, "llm:8000", vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true})
	output = cmp.Or(output, 128)
	s.rig = startRig(t, s.n, production(output))
	answer := time.Duration(output) * 20 * time.Millisecond
	time.Sleep(15*time.Second + 5*answer) // the warm-up
	time.Sleep(45 * time.Second)          // what is usual
	return s
}

// nextProbe is when the next probe will be sent.
func (s *scene) nextProbe() time.Time {
	due, _ := prober.NewSchedule(prober.Constant, 15*time.Second, prober.Phase("server", "chat", 0, 15*time.Second), nil).Next(time.Now())
	return due
}

// until sleeps, and waits for all that happens then.
func (s *scene) until(at time.Time) {
	time.Sleep(time.Until(at))
	synctest.Wait()
}

// play lets a fault happen and returns when each signal first moved, in the time after that.
func play(t *testing.T, f fault) (moved map[string]time.Duration) {
	s := newScene(t, f.output)
	zero := s.nextProbe()
	at := zero.Add(-10 * time.Millisecond)
	if f.mid {
		zero = zero.Add(time.Second)
		at = zero
	}
	s.until(at)
	before := s.scrape()
	f.happen(s)

	moved = map[string]time.Duration{}
	for after := time.Duration(0); after <= watched; after += step(after) {
		s.until(zero.Add(after))
		for _, signal := range signals(before, s.scrape(), time.Now()) {
			if _, already := moved[signal]; !already {
				moved[signal] = after
			}
		}
	}
	return moved
}

// step is how exactly a moment is found.
func step(after time.Duration) time.Duration {
	if after < 5*time.Second {
		return 100 * time.Millisecond
	}
	return time.Second
}

// scrape leaves the labels out that all series have.
func (s *scene) scrape() samples {
	families, err := s.rig.active["server"].metrics.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	return flatten(families, "target", "workload", "engine", "model_name")
}

// signals lists what tells an observer of the metrics that something is not as it was.
func signals(before, now samples, at time.Time) (list []string) {
	say := func(is bool, signal string) {
		if is {
			list = append(list, signal)
		}
	}
	for name, value := range now {
		counts := slices.ContainsFunc(counters(), func(c string) bool { return strings.HasPrefix(name, c) })
		say(counts && value > before[name], name)
		say(strings.HasPrefix(name, "llm_server_metric_missing") && value > 0, name+" is 1")
	}
	say(now["llm_probe_silence_seconds"] > 1, silence)
	say(now["llm_probe_up"] == 0, down)
	say(now["llm_probe_consecutive_failures"] > 0, inARow)
	say(now["llm_server_up"] == 0, relayDown)
	say(now["llm_server_healthy"] == 0, sick)
	say(float64(at.UnixMilli())/1e3-now["llm_server_last_change_timestamp_seconds"] > 15, frozen)
	start, known := now["llm_server_start_time_seconds"]
	say(known && start != before["llm_server_start_time_seconds"], restarted)
	waiting, known := now["llm_server_requests_waiting"]
	say(waiting > 0, queue)
	say(!known, withdrawn)
	for _, histogram := range []string{
		ttft, itl, "llm_probe_time_per_output_token_seconds", "llm_probe_request_duration_seconds", "llm_probe_server_queue_seconds", "llm_probe_server_prefill_seconds",
	} {
		usual := mean(samples{}, before, histogram)
		mean := mean(before, now, histogram)
		say(mean > 1.5*usual+noise, histogram+" rises")
		say(mean < usual/1.5-noise, histogram+" falls")
	}
	return list
}

// counters are those whose rise tells something.
func counters() []string {
	return []string{bad, failures, suspects, missed, warmups, chunks, "llm_probe_cached_prompt_tokens_total", misscrapes, "llm_server_dropped_samples_total", "llm_server_preemptions_total"}
}

// noise, in seconds, is what a mean may change for nothing: a step of the engine, and a little more.
const noise = 0.025

// mean is the mean of what a histogram got between two scrapes; NaN, which nothing compares to, if that is none.
func mean(from, to samples, histogram string) float64 {
	return (to[histogram+"_sum"] - from[histogram+"_sum"]) / (to[histogram+"_count"] - from[histogram+"_count"])
}

// A hang is told within the threshold and a second of the first probe sent after it, while nothing else tells it,
// and is over when it is over.
func TestHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 128)
		sent := s.nextProbe()
		s.until(sent.Add(-10 * time.Millisecond))
		before := s.scrape()
		sim(vllmsim.Hang, "")(s)
		for _, second := range []float64{0.5, 1, 1.1, 2, 5, 10, 14, 20, 29} {
			s.until(sent.Add(time.Duration(second * float64(time.Second))))
			now := s.scrape()
			now.want(t, "llm_probe_silence_seconds", second)
			now.want(t, "llm_server_healthy", 1)
			now.want(t, "llm_server_up", 1)
			now.want(t, "llm_server_last_change_timestamp_seconds", before["llm_server_last_change_timestamp_seconds"])
			now.want(t, "llm_probe_up", 1)
			bad := 0.0
			if second > 16 {
				bad = 2 // the probe after it waits as well
			} else if second > 1 {
				bad = 1
			}
			now.want(t, badTTFT, before[badTTFT]+bad)
		}
		s.server.ClearFault()
		s.until(sent.Add(time.Minute))
		after := s.scrape()
		after.want(t, "llm_probe_silence_seconds", 0)
		after.want(t, badTTFT, before[badTTFT]+2)
		after.want(t, bad+`{slo="availability"}`, before[bad+`{slo="availability"}`])
		after.want(t, warmups, before[warmups])
		after.want(t, missed, 0)
		after.want(t, "llm_probe_up", 1)
		if now := after["llm_server_last_change_timestamp_seconds"]; now <= before["llm_server_last_change_timestamp_seconds"]+30 {
			t.Error("nothing has changed at the server since the hang")
		}
	})
}

// A killed server that comes back is warmed up again: its first five answers measure nothing.
func TestKillAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, 128)
		s.until(s.nextProbe().Add(time.Second))
		before := s.scrape()
		s.server.remove()
		time.Sleep(40 * time.Second)
		gone := s.scrape()
		gone.want(t, reason("truncated"), 1) // the one in flight
		gone.want(t, reason("connect"), 2)
		gone.want(t, "llm_probe_consecutive_failures", 3)
		gone.want(t, "llm_server_requests_running", absent)

		s.server = serve(t, s.n, "llm:8000", vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true})
		s.until(s.nextProbe().Add(10 * time.Second))
		back := s.scrape()
		back.want(t, "llm_probe_up", 1)
		back.want(t, "llm_probe_consecutive_failures", 0)
		back.want(t, ttft+"_count", before[ttft+"_count"])
		time.Sleep(time.Minute)
		later := s.scrape()
		later.want(t, warmups, before[warmups]+5)
		if measured := later[ttft+"_count"] - before[ttft+"_count"]; measured < 2 {
			t.Errorf("%v probes were measured after the warm-up", measured)
		}
		later.want(t, failures+`{reason="connect"}`, 2)
	})
}

// Every fault is told by the metric that the table says, as soon as it says, and what has to stay quiet does.
func TestFaults(t *testing.T) {
	all := faults()
	rows := make([]string, len(all))
	t.Run("fault", func(t *testing.T) {
		for i, f := range all {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					moved := play(t, f)
					f.check(t, moved)
					rows[i] = f.row(moved)
				})
			})
		}
	})
	if t.Failed() {
		return
	}
	golden(t, filepath.Join("..", "..", "docs", "faults.md"), faultsPage(all, rows))
}

// check holds what has moved against the table.
func (f *fault) check(t *testing.T, moved map[string]time.Duration) {
	first, after := "", time.Hour
	for signal, at := range moved {
		if at < after || at == after && signal == f.first {
			first, after = signal, at
		}
		for _, group := range f.quiet {
			if slices.ContainsFunc(quietGroups()[group], func(quiet string) bool { return strings.HasPrefix(signal, quiet) }) {
				t.Errorf("%s moved after %v, and should have stayed quiet", signal, at)
			}
		}
		if strings.HasPrefix(signal, failures) {
			f.checkFailure(t, moved, signal, at)
		}
	}
	switch {
	case first != f.first:
		t.Errorf("%q moves first, after %v; want %q", first, after, f.first)
	case first != "" && after > f.by:
		t.Errorf("%s moved after %v, want it by %v", first, after, f.by)
	}
}

// checkFailure: a failure is bad for every SLO at once, unless it is the prober's own, and the gauges follow.
func (f *fault) checkFailure(t *testing.T, moved map[string]time.Duration, failure string, at time.Duration) {
	for _, signal := range withFailure() {
		if failure == reason("internal") && strings.HasPrefix(signal, bad) {
			continue
		}
		if when, did := moved[signal]; !did || when > at {
			t.Errorf("a probe failed after %v and %s did not follow at once (%v, %t)", at, signal, when, did)
		}
	}
}

// withFailure are the signals that come with every failure; the page does not repeat them.
func withFailure() []string {
	return []string{badTTFT, bad + `{slo="itl-smooth"}`, bad + `{slo="availability"}`, inARow, down}
}

// row is the fault as a row of the page.
func (f *fault) row(moved map[string]time.Duration) string {
	failedAt := time.Hour
	for signal, at := range moved {
		if strings.HasPrefix(signal, failures) {
			failedAt = min(failedAt, at)
		}
	}
	times := map[time.Duration][]string{}
	for signal, at := range moved {
		if signal != f.first && !(at == failedAt && slices.Contains(withFailure(), signal)) {
			times[at] = append(times[at], code(signal))
		}
	}
	var then []string
	for _, at := range slices.Sorted(maps.Keys(times)) {
		slices.Sort(times[at])
		then = append(then, fmt.Sprintf("%s %s", seconds(at), strings.Join(times[at], ", ")))
	}
	first, after := "nothing", ""
	if f.first != "" {
		first, after = code(f.first), seconds(moved[f.first])
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s |\n", f.name, first, after, strings.Join(then, "<br>"), strings.Join(f.quiet, ", "))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// code is a signal, or the beginning of some, in Markdown.
func code(signal string) string {
	metric, what, found := strings.Cut(signal, " ")
	switch {
	case found:
		return "`" + metric + "` " + what
	case strings.HasSuffix(metric, "_"):
		return "`" + metric + "*`"
	}
	return "`" + metric + "`"
}

// faultsPage is docs/faults.md.
func faultsPage(faults []fault, rows []string) string {
	var idle, mid strings.Builder
	for i, f := range faults {
		if f.mid {
			mid.WriteString(rows[i])
		} else {
			idle.WriteString(rows[i])
		}
	}
	head := "| fault | moves first | after | then | stays quiet |\n|---|---|---|---|---|\n"
	var groups strings.Builder
	for _, name := range slices.Sorted(maps.Keys(quietGroups())) {
		var signals []string
		for _, signal := range quietGroups()[name] {
			signals = append(signals, code(signal))
		}
		fmt.Fprintf(&groups, "  * %s: %s\n", name, strings.Join(signals, ", "))
	}
	return fmt.Sprintf(faultsText, groups.String(), head+idle.String(), head+mid.String())
}

const faultsText = `# What each fault looks like

Which metric tells of a fault, how soon, what follows, and what stays quiet. Written by a test (` + "`go test ./cmd/llm_prober -run TestFaults -update`" + `) that plays every fault to
the daemon on virtual time; without ` + "`-update`" + ` it fails if anything on this page is no longer so.

The settings are the defaults (interval 15 s, timeout 60 s, stall timeout 30 s, but the relay reads every second) with 512 prompt and 128 output tokens, and three SLOs: ` + "`ttft-fast`" + ` (TTFT 1 s),
` + "`itl-smooth`" + ` (95th percentile of ITL 100 ms) and ` + "`availability`" + ` (success). The server is the simulator with its default model: TTFT 0.1 s, 20 ms a token. A fault lasts for the 65 s that are looked at.
Moments are found to 0.1 s in the first 5 s and to 1 s after that.

* Where a probe fails, ` + "`llm_probe_slo_bad_events_total`" + ` of every SLO that had not found it bad before, ` + "`llm_probe_consecutive_failures`" + ` and ` + "`llm_probe_up`" + ` move in the same moment. They are left out. A failure of the prober itself (` + "`internal`" + `) moves no SLO.
* A server that begins to refuse what it took before, and names no field, fails five probes; from the sixth on they go without what the prober adds by itself, and are suspect (` + "`field_refused`" + `). One that refuses it from the start is asked once more at once.
* Not on this page, for virtual time cannot play them: a certificate or key file that is missing fails its target's probes and relay as ` + "`tls`" + ` (a credential's as ` + "`auth`" + `), and that target alone, until it is there.
  A prober that is stopped (freezer, live migration) reads what came meanwhile before it judges: a whole answer is a success, latencies that it can no longer know are withheld, the SLOs on them are unjudged, and the probe is suspect (` + "`reader_late`" + `).
* "rises" and "falls" are means of a histogram since the fault that are over 1.5 times, or under two thirds, of what was usual before.
* ` + "`llm_server_last_change_timestamp_seconds`" + ` is old as well when a server has nothing to do, as when all its probes are refused. It means a hang together with ` + "`llm_probe_silence_seconds`" + `.
* What stays quiet is held by the test:

%s
## A fault before a probe is sent

Times count from the first probe sent after the fault; up to one interval passes before it.

%s
## A fault while a probe streams

Times count from the fault, one second after the probe was sent.

%s`
