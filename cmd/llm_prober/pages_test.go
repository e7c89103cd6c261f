package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

const ttftCount = `llm_probe_time_to_first_token_seconds_count{target="a",workload="w"}`

// A daemon with a file: every page, reloading off.
func TestPages(t *testing.T) {
	t.Parallel()
	_, url := simulator(t, vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true})
	p := start(t, "--config.file="+configFile(t, `FAST
targets: [{name: a, url: "`+url+`", labels: {site: ams}, http_client_config: {authorization: {credentials: sk-1234}}}]
`), "--web.telemetry-path=/federate", "--web.enable-pprof")
	if got := p.get("/-/healthy"); got != "llm_prober is healthy.\n" {
		t.Errorf("/-/healthy: %q", got)
	}
	if got := p.get("/-/ready"); got != "llm_prober is ready.\n" {
		t.Errorf("/-/ready: %q", got)
	}
	p.until("a result", func() bool {
		return strings.Contains(p.get("/api/v1/results?target=a"), `"success": true`)
	})
	series := regexp.MustCompile(`(?m)^llm_probe_requests_total\{site="ams",target="a",workload="w"\} [1-9]`)
	if got := p.get("/federate"); !series.MatchString(got) {
		t.Errorf("/federate has no sample:\n%s", got)
	}
	for path, want := range map[string]string{
		"/":                              `href="federate"`,
		"/config":                        "credentials: <secret>",
		"/api/v1/targets":                `"url": "` + url + `"`,
		"/debug/pprof/goroutine?debug=1": "goroutine profile: total",
	} {
		if got := p.get(path); !strings.Contains(got, want) {
			t.Errorf("%s does not have %q:\n%s", path, want, got)
		}
	}
	if got := p.get("/config"); strings.Contains(got, "sk-1234") || !strings.Contains(got, "interval: 200ms") {
		t.Errorf("/config tells a secret, or not what is in force:\n%s", got)
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/metrics", 404},
		{"GET", "/nothing", 404},
		{"POST", "/-/reload", 403},
		{"GET", "/-/reload", 405},
		{"POST", "/federate", 405},
	} {
		if resp, _ := p.do(c.method, c.path, nil); resp.StatusCode != c.status {
			t.Errorf("%s %s: %s, want %d", c.method, c.path, resp.Status, c.status)
		}
	}
}

// Reloading by POST and by SIGHUP; a bad file is refused with its lines and changes nothing.
func TestReloadFromOutside(t *testing.T) {
	t.Parallel()
	_, url := simulator(t, vllmsim.Config{})
	good := "FAST\ntargets: [{name: a, url: \"" + url + "\"}]\n"
	file := configFile(t, good)
	p := start(t, "--config.file="+file, "--web.enable-lifecycle")
	counted := p.untilAbove(ttftCount, 0)[ttftCount]

	rewrite(t, file, good+"  - {name: b, url: \"http://127.0.0.1:1\"}\n") // not YAML
	resp, body := p.do("POST", "/-/reload", nil)
	if resp.StatusCode != 500 || !strings.HasPrefix(body, "failed to reload config: "+file+":") {
		t.Errorf("a bad file: %s %q", resp.Status, body)
	}
	p.scrape().want(t, "llm_prober_config_last_reload_successful", 0)

	rewrite(t, file, good+"slos: []\n")
	if resp, body := p.do("POST", "/-/reload", nil); resp.StatusCode != 200 {
		t.Errorf("a good file: %s %q", resp.Status, body)
	}
	s := p.scrape()
	s.want(t, "llm_prober_config_last_reload_successful", 1)
	if s[ttftCount] < counted {
		t.Errorf("a reload reset the count of an unchanged target from %v to %v", counted, s[ttftCount])
	}

	rewrite(t, file, strings.Replace(good, "name: a", "name: renamed", 1))
	p.signal(hup)
	p.untilAbove(strings.Replace(ttftCount, `"a"`, `"renamed"`, 1), 0)
	if left := p.scrape().of(`target="a"`); len(left) != 0 {
		t.Errorf("series of a renamed target are left: %q", left)
	}
	if got := strings.Count(p.log.String(), `msg="configuration reloaded"`); got != 2 {
		t.Errorf("the log tells of %d reloads, want 2", got)
	}
}

