package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-kit/log"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
	"github.com/llm-prober/llm_prober/internal/metricdoc"
	"github.com/llm-prober/llm_prober/internal/recording"
)

// memoryNet is a server in memory. Its connections live in the bubble of the test.
type memoryNet struct {
	conns  chan net.Conn
	closed chan struct{}
	dials  atomic.Int64
	refuse atomic.Bool
}

// connKey is the key under which a handler finds a counter of its connection.
type connKey struct{}

func serve(t *testing.T, handler http.Handler) *memoryNet {
	n := &memoryNet{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler, ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, new(atomic.Int64))
	}}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(n) })
	t.Cleanup(func() {
		_ = server.Close()
		done.Wait()
	})
	return n
}

func (n *memoryNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if n.refuse.Load() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	n.dials.Add(1)
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (n *memoryNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *memoryNet) Close() error   { close(n.closed); return nil }
func (n *memoryNet) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// world is a relay at work in a bubble.
type world struct {
	t        *testing.T
	relay    *Relay
	registry *prometheus.Registry
	net      *memoryNet
	logs     *bytes.Buffer
	restarts *atomic.Int64
}

// start runs a relay on a server in memory. Unless handler says otherwise, it is a healthy vLLM 0.32.0.
func start(t *testing.T, handler http.HandlerFunc, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, registry: prometheus.NewPedanticRegistry(), logs: &bytes.Buffer{}, restarts: &atomic.Int64{}}
	w.net = serve(t, handler)
	cfg := Config{
		Registerer:  w.registry,
		ConstLabels: prometheus.Labels{"target": "t"},
		Logger:      log.NewLogfmtLogger(log.NewSyncWriter(w.logs)),
		URL:         parseURL(t, "http://vllm:8000"),
		Interval:    time.Second,
		Dial:        w.net.dial,
		OnRestart:   func() { w.restarts.Add(1) },
	}
	if change != nil {
		change(&cfg)
	}
	relay, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.relay = relay
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { relay.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return w
}

func parseURL(t testing.TB, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// pass lets n sampling intervals pass and the samples in them end.
func (w *world) pass(n int) {
	time.Sleep(time.Duration(n) * w.relay.cfg.Interval)
	synctest.Wait()
}

// gather collects all metric families of the relay.
func (w *world) gather() []*dto.MetricFamily {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	return families
}

// values is what the exporter shows, without the constant label and the names of absent ones:
// "llm_server_up" or `llm_server_requests_waiting{0,m}` to its value; of a histogram or summary, sum/count.
func (w *world) values() map[string]string {
	w.t.Helper()
	flat := map[string]string{}
	for _, f := range w.gather() {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if l.GetName() != "target" {
					labels = append(labels, l.GetValue())
				}
			}
			key := strings.TrimPrefix(f.GetName(), "llm_server_")
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case m.Gauge != nil:
				flat[key] = fmt.Sprint(m.Gauge.GetValue())
			case m.Counter != nil:
				flat[key] = fmt.Sprint(m.Counter.GetValue())
			case m.Summary != nil:
				flat[key] = fmt.Sprint(m.Summary.GetSampleSum(), "/", m.Summary.GetSampleCount())
			case m.Histogram != nil:
				flat[key] = fmt.Sprint(m.Histogram.GetSampleSum(), "/", m.Histogram.GetSampleCount())
			}
		}
	}
	return flat
}

// has compares the named values; "" means absent.
func (w *world) has(want map[string]string) {
	w.t.Helper()
	all := w.values()
	got := map[string]string{}
	for key := range want {
		got[key] = all[key]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("after %v:\n%s\nlog:\n%s", time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), diff, w.logs)
	}
}

// failures is the counter of each reason that is above zero.
func (w *world) failures() map[string]string {
	failures := map[string]string{}
	for key, value := range w.values() {
		if reason, is := strings.CutPrefix(key, "scrape_failures_total{"); is && value != "0" {
			failures[strings.TrimSuffix(reason, "}")] = value
		}
	}
	return failures
}

// lines is how many lines were logged.
func (w *world) lines() int { return bytes.Count(w.logs.Bytes(), []byte("\n")) }

const vllmModels = `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm"}]}`

// vllm answers as vLLM does; page answers /metrics.
func vllm(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/v1/models":
			_, _ = io.WriteString(w, vllmModels)
		case "/version":
			_, _ = io.WriteString(w, `{"version":"0.32.0"}`)
		case "/health":
		case "/metrics":
			page(w, req)
		default:
			http.NotFound(w, req)
		}
	}
}

// text serves a page of text.
func text(page string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
		_, _ = io.WriteString(w, page)
	}
}

// turns serves one page after another, then the last one for ever.
func turns(pages ...http.HandlerFunc) http.HandlerFunc {
	var turn atomic.Int64
	return func(w http.ResponseWriter, req *http.Request) {
		pages[min(int(turn.Add(1)), len(pages))-1](w, req)
	}
}

const runningPage = "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3\n"

