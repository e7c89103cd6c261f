package config

import (
	"fmt"
	"strings"
	"testing"
)

// Where the requests of a target go, whatever form of the address was pasted.
func TestBasePaths(t *testing.T) {
	for _, c := range []struct{ url, root, api string }{
		{"http://h", "", "/v1"},
		{"http://h/", "", "/v1"},
		{"http://h/v1", "", "/v1"},
		{"http://h/v1/", "", "/v1"},
		{"http://h/v1//", "", "/v1"},
		{"http://h/openai", "/openai", "/v1"},
		{"http://h/openai/v1", "/openai", "/v1"},
		{"http://h/v1/openai", "", "/v1/openai"},
		{"http://h/v1/v1", "/v1", "/v1"},
		{"http://h/v3", "", "/v3"},
		{"http://h/v2/", "", "/v2"},
		{"http://h/v1beta/openai", "", "/v1beta/openai"},
		{"http://h/v1beta/openai/", "", "/v1beta/openai"},
		{"http://h/v1beta1/projects/p/locations/l/endpoints/openapi", "", "/v1beta1/projects/p/locations/l/endpoints/openapi"},
		{"http://h/api/paas/v4", "/api/paas", "/v4"},
		{"http://h/v1alpha", "", "/v1alpha"},
		{"http://h/client/v4/accounts/a/ai/v1", "/client/v4/accounts/a/ai", "/v1"},
		{"http://h/api/v1/namespaces/n/services/vllm:8000/proxy", "/api/v1/namespaces/n/services/vllm:8000/proxy", "/v1"},
		{"http://h/version", "/version", "/v1"},
		{"http://h/v1x", "/v1x", "/v1"},
		{"http://h/v", "/v", "/v1"},
		{"http://h/V1", "/V1", "/v1"},
		{"http://h/a%2Fb/v3", "/a%2Fb", "/v3"},
	} {
		got := mustParse(t, fmt.Sprintf("targets: [{url: %q}]", c.url)).Targets[0]
		if got.URL.EscapedPath() != c.root || got.APIPath != c.api {
			t.Errorf("%s: %q and %q, want %q and %q", c.url, got.URL.EscapedPath(), got.APIPath, c.root, c.api)
		}
	}
}

// What api_path says is in place of /v1, behind all of url; what it cannot be is refused.
func TestAPIPath(t *testing.T) {
	for _, c := range []struct{ url, path, root, api, doubt string }{
		{"http://h", "/v3", "", "/v3", ""},
		{"http://h", "/v3/", "", "/v3", ""},
		{"http://h", "/", "", "/", ""},
		{"http://h/inference", "/", "/inference", "/", ""},
		{"http://h", "/models", "", "/models", ""},
		{"http://h/x", "/serving-endpoints", "/x", "/serving-endpoints", ""},
		{"http://h/v1", "/v3", "/v1", "/v3", `config.yml:1: targets[0].api_path: comes behind the whole path of url, which ends in "/v1" already`},
	} {
		cfg := mustParse(t, fmt.Sprintf("targets: [{url: %q, api_path: %q}]", c.url, c.path))
		got := cfg.Targets[0]
		if got.URL.EscapedPath() != c.root || got.APIPath != c.api || strings.Join(cfg.Warnings(), "\n") != c.doubt {
			t.Errorf("%s and %s: %q and %q, %q", c.url, c.path, got.URL.EscapedPath(), got.APIPath, cfg.Warnings())
		}
		page, err := cfg.Redacted()
		if err != nil {
			t.Fatal(err)
		}
		if again := mustParse(t, string(page)).Targets[0]; again.URL.EscapedPath() != c.root || again.APIPath != c.api {
			t.Errorf("%s and %s, shown and read again: %q and %q", c.url, c.path, again.URL.EscapedPath(), again.APIPath)
		}
	}
	for path, want := range map[string]string{
		"v3":                           `must begin with a slash: it is a path below url (did you mean "/v3"?)`,
		"http://h/v1":                  "must begin with a slash",
		"//h/v1":                       "is not a path",
		"/v1//x":                       "is not a path",
		"/v1?key=SECRET":               "is not a path",
		"/v1#x":                        "is not a path",
		"/a b":                         "is not a path",
		"/%zz":                         "is not a path",
		"/v1/chat/completions":         `must be the path of the API, without "/chat/completions"`,
		"":                             "must begin with a slash",
		"/" + strings.Repeat("a", 200): "must have at most 200 bytes, not 201",
	} {
		_, err := Parse("config.yml", fmt.Appendf(nil, "targets: [{url: 'http://h', api_path: %q}]", path))
		if err == nil || !strings.Contains(err.Error(), "config.yml:1: targets[0].api_path: "+want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

func TestHost(t *testing.T) {
	for _, host := range []string{"model.example", "model.example:8443", "10.0.0.1", "[::1]:8000", "a_b"} {
		if got := mustParse(t, fmt.Sprintf("targets: [{url: 'http://h', host: %q}]", host)).Targets[0].Host; got != host {
			t.Errorf("%q became %q", host, got)
		}
	}
	const name, proxied = "is not the name of a host", "cannot go with a proxy for http://"
	for _, c := range []struct{ target, want string }{
		{"url: 'http://h', host: 'http://x'", name},
		{"url: 'http://h', host: 'x/y'", name},
		{"url: 'http://h', host: 'x y'", name},
		{"url: 'http://h', host: 'x:port'", name},
		{"url: 'http://h', host: 'ü.example'", name},
		{`url: 'http://h', host: "x\r\nX-A: b"`, "must not contain control characters"},
		{"url: 'http://h', host: x, http_client_config: {proxy_url: 'http://p:3128'}", proxied},
		{"url: 'http://h', host: x, http_client_config: {proxy_from_environment: true}", proxied},
		{"url: 'http://h', http_client_config: {http_headers: {host: {values: [x]}}}", "this header belongs to the request, not to the client (write host in the target)"},
	} {
		if _, err := Parse("config.yml", []byte("targets: [{"+c.target+"}]")); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.target, err, c.want)
		}
	}
	if cfg := mustParse(t, "targets: [{name: a, url: 'http://h', host: x}, {name: b, url: 'http://h', host: y}]"); len(cfg.Targets) != 2 {
		t.Error("two hosts at one address are not two targets")
	}
	mustParse(t, "targets: [{url: 'https://h', host: x, http_client_config: {proxy_url: 'http://p:3128'}}]")
}
