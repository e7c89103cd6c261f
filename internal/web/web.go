// Package web is all that the daemon serves over HTTP: the status page, the time line of a single probe, the
// same as JSON, and the pages every Prometheus exporter has.
//
// [History] remembers what the probes yielded; [New] serves it. Everything is rendered on the server and
// nothing is loaded from elsewhere. What servers sent is bounded and cleaned when it is remembered and
// escaped when it is shown.
package web

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/http/pprof"
	"path"
	"slices"
	"strings"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/discovery"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

//go:embed templates
var files embed.FS

// DefaultTelemetryPath is where Prometheus looks for metrics.
const DefaultTelemetryPath = "/metrics"

// Options is what the pages tell about. Targets, History, ConfigYAML, Ready and Metrics are required.
type Options struct {
	Version string
	Targets func() []Target
	History *History
	// Groups tells what was found for target groups. nil: there are none.
	Groups func() []discovery.Group
	// Server tells what the relay last read from the server of a target, and whether it ever did. nil: no relay.
	Server func(target string) (s Server, known bool)
	// ConfigYAML is the effective config without secrets.
	ConfigYAML func() ([]byte, error)
	Ready      func() bool
	// Reload reads the config again. nil: /-/reload is refused.
	Reload        func() error
	TelemetryPath string // "" means DefaultTelemetryPath
	Metrics       http.Handler
	// Pprof adds the profiles of net/http/pprof, which tell more than a page should and cost the processor.
	Pprof  bool
	Logger log.Logger // nil: no logs
}

// site is a handler's view of the options.
type site struct {
	Options
	templates     *template.Template
	style, script string
	csp           string
}

// CheckTelemetryPath reports why a path cannot serve the metrics: it is not absolute and clean, or it is that
// of another page. The error names neither flag nor file.
func CheckTelemetryPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q does not begin with a slash", p)
	case strings.ContainsAny(p, "{} \t?#%"):
		return fmt.Errorf("%q has a character that a plain path has not", p)
	case path.Clean(p) != p:
		return fmt.Errorf("%q is not a clean path", p)
	case slices.Contains([]string{"/", "/config", "/discovery", "/probe"}, p),
		strings.HasPrefix(p, "/-/"), strings.HasPrefix(p, "/api/"), strings.HasPrefix(p, "/debug/"):
		return fmt.Errorf("%q is another page", p)
	}
	return nil
}

// New returns the whole of what the daemon serves. It panics on a telemetry path that [CheckTelemetryPath]
// refuses.
func New(o Options) http.Handler {
	if o.TelemetryPath == "" {
		o.TelemetryPath = DefaultTelemetryPath
	}
	if err := CheckTelemetryPath(o.TelemetryPath); err != nil {
		panic("web: telemetry path " + err.Error())
	}
	if o.Logger == nil {
		o.Logger = log.NewNopLogger()
	}
	s := newSite(o)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /probe", s.probe)
	mux.HandleFunc("GET /discovery", s.discovery)
	mux.HandleFunc("GET /api/v1/discovery", s.apiDiscovery)
	mux.HandleFunc("GET /api/v1/targets", s.apiTargets)
	mux.HandleFunc("GET /api/v1/results", s.apiResults)
	mux.Handle("GET "+o.TelemetryPath, o.Metrics)
	mux.HandleFunc("GET /config", s.config)
	mux.HandleFunc("GET /-/healthy", healthy)
	mux.HandleFunc("GET /-/ready", s.ready)
	mux.Handle("/-/reload", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.reload)))
	if o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		// Not the command line: a URL on it may have a password.
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header() // of every answer, errors and redirects included; a page of ours replaces the policy
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		mux.ServeHTTP(&patientWriter{w, http.NewResponseController(w)}, r)
	})
}

func newSite(o Options) *site {
	s := &site{Options: o, style: chart.PageColours() + asset("style.css"), script: asset("refresh.js")}
	s.templates = template.Must(template.New("").Funcs(template.FuncMap{"nobreak": humanize.NoBreak}).ParseFS(files, "templates/*.html"))
	// The one style and the one script are allowed by their hashes, so nothing injected can be either.
	s.csp = "default-src 'none'; style-src " + cspHash(s.style) + "; script-src " + cspHash(s.script) +
		"; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return s
}

// asset reads a file that was compiled in.
func asset(name string) string {
	data, err := files.ReadFile("templates/" + name)
	if err != nil {
		panic(err) // the binary was built without it
	}
	return string(data)
}

func cspHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// render writes a page, or nothing of it if it fails.
func (s *site) render(w http.ResponseWriter, status int, name string, page any) {
	var b strings.Builder
	if err := s.templates.ExecuteTemplate(&b, name, page); err != nil {
		level.Error(s.Logger).Log("msg", "rendering a page failed", "page", name, "err", err)
		http.Error(w, "rendering the page failed; the log tells why", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", s.csp)
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	io.WriteString(w, b.String()) //nolint:errcheck // the reader has gone
}

func healthy(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "llm_prober is healthy.\n") }

func (s *site) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.Ready() {
		http.Error(w, "llm_prober is not ready.", http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "llm_prober is ready.\n")
}

func (s *site) config(w http.ResponseWriter, _ *http.Request) {
	text, err := s.ConfigYAML()
	if err != nil {
		level.Error(s.Logger).Log("msg", "writing the config as YAML failed", "err", err)
		http.Error(w, "writing the config as YAML failed; the log tells why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/yaml; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(text) //nolint:errcheck // the reader has gone
}

// maxConfigErrors is how many characters are told of what is wrong in a config: hundreds of lines.
const maxConfigErrors = 64 << 10

func (s *site) reload(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "This endpoint requires a POST request.", http.StatusMethodNotAllowed)
	case s.Reload == nil:
		http.Error(w, "Lifecycle API is not enabled.", http.StatusForbidden)
	default:
		if err := s.Reload(); err != nil {
			http.Error(w, "failed to reload config: "+scrub.Lines(err.Error(), maxConfigErrors), http.StatusInternalServerError)
			return
		}
		io.WriteString(w, "config reloaded\n")
	}
}