// One page, one sample: what comes of it.
func TestPages(t *testing.T) {
	big := strings.Repeat("a", 20_000_000)
	tests := []struct {
		name     string
		page     http.HandlerFunc
		change   func(*Config)
		want     map[string]string
		failures map[string]string
		log      string // one line has this
	}{
		{
			name: "new name", page: text(`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.42` + "\n"),
			want: map[string]string{"up": "1", "kv_cache_usage_ratio{0,m}": "0.42", "metric_missing{kv_cache_usage_ratio}": "0"},
		},
		{
			name: "old name", page: text(`vllm:gpu_cache_usage_perc{engine="0",model_name="m"} 0.42` + "\n"),
			want: map[string]string{"up": "1", "kv_cache_usage_ratio{0,m}": "0.42", "metric_missing{kv_cache_usage_ratio}": "0"},
		},
		{
			name: "neither name", page: text(runningPage),
			want: map[string]string{"up": "1", "kv_cache_usage_ratio{0,m}": "", "metric_missing{kv_cache_usage_ratio}": "1", "metric_missing{requests_running}": "0"},
			log:  `msg="the server does not show all it should" metrics=kv_cache_usage_ratio,requests_waiting`,
		},
		{
			name: "config dump in a label", page: text(runningPage + `vllm:cache_config_info{cfg="` + big[:15_000_000] + `"} 1` + "\n"),
			want: map[string]string{"up": "1", "requests_running{0,m}": "3", "dropped_samples_total": "1", "info{,,vllm,,m,,0.32.0}": "1"},
		},
		{
			name: "page above the cap", page: text(runningPage + `vllm:cache_config_info{cfg="` + big + `"} 1` + "\n"),
			want: map[string]string{"up": "0", "requests_running{0,m}": ""}, failures: map[string]string{"too_large": "1"},
		},
		{
			name: "announced above the cap", page: func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "99000000") },
			want: map[string]string{"up": "0"}, failures: map[string]string{"too_large": "1"},
		},
		{
			name: "above the cap when unpacked", page: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, big)
				_ = z.Close()
			},
			want: map[string]string{"up": "0"}, failures: map[string]string{"too_large": "1"},
		},
		{
			name: "repeated sample", page: text("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_running{model_name=\"m\"} 2\n"),
			want: map[string]string{"up": "1", "requests_running{0,m}": "1", "dropped_samples_total": "1"},
		},
		{
			name: "quote in a label value", page: text("vllm:num_requests_running{model_name=\"14\" lap\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 2\n"),
			want: map[string]string{"up": "0", "requests_waiting{0,m}": ""}, failures: map[string]string{"parse": "1"}, log: "line 1: ",
		},
		{
			name: "escape that does not exist", page: text("vllm:num_requests_waiting{model_name=\"m\"} 2\nvllm:num_requests_running{model_name=\"x\\uy\"} 1\n"),
			want: map[string]string{"up": "0", "requests_waiting{0,m}": ""}, failures: map[string]string{"parse": "1"}, log: "line 2: ",
		},
		{
			name: "cut off in a value", page: text("# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"m\"} 12"),
			want: map[string]string{"up": "0", "requests_waiting{0,m}": ""}, failures: map[string]string{"parse": "1"}, log: "line 2: the page is cut off",
		},
		{
			name: "cut off in a name", page: text(runningPage + "vllm:num_req"),
			want: map[string]string{"up": "0", "requests_running{0,m}": ""}, failures: map[string]string{"parse": "1"}, log: "line 2: the page is cut off",
		},
		{
			name: "shorter than announced", page: func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Length", "500")
				_, _ = io.WriteString(w, runningPage)
			},
			want: map[string]string{"up": "0", "requests_running{0,m}": ""}, failures: map[string]string{"parse": "1"}, log: "the answer is not whole",
		},
		{
			name: "carriage returns", page: text("# TYPE vllm:num_requests_running gauge\r\nvllm:num_requests_running{model_name=\"m\"} 3\r\n"),
			want: map[string]string{"up": "1", "requests_running{0,m}": "3"},
		},
		{
			name: "decimal comma", page: text("vllm:kv_cache_usage_perc{model_name=\"m\"} 0,5\n"),
			want: map[string]string{"up": "0", "kv_cache_usage_ratio{0,m}": ""}, failures: map[string]string{"parse": "1"}, log: "line 1: ",
		},
		{
			name: "openmetrics all the same", page: func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
				_, _ = io.WriteString(w, "# TYPE vllm:e2e_request_latency_seconds histogram\nvllm:e2e_request_latency_seconds_bucket{le=\"1.0\"} 2 # {trace_id=\"x\"} 0.5\n"+
					"# TYPE vllm:prompt_tokens counter\nvllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 7.0 1520879607.789\n"+runningPage+"# EOF\n")
			},
			want: map[string]string{"up": "1", "requests_running{0,m}": "3", "prompt_tokens_total{0,m}": "7"},
		},
		{
			name: "openmetrics cut off", page: func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
				_, _ = io.WriteString(w, runningPage)
			},
			want: map[string]string{"up": "0"}, failures: map[string]string{"parse": "1"}, log: "application/openmetrics-text",
		},
		{
			name: "what we ask for", page: func(w http.ResponseWriter, req *http.Request) {
				if got := req.Header.Get("Accept"); got != "text/plain;version=0.0.4" {
					http.Error(w, got, http.StatusTeapot)
					return
				}
				text(runningPage)(w, req)
			},
			want: map[string]string{"up": "1"},
		},
		{
			name: "announced as JSON", page: func(w http.ResponseWriter, req *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, "# TYPE vllm:num_requests_running gauge\n"+runningPage)
			},
			want: map[string]string{"up": "1", "requests_running{0,m}": "3"}, log: "announced as something else",
		},
		{
			name: "no content type", page: func(w http.ResponseWriter, req *http.Request) {
				w.Header()["Content-Type"] = nil
				_, _ = io.WriteString(w, runningPage)
			},
			want: map[string]string{"up": "1", "requests_running{0,m}": "3"}, log: "announced as something else",
		},
		{
			name: "JSON", page: text(`{"detail":"Not Found"}` + "\n"),
			want: map[string]string{"up": "0"}, failures: map[string]string{"parse": "1"},
		},
		{
			name: "metrics elsewhere", page: func(w http.ResponseWriter, req *http.Request) { http.NotFound(w, req) },
			want: map[string]string{"up": "0"}, failures: map[string]string{"http_status": "1"}, log: `url=http://vllm:8000/metrics`,
		},
		{
			name: "metrics_url, its secrets not logged", page: func(w http.ResponseWriter, req *http.Request) {
				if req.Host != "vllm:9009" || req.URL.RawQuery != "token=geheim" {
					http.NotFound(w, req)
					return
				}
				text(runningPage)(w, req)
			},
			change: func(cfg *Config) { cfg.MetricsURL = parseURL(t, "http://u:geheim@vllm:9009/metrics?token=geheim") },
			want:   map[string]string{"up": "1", "requests_running{0,m}": "3"}, log: "url=http://vllm:9009/metrics",
		},
		{
			name: "redirect within the origin, credentials kept", page: func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, "/metrics/", http.StatusTemporaryRedirect)
			},
			change: func(cfg *Config) {
				cfg.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: "key"}
			},
			want: map[string]string{"up": "1", "requests_running{0,m}": "3"},
		},
		{
			name: "redirect elsewhere", page: func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, "http://other:8000/metrics/", http.StatusTemporaryRedirect)
			},
			want: map[string]string{"up": "0"}, failures: map[string]string{"http_status": "1"}, log: "redirect to another origin",
		},
		{
			name: "redirect to another port", page: func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, "http://vllm:8001/metrics/", http.StatusTemporaryRedirect)
			},
			want: map[string]string{"up": "0"}, failures: map[string]string{"http_status": "1"},
		},
		{
			name: "redirect in a circle", page: func(w http.ResponseWriter, req *http.Request) {
				http.Redirect(w, req, "/metrics", http.StatusTemporaryRedirect)
			},
			want: map[string]string{"up": "0"}, failures: map[string]string{"http_status": "1"},
		},
		{
			name: "empty page", page: text(""),
			want: map[string]string{"up": "1", "requests_running{0,m}": "", "metric_missing{requests_running}": "1"},
		},
		{
			name: "page of comments", page: text("# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n"),
			want: map[string]string{"up": "1", "requests_running{0,m}": "", "metric_missing{requests_running}": "1"},
		},
		{
			name: "labels without a name", page: text("{model_name=\"m\"} 1\n"),
			want: map[string]string{"up": "0"}, failures: map[string]string{"parse": "1"},
		},
		{
			name: "HTML", page: text("<html>..</html>"),
			want: map[string]string{"up": "0"}, failures: map[string]string{"parse": "1"},
		},
		{
			name: "not ours to show", page: text("process_resident_memory_bytes 1e9\npython_gc_objects_collected_total{generation=\"0\"} 1\n" + runningPage),
			want: map[string]string{"up": "1", "requests_running{0,m}": "3", "process_resident_memory_bytes": ""},
		},
		{
			name: "packed", page: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				w.Header().Set("Content-Type", "text/plain")
				z := gzip.NewWriter(w)
				_, _ = io.WriteString(z, runningPage)
				_ = z.Close()
			},
			want: map[string]string{"up": "1", "requests_running{0,m}": "3"},
		},
		{
			name: "packed in a way we do not know", page: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "br")
				_, _ = io.WriteString(w, runningPage)
			},
			want: map[string]string{"up": "0"}, failures: map[string]string{"parse": "1"},
		},
		{
			name: "key refused", page: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			want: map[string]string{"up": "0", "healthy": "1"}, failures: map[string]string{"auth": "1"},
		},
		{
			name: "key file that is not there", page: text(runningPage),
			change: func(cfg *Config) {
				cfg.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", CredentialsFile: "/nonexistent/key"}
			},
			want: map[string]string{"up": "0"}, failures: map[string]string{"auth": "1"},
		},
		{
			name: "server error", page: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
			want: map[string]string{"up": "0"}, failures: map[string]string{"http_status": "1"}, log: "500 Internal Server Error",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := vllm(tt.page)
				w := start(t, func(rw http.ResponseWriter, req *http.Request) {
					if req.URL.Path == "/metrics/" && (req.Header.Get("Authorization") == "Bearer key") {
						text(runningPage)(rw, req)
						return
					}
					handler(rw, req)
				}, tt.change)
				w.pass(1)
				w.has(tt.want)
				want := tt.failures
				if want == nil {
					want = map[string]string{}
				}
				if diff := cmp.Diff(want, w.failures()); diff != "" {
					t.Errorf("failures:\n%s\nlog:\n%s", diff, w.logs)
				}
				if logged := w.logs.String(); !strings.Contains(logged, tt.log) || strings.Contains(logged, "geheim") {
					t.Errorf("log lacks %q or tells a secret:\n%s", tt.log, logged)
				}
				lines := w.lines()
				if w.pass(2); w.lines() != lines {
					t.Errorf("the same state is logged again:\n%s", w.logs)
				}
			})
		})
	}
}

