//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/internal/recording"
)

const (
	scaleInterval = 15 * time.Second
	scaleTokens   = 128
	scaleScrapes  = 5 // of each format
)

// scale runs the daemon with many targets.
func scale(o options) (string, error) {
	dir, binary, page, err := prepareDaemon(o)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	var t figures.Table
	t.Header("targets", "histograms", "probes/s", "failed", "CPU, s per minute", "RSS / peak, MB", "start delay p99, ms", "`reader_late`", "relay failures",
		"scrape as text", "scrape as protobuf")
	for _, n := range o.targets {
		for _, kind := range []histogram.Kind{histogram.Both, histogram.Native} {
			cells, err := scaleRun(dir, binary, page, n, kind, o.minute)
			if err != nil {
				return "", fmt.Errorf("%d targets: %w", n, err)
			}
			t.Row(cells...)
		}
	}
	return t.String(), nil
}

// prepareDaemon builds the daemon in a folder of its own, which is the caller's, beside the page of [metricsPage].
func prepareDaemon(o options) (dir, binary, page string, err error) {
	if dir, err = os.MkdirTemp("", "llm_prober-bench"); err != nil {
		return "", "", "", err
	}
	binary = filepath.Join(dir, "llm_prober")
	build := exec.Command("go", "build", "-o", binary, "./cmd/llm_prober")
	build.Dir = o.root
	if out, failed := build.CombinedOutput(); failed != nil {
		err = fmt.Errorf("building the daemon: %w\n%s", failed, out)
	} else {
		page, err = metricsPage(dir)
	}
	if err != nil {
		os.RemoveAll(dir)
	}
	return dir, binary, page, err
}

// metricsPage writes the page of a real vLLM that the mock serves at /metrics.
func metricsPage(dir string) (string, error) {
	r, err := recording.Load("metrics-after")
	if err != nil {
		return "", err
	}
	body, err := r.Body()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "metrics")
	return file, os.WriteFile(file, []byte(body), 0o644)
}

// scaleRun watches one daemon.
func scaleRun(dir, binary, page string, targets int, kind histogram.Kind, duration time.Duration) ([]string, error) {
	server, err := child.Start("mock", child.ServerCPU, mock.Config{Prompt: promptTokens, First: paceFirst, Every: paceEvery, Page: page})
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	w, err := watch(dir, binary, scaleConfig(server.Said, targets, kind), duration, func(int, string) error { return nil })
	if err != nil {
		return nil, err
	}
	last := w.text[0]
	probes := last.sum("llm_probe_requests_total") - w.first.sum("llm_probe_requests_total")
	return []string{
		fmt.Sprint(targets), string(kind),
		fmt.Sprintf("%.1f", probes/duration.Seconds()),
		fmt.Sprintf("%.0f", last.sum("llm_probe_request_failures_total")+last.sum("llm_probe_missed_total")),
		fmt.Sprintf("%.1f", (w.after.cpu-w.before.cpu).Seconds()*60/duration.Seconds()),
		fmt.Sprintf("%.0f / %.0f", w.after.rss, w.end.peak),
		startDelay(w),
		fmt.Sprintf("%.1f %%", 100*last.sum(`llm_probe_suspect_total{reason="reader_late"`)/last.sum("llm_probe_requests_total")),
		fmt.Sprintf("%.0f", last.sum("llm_server_scrape_failures_total")),
		describe(w.text), describe(w.protobuf),
	}, nil
}

// startDelay is the 99th percentile in milliseconds, which only classic buckets tell as text.
func startDelay(w watched) string {
	p99 := w.text[0].quantile(w.first, "llm_probe_start_delay_seconds", 0.99)
	if math.IsInf(p99, 0) || math.IsNaN(p99) || p99 == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", 1000*p99)
}

// watched is what was seen of a daemon.
type watched struct {
	before, after  process // of the time that was watched
	end            process // after the scrapes
	first          scraped // as text, before
	text, protobuf []scraped
	stopped        time.Duration // from SIGTERM to the end
}

// watch runs a daemon for a while, from when each target has been probed once. It calls at with 0 at the beginning of
// the time that is watched, and with 1 at its end, and the address of its metrics.
func watch(dir, binary string, yaml []byte, duration time.Duration, at func(moment int, metrics string) error) (w watched, err error) {
	config := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(config, yaml, 0o644); err != nil {
		return w, err
	}
	address, err := freeAddress()
	if err != nil {
		return w, err
	}
	d := exec.Command(binary, "--config.file="+config, "--web.listen-address="+address, "--log.level=error", "--web.enable-pprof")
	d.Stderr = os.Stderr
	if err := child.StartOn(d, child.ClientCPU); err != nil {
		return w, err
	}
	defer func() {
		began := time.Now()
		_ = d.Process.Signal(syscall.SIGTERM)
		_ = d.Wait()
		w.stopped = time.Since(began)
	}()
	url := "http://" + address + "/metrics"
	// The first probes ask the server how it counts tokens.
	time.Sleep(scaleInterval + 5*time.Second)
	if w.before, err = readProcess(d.Process.Pid); err != nil {
		return w, err
	}
	if w.first, err = scrape(url, acceptText); err != nil {
		return w, err
	}
	if err = at(0, url); err != nil {
		return w, err
	}
	ended := time.After(duration)
	if err = storeProfile(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%.0f", address, duration.Seconds()), profileOf("daemon")); err != nil {
		return w, err
	}
	<-ended
	if w.after, err = readProcess(d.Process.Pid); err != nil {
		return w, err
	}
	if err = at(1, url); err != nil {
		return w, err
	}
	if err = storeProfile("http://"+address+"/debug/pprof/heap", profileOf("daemon-heap")); err != nil {
		return w, err
	}
	for range scaleScrapes {
		for _, s := range []struct {
			accept string
			to     *[]scraped
		}{{acceptText, &w.text}, {acceptProtobuf, &w.protobuf}} {
			one, err := scrape(url, s.accept)
			if err != nil {
				return w, err
			}
			*s.to = append(*s.to, one)
			time.Sleep(time.Second)
		}
	}
	w.end, err = readProcess(d.Process.Pid)
	return w, err
}

