package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// everySecret of the configurations below begins like this, in one of the forms of disguised; base64 hides the ones
// of basic authentication.
var everySecret = regexp.MustCompile(`SECRET[0-9]\w*|` + regexp.QuoteMeta(base64.StdEncoding.EncodeToString([]byte("user:SECRET3-pass"))) +
	`|(?i)53-?45-?43-?52-?45-?54|u0053.{0,2}u0045|%(25)?53%(25)?45|(#|35;)83;(&|&amp;)#69|U0VDUkVU|TRUNSRV|NFQ1JFV|sk-SEC`)

// disguised is a text in the forms in which servers write what they were sent.
func disguised(text string) string {
	each := func(format string) string {
		var b strings.Builder
		for i := range len(text) {
			fmt.Fprintf(&b, format, text[i])
		}
		return b.String()
	}
	std := base64.StdEncoding.EncodeToString
	return strings.Join([]string{
		text, each(`\u%04X`), each(`\\u%04x`), each("%%%02x"), each("%%25%02X"), each("&#%d;"), each("&amp;#%d;"),
		std([]byte(text)), std([]byte("x" + text)), std([]byte("xy" + text)), each("%02x"),
	}, " ")
}

// rawAnswers are answers that no handler can give, with what was heard somewhere in them.
func rawAnswers(way, heard string) (answer string, ok bool) {
	const chunked = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"
	answer, ok = map[string]string{
		"by-status":    "HTTP/1.1 401 bad key " + heard + "\r\nContent-Length: 0\r\n\r\n",
		"by-teapot":    "HTTP/1.1 418 " + heard + "\r\nContent-Length: 0\r\n\r\n",
		"by-header":    "HTTP/1.1 200 OK\r\n" + heard + "\r\n\r\n",
		"by-length":    "HTTP/1.1 200 OK\r\nContent-Length: " + heard + "\r\n\r\n",
		"by-encoding":  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: " + heard + "\r\n\r\ndata: x\n\n",
		"by-transfer":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + heard + "\r\n\r\n",
		"by-proto":     heard + " 200 OK\r\n\r\n",
		"by-chunk":     chunked + "\r\n" + heard + "\r\n",
		"by-extension": chunked + "\r\n5;k=" + heard + "\r\ndata:\r\nx;" + heard + "\r\n",
		"by-trailer":   chunked + "Trailer: X-Key\r\n\r\n5\r\ndata:\r\n0\r\nX-Key: " + heard + "\r\n" + heard + "\r\n\r\n",
		"by-escapes":   "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\r\n" + `{"error":{"message":"` + disguised(heard) + `"}}`,
		"by-cut":       "HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n" + heard[:max(0, len(heard)-3)],
	}[way]
	return answer, ok
}

// asVLLM answers as a vLLM that has the key for its model, its version, its reasons and its labels.
func asVLLM(w http.ResponseWriter, r *http.Request, key string) {
	switch r.URL.Path {
	case "/v1/models":
		fmt.Fprintf(w, `{"data":[{"id":%q,"owned_by":"vllm"}]}`, key)
	case "/version":
		fmt.Fprintf(w, `{"version":%q}`, key)
	case "/metrics":
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "vllm:num_requests_running{engine=%q,model_name=%q} 1\nvllm:cache_config_info{engine=\"0\",cache_dtype=%q} 1\n", key, key, disguised("sk-SECRET1"))
	case "/v1/chat/completions":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", key, key)
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: [DONE]\n\n", key)
	default:
		http.NotFound(w, r)
	}
}

// parrot answers every request with all that the request told it, in one of the ways in which servers do.
func parrot(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	heard := strings.Join([]string{
		r.Header.Get("Authorization"), user, password, strings.Join(r.Header.Values("X-Api-Key"), " "), r.URL.String(),
	}, " | ")
	way := r.Header.Get("X-Way")
	if answer, ok := rawAnswers(way, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); ok {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			io.WriteString(conn, answer) //nolint:errcheck // the other end may have gone
			conn.Close()
		}
		return
	}
	if way == "by-vllm" {
		asVLLM(w, r, r.Header.Get("Authorization"))
		return
	}
	if r.URL.Path == "/v1/models" || r.URL.Path == "/tokenize" { // it has neither; the probe itself is sent all the same
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "not for you: ", heard)
		return
	}
	switch way {
	case "by-error":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error": {"message": %q, "code": 401}}`, "wrong key: "+heard)
	case "by-stream":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"error\": {\"message\": %q}}\n\n", "wrong key: "+heard)
	case "by-garbage":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {%s\n\n", heard)
	case "by-html":
		w.Header().Set("Content-Type", "text/html; for="+strings.ReplaceAll(heard, " ", "_"))
		fmt.Fprintf(w, "<h1>%s</h1>", heard)
	case "by-redirect":
		w.Header().Set("Location", "http://elsewhere.invalid/?"+strings.ReplaceAll(heard, " ", "_"))
		w.WriteHeader(http.StatusFound)
	}
}