// What a label value holds comes out as it went in.
func TestLabelValuesRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "C:\\models\\q\"8\"\nfast"
		w := start(t, vllm(text(`vllm:num_requests_running{model_name="C:\\models\\q\"8\"\nfast"} 1`+"\n")), nil)
		w.pass(1)
		recorder := &recorder{header: http.Header{}}
		promhttp.HandlerFor(w.registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, &http.Request{Header: http.Header{}})
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(&recorder.body)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, l := range families["llm_server_requests_running"].GetMetric()[0].Label {
			got[l.GetName()] = l.GetValue()
		}
		if diff := cmp.Diff(map[string]string{"target": "t", "engine": "0", "model_name": name}, got); diff != "" {
			t.Error(diff)
		}
	})
}

type recorder struct {
	header http.Header
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
func (r *recorder) WriteHeader(int)             {}

// f02: before the first sample nothing that reports a result is there; what counts is there at 0.
func TestBeforeTheFirstSample(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	relay, err := New(Config{Registerer: registry, URL: parseURL(t, "http://vllm:8000")})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, registry: registry}
	want := map[string]string{"dropped_samples_total": "0", "requests_running_sampled": "0/0", "requests_waiting_sampled": "0/0"}
	for _, reason := range []string{"connect", "tls", "timeout", "http_status", "auth", "parse", "too_large", "several_servers", "internal"} {
		want["scrape_failures_total{"+reason+"}"] = "0"
	}
	if diff := cmp.Diff(want, w.values()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Snapshot{}, relay.Last()); diff != "" {
		t.Error(diff)
	}
}

