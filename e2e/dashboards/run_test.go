package dashboards

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// stage is a prober of two simulated servers, and two Prometheuses that scrape it: one keeps native histograms only,
// the other classic ones only.
type stage struct {
	page            string // of the prober's metrics
	native, classic Prometheus

	// full tells of each request what it did, and has many users. plain has TLS and reasons first, and tells nothing
	// of single requests.
	full, plain *replaceable
}

// replaceable is a simulated server behind an address where another one can take its place.
type replaceable struct {
	now atomic.Pointer[vllmsim.Server]
}

func (r *replaceable) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.now.Load().Handler().ServeHTTP(w, request)
}

func newReplaceable(t *testing.T, config vllmsim.Config) *replaceable {
	r := &replaceable{}
	r.replace(t, config)
	return r
}

func (r *replaceable) replace(t *testing.T, config vllmsim.Config) {
	sim := vllmsim.New(config)
	r.now.Store(sim)
	t.Cleanup(sim.Close)
}

func plainServer(version string) vllmsim.Config {
	return vllmsim.Config{
		Models: []string{"plain"}, Version: version, Engine: vllmsim.DemoModel(),
		ReasoningParser: true, ReasoningTokens: 8, DisablePrefixCache: true,
	}
}

const proberConfig = `
global: {interval: 500ms, warmup: 1, timeout: 60s}
workloads:
  - {name: chat, prompt_tokens: 512, output_tokens: 64}
targets:
  - {name: full, url: %s}
  - {name: plain, url: %s, http_client_config: {tls_config: {insecure_skip_verify: true}}}
slos:
  - {name: ttft-fast, indicator: ttft, threshold: 1s, objective: 99}
  - {name: itl-smooth, indicator: itl_p95, threshold: 100ms, objective: 99}
  - {name: availability, indicator: success, objective: 99.5}
`

const prometheusConfig = `
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [records.yml, alert.yml]
scrape_configs:
  - job_name: llm_prober
    scrape_native_histograms: %t
    static_configs: [{targets: ['%s']}]
`

// alert fires at once, to be seen as an annotation.
const alert = `
groups:
  - name: test
    rules:
      - {alert: LLMTest, expr: llm_probe_slo_threshold_seconds, labels: {severity: critical}}
`

func newStage(t *testing.T) *stage {
	s := &stage{
		full: newReplaceable(t, vllmsim.Config{
			Models: []string{"full"}, Engine: vllmsim.DemoModel(), PerRequestMetrics: true, PromptTokensDetails: true,
		}),
		plain: newReplaceable(t, plainServer("0.31.0")),
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go s.full.now.Load().RunLoad(ctx, vllmsim.Load{Rate: 6, Swing: 5, Period: time.Minute, PromptTokens: 512, OutputTokens: 128})
	full, plain := httptest.NewServer(s.full), httptest.NewTLSServer(s.plain)
	t.Cleanup(full.Close)
	t.Cleanup(plain.Close)

	address := startProber(t, fmt.Sprintf(proberConfig, full.URL, plain.URL))
	s.page = "http://" + address + "/metrics"
	s.native, s.classic = startPrometheus(t, address, true, alert), startPrometheus(t, address, false, alert)
	return s
}

// observed is a Prometheus that scrapes a prober with this configuration.
func observed(t *testing.T, config string) Prometheus {
	t.Helper()
	return startPrometheus(t, startProber(t, config), true, "")
}

// startProber runs the daemon and returns its address.
func startProber(t *testing.T, config string) string {
	t.Helper()
	folder, address := t.TempDir(), freeAddress(t)
	write(t, filepath.Join(folder, "llm_prober.yml"), config)
	start(t, folder, build(t, folder), "--config.file=llm_prober.yml", "--web.listen-address="+address)
	until(t, "http://"+address+"/metrics")
	return address
}

// build compiles the daemon as it is in the checkout.
func build(t *testing.T, folder string) string {
	t.Helper()
	binary := filepath.Join(folder, "llm_prober")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/llm_prober")
	command.Dir = "../.."
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building the daemon: %v\n%s", err, output)
	}
	return binary
}

func startPrometheus(t *testing.T, prober string, native bool, alert string) Prometheus {
	t.Helper()
	folder, address := t.TempDir(), freeAddress(t)
	write(t, filepath.Join(folder, "prometheus.yml"), fmt.Sprintf(prometheusConfig, native, prober))
	write(t, filepath.Join(folder, "alert.yml"), alert)
	records, err := os.ReadFile("../../alerts/llm_prober_records.yml")
	if err != nil {
		t.Fatal(err)
	}
	// Its slow groups would not be evaluated in the time that the test has.
	write(t, filepath.Join(folder, "records.yml"), regexp.MustCompile(`(?m)^    interval: .*$`).ReplaceAllString(string(records), ""))
	start(t, folder, tool(t, "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
		"--web.listen-address="+address, "--enable-feature=exemplar-storage")
	until(t, "http://"+address+"/-/ready")
	return Prometheus("http://" + address)
}

// tool is the path of what e2e/tools.sh has built.
func tool(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("LLM_PROBER_TOOLS")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(home, ".cache", "llm_prober", "tools")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run e2e/tools.sh first", err)
	}
	return path
}

// start runs a command in a folder until the test ends.
func start(t *testing.T, folder, name string, arguments ...string) {
	t.Helper()
	var output bytes.Buffer
	command := exec.Command(name, arguments...)
	command.Dir, command.Stdout, command.Stderr = folder, &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), tail(output.Bytes()))
		}
	})
}

func tail(b []byte) []byte { return b[max(0, len(b)-2000):] }

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// until waits for a page to answer 200.
func until(t *testing.T, url string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
			err = fmt.Errorf("%s", response.Status)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", url, err)
		}
		pause(t, 100*time.Millisecond)
	}
}

// pause lets real time pass: Prometheus and the daemon live in it.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
