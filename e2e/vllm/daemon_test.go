//go:build vllm

package vllm

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// daemon is a running llm_prober.
type daemon struct {
	url string
	cmd *exec.Cmd
	log *lines
}

// lines collects what a process writes.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with lists the lines that have a text in them.
func (l *lines) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// startDaemon builds llm_prober and starts it with the given flags. It ends with the test, and must do so well.
func startDaemon(t *testing.T, flags ...string) *daemon {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "llm_prober")
	build := exec.Command("go", "build", "-o", binary, "./cmd/llm_prober")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building llm_prober: %v\n%s", err, out)
	}
	d := &daemon{cmd: exec.Command(binary, append(flags, "--web.listen-address=127.0.0.1:0")...), log: &lines{}}
	d.cmd.Stderr = d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.stop(t) })
	address := regexp.MustCompile(`address=(127\.0\.0\.1:\d+)`)
	eventually(t, 10*time.Second, "llm_prober listens", func() bool {
		for _, line := range d.log.with("Listening on") {
			d.url = "http://" + address.FindStringSubmatch(line)[1]
		}
		return d.url != ""
	})
	return d
}

// configured starts llm_prober with a configuration file.
func configured(t *testing.T, yaml string) *daemon {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return startDaemon(t, "--config.file="+file)
}

// stop ends the daemon as a supervisor does.
func (d *daemon) stop(t *testing.T) {
	if d.cmd.ProcessState != nil {
		return
	}
	began := time.Now()
	_ = d.cmd.Process.Signal(syscall.SIGCONT)
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(10*time.Second, func() { _ = d.cmd.Process.Kill() })
	err := d.cmd.Wait()
	kill.Stop()
	if took := time.Since(began); err != nil || took > 5*time.Second {
		t.Errorf("llm_prober ended %s after SIGTERM with %v, want at most 5s and exit code 0", took, err)
	}
	if t.Failed() {
		t.Logf("log of llm_prober:\n%s", strings.Join(d.log.with("ts="), "\n"))
	}
}

func (d *daemon) metrics(t *testing.T) page {
	t.Helper()
	return getPage(t, d.url+"/metrics")
}

// result is what the API tells of a probe, in seconds. What is not known is nil.
type result struct {
	Target       string    `json:"target"`
	RequestID    string    `json:"request_id"`
	Success      bool      `json:"success"`
	Reason       string    `json:"reason"`
	Error        string    `json:"error"`
	Status       int       `json:"http_status"`
	Warmup       bool      `json:"warmup"`
	Suspect      []string  `json:"suspect"`
	Started      time.Time `json:"started"`
	Ended        time.Time `json:"ended"`
	FinishReason string    `json:"finish_reason"`
	TTFT         *float64  `json:"ttft_seconds"`
	Queue        *float64  `json:"server_queue_seconds"`
	Prefill      *float64  `json:"server_prefill_seconds"`
	Outside      *float64  `json:"outside_seconds"`
	Duration     *float64  `json:"duration_seconds"`
	ReadDelay    *float64  `json:"read_delay_seconds"`
	PromptTokens *int      `json:"prompt_tokens"`
	CachedTokens *int      `json:"cached_prompt_tokens"`
	OutputTokens int       `json:"output_tokens"`
	TokenSource  string    `json:"token_source"`
	Events       int       `json:"token_events"`
	Gaps         []float64 `json:"gaps_seconds"`
}

// results lists the last hundred probes, the newest first.
func (d *daemon) results(t *testing.T) []result {
	t.Helper()
	var answer struct{ Results []result }
	getJSON(t, d.url+"/api/v1/results", &answer)
	return answer.Results
}

// gaps are those of one probe of late.
func (d *daemon) gaps(t *testing.T, r result) []float64 {
	t.Helper()
	var probe result
	getJSON(t, d.url+"/probe?target="+url.QueryEscape(r.Target)+"&id="+url.QueryEscape(r.RequestID), &probe)
	return probe.Gaps
}

// flight is what the API tells of a probe in flight.
type flight struct {
	Started time.Time `json:"started"`
	Age     float64   `json:"age_seconds"`
	Silence float64   `json:"silence_seconds"`
	Events  int       `json:"token_events"`
}

func (d *daemon) inFlight(t *testing.T) []flight {
	t.Helper()
	var answer struct {
		Targets []struct {
			InFlight []flight `json:"in_flight"`
		}
	}
	getJSON(t, d.url+"/api/v1/targets", &answer)
	var all []flight
	for _, target := range answer.Targets {
		all = append(all, target.InFlight...)
	}
	return all
}