// The whole exposition of a relay that has read the recorded page of a working vLLM 0.32.0, as it is written.
func TestExposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, recorded(t, "load-metrics-waiting"), nil)
		w.pass(1)
		families := w.gather()
		var page bytes.Buffer
		for _, f := range families {
			if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join("testdata", "relay.prom")
		goldenfile.Check(t, file, page.String(), *update)
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("lint: %v %v", problems, err)
		}
		one, two, usage := 1.0, 2.0, 0.0004883408619216212
		at := time.Now().Truncate(time.Second).Add(-time.Second + time.Duration(w.phase()))
		prompt, generation, preemptions := 72.0, 459.0, 0.0
		want := Snapshot{
			Up: true, Healthy: true, Running: &two, Waiting: &one, KVUsage: &usage,
			PromptTokens: &prompt, GenerationTokens: &generation, Preemptions: &preemptions,
			EngineType: EngineVLLM, Version: "0.32.0", Model: "m", SampledAt: at, LastChange: at,
			Launch: map[string]string{"block_size": "128", "cache_dtype": "auto", "kv_cache_tokens": "1048576", "prefix_caching": "false"},
		}
		if diff := cmp.Diff(want, w.relay.Last()); diff != "" {
			t.Error(diff)
		}
	})
}

// OnSample is told of every sample as it was taken, good or not.
func TestOnSample(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		note := func(c *Config) {
			c.OnSample = func(s Snapshot) {
				line := fmt.Sprintf("up=%t engine=%s version=%s model=%s err=%q", s.Up, s.EngineType, s.Version, s.Model, s.Err)
				if s.Up {
					line += fmt.Sprintf(" running=%v tokens=%v", *s.Running, *s.GenerationTokens)
				}
				told = append(told, line)
			}
		}
		page := func(running, tokens int) http.HandlerFunc {
			return text(fmt.Sprintf("vllm:num_requests_running %d\nvllm:generation_tokens_total %d\n", running, tokens))
		}
		w := start(t, vllm(turns(page(1, 10), http.NotFound, page(2, 30))), note)
		w.pass(3)
		want := []string{
			`up=true engine=vllm version=0.32.0 model=m err="" running=1 tokens=10`,
			`up=false engine=vllm version=0.32.0 model=m err="the server answered \"404 Not Found\""`,
			`up=true engine=vllm version=0.32.0 model=m err="" running=2 tokens=30`,
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var told []Snapshot
		w := start(t, func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != "/v1/models" {
				http.NotFound(w, req)
				return
			}
			_, _ = io.WriteString(w, `{"data":[{"id":"m","owned_by":"someone"}]}`)
		}, func(c *Config) { c.OnSample = func(s Snapshot) { told = append(told, s) } })
		w.pass(1)
		want := []Snapshot{{Model: "m", Err: `the server is none of vllm, sglang and llamacpp: it signs its models with "someone"`}}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Error(diff)
		}
	})
}

