package prober

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"
)

// fakeServer is an LLM server in memory, to be used in a synctest bubble. Its zero value is a server without a
// tokenizer that lists a model "m" and answers every probe with two tokens.
type fakeServer struct {
	// script is the answer to the nth probe, counted from 0.
	script func(n int, r sentRequest) script
	// models is the body of GET /v1/models, or the whole answer if it holds "HTTP/1.1 ".
	models string
	// tokenize answers POST /tokenize; nil: there is none.
	tokenize func(r sentRequest) script
	// dialing is called with each address before the connection is there.
	dialing func(network, address string) error

	mu     sync.Mutex
	probes []sentRequest // requests that were probes
	others []sentRequest // and those that were not
	dials  []string
	left   int // probes whose client left before the script's end
	open   int // connections that the client has not closed
}

// What a dial gives for a name that does not resolve, and for a port where nobody listens.
var (
	dnsError     = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "llm.example", IsNotFound: true}}
	refusedError = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
)

const fakeModels = `{"data":[{"id":"m","max_model_len":8192}]}`

// defaultScript is a good answer to the default workload.
const defaultScript = script("{ROLE}<<+100ms>>{C:a}<<+20ms>>{C:b}{FIN:length}{USAGE:512,128}{DONE}")

// always answers every probe alike.
func always(s script) *fakeServer {
	return &fakeServer{script: func(int, sentRequest) script { return s }}
}

func (s *fakeServer) dial(_ context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	s.dials = append(s.dials, network+" "+address)
	s.mu.Unlock()
	if s.dialing != nil {
		if err := s.dialing(network, address); err != nil {
			return nil, err
		}
	}
	client, server := net.Pipe()
	s.mu.Lock()
	s.open++
	s.mu.Unlock()
	end := &pipeEnd{Conn: client, closed: sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	})}
	go func() {
		defer server.Close()
		s.serve(server, func() { end.reset.Store(true) })
	}()
	return end, nil
}

func (s *fakeServer) serve(conn net.Conn, reset func()) {
	r, err := readRequest(conn)
	if err != nil {
		return
	}
	switch {
	case strings.HasSuffix(r.path, "/models"):
		s.note(&s.others, r)
		s.mu.Lock()
		models := s.models
		s.mu.Unlock()
		if models == "" {
			models = fakeModels
		}
		answer := script(models)
		if !strings.Contains(models, "HTTP/1.1 ") {
			answer = jsonAnswer(http.StatusOK, models)
		}
		_ = answer.play(conn, reset)
	case r.path == "/tokenize":
		s.note(&s.others, r)
		answer := jsonAnswer(http.StatusNotFound, `{"detail":"Not Found"}`)
		if s.tokenize != nil {
			answer = s.tokenize(r)
		}
		_ = answer.play(conn, reset)
	default:
		n := s.note(&s.probes, r)
		answer := defaultScript
		if s.script != nil {
			answer = s.script(n, r)
		}
		if err := answer.play(conn, reset); err != nil {
			s.mu.Lock()
			s.left++
			s.mu.Unlock()
		}
	}
}

// note keeps a request and tells how many were there before.
func (s *fakeServer) note(list *[]sentRequest, r sentRequest) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, r)
	return len(*list) - 1
}

// sent lists the probes that the server has seen.
func (s *fakeServer) sent() []sentRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.probes)
}

// asked counts the other requests with a path.
func (s *fakeServer) asked(path string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.others {
		if r.path == path {
			n++
		}
	}
	return n
}

// recorder is an Observer that keeps what it is told.
type recorder struct {
	mu      sync.Mutex
	begin   time.Time
	started []*Probe
	sent    []time.Duration // since the recorder was made
	tokens  []time.Duration
	results []*Result
	missed  []string // "workload at 5s"
	onToken func()
}

func newRecorder() *recorder { return &recorder{begin: time.Now()} }

func (o *recorder) Started(p *Probe) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.started = append(o.started, p)
}

func (o *recorder) Sent(_ *Probe, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, at.Sub(o.begin))
}

func (o *recorder) Token(_ *Probe, at time.Time, _ time.Duration) {
	o.mu.Lock()
	o.tokens = append(o.tokens, at.Sub(o.begin))
	hook := o.onToken
	o.mu.Unlock()
	if hook != nil {
		hook()
	}
}

func (o *recorder) Ended(r *Result) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.results = append(o.results, r)
}

func (o *recorder) Missed(_, workload string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.missed = append(o.missed, fmt.Sprintf("%s at %v", workload, time.Since(o.begin)))
}

// tally counts what happened so far.
func (o *recorder) tally() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return fmt.Sprintf("%d started, %d ended, %d missed", len(o.started), len(o.results), len(o.missed))
}

// reasons counts how the probes ended: by reason, "ok", "warm-up" or "abandoned".
func (o *recorder) reasons() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := map[string]int{}
	for _, r := range o.results {
		counts[ending(r)]++
	}
	return counts
}

func ending(r *Result) string {
	switch {
	case r.Abandoned:
		return "abandoned"
	case r.Reason != "":
		return string(r.Reason)
	case r.Warmup:
		return "warm-up"
	default:
		return "ok"
	}
}

