package relay

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// pathCounts counts what is asked for.
type pathCounts struct {
	mu    sync.Mutex
	count map[string]int
}

func (p *pathCounts) add(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil {
		p.count = map[string]int{}
	}
	p.count[path]++
}

func (p *pathCounts) times(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[path]
}

func (p *pathCounts) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.count))
}

// Nothing of an unknown server is touched but its list of models, once a minute, and what the user named.
func TestUnknownServer(t *testing.T) {
	gateway := `{"data":[{"id":"gpt-5","owned_by":"openai"}]}`
	named := func(c *Config) { c.MetricsURL = parseURL(t, "http://vllm:8000/metrics") } // the default, but named
	// As a router shows what it knows of its engines: that is all there is, and nothing is missing.
	const page = "vllm:num_requests_running{server=\"a\"} 7\nvllm:num_requests_running{server=\"b\"} 5\n"
	tests := []struct {
		name   string
		status int
		models string
		page   string // of /metrics
		change func(*Config)
		asked  []string
		want   map[string]string
		log    string // of the only line; empty: there is none
	}{
		{name: "a gateway", models: gateway, asked: []string{"/v1/models"}, log: `it signs its models with \"openai\"`},
		{name: "nobody's models", models: `{"data":[{"id":"m"}]}`, asked: []string{"/v1/models"}, log: `it signs its models with \"\"`},
		{name: "no models", models: `{"data":[]}`, asked: []string{"/v1/models"}, log: `it signs its models with \"\"`},
		{name: "a bare list", models: `[{"id":"m"}]`, asked: []string{"/v1/models"}, log: "asked for its models, reading v1/models"},
		{name: "HTML", models: "<html>", asked: []string{"/v1/models"}, log: "asked for its models, reading v1/models"},
		{name: "400", status: 400, asked: []string{"/v1/models"}, log: "400 Bad Request"},
		{name: "401", status: 401, models: `{"error":"Missing scopes"}`, asked: []string{"/v1/models"}, log: "401 Unauthorized"},
		{name: "404", status: 404, asked: []string{"/v1/models"}, log: "it has no /v1/models"},
		{name: "500", status: 500, asked: []string{"/v1/models"}, log: "500 Internal Server Error"},
		{
			name: "more than is read", models: `{"data":"` + strings.Repeat("x", maxJSON) + `"}`, asked: []string{"/v1/models"},
			log: "the answer is too large",
		},
		{
			name: "the page was named, and is vLLM's", models: gateway, page: page, change: named,
			asked: []string{"/health", "/metrics", "/v1/models"}, want: map[string]string{"up": "1", "healthy": "1", "requests_running{0,gpt-5}": "12"},
		},
		{
			name: "the page was named, and no models are listed", status: 401, page: "# TYPE x gauge\n" + page, change: named,
			asked: []string{"/health", "/metrics", "/v1/models"}, want: map[string]string{"up": "1", "healthy": "1", "requests_running{0,}": "12"},
		},
		{
			name: "the page was named, and is nobody's", models: gateway, page: "litellm_requests 1\n", change: named,
			asked: []string{"/metrics", "/v1/models"}, want: map[string]string{"up": "1", "healthy": ""}, log: "of no known engine",
		},
		{
			name: "the health page was named", models: gateway, change: func(c *Config) { c.HealthURL = parseURL(t, "http://vllm:8000/health") },
			asked: []string{"/health", "/v1/models"}, want: map[string]string{"up": "", "healthy": "1"}, log: "the relay is off",
		},
		{
			name: "the engine was named", models: gateway, page: page, change: func(c *Config) { c.Engine = EngineVLLM },
			asked: []string{"/health", "/metrics", "/v1/models", "/version"}, want: map[string]string{"up": "1", "healthy": "1", "requests_running{0,gpt-5}": "12"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var paths pathCounts
				w := start(t, func(rw http.ResponseWriter, req *http.Request) {
					paths.add(req.URL.Path)
					switch req.URL.Path {
					case "/v1/models":
						if tt.status != 0 {
							rw.WriteHeader(tt.status)
						}
						_, _ = io.WriteString(rw, tt.models)
					case "/metrics":
						text(tt.page)(rw, req)
					case "/health":
					default:
						http.NotFound(rw, req)
					}
				}, tt.change)
				w.pass(170)
				want := tt.want
				if want == nil {
					want = map[string]string{"up": "", "healthy": ""}
				}
				w.has(want)
				if diff := cmp.Diff(tt.asked, paths.asked()); diff != "" {
					t.Errorf("asked for (-want +got):\n%s", diff)
				}
				if n := paths.times("/v1/models"); n != 3 {
					t.Errorf("asked %d times for the models", n)
				}
				if diff := cmp.Diff(map[string]string{}, w.failures()); diff != "" {
					t.Errorf("failures:\n%s", diff)
				}
				if !strings.Contains(w.logs.String(), tt.log) || w.lines() != min(1, len(tt.log)) {
					t.Errorf("log lacks %q:\n%s", tt.log, w.logs)
				}
			})
		})
	}
}

