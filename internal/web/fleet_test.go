package web

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

var serve = flag.String("serve", "", "serve the pages of an invented fleet at this address for an hour, to look at them")

// TestServe is for eyes: go test ./internal/web -run TestServe -serve 127.0.0.1:9999 -timeout 2h
func TestServe(t *testing.T) {
	if *serve == "" {
		t.Skip("only with -serve")
	}
	l, err := net.Listen("tcp", *serve)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: newFleet(time.Now()).handler()}
	time.AfterFunc(time.Hour, func() { server.Close() })
	t.Log("http://" + l.Addr().String() + "/")
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

// fleet is a set of targets in every state, with an hour behind them.
type fleet struct {
	history *History
	targets []Target
	servers map[string]Server
	random  *rand.Rand
	now     time.Time
	next    int
}

// shape512 is the workload of the fleet.
var shape512 = prober.Workload{Name: "chat-512-128", API: prober.Chat, PromptTokens: 512, OutputTokens: 128}

func (f *fleet) add(name, model string, server *Server, labels map[string]string) {
	plan := prober.Plan{Workload: shape512, Interval: 15 * time.Second, Timeout: time.Minute, StallTimeout: 30 * time.Second}
	u := &url.URL{Scheme: "http", Host: name + ".llm.example.com:8000"}
	f.targets = append(f.targets, Target{Target: &prober.Target{Name: name, URL: u, Model: model, Plans: []prober.Plan{plan}}, Labels: labels})
	if server != nil {
		f.servers[name] = *server
	}
}

// timing is what the probes of a target are like at a moment.
type timing struct {
	connect, queue, prefill, outside, itl time.Duration
	told                                  bool // the server sends its own account
	suspect                               prober.Suspect
	warmup                                bool
}

func (f *fleet) jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.93 + 0.14*f.random.Float64()))
}

func (f *fleet) begin(target string, at time.Time, warmup bool) *prober.Probe {
	f.next++
	p := &prober.Probe{
		Target: target, Workload: &shape512, Warmup: warmup, RequestID: fmt.Sprintf("lp-%08x-%04d", f.random.Uint32(), f.next),
		Scheduled: at, Started: at.Add(180 * time.Microsecond),
	}
	f.history.Started(p)
	return p
}

// success sends a probe that began at the given time.
func (f *fleet) success(target, model string, at time.Time, tm timing) *prober.Result {
	p := f.begin(target, at, tm.warmup)
	r := &prober.Result{
		Probe: p, Suspect: tm.suspect, RemoteAddr: "10.0.3.17:8000", Status: 200, DialStart: p.Started, Model: model, FinishReason: "length",
		PromptTokens: 512, CachedTokens: 0, OutputTokens: 128, TokenSource: prober.FromUsage, FirstTokens: 1, KernelStamps: true, ReadDelay: 90 * time.Microsecond,
	}
	r.Connected = r.DialStart.Add(f.jitter(tm.connect))
	r.Sent = r.Connected.Add(20 * time.Microsecond)
	queue, prefill, outside := f.jitter(tm.queue), f.jitter(tm.prefill), f.jitter(tm.outside)
	r.Headers = r.Sent.Add(outside)
	r.FirstToken = r.Sent.Add(queue + prefill + outside)
	if tm.told {
		r.Server = &prober.ServerTimings{Queue: queue, Prefill: prefill}
	}
	r.LastToken = r.FirstToken
	for i := range 127 {
		gap := f.jitter(tm.itl)
		if i%31 == 17 {
			gap *= 4
		}
		r.Gaps = append(r.Gaps, gap)
		r.LastToken = r.LastToken.Add(gap)
	}
	r.Ended = r.LastToken.Add(2 * time.Millisecond)
	f.history.Ended(r)
	return r
}

func (f *fleet) failure(target string, at time.Time, took time.Duration, reason prober.Reason, status int, text, body string) *prober.Result {
	p := f.begin(target, at, false)
	r := &prober.Result{
		Probe: p, Reason: reason, Err: errors.New(text), Status: status, Body: body, PromptTokens: -1, CachedTokens: -1,
		DialStart: p.Started, Ended: p.Started.Add(took),
	}
	if reason != prober.ReasonConnect && reason != prober.ReasonDNS {
		r.Connected = r.DialStart.Add(time.Millisecond)
		r.Sent = r.Connected
	}
	f.history.Ended(r)
	return r
}