// echo is a server that answers with the request itself, as the echo service does. Its errors are those of
// net/http, which quotes what it cannot read.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			request := make([]byte, 64<<10)
			if n, err := conn.Read(request); err == nil {
				path := strings.Fields(string(request[:n]))[1]
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s\r\n%s", path, request[:n]) // the other end may have gone
			}
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "http://" + l.Addr().String()
}

// Case e16: no secret is on any page, in any log line, in any error, although every server repeats what it hears.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(parrot))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	var yaml strings.Builder
	yaml.WriteString(`
global: {interval: 200ms, timeout: 2s, stall_timeout: 1s, warmup: 0, relay_interval: 200ms}
workloads: [{name: w, prompt_tokens: 64, output_tokens: 16, extra_body: {api_key: SECRET7-body, nested: [{password: SECRET7-deep}]}}]
targets:
`)
	var names []string
	target := func(name, url, client, more string) {
		names = append(names, name)
		fmt.Fprintf(&yaml, "  - {name: %s, url: %q, model: m, http_client_config: {%s}%s}\n", name, url, client, more)
	}
	for _, way := range []string{"error", "stream", "garbage", "html", "redirect"} {
		header := fmt.Sprintf(`http_headers: {X-Way: {values: [by-%s]}, X-Api-Key: {values: [SECRET2-value], secrets: [SECRET2-%s]}}`, way, way)
		target(way+"-token", server.URL, `authorization: {credentials: sk-SECRET1-`+way+`}, `+header, fmt.Sprintf(`, metrics_url: "%s/metrics?token=SECRET4-%s&x=1"`, server.URL, way))
		target(way+"-user", "http://user:SECRET3-pass@"+host, header, "")
	}
	for _, way := range []string{"status", "teapot", "header", "length", "encoding", "transfer", "proto", "chunk", "extension", "trailer", "escapes", "cut", "vllm"} {
		header := fmt.Sprintf(`http_headers: {X-Way: {values: [by-%s]}}`, way)
		target("raw-"+way, server.URL, `authorization: {credentials: sk-SECRET1}, `+header, fmt.Sprintf(`, engine: vllm, metrics_url: "%s/metrics"`, server.URL))
	}
	target("echo", echo(t), "authorization: {credentials: sk-SECRET5}", `, metrics_url: "`+echo(t)+`/metrics?api_key=SECRET6"`)
	target("proxied", "http://llm.invalid:8000", `proxy_url: "http://`+host+`/", proxy_connect_header: {Proxy-Authorization: [SECRET8-proxy]}`, "")
	file := configFile(t, yaml.String())
	p := start(t, "--config.file="+file, "--log.level=debug", "--web.enable-lifecycle")
	for _, name := range names {
		if name == "raw-vllm" { // it succeeds
			p.untilAbove(`llm_probe_requests_total{target="raw-vllm",workload="w"}`, 2)
			continue
		}
		p.untilAbove(fmt.Sprintf(`llm_probe_consecutive_failures{target=%q,workload="w"}`, name), 2)
	}

	pages := map[string]string{}
	for _, path := range []string{"/", "/metrics", "/config", "/api/v1/targets", "/api/v1/results?limit=1000", "/nothing", "/probe?target=nothing", "/debug/pprof/cmdline"} {
		resp, body := p.do("GET", path, nil)
		if pages[path] = body; path == "/debug/pprof/cmdline" && resp.StatusCode != http.StatusNotFound {
			t.Errorf("profiles are served unasked: %s", resp.Status)
		}
	}
	_, pages["OpenMetrics"] = p.do("GET", "/metrics", map[string]string{"Accept": "application/openmetrics-text"})
	for _, m := range regexp.MustCompile(`"target": "([^"]+)",\s+"workload": "w",\s+"request_id": "(probe-[A-Z0-9]+)"`).FindAllStringSubmatch(pages["/api/v1/results?limit=1000"], -1) {
		if _, known := pages["/probe of "+m[1]]; known {
			continue
		}
		if resp, body := p.do("GET", "/probe?target="+m[1]+"&id="+m[2], nil); resp.StatusCode == http.StatusOK {
			pages["/probe of "+m[1]] = body
		}
	}
	for _, name := range names {
		if _, ok := pages["/probe of "+name]; !ok {
			t.Errorf("there is no time line of a probe of %s", name)
		}
	}
	// Files with a mistake beside, or in, a secret.
	for i, mistake := range []string{
		`targets: [{url: "http://h", http_client_config: {authorization: {credentials: [SECRET9]}}}]`,
		`targets: [{url: "http://h", http_client_config: {authorization: {credentialz: SECRET9}}}]`,
		`targets: [{url: "http://h", http_client_config: {basic_auth: {username: u, password: {a: SECRET9}}}}]`,
		`targets: [{url: "http://u:SECRET9@h", http_client_config: {authorization: {credentials: SECRET9}}}]`,
		`targets: [{url: "http://u:SECRET9@h:port"}]`,
		`targets: [{url: "http://u:SECRET9@h/v1/chat/completions"}]`,
		`targets: [{url: "http://u:SECRET9@h?q=SECRET9"}]`,
		`targets: [{url: "u:SECRET9@h:8000"}]`,
		`targets: [{url: "http://h", metrics_url: "http://u:SECRET9@h/metrics?token=SECRET9"}]`,
		`targets: [{url: "http://h", http_client_config: {proxy_url: "http://u:SECRET9@:p"}}]`,
		`targets: [{url: "http://h", http_client_config: {http_headers: {X-Key: SECRET9}}}]`,
		`targets: [{url: "http://h", http_client_config: {authorization: {credentials: "SECRET9}}}]`,
		`targets: [{url: "http://h", api_key: SECRET9}]`,
	} {
		rewrite(t, file, mistake)
		resp, body := p.do("POST", "/-/reload", nil)
		if resp.StatusCode != 500 {
			t.Errorf("%s is accepted", mistake)
		}
		pages[fmt.Sprintf("reload of mistake %d: %s", i, mistake)] = body
	}
	p.signal(term)
	p.end()
	pages["the log"] = p.log.String()

	for name, page := range pages {
		if found := everySecret.FindAllString(page, -1); found != nil {
			slices.Sort(found)
			t.Errorf("%s tells %q", name, slices.Compact(found))
			if name == "the log" || len(page) < 2000 {
				for line := range strings.Lines(page) {
					if everySecret.MatchString(line) {
						t.Logf("  %.600s", line)
					}
				}
			}
		}
	}
	if !strings.Contains(pages["/api/v1/results?limit=1000"], "wrong key: <secret>") && !strings.Contains(pages["/api/v1/results?limit=1000"], `\u003csecret\u003e`) {
		t.Error("the results do not show what the server said: this test would find nothing")
	}
	for _, name := range []string{"/", "/metrics", "/api/v1/targets"} {
		if strings.Contains(pages[name], "user:") || strings.Contains(pages[name], "user@") {
			t.Errorf("%s has user information in a URL", name)
		}
	}
}