// docs/metrics.md lists every metric of the relay as it is, and no other.
func TestDocumented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, recorded(t, "load-metrics-waiting"), nil)
		w.pass(1)
		inCode, inDocs := metricdoc.Of(w.gather()), metricdoc.Read(t, "../..")
		maps.DeleteFunc(inDocs, func(name string, _ metricdoc.Metric) bool { return !strings.HasPrefix(name, "llm_server_") })
		if diff := cmp.Diff(inCode, inDocs); diff != "" {
			t.Errorf("docs/metrics.md differs from the code (-code +docs):\n%s", diff)
		}
	})
}

// phase is where in a second the relay samples.
func (w *world) phase() time.Duration {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	return time.Duration(w.relay.state.Load().scrapedAt.Sub(start)) % w.relay.cfg.Interval
}

// recorded answers /metrics with recorded pages in turn. It waits for the day after they were recorded: a server
// that will be started in the future is not believed.
func recorded(t *testing.T, names ...string) http.HandlerFunc {
	time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
	var pages []http.HandlerFunc
	for _, name := range names {
		r, err := recording.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		body, err := r.Body()
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, text(string(body)))
	}
	return vllm(turns(pages...))
}

// A hung vLLM answers with fresh 200s: only the last change stands still.
func TestHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, recorded(t, "hang-metrics-1", "hang-metrics-2"), nil)
		w.pass(1)
		changed := w.values()["last_change_timestamp_seconds"]
		w.pass(60)
		w.has(map[string]string{"up": "1", "healthy": "1", "last_change_timestamp_seconds": changed, "requests_running_sampled": "61/61"})
		if scraped := w.values()["last_scrape_timestamp_seconds"]; scraped <= changed {
			t.Errorf("last scrape %s, last change %s", scraped, changed)
		}
	})
}

// Any relayed gauge or counter that moves is a change; the wall clock of the process is none.
func TestLastChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := func(running, tokens, cpu int) http.HandlerFunc {
			return text(fmt.Sprintf("vllm:num_requests_running %d\nvllm:generation_tokens_total %d\nprocess_cpu_seconds_total %d\n", running, tokens, cpu))
		}
		w := start(t, vllm(turns(page(1, 1, 1), page(1, 1, 2), page(2, 1, 3), page(2, 1, 4), page(2, 2, 5), page(2, 2, 6))), nil)
		var at []int
		for range 6 {
			w.pass(1)
			start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
			at = append(at, int(w.relay.Last().LastChange.Sub(start)/time.Second))
		}
		if diff := cmp.Diff([]int{0, 0, 2, 2, 4, 4}, at); diff != "" {
			t.Error(diff)
		}
	})
}

// Several API servers before the engine's first step: the gauges are unknown, not 0 and not missing.
func TestSeveralProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, recorded(t, "multi-metrics-before", "multi-metrics"), nil)
		w.pass(1)
		w.has(map[string]string{
			"up": "1", "requests_running{0,tiny}": "", "requests_waiting{0,tiny}": "", "kv_cache_usage_ratio{0,tiny}": "",
			"metric_missing{requests_running}": "", "prompt_tokens_total{0,tiny}": "0", "start_time_seconds": "", "requests_running_sampled": "0/0",
		})
		if last := w.relay.Last(); last.Running != nil || last.KVUsage != nil {
			t.Errorf("unknown gauges are known: %+v", last)
		}
		w.pass(1)
		w.has(map[string]string{
			"requests_running{0,tiny}": "0", "metric_missing{requests_running}": "0", "prompt_tokens_total{0,tiny}": "48", "generation_tokens_total{0,tiny}": "12",
			"requests_running_sampled": "0/1",
		})
	})
}

// When scrapes begin to fail, the values go after three intervals, not later and not never.
func TestWithdrawsOldValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }
		w := start(t, vllm(turns(text("vllm:num_requests_running{model_name=\"m\"} 106\n"), hang)), nil)
		w.pass(1)
		w.has(map[string]string{"up": "1", "requests_running{0,m}": "106"})
		scraped := w.values()["last_scrape_timestamp_seconds"]
		w.pass(2)
		w.has(map[string]string{"up": "1", "requests_running{0,m}": "106"}) // not older than three intervals
		w.pass(2)
		w.has(map[string]string{
			"up": "0", "requests_running{0,m}": "", "metric_missing{requests_waiting}": "", "last_scrape_timestamp_seconds": scraped,
			"healthy": "1", "scrape_failures_total{timeout}": "1",
		})
		if last := w.relay.Last(); last.Up || last.Running != nil || last.Err == "" {
			t.Errorf("%+v", last)
		}
	})
}

// A page that takes 25 s holds up nobody, and never two requests are under way.
func TestSlowPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		w := start(t, vllm(func(_ http.ResponseWriter, req *http.Request) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(25 * time.Second):
			case <-req.Context().Done():
			}
		}), nil)
		for range 30 {
			before := time.Now()
			w.values()
			if took := time.Since(before); took > 0 {
				t.Fatalf("gathering took %v of virtual time", took)
			}
			w.pass(1)
		}
		w.has(map[string]string{"up": "0", "scrape_failures_total{timeout}": "7", "dropped_samples_total": "0"})
		if most.Load() != 1 || w.lines() != 1 {
			t.Errorf("%d requests at once, log:\n%s", most.Load(), w.logs)
		}
	})
}