// plan is the workload of the cases: 512 prompt tokens, 128 output tokens.
func plan() Plan {
	return Plan{
		Workload: Workload{Name: "w", API: Chat, PromptTokens: 512, OutputTokens: 128, Seed: 42, MaxTokensField: "max_tokens"},
		Interval: 15 * time.Second, Arrival: Constant, Timeout: 10 * time.Second, StallTimeout: 10 * time.Second, MaxInFlight: 2,
	}
}

// target is a target with the workload of the cases.
func target(plans ...Plan) Target {
	if len(plans) == 0 {
		plans = []Plan{plan()}
	}
	return Target{Name: "t", URL: &url.URL{Scheme: "http", Host: "llm.example:8000"}, Model: "m", Plans: plans, IPFamily: AnyFamily}
}

// syncBuffer is a log's destination.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// rig is a runner with everything around it.
type rig struct {
	*Runner
	rec  *recorder
	logs *syncBuffer
}

func newRig(t *testing.T, dial DialFunc, target Target) *rig {
	t.Helper()
	g := &rig{rec: newRecorder(), logs: &syncBuffer{}}
	var err error
	g.Runner, err = NewRunner(target, Options{Observer: g.rec, Logger: log.NewLogfmtLogger(g.logs), UserAgent: "llm_prober/test", Dial: dial})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// once sends one probe of the first workload.
func (g *rig) once(t *testing.T) *Result {
	t.Helper()
	res, err := g.Send(t.Context(), Order{Workload: g.target.Plans[0].Name})
	if err != nil {
		t.Fatal(err)
	}
	checkInvariants(t, res)
	return res
}

// probeOnce sends one probe to a server in memory.
func probeOnce(t *testing.T, s *fakeServer, target Target) *Result {
	t.Helper()
	return newRig(t, s.dial, target).once(t)
}

// checkInvariants holds a result against what is true of every result.
func checkInvariants(t *testing.T, r *Result) {
	t.Helper()
	check := func(ok bool, what string) {
		if !ok {
			t.Helper()
			t.Errorf("%s: %s", outcome(r), what)
		}
	}
	_, ttft := r.TTFT()
	_, tpot := r.TPOT()
	_, duration := r.Duration()
	if !r.OK() {
		check(!ttft && !tpot && !duration && gapsOf(r) == nil, "a failure has a latency")
	} else {
		check(!r.FirstToken.IsZero() && !r.Sent.IsZero() && r.Status == 200, "a success has no token, no start or no status 200")
		check(len(r.Gaps) == 0 || r.LastToken.After(r.FirstToken) || r.LastToken.Equal(r.FirstToken), "the last token came before the first")
	}
	check(r.Abandoned || (r.Reason == "") == (r.Err == nil), "a reason without an error, or the other way round")
	for _, gap := range r.Gaps {
		check(gap >= 0, "a negative gap")
	}
	if !r.Connected.IsZero() {
		check(!r.Connected.Before(r.DialStart), "connected before dialling")
	}
	check(!r.Ended.Before(r.Started) && !r.Started.Before(r.Scheduled), "time runs backwards")
}

// outcome is a result in one line, so that a table can be read: the reason of a failure, or every number that
// a success gives. Runs of equal gaps are written 3×20ms.
func outcome(r *Result) string {
	var b strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	switch {
	case r.Abandoned:
		return "abandoned"
	case r.Reason != "":
		add("%s", r.Reason)
		if r.TokenSource != "" {
			add(" tokens=%d/%s", r.OutputTokens, r.TokenSource)
		}
		return b.String()
	}
	known := func(name string, get func() (Latency, bool)) {
		if l, ok := get(); ok {
			add(" %s=%v", name, l.Value)
		} else {
			add(" %s=none", name)
		}
	}
	add("ok")
	known("ttft", r.TTFT)
	if l, ok := r.TTFA(); ok {
		add(" answer=%v", l.Value)
	}
	add(" gaps=%s", gapText(gapsOf(r)))
	known("tpot", r.TPOT)
	known("duration", r.Duration)
	add(" tokens=%d/%s", r.OutputTokens, r.TokenSource)
	if r.PromptTokens >= 0 {
		add(" prompt=%d", r.PromptTokens)
	}
	if r.CachedTokens >= 0 {
		add(" cached=%d", r.CachedTokens)
	}
	if r.Server != nil {
		add(" queue=%v prefill=%v", r.Server.Queue, r.Server.Prefill)
	}
	if r.Suspect != 0 {
		add(" suspect=%s", strings.Join(r.Suspect.Names(), ","))
	}
	return b.String()
}

// gapsOf lists the inter-token latencies; nil where there can be none.
func gapsOf(r *Result) []time.Duration {
	if !r.OK() || r.Suspect.Has(SuspectCoalesced) {
		return nil
	}
	gaps := []time.Duration{}
	for l := range r.ITL() {
		gaps = append(gaps, l.Value)
	}
	return gaps
}

func gapText(gaps []time.Duration) string {
	if gaps == nil {
		return "none"
	}
	var runs []string
	for i := 0; i < len(gaps); {
		n := 1
		for i+n < len(gaps) && gaps[i+n] == gaps[i] {
			n++
		}
		text := gaps[i].String()
		if n > 1 {
			text = fmt.Sprintf("%d×%v", n, gaps[i])
		}
		runs = append(runs, text)
		i += n
	}
	return "[" + strings.Join(runs, " ") + "]"
}
