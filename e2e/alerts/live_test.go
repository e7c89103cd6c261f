package alerts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/programs"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// The intervals of the run are shorter than in production: probes, scrapes and rules every second. Of the rules only
// the waits are changed, in a copy: tickets wait a fifteenth, and every alert ends sooner.
const (
	liveProber = `
global: {interval: 1s, warmup: 1, timeout: 60s}
workloads:
  - {name: chat, prompt_tokens: 512, output_tokens: 64}
slos:
  - {name: ttft, indicator: ttft, threshold: 2s, objective: 99}
targets:
`
	livePrometheus = `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [records.yml, alerts.yml]
alerting:
  alertmanagers:
    - static_configs: [{targets: ['%s']}]
scrape_configs:
  - job_name: llm_prober
    scrape_native_histograms: true
    static_configs: [{targets: ['%s']}]
`
)

// liveCase is what happens to a server, and what has to come of it.
type liveCase struct {
	fault *vllmsim.Fault
	load  *vllmsim.Load // of more users
	// page and ticket tell which alerts have to arrive there, and how soon.
	page, ticket map[string]time.Duration
}

func liveCases() map[string]liveCase {
	soon := func(alert string, d time.Duration) map[string]time.Duration {
		return map[string]time.Duration{alert: d}
	}
	return map[string]liveCase{
		"steady": {},
		"hang":   {fault: &vllmsim.Fault{Name: vllmsim.Hang}, page: soon("LLMServerHang", 55*time.Second)},
		"crash":  {fault: &vllmsim.Fault{Name: vllmsim.Crash, Value: "1s"}, page: soon("LLMServerOutage", 105*time.Second)},
		// The server counts two tokens too few: fewer than asked, and fewer than were streamed.
		"tokens": {fault: &vllmsim.Fault{Name: vllmsim.WrongOutput}, ticket: map[string]time.Duration{
			"LLMProbeSuspect/short_output": 105 * time.Second, "LLMProbeSuspect/usage_mismatch": 105 * time.Second,
		}},
		"cached": {fault: &vllmsim.Fault{Name: vllmsim.CachedPrompt}, ticket: soon("LLMProbeCachedPrompt", 105*time.Second)},
		"queue": {
			load:   &vllmsim.Load{Rate: 40, PromptTokens: 512, OutputTokens: 128},
			ticket: soon("LLMServerOverload", 105*time.Second),
		},
		"slower": {fault: &vllmsim.Fault{Name: vllmsim.SlowDown, Value: "1.5"}}, // is told from yesterday, which there is not
	}
}

// ofTheMachine are alerts that rightly fire where the test has too little CPU.
func ofTheMachine(key string) bool {
	return strings.HasSuffix(key, " LLMProbeStartDelay") || strings.HasSuffix(key, " LLMProbeSuspect/reader_late")
}

// received is an alert as Alertmanager's webhook tells it.
type received struct {
	Status      string
	Labels      map[string]string
	Annotations map[string]string
}

// inbox is the receiver of both webhooks.
type inbox struct {
	mu     sync.Mutex
	since  time.Time
	firing map[string]time.Duration // by receiver, target, alert and reason: when it first arrived
	ended  map[string]time.Duration
	broken []string // annotations that a template failed to fill
}

func (in *inbox) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	var message struct{ Alerts []received }
	if err := json.NewDecoder(request.Body).Decode(&message); err != nil {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, a := range message.Alerts {
		key := strings.TrimPrefix(request.URL.Path, "/") + " " + a.Labels["target"] + " " + a.Labels["alertname"]
		if reason := a.Labels["reason"]; reason != "" {
			key += "/" + reason
		}
		at := time.Since(in.since)
		if _, known := in.firing[key]; !known {
			in.firing[key] = at
		}
		if a.Status == "resolved" {
			in.ended[key] = at
		} else {
			delete(in.ended, key)
		}
		for _, text := range a.Annotations {
			if strings.Contains(text, "<error") || strings.Contains(text, "<no value>") || strings.Contains(text, "  ") {
				in.broken = append(in.broken, text)
			}
		}
	}
}

func (in *inbox) has(key string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, ok := in.firing[key]
	return ok
}

// TestLive breaks simulated servers in front of the daemon, Prometheus, and Alertmanager with the example's
// configuration, and holds what arrives at its webhooks: the right alerts, soon, no others, and their end.
func TestLive(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	cases := liveCases()
	sims := startServers(t, slices.Sorted(maps.Keys(cases)))
	in := &inbox{since: time.Now(), firing: map[string]time.Duration{}, ended: map[string]time.Duration{}}
	startStack(t, sims, in)
	programs.Pause(t, 45*time.Second) // in peace
	in.begin(t)
	expected := map[string]time.Duration{}
	load, relief := context.WithCancel(t.Context())
	defer relief()
	for name, c := range cases {
		if c.fault != nil {
			if err := sims[name].SetFault(*c.fault); err != nil {
				t.Fatal(err)
			}
		}
		if c.load != nil {
			go sims[name].RunLoad(load, *c.load)
		}
		for alert, within := range c.page {
			expected["page "+name+" "+alert] = within
		}
		for alert, within := range c.ticket {
			expected["ticket "+name+" "+alert] = within
		}
	}
	// Whoever does not come in this time is missed by check.
	for end := time.Now().Add(slices.Max(slices.Collect(maps.Values(expected)))); time.Now().Before(end) && !in.hasAll(expected); {
		programs.Pause(t, 100*time.Millisecond)
	}
	relief()
	for _, sim := range sims {
		sim.ClearFault()
	}
	cleared := time.Since(in.since)
	programs.Until(t, time.Minute, "end of the pages", func() bool { return in.over("LLMServerHang", "LLMServerOutage") })
	in.check(t, expected, cleared)
}

