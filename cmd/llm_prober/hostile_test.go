package main

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/llm-prober/llm_prober/internal/hostile"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// hostileTimeout is that of a probe; hostileSlack how much later it may have ended, on virtual time.
const (
	hostileTimeout = 5 * time.Second
	hostileSlack   = time.Second
	hostileFor     = 23 * time.Second
)

// hostileConfig probes a healthy server and, under the names given, hostile ones.
func hostileConfig(healthy string, targets ...string) string {
	yaml := fmt.Sprintf(`
global: {interval: 4s, timeout: %v, stall_timeout: 3s, warmup: 0, relay_interval: 2s}
workloads: [{name: w, prompt_tokens: 512, output_tokens: 16}]
slos: [{name: success, indicator: success, objective: 99}, {name: ttft, indicator: ttft, threshold: 1s, objective: 99}]
targets:
  - {name: healthy, url: %q}
`, hostileTimeout, healthy)
	return yaml + strings.Join(targets, "")
}

// Whatever a server sends, its probes and its scrapes end with a reason, its texts harm nobody, the work and the
// memory that it costs are in proportion to what it sent, and the server beside it is measured as without it.
func TestHostileServers(t *testing.T) {
	alone := beside(t, hostile.Server{Name: "nobody"}) // which is healthy
	if mean := alone[probes("time_to_first_token_seconds_sum", "healthy")] / alone[probes("time_to_first_token_seconds_count", "healthy")]; mean < 0.092 || mean > 0.095 {
		t.Fatalf("the mean TTFT of the healthy server is %v s, want the model's 0.093 s", mean)
	}
	alone.want(t, probes("requests_total", "healthy"), 5)
	alone.want(t, `llm_probe_slo_bad_events_total{slo="success",target="healthy",workload="w"}`, 0)
	for _, s := range hostile.Servers() {
		if s.TLS != nil {
			continue // both sides write at once, for which a pipe has no room
		}
		t.Run(s.Name, func(t *testing.T) {
			if diff := changes(alone, beside(t, s)); diff != nil {
				t.Errorf("the healthy server beside it: %q", diff)
			}
		})
	}
}

// The same on sockets, all at once and in a process of its own: nothing is left of them, and the end takes a moment.
// What the healthy server beside them is measured at is up to the machine here; that it answers is not.
func TestHostileServersOnSockets(t *testing.T) {
	if _, err := os.ReadDir("/proc/self/fd"); err != nil {
		t.Skip("open files are counted in /proc")
	}
	_, healthy := simulator(t, vllmsim.Config{})
	servers := hostile.Servers()
	var targets []string
	for i, s := range servers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(hostile.Serve(l, s).Close)
		targets = append(targets, s.Target(fmt.Sprintf("hostile-%d", i), l.Addr().String(), ""))
	}
	file := configFile(t, "targets: []\n")
	p := start(t, "--config.file="+file, "--web.enable-lifecycle", "--web.enable-pprof", "--log.level=debug")
	files, goroutines := p.open()
	reload := func(yaml string) {
		rewrite(t, file, yaml)
		if resp, body := p.do("POST", "/-/reload", nil); resp.StatusCode != http.StatusOK {
			t.Fatalf("reload: %s %s", resp.Status, body)
		}
	}
	reload(hostileConfig(healthy, targets...))
	p.until("a probe of each has ended", func() bool {
		all := p.scrape()
		for i := range servers {
			if all[probes("requests_total", fmt.Sprintf("hostile-%d", i))] == 0 {
				return false
			}
		}
		return all[probes("requests_total", "healthy")] > 2
	})
	all := checkPages(t, func(path, accept string) string {
		_, body := p.do("GET", path, map[string]string{"Accept": accept})
		return body
	})
	for i, s := range servers {
		if s.TLS == nil { // a busy machine makes a timeout of anything
			s.Probes, s.Scrapes = append(s.Probes[:len(s.Probes):len(s.Probes)], "timeout", "stalled"), nil
		}
		t.Run(s.Name, func(t *testing.T) { checkEndings(t, s, all, fmt.Sprintf("hostile-%d", i)) })
	}
	all.want(t, probes("consecutive_failures", "healthy"), 0)
	all.want(t, `llm_probe_slo_bad_events_total{slo="success",target="healthy",workload="w"}`, 0)

	reload("targets: []\n")
	p.until("open files and goroutines as before", func() bool {
		f, g := p.open()
		return f <= files+10 && g <= goroutines+10
	})
	reload(hostileConfig(healthy, targets...))
	held := fmt.Sprintf("hostile-%d", slices.IndexFunc(servers, func(s hostile.Server) bool { return s.Name == "request read, no answer" }))
	p.until("probes are in flight again", func() bool { return p.scrape()[probes("in_flight", held)] > 0 })
	if peak := p.peak(); peak > 400<<10 {
		t.Errorf("it took %d kB of memory", peak)
	}
	p.signal(term)
	if took := p.end(); took > 3*time.Second || p.cmd.ProcessState.ExitCode() != exitOK {
		t.Errorf("it ended with %v after %v", p.cmd.ProcessState, took)
	}
	checkText(t, "the log", p.log.String())
	for line := range strings.Lines(p.log.String()) {
		if !strings.HasPrefix(line, "level=") {
			t.Errorf("a line is none of the logger's: %.200q", line)
		}
	}
}