// newFleet invents the fleet as it is at the given time.
func newFleet(now time.Time) *fleet {
	f := &fleet{history: &History{}, servers: map[string]Server{}, random: rand.New(rand.NewPCG(1, 2)), now: now}
	usual := timing{connect: 600 * time.Microsecond, queue: 40 * time.Microsecond, prefill: 84 * time.Millisecond, outside: 6 * time.Millisecond, itl: 19 * time.Millisecond, told: true}
	server := func(running, waiting, kv float64) *Server {
		return &Server{Up: true, Engine: "vllm", Version: "0.32.0", Running: &running, Waiting: &waiting, KVCache: &kv, Healthy: Healthy, LastScrape: now.Add(-600 * time.Millisecond), LastChange: now.Add(-700 * time.Millisecond)}
	}
	still := server(11, 0, 0.31)
	still.LastChange = now.Add(-19 * time.Second)
	blind := &Server{Waiting: ptr(math.NaN()), Error: "connection refused", LastScrape: now.Add(-6 * time.Minute)}
	llama := server(1, 0, 0)
	llama.Engine, llama.Version, llama.KVCache, llama.Healthy = "llamacpp", "b6123", nil, ""

	f.add("a10-quiet", "qwen3.5-4b", server(2, 0, 0.07), map[string]string{"site": "ams", "gpu": "a10"})
	f.add("h100-queue", "llama-3.3-70b", server(106, 37, 0.93), map[string]string{"site": "fra", "gpu": "h100"})
	f.add("h100-decode", "llama-3.3-70b", server(64, 0, 0.55), nil)
	f.add("edge-network", "qwen3.5-4b", server(1, 0, 0.02), map[string]string{"site": "sin"})
	f.add("a10-hung", "qwen3.5-4b", still, nil)
	f.add("a10-down", "qwen3.5-4b", blind, map[string]string{"site": "ams"})
	f.add("mac-llamacpp", "gemma-3-12b", llama, nil)
	f.add("l4-starting", "qwen3.5-4b", server(0, 0, 0), nil)
	f.add("new", "", nil, nil)

	for ago := time.Hour; ago > 4*time.Second; ago -= 15 * time.Second {
		at := now.Add(-ago - 3*time.Second)
		f.success("a10-quiet", "qwen3.5-4b", at, usual)
		queued, decoding, far := usual, usual, usual
		if ago < 18*time.Minute {
			queued.queue = time.Duration(float64(1900*time.Millisecond) * min(1, (18-ago.Minutes())/6))
			decoding.itl = 41 * time.Millisecond
			far.outside, far.connect = 260*time.Millisecond, 210*time.Millisecond
		}
		f.success("h100-queue", "llama-3.3-70b", at, queued)
		f.success("h100-decode", "llama-3.3-70b", at, decoding)
		f.success("edge-network", "qwen3.5-4b", at, far)
		if ago > 20*time.Second {
			f.success("a10-hung", "qwen3.5-4b", at, usual)
		}
		untold := timing{connect: time.Millisecond, prefill: 700 * time.Millisecond, itl: 33 * time.Millisecond}
		if ago%(4*time.Minute) == 0 {
			untold.suspect = prober.SuspectShortOutput
		}
		f.success("mac-llamacpp", "gemma-3-12b", at, untold)
		switch {
		case ago > 6*time.Minute:
			f.success("a10-down", "qwen3.5-4b", at, usual)
		case ago > 5*time.Minute:
			f.failure("a10-down", at, 220*time.Millisecond, prober.ReasonHTTPStatus, 500, "POST /v1/chat/completions: status 500",
				`{"error":{"message":"EngineCore encountered an issue. See stack trace (above) for the root cause. <script>alert(1)</script>","type":"InternalServerError","code":500}}`)
		default:
			f.failure("a10-down", at, 400*time.Microsecond, prober.ReasonConnect, 0, "dial tcp 10.0.3.18:8000: connect: connection refused", "")
		}
	}
	warm := usual
	warm.warmup = true
	for i := range 3 {
		f.success("l4-starting", "qwen3.5-4b", now.Add(time.Duration(i-4)*3*time.Second), warm)
	}
	for i := range 2 {
		p := f.begin("a10-hung", now.Add(time.Duration(15*i-19)*time.Second), false)
		f.history.Sent(p, p.Started.Add(time.Millisecond))
	}
	p := f.begin("h100-queue", now.Add(-2*time.Second), false)
	f.history.Sent(p, p.Started.Add(time.Millisecond))
	p = f.begin("a10-quiet", now.Add(-time.Second), false)
	f.history.Sent(p, p.Started.Add(time.Millisecond))
	for i := range 40 {
		f.history.Token(p, p.Started.Add(time.Duration(100+20*i)*time.Millisecond), 0)
	}
	f.history.Missed("h100-queue", shape512.Name)
	return f
}

func (f *fleet) options() Options {
	return Options{
		Version: "1.2.3",
		Targets: func() []Target { return f.targets },
		History: f.history,
		Server: func(target string) (Server, bool) {
			s, ok := f.servers[target]
			return s, ok
		},
		ConfigYAML: func() ([]byte, error) { return []byte("global: {}\n"), nil },
		Ready:      func() bool { return true },
		Metrics:    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "llm_probe_up 1") }),
	}
}

func (f *fleet) handler() http.Handler { return New(f.options()) }
