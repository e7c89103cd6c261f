package dashboards

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/programs"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// phase is how long servers run as they should, and then slowly. Longer ones make better pictures.
var phase = flag.Duration("phase", 75*time.Second, "how long each half of the slow-downs takes")

// recordings is where to keep what the Target dashboard showed, for dashboards/preview.
var recordings = flag.String("recordings", "", "`folder` for recordings of the four slow-downs")

// slowServer is a server that becomes slow in one of four ways, behind a way that may become long.
type slowServer struct {
	name   string // of the reason
	target string // in the configuration, where it gives nothing away
	server *replaceable
	way    distance
	url    string
	slow   func(context.Context, *testing.T, *slowServer)
}

func (s *slowServer) config(change func(*vllmsim.Model)) vllmsim.Config {
	model := vllmsim.DemoModel()
	change(&model)
	// The time at which its process started stays: a slow server has not been restarted.
	return vllmsim.Config{Models: []string{"simulated"}, Engine: model, PerRequestMetrics: true, PromptTokensDetails: true, StartTime: time.Unix(1_700_000_000, 0)}
}

// become makes the server one with another model of its engine.
func (s *slowServer) become(ctx context.Context, t *testing.T, change func(*vllmsim.Model)) {
	s.server.replace(t, s.config(change))
	go s.server.now.Load().RunLoad(ctx, users(2))
}

// users are the requests of others, at a steady rate.
func users(rate float64) vllmsim.Load {
	return vllmsim.Load{Rate: rate, Period: time.Minute, PromptTokens: 512, OutputTokens: 128}
}

func slowServers() []*slowServer {
	return []*slowServer{
		{name: "queue", slow: func(ctx context.Context, _ *testing.T, s *slowServer) {
			go s.server.now.Load().RunLoad(ctx, users(9))
		}},
		{name: "prefill", slow: func(ctx context.Context, t *testing.T, s *slowServer) {
			s.become(ctx, t, func(m *vllmsim.Model) { m.PerPrefill *= 8 })
		}},
		{name: "decode", slow: func(ctx context.Context, t *testing.T, s *slowServer) {
			s.become(ctx, t, func(m *vllmsim.Model) { m.Base += 15 * time.Millisecond })
		}},
		{name: "network", slow: func(_ context.Context, _ *testing.T, s *slowServer) {
			s.way.delay.Store(int64(150 * time.Millisecond))
		}},
	}
}

// TestSlowDowns makes four servers slow, each for another reason, and reads the reason from the Target dashboard.
func TestSlowDowns(t *testing.T) {
	t.Parallel()
	servers := slowServers()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var targets strings.Builder
	for i, s := range servers {
		s.target = fmt.Sprintf("server-%d", i+1)
		s.server = &replaceable{}
		s.become(ctx, t, func(*vllmsim.Model) {})
		behind := httptest.NewTLSServer(s.server)
		t.Cleanup(behind.Close)
		s.url = "https://" + s.way.before(t, behind.Listener.Addr().String())
		fmt.Fprintf(&targets, "  - {name: %s, url: %s, http_client_config: {tls_config: {insecure_skip_verify: true}}}\n", s.target, s.url)
	}
	p := observed(t, "global: {interval: 1s, warmup: 1, timeout: 60s}\n"+
		"workloads:\n  - {name: chat, prompt_tokens: 512, output_tokens: 64}\n"+
		"targets:\n"+targets.String()+
		"slos:\n  - {name: ttft-fast, indicator: ttft, threshold: 300ms, objective: 99}\n")
	from := time.Now()
	programs.Pause(t, *phase)
	middle := time.Now()
	for _, s := range servers {
		s.slow(ctx, t, s)
	}
	programs.Pause(t, *phase)
	to := time.Now()
	keep(t, p, servers, from, to)
	for _, s := range servers {
		before, after := read(t, p, s.target, middle), read(t, p, s.target, to)
		t.Logf("%s (s): %.4f became %.4f", s.name, before, after)
		for i, what := range parts() {
			grown := after[i]-before[i] > what.matters
			if grown != (what.name == s.name) && !also(s.name, what.name) {
				t.Errorf("%s became slow: %s went from %.4f s to %.4f s", s.name, what.title, before[i], after[i])
			}
		}
	}
}

// part is a number of the dashboard that tells of one reason.
type part struct {
	name, title, query string
	matters            float64 // how much more of it is a slow-down, in seconds
}

func parts() []part {
	return []part{
		{"queue", "the queue", "target/Where TTFT goes/A", 0.1},
		{"prefill", "prefill", "target/Where TTFT goes/B", 0.05},
		{"decode", "the median gap", "target/ITL, percentiles/A", 0.008},
		{"network", "what is outside of the engine", "target/Where TTFT goes/C", 0.1},
	}
}

// also tells what a slow-down moves beside its own number: a prefill shares its step with decodes.
func also(slow, moves string) bool { return slow == "queue" && moves == "decode" }

// read are the parts as the dashboard shows them at a time.
func read(t *testing.T, p Prometheus, target string, at time.Time) (values []float64) {
	t.Helper()
	all, err := Read("../../dashboards")
	if err != nil {
		t.Fatal(err)
	}
	v := testValues()
	v["target"] = target
	for _, part := range parts() {
		series, err := p.Instant(t.Context(), v.Fill(find(t, all, part.query).Expr), at)
		if err != nil {
			t.Fatal(err)
		}
		value, ok := pick(series, target)
		if !ok {
			t.Fatalf("%s has no %s", target, part.title)
		}
		values = append(values, value)
	}
	return values
}

// keep writes a recording of each server's Target dashboard, if it was asked for.
func keep(t *testing.T, p Prometheus, servers []*slowServer, from, to time.Time) {
	t.Helper()
	if *recordings == "" {
		return
	}
	all, err := Read("../../dashboards")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.File != "target" {
			continue
		}
		for _, s := range servers {
			v := testValues()
			v["target"] = s.target
			r, err := Record(t.Context(), p, d, v, from, to, 2*time.Second)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(*recordings, s.name+".rec"), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
