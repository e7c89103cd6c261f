package alerts

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/programs"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

var stormLength = flag.Duration("storm", 150*time.Second, "how long the storm is watched; group_interval and the next messages need 10m")

// stormTargets is how many targets fail at once, in eight groups.
const stormTargets = 100

// pager counts the messages to the pager, by what is in them.
type pager struct {
	mu       sync.Mutex
	since    time.Time
	messages []string
}

func (p *pager) ServeHTTP(_ http.ResponseWriter, request *http.Request) {
	var message struct{ Alerts []received }
	if err := json.NewDecoder(request.Body).Decode(&message); err != nil || request.URL.Path != "/page" {
		return
	}
	names := map[string]int{}
	for _, a := range message.Alerts {
		names[a.Labels["alertname"]+"/"+a.Labels["scope"]+" "+a.Status]++
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, fmt.Sprintf("after %v: %v", time.Since(p.since).Round(time.Second), names))
}

func (p *pager) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.messages)
}

// TestStorm lets all targets of a prober fail at once, at the intervals of production and with the example's
// Alertmanager as it is: the pager has the first message within 2 minutes and three at most.
func TestStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	for name, fault := range map[string]vllmsim.Fault{
		"refused": {Name: vllmsim.Crash, Value: "1h"},
		"hang":    {Name: vllmsim.Hang},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := vllmsim.New(vllmsim.Config{Models: []string{"m"}, Engine: vllmsim.DemoModel()})
			t.Cleanup(sim.Close)
			p := &pager{since: time.Now()}
			startStorm(t, sim, p)
			programs.Pause(t, 75*time.Second) // in peace
			if n := p.count(); n > 0 {
				t.Fatalf("pages before the fault: %v", p.messages)
			}
			p.mu.Lock()
			p.since = time.Now()
			p.mu.Unlock()
			if err := sim.SetFault(fault); err != nil {
				t.Fatal(err)
			}
			programs.Until(t, 2*time.Minute, "the first page", func() bool { return p.count() > 0 })
			programs.Pause(t, time.Until(p.since.Add(*stormLength)))
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, message := range p.messages {
				t.Log(message)
			}
			if len(p.messages) > 3 {
				t.Errorf("%d messages to the pager in %v, 3 at most", len(p.messages), *stormLength)
			}
		})
	}
}

// startStorm runs the daemon with all targets at one simulated server, Prometheus and Alertmanager, at production's intervals.
func startStorm(t *testing.T, sim *vllmsim.Server, receiver http.Handler) {
	t.Helper()
	webhook := httptest.NewServer(receiver)
	t.Cleanup(webhook.Close)
	var config strings.Builder
	config.WriteString("global: {interval: 15s, warmup: 0, timeout: 60s}\nworkloads:\n  - {name: chat, prompt_tokens: 64, output_tokens: 4}\ntargets:\n")
	for i := range stormTargets {
		server := httptest.NewServer(sim.Handler()) // each its own address, or they are one target
		t.Cleanup(server.Close)
		fmt.Fprintf(&config, "  - {name: t%d, url: %s, model: m, metrics_url: \"\", health_url: \"\", labels: {group: g%d}}\n", i, server.URL, i%8)
	}
	folder, prober, manager := t.TempDir(), programs.FreeAddress(t), programs.FreeAddress(t)
	programs.Write(t, filepath.Join(folder, "llm_prober.yml"), config.String())
	programs.Start(t, folder, programs.Prober(t, folder), "--config.file=llm_prober.yml", "--web.listen-address="+prober)
	programs.Write(t, filepath.Join(folder, "alertmanager.yml"), strings.ReplaceAll(read(t, "../../examples/alertmanager.yml"), "http://127.0.0.1:8080", webhook.URL))
	programs.Start(t, folder, programs.Tool(t, "alertmanager"), "--config.file=alertmanager.yml", "--storage.path=am", "--web.listen-address="+manager, "--cluster.listen-address=")
	programs.Write(t, filepath.Join(folder, "records.yml"), read(t, recordsFile))
	programs.Write(t, filepath.Join(folder, "alerts.yml"), read(t, alertsFile))
	stack := strings.ReplaceAll(livePrometheus, "scrape_interval: 1s, evaluation_interval: 1s", "scrape_interval: 15s, evaluation_interval: 15s")
	programs.Prometheus(t, folder, fmt.Sprintf(stack, manager, prober))
	programs.Until(t, time.Minute, "Alertmanager", programs.Answers("http://"+manager+"/-/ready"))
	programs.Until(t, time.Minute, "the prober", func() bool {
		return strings.Contains(get("http://"+prober+"/metrics"), "llm_probe_last_success_timestamp_seconds{")
	})
}
