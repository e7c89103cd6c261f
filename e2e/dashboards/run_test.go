package dashboards

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/programs"
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
target_groups:
  - {name: pods, static_configs: [{targets: ["127.0.0.1:1"]}], relabel_configs: [{source_labels: [__address__], action: drop}]}
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
	folder, address := t.TempDir(), programs.FreeAddress(t)
	programs.Write(t, filepath.Join(folder, "llm_prober.yml"), config)
	programs.Start(t, folder, programs.Prober(t, folder), "--config.file=llm_prober.yml", "--web.listen-address="+address)
	programs.Until(t, time.Minute, "answer", programs.Answers("http://"+address+"/metrics"))
	return address
}

func startPrometheus(t *testing.T, prober string, native bool, alert string) Prometheus {
	t.Helper()
	folder := t.TempDir()
	programs.Write(t, filepath.Join(folder, "alert.yml"), alert)
	records, err := os.ReadFile("../../alerts/llm_prober_records.yml")
	if err != nil {
		t.Fatal(err)
	}
	// Its slow groups would not be evaluated in the time that the test has.
	programs.Write(t, filepath.Join(folder, "records.yml"), regexp.MustCompile(`(?m)^    interval: .*$`).ReplaceAllString(string(records), ""))
	return Prometheus(programs.Prometheus(t, folder, fmt.Sprintf(prometheusConfig, native, prober), "--enable-feature=exemplar-storage"))
}