// peak is the most memory that the process has had, in kB.
func (p *process) peak() (kB int) {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(peak, &kB); err != nil {
		p.t.Fatal(err)
	}
	return kB
}

// beside probes a hostile server and a healthy one and returns what it measured of the healthy one.
func beside(t *testing.T, s hostile.Server) (healthy samples) {
	before := spent()
	var sent int64
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "good:8000", vllmsim.Config{})
		host := hostile.Serve(n.listen("bad:8000"), s)
		defer host.Close()
		g := startRig(t, n, hostileConfig("http://good:8000", s.Target("hostile", "bad:8000", "")))
		for begin := time.Now(); time.Since(begin) < hostileFor; {
			time.Sleep(time.Second)
			synctest.Wait()
			if age := g.scrape()[probes("oldest_in_flight_seconds", "hostile")]; age > (hostileTimeout + hostileSlack).Seconds() {
				t.Errorf("a probe is in flight for %v s, its timeout is %v", age, hostileTimeout)
				break
			}
		}
		fetch := func(path, accept string) string {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Accept", accept)
			(&flags{telemetryPath: "/metrics"}).handler(g.daemon, &atomic.Bool{}, g.logger).ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Errorf("GET %s: %d", path, w.Code)
			}
			return w.Body.String()
		}
		all := checkPages(t, fetch)
		checkText(t, "the log", g.log.String())
		checkEndings(t, s, all, "hostile")
		checkAccount(t, all, "hostile")
		healthy = forTarget(all, "healthy")

		begin := time.Now()
		g.stop()
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the end took %v", took)
		}
		if left := g.scrape()[probes("in_flight", "hostile")]; left != 0 {
			t.Errorf("%v probes are in flight after the end", left)
		}
		if first, largest := host.Requests(); largest > 4*first {
			t.Errorf("requests grew from %d to %d bytes", first, largest)
		}
		sent = host.Sent()
	})
	after := spent()
	cpu, allocated := after.cpu-before.cpu, after.allocated-before.allocated
	// Loose, and still far below what a quadratic path costs: a healthy pair takes a tenth of a second and 40 MB.
	if limit := 3*time.Second + time.Duration(sent)*300; cpu > limit {
		t.Errorf("%v of CPU for %d bytes, at most %v", cpu, sent, limit)
	}
	if limit := 512<<20 + 40*uint64(sent); allocated > limit {
		t.Errorf("%d MB allocated for %d bytes, at most %d MB", allocated>>20, sent, limit>>20)
	}
	t.Logf("%v of CPU, %d MB allocated for %d kB", cpu.Round(time.Millisecond), allocated>>20, sent>>10)
	return healthy
}

// spending is what the process has used so far.
type spending struct {
	cpu       time.Duration
	allocated uint64
}

func spent() spending {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // fails for no process of one's own
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return spending{time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), memory.TotalAlloc}
}

// checkEndings holds the probes and scrapes of a hostile server against its row.
func checkEndings(t *testing.T, s hostile.Server, all samples, target string) {
	t.Helper()
	ended := func(name string) map[string]float64 {
		counts := map[string]float64{}
		for _, series := range all.of(fmt.Sprintf("target=%q", target)) {
			if rest, found := strings.CutPrefix(series, name+`{reason="`); found && all[series] > 0 {
				reason, _, _ := strings.Cut(rest, `"`)
				counts[reason] = all[series]
			}
		}
		return counts
	}
	sum := func(counts map[string]float64) (sum float64) {
		for _, n := range counts {
			sum += n
		}
		return sum
	}
	total := all[probes("requests_total", target)]
	endings := ended(failures)
	failed := sum(endings)
	if total > failed {
		endings[hostile.OK] = total - failed
	}
	if s.Probes != nil {
		holdEndings(t, "probes", endings, s.Probes)
	}
	scrapes := ended(misscrapes)
	if all[fmt.Sprintf("llm_server_up{target=%q}", target)] == 1 {
		scrapes[hostile.OK] = 1
	}
	if s.Scrapes != nil {
		holdEndings(t, "scrapes", scrapes, s.Scrapes)
	}
}

