//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
)

const (
	churnEvery = 10 * time.Second
	churnShare = 10 // one in so many is replaced each time
)

// churn runs the daemon with a thousand targets of which a service discovery replaces a tenth every 10 s.
func churn(o options) (string, error) {
	dir, binary, page, err := prepareDaemon(o)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var t figures.Table
	t.Header("targets", "came and went", "probes ended", "failed", "missed", "start delay p99, ms", "goroutines", "open files", "series", "RSS, MB", "peak, MB", "CPU, s per minute")
	n := o.targets[len(o.targets)-1]
	cells, err := churnRun(dir, binary, page, n, o.churn)
	if err != nil {
		return "", err
	}
	t.Row(cells...)
	return t.String(), nil
}

func churnRun(dir, binary, page string, targets int, duration time.Duration) ([]string, error) {
	server, err := child.Start("mock", child.ServerCPU, mock.Config{Prompt: promptTokens, First: paceFirst, Every: paceEvery, Page: page})
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	at, err := url.Parse(server.Said)
	if err != nil {
		return nil, err
	}
	r := &registry{address: at.Host, size: targets}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	web := &http.Server{Handler: r}
	go func() { _ = web.Serve(l) }()
	defer web.Close()

	var lost tally
	stop, stopped := make(chan struct{}), make(chan error, 1)
	w, err := watch(dir, binary, churnConfig(l.Addr().String(), targets), duration, func(moment int, metrics string) error {
		if moment == 0 {
			go func() { stopped <- r.churn(stop, metrics, &lost) }()
			return nil
		}
		close(stop)
		return <-stopped
	})
	if err != nil {
		return nil, err
	}
	last := w.text[0]
	both := func(name string, unit float64) string {
		return fmt.Sprintf("%.0f → %.0f", w.first.sum(name)/unit, last.sum(name)/unit)
	}
	return []string{
		fmt.Sprintf("%.0f", last.sum(`llm_prober_discovered_targets`)), fmt.Sprint(r.gone),
		fmt.Sprintf("%.0f", lost.probes+last.sum("llm_probe_requests_total")), fmt.Sprintf("%.0f", lost.failures+last.sum("llm_probe_request_failures_total")),
		fmt.Sprintf("%.0f", lost.missed+last.sum("llm_probe_missed_total")),
		fmt.Sprintf("%.2f", 1000*last.quantile(scraped{}, "llm_probe_start_delay_seconds", 0.99)),
		both("go_goroutines", 1), both("process_open_fds", 1), fmt.Sprintf("%d → %d", w.first.series(), last.series()),
		both("process_resident_memory_bytes", 1e6), fmt.Sprintf("%.0f", w.end.peak),
		fmt.Sprintf("%.1f", (w.after.cpu-w.before.cpu).Seconds()*60/duration.Seconds()),
	}, nil
}

// churnConfig is a configuration of one group.
func churnConfig(registry string, targets int) []byte {
	return fmt.Appendf(nil, "global: {interval: %s}\nworkloads:\n  - {name: chat-%d-%d, prompt_tokens: %d, output_tokens: %d}\ntarget_groups:\n  - {name: fleet, model: %s, warmup: 0, target_limit: %d, http_sd_configs: [{url: \"http://%s\", refresh_interval: 5s}]}\n",
		scaleInterval, promptTokens, scaleTokens, promptTokens, scaleTokens, modelName, targets, registry)
}

// registry is an HTTP service discovery that tells of targets with numbers, all of them one server under different
// paths.
type registry struct {
	address string
	size    int

	mu   sync.Mutex
	gone int // the numbers below it
}

// ServeHTTP implements [http.Handler].
func (r *registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	groups := make([]group, r.size)
	for i := range groups {
		n := fmt.Sprintf("%06d", r.gone+i)
		groups[i] = group{[]string{r.address}, map[string]string{"target": "target-" + n, "__api_path__": "/" + n, "site": "ams"}}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(groups)
}

// tally is what targets that are gone had counted when they were last seen.
type tally struct{ probes, failures, missed float64 }

// churn replaces the oldest targets until stop is closed. Before that it notes what they have counted.
func (r *registry) churn(stop chan struct{}, metrics string, lost *tally) error {
	tick := time.NewTicker(churnEvery)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		s, err := scrape(metrics, acceptText)
		if err != nil {
			return err
		}
		r.mu.Lock()
		from := r.gone
		r.gone += r.size / churnShare
		to := r.gone
		r.mu.Unlock()
		for name, sum := range map[string]*float64{"llm_probe_requests_total": &lost.probes, "llm_probe_request_failures_total": &lost.failures, "llm_probe_missed_total": &lost.missed} {
			s.each(name, func(line string, value float64) {
				var n int
				if _, rest, ok := strings.Cut(line, `target="target-`); ok {
					if _, err := fmt.Sscanf(rest, "%d", &n); err == nil && n >= from && n < to {
						*sum += value
					}
				}
			})
		}
	}
}

// series counts the samples of a scrape as text.
func (s scraped) series() (n int) {
	for line := range strings.Lines(string(s.body)) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}