// What was known of a server stays known while it does not say who it is; once it says that it is another, what was
// known of its health goes.
func TestServerThatBecomesUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn sync.Map
		var paths pathCounts
		w := start(t, func(rw http.ResponseWriter, req *http.Request) {
			paths.add(req.URL.Path)
			switch owner, _ := turn.Load("owner"); {
			case owner == nil:
				rw.WriteHeader(http.StatusServiceUnavailable)
			case req.URL.Path == "/v1/models":
				_, _ = fmt.Fprintf(rw, `{"data":[{"id":"q","owned_by":%q}]}`, owner)
			case req.URL.Path == "/metrics":
				text(runningPage)(rw, req)
			}
		}, nil)
		turn.Store("owner", "vllm")
		w.pass(3)
		w.has(map[string]string{"up": "1", "healthy": "1"})
		w.net.refuse.Store(true)
		w.relay.closeIdle()
		w.pass(3)
		w.has(map[string]string{"up": "0", "healthy": "0", "scrape_failures_total{connect}": "3"})
		turn.Delete("owner")
		w.net.refuse.Store(false)
		w.pass(3)
		w.has(map[string]string{"up": "0", "healthy": "0", "scrape_failures_total{http_status}": "3"})
		turn.Store("owner", "tensorrt_llm")
		w.pass(1)
		w.has(map[string]string{"up": "", "healthy": ""})
		health := paths.times("/health")
		w.pass(60)
		if got := paths.times("/health"); got != health {
			t.Errorf("the health of another server was asked %d times", got-health)
		}
	})
}

// A server that is not there yet, or still loading, is not well and is asked every second who it is; one that then
// turns out to be unknown is nothing.
func TestServerThatComesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loaded atomic.Bool
		var paths pathCounts
		w := start(t, func(rw http.ResponseWriter, req *http.Request) {
			if paths.add(req.URL.Path); !loaded.Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(rw, `{"data":[{"id":"q","owned_by":"openai"}]}`)
		}, nil)
		w.net.refuse.Store(true)
		w.pass(3)
		w.has(map[string]string{"up": "0", "healthy": "0", "scrape_failures_total{connect}": "3"})
		w.net.refuse.Store(false)
		w.pass(3)
		w.has(map[string]string{"up": "0", "healthy": "0", "scrape_failures_total{http_status}": "3"})
		loaded.Store(true)
		w.pass(3)
		w.has(map[string]string{"up": "", "healthy": ""})
		if diff := cmp.Diff([]string{"/v1/models"}, paths.asked()); diff != "" {
			t.Error(diff)
		}
	})
}

// The engine of a page is that of its first sample with a prefix that is known.
func TestTableOfPage(t *testing.T) {
	for page, want := range map[string]Engine{
		"vllm:a 1\n": EngineVLLM,
		"# HELP vllm:a x\nprocess 1\n vllm:a 1\n": EngineVLLM,
		"\xEF\xBB\xBFvllm:a 1\n":                  EngineVLLM,
		"{\"vllm:a\"} 1\r\n":                      EngineVLLM,
		"x 1\nsglang:a 1\nvllm:a 1\n":             EngineSGLang,
		"x{y=\"vllm:a\"} 1\nllamacpp:a 1\n":       EngineLlamaCpp,
		"# vllm:a 1\nvllm_a 1\n":                  "",
		"":                                        "",
	} {
		reader := newPageReader()
		if _, err := reader.read(strings.NewReader(page), "", "m", nil, true); err != nil {
			t.Errorf("%q: %v", page, err)
		}
		got := reader.table.engine
		if got != want {
			t.Errorf("%q: %q, want %q", page, got, want)
		}
	}
}

// A page that does not tell its engine is read as one of the server's, whatever the page before told.
func TestTableOfNextPage(t *testing.T) {
	reader := newPageReader()
	for i, want := range []Engine{EngineSGLang, EngineVLLM, EngineSGLang} {
		page := []string{"sglang:a 1\n", "process 1\n", "sglang:a 1\n"}[i]
		if _, err := reader.read(strings.NewReader(page), "", "m", engineByName(EngineVLLM), true); err != nil || reader.table.engine != want {
			t.Errorf("%q: %q, want %q (%v)", page, reader.table.engine, want, err)
		}
	}
}