// checkAccount: each probe is counted once. Of a daemon that goes on meanwhile a page is no picture of one moment.
func checkAccount(t *testing.T, all samples, target string) {
	t.Helper()
	total, flying, begun := all[probes("requests_total", target)], all[probes("in_flight", target)], all[probes("start_delay_seconds_count", target)]
	failed := 0.0
	for _, reason := range prober.Reasons() {
		failed += all[fmt.Sprintf(`%s{reason=%q,target=%q,workload="w"}`, failures, reason, target)]
	}
	if total+flying != begun || failed > total {
		t.Errorf("%v probes began, %v ended, %v of them failed, %v are in flight", begun, total, failed, flying)
	}
	slo := func(metric, name string) string {
		return fmt.Sprintf("llm_probe_slo_%s{slo=%q,target=%q,workload=\"w\"}", metric, name, target)
	}
	all.want(t, slo("events_total", "success"), total)
	all.want(t, slo("bad_events_total", "success"), failed)
	if judged := all[slo("events_total", "ttft")]; judged > begun || judged < all[slo("bad_events_total", "ttft")] {
		t.Errorf("%v probes gave the SLO of TTFT %v events", begun, judged)
	}
}

func holdEndings(t *testing.T, what string, got map[string]float64, right []string) {
	t.Helper()
	for ending := range got {
		if !slices.Contains(right, ending) {
			t.Errorf("%s end as %v, want %q alone", what, got, right)
			return
		}
	}
	if len(got) == 0 {
		t.Errorf("no ending of %s, want %q", what, right)
	}
}

// checkPages reads all pages and returns what /metrics has.
func checkPages(t *testing.T, fetch func(path, accept string) string) samples {
	t.Helper()
	for _, path := range []string{"/", "/config", "/api/v1/targets", "/api/v1/results?limit=1000"} {
		body := fetch(path, "*/*")
		checkText(t, path, body)
		checkText(t, path+" as it is read", shownBy(path, body))
	}
	open := fetch("/metrics", "application/openmetrics-text;version=1.0.0")
	checkText(t, "OpenMetrics", open)
	if !strings.HasSuffix(open, "\n# EOF\n") {
		t.Errorf("the page of OpenMetrics does not end as one: %.100q", open[max(0, len(open)-100):])
	}
	plain := fetch("/metrics", "text/plain;version=0.0.4")
	checkText(t, "/metrics", plain)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(plain))
	if err != nil {
		t.Fatal(err)
	}
	all := flatten(slices.Collect(maps.Values(families)))
	checkSamples(t, all)
	return all
}

// hostileText is what no page and no log may show: the key in any form, control characters, bidi overrides.
func checkText(t *testing.T, where, text string) {
	t.Helper()
	around := func(at int) string { return text[max(0, at-80):min(len(text), at+80)] }
	for name, form := range hostile.Forms() {
		if at := strings.Index(text, form); at >= 0 {
			t.Errorf("%s shows %s: %q", where, name, around(at))
		}
	}
	if at := strings.Index(text, "Zq7Hostile"); at >= 0 {
		t.Errorf("%s shows a part of the key: %q", where, around(at))
	}
	at := strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && r != '\t' && r != '\r' && unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r)
	})
	if at >= 0 {
		t.Errorf("%s shows a control character: %q", where, around(at))
	}
}

// shownBy is what a reader of a page sees: its texts without their escapes.
func shownBy(path, body string) string {
	if !strings.HasPrefix(path, "/api/") {
		return html.UnescapeString(body)
	}
	var texts strings.Builder
	for d := json.NewDecoder(strings.NewReader(body)); ; {
		token, err := d.Token()
		if err != nil {
			return texts.String()
		}
		fmt.Fprintln(&texts, token)
	}
}

var (
	closedReason = append(names(prober.Reasons()), append(suspicions(), "connect", "timeout", "http_status", "auth", "parse", "too_large", "several_servers", "internal", "tls")...)
	tame         = regexp.MustCompile(`^([\w.:/+ -]|<secret>){0,256}$`)
	pair         = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*")`)
)

func names[T ~string](list []T) (s []string) {
	for _, n := range list {
		s = append(s, string(n))
	}
	return s
}

func suspicions() []string { return (^prober.Suspect(0)).Names() }

// checkSamples: labels are words of closed lists, histograms and counters are finite and not negative.
func checkSamples(t *testing.T, all samples) {
	t.Helper()
	each := map[string]int{}
	for series, value := range all {
		name, labels, _ := strings.Cut(series, "{")
		if !strings.HasPrefix(name, "llm_") {
			continue
		}
		target, _, _ := strings.Cut(labels[max(0, strings.Index(labels, `target="`)):], ",")
		each[target]++
		counts := strings.HasSuffix(name, "_total") || strings.HasSuffix(name, "_count") || strings.HasSuffix(name, "_sum") || strings.HasPrefix(name, "llm_probe_")
		if math.IsNaN(value) || math.IsInf(value, 0) || counts && value < 0 {
			t.Errorf("%s = %v", series, value)
		}
		for _, p := range pair.FindAllStringSubmatch(labels, -1) {
			if p[1] == "reason" && !slices.Contains(closedReason, strings.Trim(p[2], `"`)) || p[1] != "model_name" && !tame.MatchString(strings.Trim(p[2], `"`)) {
				t.Errorf("%s has a label of no closed list", series)
			}
		}
	}
	for target, n := range each {
		if n > 2000 {
			t.Errorf("%s has %d series", target, n)
		}
	}
}