// Case e15: a proxy in the environment is not used unless it is asked for, and the log says so.
func TestProxyOfTheEnvironment(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1000)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.Host:
		default:
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	t.Cleanup(proxy.Close)
	file := configFile(t, `
global: {interval: 200ms, timeout: 2s, stall_timeout: 1s, warmup: 0}
targets:
  - {name: without, url: "http://without.invalid:8000"}
  - {name: with, url: "http://with.invalid:8000", http_client_config: {proxy_from_environment: true}}
`)
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	// A shell passes its environment on; the test's own is shared by all tests.
	wrapper := filepath.Join(t.TempDir(), "llm_prober")
	if err := os.WriteFile(wrapper, []byte("#!/bin/sh\nHTTP_PROXY="+proxy.URL+" NO_PROXY= exec "+path+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p := startBinary(t, wrapper, "--config.file="+file)
	failed := func(target string) string {
		return fmt.Sprintf(`llm_probe_consecutive_failures{target=%q,workload="chat-512-128"}`, target)
	}
	p.untilAbove(failed("with"), 1)
	p.untilAbove(failed("without"), 1)
	s := p.scrape()
	s.want(t, `llm_probe_request_failures_total{reason="http_status",target="without",workload="chat-512-128"}`, 0)
	if s[`llm_probe_request_failures_total{reason="http_status",target="with",workload="chat-512-128"}`] == 0 {
		t.Error("the proxy is not used where it is asked for")
	}
	p.signal(term)
	p.end()
	close(asked)
	for host := range asked {
		if host != "with.invalid:8000" {
			t.Errorf("the proxy was asked for %s", host)
		}
	}
	if !strings.Contains(p.log.String(), "proxy of the environment is not used for probes") || !strings.Contains(p.log.String(), "variable=HTTP_PROXY") {
		t.Error("the log does not say that the proxy is not used")
	}
}