// startServers starts simulated servers with some load.
func startServers(t *testing.T, names []string) map[string]*vllmsim.Server {
	sims := map[string]*vllmsim.Server{}
	for _, name := range names {
		sim := vllmsim.New(vllmsim.Config{Models: []string{name}, Engine: vllmsim.DemoModel(), PerRequestMetrics: true, PromptTokensDetails: true})
		t.Cleanup(sim.Close)
		ctx, stop := context.WithCancel(t.Context())
		t.Cleanup(stop)
		go sim.RunLoad(ctx, vllmsim.Load{Rate: 2, Swing: 1.5, Period: 20 * time.Second, PromptTokens: 512, OutputTokens: 128})
		sims[name] = sim
	}
	return sims
}

// begin forgets the past, in which nothing may have arrived.
func (in *inbox) begin(t *testing.T) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for key := range in.firing {
		if !ofTheMachine(key) {
			t.Errorf("before any fault: %s", key)
		}
	}
	in.since = time.Now()
}

func (in *inbox) hasAll(keys map[string]time.Duration) bool {
	for key := range keys {
		if !in.has(key) {
			return false
		}
	}
	return true
}

// over tells whether these alerts have ended wherever they fired.
func (in *inbox) over(alerts ...string) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for key := range in.firing {
		_, ended := in.ended[key]
		if slices.Contains(alerts, key[strings.LastIndex(key, " ")+1:]) && !ended {
			return false
		}
	}
	return true
}

func (in *inbox) check(t *testing.T, expected map[string]time.Duration, cleared time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(in.firing)) {
		t.Logf("%-40s after %5.1f s", key, in.firing[key].Seconds())
		if end, ended := in.ended[key]; ended {
			t.Logf("%-40s ended %.1f s after the fault", key, (end - cleared).Seconds())
		}
		within, ok := expected[key]
		delete(expected, key)
		switch {
		case !ok && !ofTheMachine(key):
			t.Errorf("%s was not expected", key)
		case ok && in.firing[key] > within:
			t.Errorf("%s came after %v, later than %v", key, in.firing[key], within)
		}
	}
	for key, within := range expected {
		t.Errorf("%s did not come within %v", key, within)
	}
	for _, text := range in.broken {
		t.Errorf("an annotation reads %q", text)
	}
}

// startStack runs the daemon, Prometheus and Alertmanager with webhooks to the receiver.
func startStack(t *testing.T, sims map[string]*vllmsim.Server, receiver http.Handler) {
	t.Helper()
	config := liveProber
	for _, name := range slices.Sorted(maps.Keys(sims)) {
		server := httptest.NewServer(sims[name].Handler())
		t.Cleanup(server.Close)
		config += fmt.Sprintf("  - {name: %s, url: %s, labels: {site: lab}}\n", name, server.URL)
	}
	webhook := httptest.NewServer(receiver)
	t.Cleanup(webhook.Close)

	folder, prober, manager := t.TempDir(), programs.FreeAddress(t), programs.FreeAddress(t)
	programs.Write(t, filepath.Join(folder, "llm_prober.yml"), config)
	programs.Start(t, folder, programs.Prober(t, folder), "--config.file=llm_prober.yml", "--web.listen-address="+prober)

	routing := strings.ReplaceAll(read(t, "../../examples/alertmanager.yml"), "http://127.0.0.1:8080", webhook.URL)
	programs.Write(t, filepath.Join(folder, "alertmanager.yml"), faster(routing, `(group_wait|group_interval): .*`, "$1: 1s"))
	programs.Start(t, folder, programs.Tool(t, "alertmanager"), "--config.file=alertmanager.yml", "--storage.path=am", "--web.listen-address="+manager, "--cluster.listen-address=")

	programs.Write(t, filepath.Join(folder, "records.yml"), faster(read(t, recordsFile), `    interval: .*`, "    interval: 5s"))
	alerts := faster(read(t, alertsFile), `keep_firing_for: .*`, "keep_firing_for: 5s")
	alerts = faster(alerts, `for: 15m`, "for: 1m")
	programs.Write(t, filepath.Join(folder, "alerts.yml"), faster(alerts, `for: (3m|5m)`, "for: 20s"))
	programs.Prometheus(t, folder, fmt.Sprintf(livePrometheus, manager, prober))
	programs.Until(t, time.Minute, "Alertmanager", programs.Answers("http://"+manager+"/-/ready"))
}

func faster(text, pattern, replacement string) string {
	return regexp.MustCompile(pattern).ReplaceAllString(text, replacement)
}