// A counter that falls is passed on as it is.
func TestRestartByTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := func(tokens int) http.HandlerFunc {
			return text(fmt.Sprintf("vllm:prompt_tokens_total{model_name=\"m\"} %d\n", tokens))
		}
		w := start(t, vllm(turns(page(1000), page(40), page(50))), nil)
		for i, want := range []struct {
			tokens   string
			restarts int64
		}{{"1000", 0}, {"40", 0}, {"50", 1}, {"50", 1}} {
			w.pass(1)
			w.has(map[string]string{"up": "1", "prompt_tokens_total{0,m}": want.tokens})
			if got := w.restarts.Load(); got != want.restarts {
				t.Errorf("sample %d: %d restarts, want %d", i+1, got, want.restarts)
			}
		}
	})
}

func startedAt(start, tokens int) http.HandlerFunc {
	return text(fmt.Sprintf("process_start_time_seconds %d\nvllm:generation_tokens_total{model_name=\"m\"} %d\n", start, tokens))
}

// A server that is killed and comes back: refused connections are no restart, a later start time is, once.
func TestRestartByStartTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, vllm(turns(startedAt(100, 900), startedAt(100, 950), startedAt(200, 0))), nil)
		w.pass(2)
		w.has(map[string]string{"start_time_seconds": "100", "healthy": "1"})

		w.net.refuse.Store(true)
		w.relay.closeIdle()
		w.pass(10)
		w.has(map[string]string{"up": "0", "healthy": "0", "generation_tokens_total{0,m}": "", "scrape_failures_total{connect}": "10"})
		if w.restarts.Load() != 0 {
			t.Error("a refused connection counts as a restart")
		}

		w.net.refuse.Store(false)
		w.pass(1)
		w.has(map[string]string{"up": "1", "healthy": "1", "start_time_seconds": "200"})
		if w.restarts.Load() != 0 {
			t.Error("a restart before it was seen twice")
		}
		w.pass(20)
		if got := w.restarts.Load(); got != 1 {
			t.Errorf("%d restarts", got)
		}
		var got []string
		for line := range strings.Lines(w.logs.String()) {
			if !strings.Contains(line, "does not show all it should") { // true of these pages
				got = append(got, strings.TrimSuffix(line, "\n"))
			}
		}
		want := []string{
			`level=warn component=relay url=http://vllm:8000/metrics msg="the server's metrics cannot be read" reason=connect err="dial tcp: connection refused"`,
			`level=info component=relay url=http://vllm:8000/metrics msg="the server's metrics can be read again" after=10s failures=10`,
			`level=info component=relay url=http://vllm:8000/metrics msg="the server was restarted"`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Two servers behind one address: their values are not mixed.
func TestSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turn atomic.Int64
		w := start(t, vllm(func(rw http.ResponseWriter, req *http.Request) {
			if turn.Add(1)%2 == 1 {
				startedAt(100, 5000)(rw, req)
				return
			}
			startedAt(200, 70)(rw, req)
		}), nil)
		w.pass(3)
		w.has(map[string]string{"up": "0", "generation_tokens_total{0,m}": "", "start_time_seconds": "", "scrape_failures_total{several_servers}": "1"})
		w.pass(10)
		w.has(map[string]string{"up": "0", "generation_tokens_total{0,m}": "", "scrape_failures_total{several_servers}": "11"})
		if w.restarts.Load() != 0 || strings.Count(w.logs.String(), "cannot be read") != 1 {
			t.Errorf("%d restarts, log:\n%s", w.restarts.Load(), w.logs)
		}
	})
}

// A fault of our own costs a sample, not the process.
func TestInternalFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, vllm(turns(startedAt(100, 1), startedAt(200, 1))), func(cfg *Config) {
			cfg.OnRestart = func() { panic("oops") }
		})
		w.pass(3)
		w.has(map[string]string{"up": "0", "scrape_failures_total{internal}": "1"})
		w.pass(1)
		w.has(map[string]string{"up": "1", "scrape_failures_total{internal}": "1"})
	})
}

// vLLM closes idle connections after 5 s. A relay with a longer interval meets the reset and is not hurt by it.
func TestSurvivesClosedIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := vllm(text(runningPage))
		w := start(t, served, nil)
		w.pass(20)
		alive := w.net.dials.Load()
		if alive > 4 { // the page's and health's; at the start both may dial for the same request
			t.Errorf("%d connections for 40 requests", alive)
		}
		w.has(map[string]string{"up": "1"})
	})
	synctest.Test(t, func(t *testing.T) {
		// The server closes without an answer when the page is asked for on a connection that was used before.
		var aborts atomic.Int64
		vllm := vllm(text(runningPage))
		w := start(t, func(rw http.ResponseWriter, req *http.Request) {
			again := req.Context().Value(connKey{}).(*atomic.Int64).Add(1) > 1
			if again && req.URL.Path == "/metrics" {
				aborts.Add(1)
				panic(http.ErrAbortHandler)
			}
			vllm(rw, req)
		}, nil)
		w.pass(10)
		w.has(map[string]string{"up": "1", "requests_running{0,m}": "3"})
		if diff := cmp.Diff(map[string]string{}, w.failures()); diff != "" || aborts.Load() < 9 {
			t.Errorf("%d connections cut, failures:\n%s", aborts.Load(), diff)
		}
	})
}