// The three formats of /metrics, asked for as Prometheus does.
func TestMetricsFormats(t *testing.T) {
	t.Parallel()
	_, url := simulator(t, vllmsim.Config{})
	p := start(t, "--config.file="+configFile(t, "FAST\ntargets: [{name: a, url: \""+url+"\"}]\n"))
	p.untilAbove(ttftCount, 2)

	resp, text := p.do("GET", "/metrics", nil)
	if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain; version=0.0.4") {
		t.Errorf("the default is %q", got)
	}
	if !strings.Contains(text, `llm_probe_time_to_first_token_seconds_bucket{target="a",workload="w",le="+Inf"}`) || strings.Contains(text, "# EOF") {
		t.Error("the text format has no classic buckets, or is another format")
	}
	for _, name := range []string{"llm_prober_build_info{", "go_goroutines ", "process_open_fds ", "promhttp_metric_handler_requests_total{"} {
		if !strings.Contains(text, "\n"+name) {
			t.Errorf("the process does not tell %s…", name)
		}
	}

	resp, text = p.do("GET", "/metrics", map[string]string{"Accept": "application/openmetrics-text;version=1.0.0"})
	exemplar := regexp.MustCompile(`llm_probe_time_to_first_token_seconds_bucket\{target="a",workload="w",le="[^"]+"\} \d+ # \{request_id="probe-[A-Z0-9]+"\} \d`)
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text; version=1.0.0") || !exemplar.MatchString(text) || !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("OpenMetrics (%s) has no exemplar or no end", resp.Header.Get("Content-Type"))
	}

	resp, text = p.do("GET", "/metrics", map[string]string{"Accept": "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"})
	decoder := expfmt.NewDecoder(strings.NewReader(text), expfmt.ResponseFormat(resp.Header))
	for {
		var f dto.MetricFamily
		if err := decoder.Decode(&f); err != nil {
			t.Fatalf("the protobuf format (%s) has no TTFT: %v", resp.Header.Get("Content-Type"), err)
		}
		if f.GetName() != "llm_probe_time_to_first_token_seconds" {
			continue
		}
		h := f.Metric[0].Histogram
		if len(h.PositiveSpan) == 0 || len(h.PositiveDelta) == 0 || h.GetSchema() != 3 || len(h.Bucket) < 20 || h.GetSampleCount() < 3 {
			t.Errorf("TTFT is no histogram that is both native (factor 1.1: schema 3) and classic: %v", h)
		}
		break
	}
}

// Scrapes above --web.max-requests are turned away while others run.
func TestMaxRequests(t *testing.T) {
	cfg, err := config.Parse("config.yml", []byte("targets: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemon(cfg, nil, prober.Options{Logger: log.NewNopLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	entered, leave := make(chan struct{}), make(chan struct{})
	d.self.Registerer().MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow"}, func() float64 {
		entered <- struct{}{}
		<-leave
		return 1
	}))
	f := &flags{telemetryPath: "/metrics", maxRequests: 1}
	handler := f.handler(d, &atomic.Bool{}, d.logger)
	first := httptest.NewRecorder()
	done := make(chan struct{})
	go func() {
		defer close(done)
		handler.ServeHTTP(first, httptest.NewRequest("GET", "/metrics", nil))
	}()
	<-entered
	second := httptest.NewRecorder()
	handler.ServeHTTP(second, httptest.NewRequest("GET", "/metrics", nil))
	close(leave)
	<-done
	if first.Code != 200 || second.Code != 503 || !strings.Contains(second.Body.String(), "Limit of concurrent requests reached (1)") {
		t.Errorf("the first scrape got %d, one beside it %d %q", first.Code, second.Code, second.Body)
	}
}

// Once a signal has come the daemon is not ready, and says so while scrapes end.
func TestNotReadyWhileLeaving(t *testing.T) {
	cfg, err := config.Parse("config.yml", []byte("targets: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := newDaemon(cfg, nil, prober.Options{Logger: log.NewNopLogger()})
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	var leaving atomic.Bool
	handler := (&flags{telemetryPath: "/metrics"}).handler(d, &leaving, d.logger)
	leaving.Store(true)
	for path, want := range map[string]int{"/-/ready": 503, "/-/healthy": 200} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}

// TLS and basic authentication by --web.config.file.
func TestWebConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir)
	web := filepath.Join(dir, "web.yml")
	// The password is "open sesame".
	if err := os.WriteFile(web, []byte(`
tls_server_config: {cert_file: cert.pem, key_file: key.pem}
basic_auth_users: {ali: $2a$04$HdjEknQUuzkjHn0E9eKFxObQ8f9lwWX4P70/9o8apqVgXpxFVbK3C}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--target.url=http://127.0.0.1:1", "--web.config.file="+web)
	if resp, err := p.client.Get(p.url + "/-/healthy"); err == nil {
		resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("the page is there without TLS")
		}
	}
	p.url = strings.Replace(p.url, "http:", "https:", 1)
	p.client.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: pool}
	for _, c := range []struct {
		user, password string
		status         int
	}{
		{"", "", 401},
		{"ali", "open barley", 401},
		{"ali", "open sesame", 200},
	} {
		req := httptest.NewRequest("GET", "/", nil)
		if c.user != "" {
			req.SetBasicAuth(c.user, c.password)
		}
		resp, body := p.do("GET", "/metrics", map[string]string{"Authorization": req.Header.Get("Authorization")})
		if resp.StatusCode != c.status || strings.Contains(body, "llm_probe_requests_total") != (c.status == 200) {
			t.Errorf("%s:%s gets %s", c.user, c.password, resp.Status)
		}
	}
}

// A socket that systemd has opened is taken over.
func TestSystemdSocket(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("systemd is on Linux")
	}
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	// The shell becomes the daemon, so its process id is the one that systemd would have told.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"`, path, "--target.url=http://127.0.0.1:1", "--web.systemd-socket")
	cmd.ExtraFiles = []*os.File{socket}
	p := launch(t, cmd)
	p.url = "http://" + l.Addr().String()
	p.until("it listens", func() bool { return strings.Contains(p.log.String(), "address="+l.Addr().String()) })
	if got := p.get("/-/healthy"); got != "llm_prober is healthy.\n" {
		t.Errorf("/-/healthy: %q", got)
	}
}

// certificate writes cert.pem and key.pem for 127.0.0.1 and returns who to trust.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		data := pem.EncodeToMemory(block)
		pool.AppendCertsFromPEM(data)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pool
}

