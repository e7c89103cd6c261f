package vllmsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is how the simulated server was started. Each field names the vLLM option that it stands for; the zero
// value is a usable server.
type Config struct {
	Models      []string // --served-model-name; "tiny" if empty. The first is the one metrics name
	Root        string   // path of the model as /v1/models tells it; "./" and the first name if empty
	MaxModelLen int      // --max-model-len in tokens; 4096 if 0, and at most what the KV cache holds
	Version     string   // "0.32.0" if empty
	Engine      Model    // [DefaultModel] if zero

	APIKey              string        // --api-key
	MaxNumQueuedReqs    int           // --max-num-queued-reqs; 0: no limit
	KeepAliveInterval   time.Duration // --sse-keep-alive-interval; 0: no comments
	PerRequestMetrics   bool          // --enable-per-request-metrics
	PromptTokensDetails bool          // --enable-prompt-tokens-details
	RequestIDHeaders    bool          // --enable-request-id-headers
	DisablePrefixCache  bool          // --no-enable-prefix-caching
	MultiProcess        bool          // --api-server-count 2: another /metrics page

	ReasoningParser bool // --reasoning-parser: text arrives as reasoning
	ReasoningTokens int  // with it, how many tokens are reasoning; 0: all

	StartTime   time.Time // process start time; now if zero
	Seed        uint64    // of ids and words
	EmptyTokens float64   // share of tokens that decode to nothing, as halves of characters do
}

func (c Config) withDefaults() Config {
	if len(c.Models) == 0 {
		c.Models = []string{"tiny"}
	}
	c.Root = cmp.Or(c.Root, "./"+c.Models[0])
	c.MaxModelLen = cmp.Or(c.MaxModelLen, 4096)
	c.Version = cmp.Or(c.Version, "0.32.0")
	c.Engine = cmp.Or(c.Engine, DefaultModel())
	// vLLM does not begin with a longest context that its KV cache cannot hold, and tells what it could.
	c.MaxModelLen = min(c.MaxModelLen, c.Engine.KVTokens/blockSize*blockSize)
	if c.StartTime.IsZero() {
		c.StartTime = time.Now()
	}
	return c
}

// Server is a simulated vLLM: the API server in front of an [Engine].
type Server struct {
	cfg        Config
	handler    http.Handler
	behaviours map[FaultName]behaviour

	mu     sync.Mutex
	proc   *process
	faults map[FaultName]setting
	random *rand.Rand
	closed bool
}

// process is what a restart replaces.
type process struct {
	engine *Engine
	cache  *prefixCache // nil: switched off
	start  time.Time
	ctx    context.Context // ends with the process; the cause tells how
	cancel context.CancelCauseFunc
	http   *httpStats
}

// New starts a server without a listener: use its Handler. Close ends it.
func New(cfg Config) *Server {
	cfg = cfg.withDefaults()
	s := &Server{
		cfg:        cfg,
		behaviours: behaviours(),
		faults:     map[FaultName]setting{},
		random:     rand.New(rand.NewPCG(cfg.Seed, 0x76_6c_6c_6d)),
	}
	s.proc = s.newProcess(cfg.StartTime)
	s.handler = s.routes()
	return s
}

func (s *Server) newProcess(start time.Time) *process {
	p := &process{engine: NewEngine(s.cfg.Engine), start: start, http: newHTTPStats()}
	if !s.cfg.DisablePrefixCache {
		p.cache = newPrefixCache(s.cfg.Engine.KVTokens / blockSize)
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	return p
}

func (p *process) end() {
	p.engine.Close()
	p.cancel(ErrClosed)
}

// Handler serves everything that a vLLM serves, and POST /sim/fault beside it.
func (s *Server) Handler() http.Handler { return s.handler }

// Engine is the scheduler of the running process.
func (s *Server) Engine() *Engine { return s.process().engine }

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// Restart replaces the process as a crash and a new start would: connections in use break, counters begin at
// zero, caches are empty, the process start time is now. Faults stay, except a crash.
func (s *Server) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.restart()
}

