package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// Cases e12, e17: after a thousand failing probes nothing is left open, and no series has come with a new
// message of error.
func TestNothingIsLeftOfFailures(t *testing.T) {
	t.Parallel()
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Skip("open files are counted in /proc")
	}
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else net/http does not see that the client has left
		<-r.Context().Done()
	}))
	t.Cleanup(hanging.Close)
	var n atomic.Int64
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" || r.URL.Path == "/health" || r.Method == "GET" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "failure %d at 10.0.0.%d:%d \xff\xfe %s", n.Add(1), n.Load()%256, n.Load(), strings.Repeat("x", 8000))
	}))
	t.Cleanup(failing.Close)
	sim, cutting := simulator(t, vllmsim.Config{})
	if err := sim.SetFault(vllmsim.Fault{Name: vllmsim.Reset, Value: "3"}); err != nil {
		t.Fatal(err)
	}

	file := configFile(t, "targets: []\n")
	p := start(t, "--config.file="+file, "--web.enable-lifecycle", "--web.enable-pprof")
	reload := func(yaml string) {
		rewrite(t, file, yaml)
		if resp, body := p.do("POST", "/-/reload", nil); resp.StatusCode != 200 {
			t.Fatalf("reload: %s %s", resp.Status, body)
		}
	}
	busy := func(interval string) string {
		workloads := ""
		for i := range 5 {
			workloads += fmt.Sprintf("  - {name: w%d, prompt_tokens: %d, output_tokens: 16}\n", i, 64+i)
		}
		return fmt.Sprintf(`
global: {interval: %s, timeout: 50ms, stall_timeout: 50ms, warmup: 0, relay_interval: 200ms}
slos: []
workloads:
%stargets:
  - {name: refusing, model: m, url: "http://%s"}
  - {name: hanging, model: m, url: "%s"}
  - {name: failing, model: m, url: "%s"}
  - {name: cutting, model: tiny, url: "%s", timeout: 2s, stall_timeout: 1s}
`, interval, workloads, freePort(t), hanging.URL, failing.URL, cutting)
	}
	filesBefore, goroutinesBefore := p.open()

	reload(busy("100ms"))
	count := func(s samples) (failures float64, each map[string]float64) {
		each = map[string]float64{}
		for _, target := range []string{"refusing", "hanging", "failing", "cutting"} {
			for i := range 5 {
				labels := fmt.Sprintf(`{target=%q,workload="w%d"}`, target, i)
				each[target] += s["llm_probe_consecutive_failures"+labels]
			}
			failures += each[target]
		}
		return failures, each
	}
	var early, late samples
	p.until("a failure of each kind and workload", func() bool {
		early = p.scrape()
		return len(early.of("llm_probe_up")) == 20
	})
	p.until("a thousand failures", func() bool {
		late = p.scrape()
		failures, _ := count(late)
		return failures > 1000
	})
	if _, each := count(late); each["refusing"] < 150 || each["hanging"] < 150 || each["failing"] < 150 || each["cutting"] < 150 {
		t.Errorf("the failures are not of all kinds: %v", each)
	}
	for _, series := range late.of("llm_probe_request_failures_total") {
		if !regexp.MustCompile(`reason="[a-z_]+"`).MatchString(series) {
			t.Errorf("%s has a reason that is no word", series)
		}
	}
	if e, l := len(early.of("llm_probe_")), len(late.of("llm_probe_")); e != l {
		t.Errorf("there were %d series of probes after the first failures and %d after 1,000", e, l)
	}

	reload("targets: []\n")
	p.until("open files and goroutines as before", func() bool {
		files, goroutines := p.open()
		return files <= filesBefore+10 && goroutines <= goroutinesBefore+10
	})
}

// open counts the daemon's open files and goroutines.
func (p *process) open() (files, goroutines int) {
	p.t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	total := regexp.MustCompile(`^goroutine profile: total (\d+)`).FindStringSubmatch(p.get("/debug/pprof/goroutine?debug=1"))
	goroutines, err = strconv.Atoi(total[1])
	if err != nil {
		p.t.Fatal(err)
	}
	return len(list), goroutines
}
