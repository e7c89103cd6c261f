package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// The tests of the binary start what users start, on the loopback interface and in real time.

// patience is how long something may take that takes a moment.
const patience = 30 * time.Second

// process is a running daemon.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    *lockedBuffer
	url    string
	client *http.Client
	ended  chan struct{} // closed once it has
}

// start runs the daemon on a free port until the end of the test and waits until it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return startBinary(t, path, args...)
}

// startBinary is start for a program that becomes the daemon.
func startBinary(t *testing.T, path string, args ...string) *process {
	t.Helper()
	p := launch(t, exec.Command(path, append(args, "--web.listen-address=127.0.0.1:0")...))
	listening := regexp.MustCompile(`address"?[=:]"?([0-9.:]+)`)
	p.until("it listens", func() bool {
		for line := range strings.Lines(p.log.String()) {
			if m := listening.FindStringSubmatch(line); m != nil && strings.Contains(line, "Listening on") {
				p.url = "http://" + m[1]
			}
		}
		return p.url != ""
	})
	return p
}

// launch runs a command until the end of the test.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, log: &lockedBuffer{}, ended: make(chan struct{})}
	p.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // most have ended
		<-p.ended
		if t.Failed() {
			t.Logf("log of %q:\n%s", cmd.Args, p.log)
		}
	})
	return p
}

// outcome runs a command line to its end.
func outcome(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "COLUMNS=120")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // ProcessState tells
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// until polls.
func (p *process) until(what string, holds func() bool) {
	p.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	for !holds() {
		select {
		case <-deadline.C:
			p.t.Fatalf("waited for %s for %v", what, patience)
		case <-p.ended:
			if !holds() {
				p.t.Fatalf("the daemon ended (%v) before %s", p.cmd.ProcessState, what)
			}
		case <-ticks.C:
		}
	}
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits for the end and returns how long it took.
func (p *process) end() time.Duration {
	p.t.Helper()
	began := time.Now()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatalf("the daemon has not ended within %v", patience)
	}
	return time.Since(began)
}

// do sends a request and returns the answer with its body.
func (p *process) do(method, path string, header map[string]string) (*http.Response, string) {
	p.t.Helper()
	req, err := http.NewRequest(method, p.url+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(body)
}

// get returns a page.
func (p *process) get(path string) string {
	p.t.Helper()
	resp, body := p.do("GET", path, nil)
	if resp.StatusCode != http.StatusOK {
		p.t.Fatalf("GET %s: %s: %s", path, resp.Status, body)
	}
	return body
}

// scrape reads /metrics.
func (p *process) scrape() samples {
	p.t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(p.get("/metrics")))
	if err != nil {
		p.t.Fatal(err)
	}
	return flatten(slices.Collect(maps.Values(families)))
}

// untilAbove waits for a series to exceed a value.
func (p *process) untilAbove(series string, value float64) samples {
	p.t.Helper()
	var s samples
	p.until(fmt.Sprintf("%s > %v", series, value), func() bool {
		s = p.scrape()
		return s[series] > value
	})
	return s
}

// simulator runs a simulated server on a free port. A token takes 5 ms.
func simulator(t *testing.T, cfg vllmsim.Config) (*vllmsim.Server, string) {
	t.Helper()
	cfg.Engine = vllmsim.Model{RunningCap: 64, TokenBudget: 1 << 16, KVTokens: 1 << 20, Base: 5 * time.Millisecond}
	sim := vllmsim.New(cfg)
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		sim.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return sim, server.URL
}

// configFile writes a configuration and returns its path. FAST stands for settings with which things happen soon.
func configFile(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yml")
	rewrite(t, path, yaml)
	return path
}

func rewrite(t *testing.T, path, yaml string) {
	t.Helper()
	yaml = strings.Replace(yaml, "FAST", `
global: {interval: 200ms, timeout: 10s, stall_timeout: 10s, warmup: 0, relay_interval: 200ms}
workloads: [{name: w, prompt_tokens: 64, output_tokens: 16}]
`, 1)
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
}

// freePort returns an address that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