func (s *Server) restart() {
	if s.closed {
		return
	}
	s.proc.end()
	delete(s.faults, Crash)
	s.proc = s.newProcess(time.Now())
	for name, v := range s.faults {
		if b := s.behaviours[name]; b.engine != nil {
			b.engine(s, v, true)
		}
	}
}

// Close ends the engine and breaks the answers in progress. It does not wait for their handlers.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.proc.end()
}

// unmonitored paths are in none of the http_ metrics.
var unmonitored = []string{"/metrics", "/health", "/ping", "/version", "/load"}

func (s *Server) routes() http.Handler {
	routes := []struct {
		methods string // separated by blanks
		path    string
		serve   func(*process, http.ResponseWriter, *http.Request)
	}{
		{"POST", "/v1/chat/completions", s.serveCompletion(chatAPI{})},
		{"POST", "/v1/completions", s.serveCompletion(completionsAPI{})},
		{"POST", "/tokenize", s.serveTokenize},
		{"GET", "/v1/models", s.serveModels},
		{"GET", "/version", s.serveVersion},
		{"GET", "/health", s.serveHealth},
		{"GET POST", "/ping", s.serveHealth},
		{"GET", "/load", s.serveLoad},
		{"GET", "/metrics", s.serveMetrics},
	}
	mux := http.NewServeMux()
	for _, route := range routes {
		allowed := strings.Fields(route.methods)
		mux.Handle(route.path, s.monitored(route.path, func(p *process, w http.ResponseWriter, r *http.Request) {
			if !slices.Contains(allowed, r.Method) {
				w.Header().Set("Allow", strings.Join(allowed, ", "))
				writeJSON(w, http.StatusMethodNotAllowed, detail{"Method Not Allowed"})
				return
			}
			route.serve(p, w, r)
		}))
	}
	mux.Handle("/", s.monitored("none", func(_ *process, w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, detail{"Not Found"})
	}))
	// A page of another origin that is open in a browser may not break the server.
	mux.Handle("/sim/fault", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.serveFault)))
	return mux
}

type detail struct {
	Detail string `json:"detail"`
}

// monitored does what every request goes through: headers, the key, the http_ metrics.
func (s *Server) monitored(route string, serve func(*process, http.ResponseWriter, *http.Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := s.process()
		s.breakIfGone()
		w.Header().Set("Server", "uvicorn")
		if s.cfg.RequestIDHeaders {
			w.Header().Set("X-Request-Id", cmp.Or(r.Header.Get("X-Request-Id"), s.hex(32)))
		}
		if !s.authorized(r) {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
			return
		}
		w.Header().Set("Vary", "Origin")
		if slices.Contains(unmonitored, route) {
			serve(p, w, r)
			return
		}
		began := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		defer func() { p.http.observe(route, r, rec, time.Since(began)) }()
		serve(p, rec, r)
	})
}

func (s *Server) authorized(r *http.Request) bool {
	return s.cfg.APIKey == "" || !strings.HasPrefix(r.URL.Path, "/v1") ||
		r.Header.Get("Authorization") == "Bearer "+s.cfg.APIKey
}

// recorder remembers what the http_ metrics need.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets [http.ResponseController] reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (s *Server) hex(digits int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for b.Len() < digits {
		fmt.Fprintf(&b, "%x", s.random.IntN(16))
	}
	return b.String()
}

func (s *Server) hasModel(name string) bool { return name == "" || slices.Contains(s.cfg.Models, name) }

func (s *Server) serveHealth(p *process, w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	if errors.Is(p.engine.Err(), ErrEngineDead) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *Server) serveVersion(_ *process, w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"version": s.cfg.Version})
}

func (s *Server) serveLoad(_ *process, w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int{"server_load": 0}) // vLLM says 0 unless told to track it
}