// auto: who the server is, and whether its metrics page may be touched.
func TestAuto(t *testing.T) {
	models := func(ownedBy string) string { return fmt.Sprintf(`{"data":[{"id":"q","owned_by":%q}]}`, ownedBy) }
	tests := []struct {
		name      string
		answers   map[string]string // path to body; others are 404
		change    func(*Config)
		want      map[string]string
		untouched bool // no request to /metrics
		log       string
	}{
		{
			name: "vllm", answers: map[string]string{"/v1/models": models("vllm"), "/version": `{"version":"0.32.0"}`, "/metrics": "vllm:num_requests_waiting 4\n"},
			want: map[string]string{"up": "1", "requests_waiting{0,q}": "4", "info{,,vllm,,q,,0.32.0}": "1"},
		},
		{
			name: "sglang", answers: map[string]string{
				"/v1/models": models("sglang"), "/get_server_info": `{"version":"0.5.18","tp_size":1}`,
				"/metrics": "sglang:num_queue_reqs{model_name=\"s\"} 4\nsglang:page_size{model_name=\"s\"} 64\n",
			},
			want: map[string]string{"up": "1", "requests_waiting{0,s}": "4", "info{64,,sglang,,s,,0.5.18}": "1"},
		},
		{
			name: "llama.cpp", answers: map[string]string{"/v1/models": models("llamacpp"), "/props": `{"build_info":"b10573"}`, "/metrics": "llamacpp:requests_deferred 4\n"},
			want: map[string]string{"up": "1", "requests_waiting{0,q}": "4", "info{,,llamacpp,,q,,b10573}": "1"},
		},
		{
			name: "tensorrt: its page forgets what it told", untouched: true,
			answers: map[string]string{"/v1/models": models("tensorrt_llm"), "/version": `{"version":"1.2"}`, "/health": "", "/metrics": "[]\n"},
			want:    map[string]string{"up": "", "healthy": ""},
			log:     `set engine or metrics_url to switch it on" err="the server is none of vllm, sglang and llamacpp: it signs its models with \"tensorrt_llm\""`,
		},
		{
			name: "no list of models", untouched: true, answers: map[string]string{"/metrics": "vllm:num_requests_waiting 4\n"},
			want: map[string]string{"up": "", "healthy": ""}, log: "it has no /v1/models",
		},
		{
			name: "unknown, but the page was named", answers: map[string]string{"/m": "sglang:num_queue_reqs{model_name=\"s\"} 4\n"},
			change: func(cfg *Config) { cfg.MetricsURL = parseURL(t, "http://vllm:8000/m") },
			want:   map[string]string{"up": "1", "requests_waiting{0,s}": "4", "info{,,sglang,,s,,}": "1"},
		},
		{
			name: "the page that was named is of nobody we know", answers: map[string]string{"/m": "trtllm_num_requests_waiting 4\n"},
			change: func(cfg *Config) { cfg.MetricsURL = parseURL(t, "http://vllm:8000/m") },
			want:   map[string]string{"up": "1"}, log: "the metrics page is of no known engine: set engine",
		},
		{
			name: "named by hand", answers: map[string]string{"/metrics": "vllm:num_requests_waiting 4\n"},
			change: func(cfg *Config) { cfg.Engine, cfg.Model = EngineVLLM, "hand" },
			want:   map[string]string{"up": "1", "requests_waiting{0,hand}": "4", "info{,,vllm,,hand,,}": "1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var touched atomic.Bool
				w := start(t, func(rw http.ResponseWriter, req *http.Request) {
					if req.URL.Path == "/metrics" {
						touched.Store(true)
					}
					body, known := tt.answers[req.URL.Path]
					if !known {
						http.NotFound(rw, req)
						return
					}
					rw.Header().Set("Content-Type", "text/plain")
					_, _ = io.WriteString(rw, body)
				}, tt.change)
				w.pass(200)
				w.has(tt.want)
				if diff := cmp.Diff(map[string]string{}, w.failures()); diff != "" {
					t.Errorf("failures:\n%s", diff)
				}
				if touched.Load() == tt.untouched && tt.change == nil {
					t.Errorf("metrics page touched: %v", touched.Load())
				}
				if !strings.Contains(w.logs.String(), tt.log) || tt.log != "" && w.lines() != 1 {
					t.Errorf("log lacks %q:\n%s", tt.log, w.logs)
				}
			})
		})
	}
}

// A server that is not there yet is asked until it is; one that is replaced by an unknown one is left alone.
func TestAutoFollowsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var owner atomic.Pointer[string]
		name := "vllm"
		owner.Store(&name)
		var touched atomic.Int64
		w := start(t, func(rw http.ResponseWriter, req *http.Request) {
			switch req.URL.Path {
			case "/v1/models":
				_, _ = fmt.Fprintf(rw, `{"data":[{"id":"q","owned_by":%q}]}`, *owner.Load())
			case "/metrics":
				touched.Add(1)
				text(runningPage)(rw, req)
			}
		}, nil)
		w.net.refuse.Store(true)
		w.pass(5)
		w.has(map[string]string{"up": "0", "scrape_failures_total{connect}": "5"})
		w.net.refuse.Store(false)
		w.pass(5)
		w.has(map[string]string{"up": "1", "requests_running{0,m}": "3"})

		w.net.refuse.Store(true)
		w.relay.closeIdle()
		w.pass(5)
		other := "tensorrt_llm"
		owner.Store(&other)
		before := touched.Load()
		w.net.refuse.Store(false)
		w.pass(100)
		w.has(map[string]string{"up": "", "requests_running{0,m}": ""})
		if got := touched.Load(); got != before {
			t.Errorf("the page of another server was read %d times", got-before)
		}
	})
}

