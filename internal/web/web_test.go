package web

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// get asks a handler for a path with an Accept header.
func get(h http.Handler, path, accept string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPagesOfTheDaemon(t *testing.T) {
	base := (&fleet{history: &History{}}).options()
	with := func(change func(*Options)) Options {
		o := base
		change(&o)
		return o
	}
	profiled := with(func(o *Options) { o.Pprof = true })
	for _, tc := range []struct {
		name, method, path string
		options            Options
		header             http.Header
		status             int
		contentType        string
		body               string // all of it, or how it begins where it ends in …
	}{
		{"index", "GET", "/", base, nil, 200, "text/html; charset=utf-8", "<!DOCTYPE html>…"},
		{"index for HEAD", "HEAD", "/", base, nil, 200, "text/html; charset=utf-8", "<!DOCTYPE html>…"},
		{"index takes no POST", "POST", "/", base, nil, 405, "text/plain; charset=utf-8", "Method Not Allowed\n"},
		{"unknown path", "GET", "/nope", base, nil, 404, "text/plain; charset=utf-8", "404 page not found\n"},
		{"below a page", "GET", "/config/x", base, nil, 404, "text/plain; charset=utf-8", "404 page not found\n"},
		{"metrics", "GET", "/metrics", base, nil, 200, "text/plain; charset=utf-8", "llm_probe_up 1\n"},
		{"metrics elsewhere", "GET", "/prom", with(func(o *Options) { o.TelemetryPath = "/prom" }), nil, 200, "text/plain; charset=utf-8", "llm_probe_up 1\n"},
		{"metrics not at the usual place", "GET", "/metrics", with(func(o *Options) { o.TelemetryPath = "/prom" }), nil, 404, "text/plain; charset=utf-8", "404 page not found\n"},
		{"metrics take no POST", "POST", "/metrics", base, nil, 405, "text/plain; charset=utf-8", "Method Not Allowed\n"},
		{"healthy", "GET", "/-/healthy", base, nil, 200, "text/plain; charset=utf-8", "llm_prober is healthy.\n"},
		{"ready", "GET", "/-/ready", base, nil, 200, "text/plain; charset=utf-8", "llm_prober is ready.\n"},
		{"not ready", "GET", "/-/ready", with(func(o *Options) { o.Ready = func() bool { return false } }), nil, 503, "text/plain; charset=utf-8", "llm_prober is not ready.\n"},
		{"config", "GET", "/config", base, nil, 200, "text/yaml; charset=utf-8", "global: {}\n"},
		{
			"config fails", "GET", "/config",
			with(func(o *Options) { o.ConfigYAML = func() ([]byte, error) { return nil, errors.New("SECRET") } }),
			nil, 500, "text/plain; charset=utf-8", "writing the config as YAML failed; the log tells why\n",
		},
		{"reload by GET", "GET", "/-/reload", with(func(o *Options) { o.Reload = reloadOK }), nil, 405, "text/plain; charset=utf-8", "This endpoint requires a POST request.\n"},
		{"reload", "POST", "/-/reload", with(func(o *Options) { o.Reload = reloadOK }), nil, 200, "text/plain; charset=utf-8", "config reloaded\n"},
		{"reload not enabled", "POST", "/-/reload", base, nil, 403, "text/plain; charset=utf-8", "Lifecycle API is not enabled.\n"},
		{
			"reload fails", "POST", "/-/reload",
			with(func(o *Options) { o.Reload = func() error { return errors.New("config.yml:3: unknown key") } }),
			nil, 500, "text/plain; charset=utf-8", "failed to reload config: config.yml:3: unknown key\n",
		},
		{
			"reload by another site's page", "POST", "/-/reload", with(func(o *Options) { o.Reload = reloadOK }),
			http.Header{"Sec-Fetch-Site": {"cross-site"}},
			403, "text/plain; charset=utf-8", "cross-origin request detected…",
		},
		{"profiles", "GET", "/debug/pprof/", profiled, nil, 200, "text/html; charset=utf-8", "<html>…"},
		{"a profile", "GET", "/debug/pprof/goroutine?debug=1", profiled, nil, 200, "text/plain; charset=utf-8", "goroutine profile:…"},
		{"the command line may hold a password", "GET", "/debug/pprof/cmdline", profiled, nil, 404, "text/plain; charset=utf-8", "Unknown profile\n"},
		{"no profiles unless asked for", "GET", "/debug/pprof/", base, nil, 404, "text/plain; charset=utf-8", "404 page not found\n"},
		{"a redirect", "GET", "//config", base, nil, 307, "text/html; charset=utf-8", "<a href=\"/config\">…"},
		{"no such probe", "GET", "/probe?target=x&id=y", base, nil, 404, "text/html; charset=utf-8", "<!DOCTYPE html>…"},
		{"targets", "GET", "/api/v1/targets", base, nil, 200, "application/json", "{\n  \"version\": \"1.2.3\",…"},
		{"results", "GET", "/api/v1/results", base, nil, 200, "application/json", "{\n  \"results\": []\n}\n"},
		{"results take no DELETE", "DELETE", "/api/v1/results", base, nil, 405, "text/plain; charset=utf-8", "Method Not Allowed\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.path, nil)
			for name, values := range tc.header {
				r.Header[name] = values
			}
			w := httptest.NewRecorder()
			New(tc.options).ServeHTTP(w, r)
			if w.Code != tc.status {
				t.Errorf("status = %d, want %d", w.Code, tc.status)
			}
			if got := w.Header().Get("Content-Type"); got != tc.contentType {
				t.Errorf("content type = %q, want %q", got, tc.contentType)
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s = %q, want %s", name, got, want)
				}
			}
			if got := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none';") || !strings.HasSuffix(got, "frame-ancestors 'none'") {
				t.Errorf("Content-Security-Policy = %q", got)
			}
			begin, open := strings.CutSuffix(tc.body, "…")
			if body := w.Body.String(); body != tc.body && !(open && strings.HasPrefix(body, begin)) {
				t.Errorf("body = %q, want %q", body, tc.body)
			}
		})
	}
}