// scaleConfig is a configuration with many targets, all of them one server under different paths.
func scaleConfig(url string, targets int, kind histogram.Kind) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "global: {interval: %s, warmup: 0, histograms: %s}\nworkloads:\n  - {name: chat-%d-%d, prompt_tokens: %d, output_tokens: %d}\ntargets:\n",
		scaleInterval, kind, promptTokens, scaleTokens, promptTokens, scaleTokens)
	for i := range targets {
		fmt.Fprintf(&b, "  - {name: target-%04d, url: %s/%04d, model: %s, engine: vllm, labels: {site: ams, gpu: a10}}\n", i, url, i, modelName)
	}
	return []byte(b.String())
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// process is what the kernel says about a process.
type process struct {
	cpu       time.Duration
	rss, peak float64 // MB
}

func readProcess(pid int) (p process, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name may hold blanks
	fields := strings.Fields(after)
	for _, i := range []int{11, 12} { // utime, stime
		ticks, err := strconv.Atoi(fields[i])
		if err != nil {
			return p, err
		}
		p.cpu += time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(status)) {
		var kb float64
		switch {
		case strings.HasPrefix(line, "VmRSS:"):
			_, err = fmt.Sscanf(line, "VmRSS: %f kB", &kb)
			p.rss = kb / 1000
		case strings.HasPrefix(line, "VmHWM:"):
			_, err = fmt.Sscanf(line, "VmHWM: %f kB", &kb)
			p.peak = kb / 1000
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

const (
	acceptText     = "text/plain;version=0.0.4"
	acceptProtobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// scraped is one scrape.
type scraped struct {
	took time.Duration
	size int
	body []byte
}

func scrape(url, accept string) (s scraped, err error) {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	req.Header.Set("Accept", accept)
	client := http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	start := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	s.body, err = io.ReadAll(resp.Body)
	s.took, s.size = time.Since(start), len(s.body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return s, err
}

func describe(scrapes []scraped) string {
	var took, size []float64
	for _, s := range scrapes {
		took, size = append(took, s.took.Seconds()), append(size, float64(s.size)/1e6)
	}
	return fmt.Sprintf("%.2f s, %.2f MB", figures.Median(took), figures.Median(size))
}

// each calls visit for every sample of a text page whose line begins with a prefix and goes on as a name ends.
func (s scraped) each(prefix string, visit func(line string, value float64)) {
	lines := bufio.NewScanner(strings.NewReader(string(s.body)))
	for lines.Scan() {
		line := lines.Text()
		rest, ok := strings.CutPrefix(line, prefix)
		if !ok || rest != "" && !strings.Contains("{ ,", rest[:1]) {
			continue
		}
		if value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
			visit(line, value)
		}
	}
}

// sum adds up the samples of a name; behind a brace, those that have a label.
func (s scraped) sum(name string) (sum float64) {
	name, label, _ := strings.Cut(name, "{")
	s.each(name, func(line string, value float64) {
		if strings.Contains(line, label) {
			sum += value
		}
	})
	return sum
}

// quantile is that of all histograms of a name together since an earlier scrape, interpolated as histogram_quantile
// does; behind a brace, of those that have a label.
func (s scraped) quantile(before scraped, name string, q float64) float64 {
	name, label, _ := strings.Cut(name, "{")
	counts := map[float64]float64{}
	for sign, from := range map[float64]scraped{1: s, -1: before} {
		from.each(name+"_bucket", func(line string, value float64) {
			if !strings.Contains(line, label) {
				return
			}
			_, le, _ := strings.Cut(line, `le="`)
			le, _, _ = strings.Cut(le, `"`)
			if bound, err := strconv.ParseFloat(le, 64); err == nil {
				counts[bound] += sign * value
			}
		})
	}
	bounds := make([]float64, 0, len(counts))
	for bound := range counts {
		bounds = append(bounds, bound)
	}
	slices.Sort(bounds)
	if len(bounds) == 0 {
		return math.NaN()
	}
	rank := q * counts[bounds[len(bounds)-1]]
	lower, below := 0.0, 0.0
	for _, bound := range bounds {
		if counts[bound] >= rank {
			if math.IsInf(bound, 1) {
				return lower
			}
			return lower + (bound-lower)*(rank-below)/(counts[bound]-below)
		}
		lower, below = bound, counts[bound]
	}
	return math.NaN()
}