// SGLang's /health makes an idle model generate a token, so it is asked rarely.
func TestHealthThatCosts(t *testing.T) {
	asked := func(engine Engine) int64 {
		var n atomic.Int64
		synctest.Test(t, func(t *testing.T) {
			w := start(t, func(rw http.ResponseWriter, req *http.Request) {
				if req.URL.Path == "/health" {
					n.Add(1)
				}
			}, func(cfg *Config) { cfg.Engine = engine })
			w.pass(60)
			w.has(map[string]string{"healthy": "1"})
		})
		return n.Load()
	}
	if got := asked(EngineVLLM); got != 60 {
		t.Errorf("vLLM asked %d times in a minute", got)
	}
	if got := asked(EngineSGLang); got < 4 || got > 5 {
		t.Errorf("SGLang asked %d times in a minute", got)
	}
}

// Health is the status alone: 503 is not well, an answer that does not come is not well either.
func TestHealth(t *testing.T) {
	tests := map[string]struct {
		health http.HandlerFunc
		want   string
	}{
		"200":       {func(http.ResponseWriter, *http.Request) {}, "1"},
		"503":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, "0"},
		"204":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, "0"},
		"no answer": {func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, "0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vllm := vllm(text(runningPage))
				w := start(t, func(rw http.ResponseWriter, req *http.Request) {
					if req.URL.Path == "/health" {
						tt.health(rw, req)
						return
					}
					vllm(rw, req)
				}, nil)
				w.pass(5)
				w.has(map[string]string{"healthy": tt.want, "up": "1"})
			})
		})
	}
}

// Samples lie at absolute times, a whole interval apart, however long a page takes.
func TestKeepsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		began := time.Now()
		turn := 0
		w := start(t, vllm(func(rw http.ResponseWriter, req *http.Request) {
			mu.Lock()
			turn++
			slow := turn == 3
			at = append(at, time.Since(began))
			mu.Unlock()
			if time.Sleep(300 * time.Millisecond); slow {
				time.Sleep(2 * time.Second) // the two next times fall out, nothing is caught up
			}
			text(runningPage)(rw, req)
		}), nil)
		w.pass(9)
		mu.Lock()
		defer mu.Unlock()
		var gaps []time.Duration
		for i := 1; i < len(at); i++ {
			gaps = append(gaps, at[i]-at[i-1])
		}
		s := time.Second
		if diff := cmp.Diff([]time.Duration{s, s, 3 * s, s, s, s}, gaps[:6]); diff != "" {
			t.Error(diff)
		}
	})
}

// Two targets do not sample in the same instant.
func TestPhase(t *testing.T) {
	phases := map[time.Duration]bool{}
	for i := range 10 {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, vllm(text(runningPage)), func(cfg *Config) {
				cfg.URL = parseURL(t, fmt.Sprintf("http://host-%d:8000", i))
			})
			w.pass(1)
			phases[w.phase()] = true
		})
	}
	if len(phases) < 9 {
		t.Errorf("ten servers share %v", slices.Sorted(maps.Keys(phases)))
	}
}

func TestConfigFaults(t *testing.T) {
	base := parseURL(t, "http://vllm:8000")
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{"nothing", Config{}, "a relay needs a registerer and a URL"},
		{"engine", Config{Registerer: prometheus.NewRegistry(), URL: base, Engine: "trt"}, `unknown engine "trt"`},
		{"registered twice", Config{Registerer: taken(t, base), URL: base}, "registering the relay's metrics: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.cfg); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func taken(t *testing.T, base *url.URL) prometheus.Registerer {
	registry := prometheus.NewRegistry()
	if _, err := New(Config{Registerer: registry, URL: base}); err != nil {
		t.Fatal(err)
	}
	return registry
}

// Over real sockets: a server that is killed in the middle of a page, a port where nobody listens; nothing is
// left behind.
func TestRealSockets(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	vllm := vllm(turns(text(runningPage), func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5000\r\n\r\n"+runningPage)
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}))
	server := &http.Server{Handler: vllm}
	var done sync.WaitGroup
	done.Go(func() { _ = server.Serve(listener) })

	registry := prometheus.NewRegistry()
	relay, err := New(Config{Registerer: registry, URL: parseURL(t, "http://"+listener.Addr().String()), Engine: EngineVLLM})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, registry: registry, relay: relay, logs: &bytes.Buffer{}}
	relay.sample(t.Context())
	w.has(map[string]string{"up": "1", "requests_running{0,m}": "3"})
	relay.sample(t.Context())
	w.has(map[string]string{"up": "0", "scrape_failures_total{connect}": "1"})
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Fatal(err)
	}
	done.Wait()
	relay.sample(t.Context())
	w.has(map[string]string{"up": "0", "scrape_failures_total{connect}": "2"})
	relay.closeIdle()
}

var update = flag.Bool("update", false, "write the golden files anew")