func reloadOK() error { return nil }

func TestCheckTelemetryPath(t *testing.T) {
	for _, tc := range []struct{ path, want string }{
		{"/metrics", ""},
		{"/llm/metrics", ""},
		{"metrics", `"metrics" does not begin with a slash`},
		{"", `"" does not begin with a slash`},
		{"/{x}", `"/{x}" has a character that a plain path has not`},
		{"/a b", `"/a b" has a character that a plain path has not`},
		{"/metrics/", `"/metrics/" is not a clean path`},
		{"/a/../b", `"/a/../b" is not a clean path`},
		{"/", `"/" is another page`},
		{"/config", `"/config" is another page`},
		{"/discovery", `"/discovery" is another page`},
		{"/-/healthy", `"/-/healthy" is another page`},
		{"/api/v1/targets", `"/api/v1/targets" is another page`},
		{"/debug/pprof/heap", `"/debug/pprof/heap" is another page`},
	} {
		got := ""
		if err := CheckTelemetryPath(tc.path); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("CheckTelemetryPath(%q) = %q, want %q", tc.path, got, tc.want)
		}
	}
}

func TestPrefersJSON(t *testing.T) {
	for _, tc := range []struct {
		accept string
		want   bool
	}{
		{"", false},
		{"*/*", false}, // curl
		{"application/json", true},
		{"application/json, text/plain, */*", true},
		{"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", false}, // browsers
		{"text/html;q=0.5, application/json;q=0.9", true},
		{"text/html;q=0.9, application/json;q=0.5", false},
		{"text/html, application/json", false},
		{"application/*", true},
		{"application/json;q=0, */*", false},
		{"APPLICATION/JSON; charset=utf-8; q=1", true},
		{"application/json;q=x", true},
	} {
		if got := prefersJSON(tc.accept); got != tc.want {
			t.Errorf("prefersJSON(%q) = %v, want %v", tc.accept, got, tc.want)
		}
	}
}

func TestPoliciesAllowTheOneStyleAndScriptOnly(t *testing.T) {
	page := get(newFleet(time.Now()).handler(), "/", "")
	csp, body := page.Header().Get("Content-Security-Policy"), page.Body.String()
	for tag, directive := range map[string]string{"style": "style-src ", "script": "script-src "} {
		_, rest, _ := strings.Cut(body, "<"+tag+">")
		text, _, ok := strings.Cut(rest, "</"+tag+">")
		if !ok || text == "" || strings.Count(body, "<"+tag) != 1 {
			t.Fatalf("the page has not exactly one %s", tag)
		}
		if want := directive + cspHash(text) + ";"; !strings.Contains(csp, want) {
			t.Errorf("policy %q does not have %q", csp, want)
		}
	}
	if !strings.HasPrefix(csp, "default-src 'none';") {
		t.Errorf("policy %q does not begin by forbidding all", csp)
	}
	for _, never := range []string{" style=", " onclick", " onload", "src=", "//cdn", "http-equiv=\"refresh\" content=\"0"} {
		if strings.Contains(body, never) {
			t.Errorf("the page has %q", never)
		}
	}
}