// Two servers and a key from flags alone.
func TestQuickMode(t *testing.T) {
	t.Parallel()
	key := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(key, []byte("sk-quick\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, first := simulator(t, vllmsim.Config{APIKey: "sk-quick"})
	_, second := simulator(t, vllmsim.Config{APIKey: "sk-quick", Models: []string{"one", "two"}})
	p := start(t, "--target.url="+first+"/v1/", "--target.url="+second, "--target.api-key-file="+key, "--probe.interval=100ms", "--probe.prompt-tokens=64", "--probe.output-tokens=16")
	for url, model := range map[string]string{first: "tiny", second: "one"} {
		target := strings.TrimPrefix(url, "http://")
		labels := fmt.Sprintf(`{target=%q,workload="chat-64-16"}`, target)
		p.untilAbove(fmt.Sprintf(`llm_server_up{target=%q}`, target), 0)
		s := p.untilAbove("llm_probe_time_to_first_token_seconds_count"+labels, 0)
		s.want(t, "llm_probe_up"+labels, 1)
		s.want(t, fmt.Sprintf(`llm_server_up{target=%q}`, target), 1)
		s.want(t, "llm_probe_interval_seconds"+labels, 0.1)
		s.want(t, fmt.Sprintf(`llm_probe_workload_info{api="chat",model=%q,output_tokens="16",prompt_tokens="64",target=%q,workload="chat-64-16"}`, model, target), 1)
		s.want(t, fmt.Sprintf(`llm_probe_output_tokens_total{source="usage",target=%q,workload="chat-64-16"}`, target), 16*s["llm_probe_requests_total"+labels])
	}
}

// Within 15 s of the first command of the README there is a sample.
func TestDemo(t *testing.T) {
	t.Parallel()
	p := start(t, "--demo", "--demo.address="+freePort(t))
	s := p.untilAbove(`llm_probe_time_to_first_token_seconds_count{target="demo",workload="chat-512-64"}`, 0)
	if running, ok := s[`llm_server_requests_running{engine="0",model_name="simulated",target="demo"}`]; !ok {
		t.Errorf("the server's own count of requests is not there (%v)", running)
	}
	s.want(t, `llm_probe_suspect_total{reason="prompt_length",target="demo",workload="chat-512-64"}`, 0)
	s.want(t, `llm_probe_warmup_requests_total{target="demo",workload="chat-512-64"}`, 2)
	if !strings.Contains(p.log.String(), "/sim/fault?name=hang") {
		t.Error("the log does not say how to make the demo's server fail")
	}
}

// Every line is one JSON object with the keys that a collector of logs expects.
func TestJSONLogs(t *testing.T) {
	t.Parallel()
	p := start(t, "--target.url=http://127.0.0.1:1", "--probe.interval=100ms", "--log.format=json", "--log.level=debug")
	p.until("a failed probe", func() bool { return strings.Contains(p.log.String(), "probe failed") })
	p.signal(term)
	p.end()
	lines := strings.Split(strings.TrimSuffix(p.log.String(), "\n"), "\n")
	if len(lines) < 5 {
		t.Errorf("only %d lines", len(lines))
	}
	for _, line := range lines {
		var entry struct{ TS, Level, Msg, Caller string }
		decoder := json.NewDecoder(bytes.NewReader([]byte(line)))
		if err := decoder.Decode(&entry); err != nil || decoder.More() {
			t.Fatalf("%v in %q", err, line)
		}
		if _, err := time.Parse(time.RFC3339, entry.TS); err != nil || entry.Level == "" || entry.Msg == "" || entry.Caller == "" {
			t.Errorf("%q has no time, level, message or caller", line)
		}
	}
}
