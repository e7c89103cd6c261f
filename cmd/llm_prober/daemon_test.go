package main

import (
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// Everything here runs on virtual time: the simulator with its default model answers 512 prompt tokens with 128
// output tokens in 2.7 s.

// twoTargets are probed every 5 s.
const twoTargets = `
global: {interval: 5s, timeout: 20s, stall_timeout: 10s, warmup: 0}
workloads: [{name: w, prompt_tokens: 512, output_tokens: 128}]
targets:
  - {name: a, url: "http://a:8000"}
  - {name: b, url: "http://b:8000"}
`

// inFlight waits until a probe of a target is in mid stream.
func (g *rig) inFlight(target string) {
	g.t.Helper()
	series := fmt.Sprintf(`llm_probe_oldest_in_flight_seconds{target=%q,workload="w"}`, target)
	for range 200 {
		if age := g.scrape()[series]; age > 1 && age < 2 {
			return
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
	g.t.Fatalf("no probe of %s is in flight", target)
}

// probes is a counter or gauge of workload w of a target.
func probes(name, target string) string {
	return fmt.Sprintf(`llm_probe_%s{target=%q,workload="w"}`, name, target)
}

// forTarget keeps the samples of one target whose values only its probes change.
func forTarget(s samples, target string) samples {
	kept := samples{}
	for _, name := range s.of(fmt.Sprintf("target=%q", target)) {
		if !strings.HasPrefix(name, "llm_server_") && !strings.Contains(name, "in_flight") && !strings.Contains(name, "silence") {
			kept[name] = s[name]
		}
	}
	return kept
}

// changes lists the samples that differ.
func changes(before, after samples) (list []string) {
	both := maps.Clone(before)
	maps.Copy(both, after)
	for _, name := range slices.Sorted(maps.Keys(both)) {
		was, before := before[name]
		is, after := after[name]
		if was != is || before != after {
			list = append(list, fmt.Sprintf("%s: %v (%t) became %v (%t)", name, was, before, is, after))
		}
	}
	return list
}

// Case e08, p18: what is unchanged goes on untouched, what is removed leaves nothing behind, what is new
// starts at 0.
func TestReloadReplacesTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		a := serve(t, n, "a:8000", vllmsim.Config{})
		serve(t, n, "b:8000", vllmsim.Config{})
		serve(t, n, "c:8000", vllmsim.Config{})
		yaml := strings.Replace(twoTargets, "output_tokens: 128", "output_tokens: 200", 1) // 4.1 s, so that they overlap
		g := startRig(t, n, yaml)
		time.Sleep(21 * time.Second)
		g.inFlight("b")
		before := g.scrape()
		if ended := before[probes("requests_total", "b")]; ended < 3 {
			t.Fatalf("%v probes of b ended in over 20 s", ended)
		}
		aInFlight := before[probes("in_flight", "a")]

		g.mustReload(strings.Replace(yaml, `{name: a, url: "http://a:8000"}`, `{name: c, url: "http://c:8000"}`, 1))
		after := g.scrape()
		if series := after.of(`target="a"`); len(series) != 0 {
			t.Errorf("series of a removed target are left: %q", series)
		}
		if diff := changes(forTarget(before, "b"), forTarget(after, "b")); diff != nil {
			t.Errorf("a reload changed an unchanged target: %q", diff)
		}
		after.want(t, probes("in_flight", "b"), 1)
		after.want(t, probes("requests_total", "c"), 0)
		after.want(t, `llm_probe_request_failures_total{reason="connect",target="c",workload="w"}`, 0)
		after.want(t, `llm_prober_config_last_reload_successful`, 1)

		time.Sleep(100 * time.Millisecond)
		left := a.Engine().Stats()
		if left.Running != 0 || left.GenerationTokens%200 == 0 || aInFlight == 0 {
			t.Errorf("the removed target had %v probes in flight; its server has %d requests and made %d tokens, want none and no whole answers", aInFlight, left.Running, left.GenerationTokens)
		}
		time.Sleep(3400 * time.Millisecond)
		later := g.scrape()
		later.want(t, probes("requests_total", "b"), before[probes("requests_total", "b")]+1)
		later.want(t, probes("time_to_first_token_seconds_count", "b"), before[probes("time_to_first_token_seconds_count", "b")]+1)

		time.Sleep(30 * time.Second)
		if series := g.scrape().of(`target="a"`); len(series) != 0 {
			t.Errorf("series of a removed target came back: %q", series)
		}
		if made := a.Engine().Stats().GenerationTokens; made != left.GenerationTokens {
			t.Errorf("the removed target is still probed: %d tokens became %d", left.GenerationTokens, made)
		}
		g.scrape().want(t, probes("up", "c"), 1)
	})
}

// Case e07: an empty list of targets is a choice, and leaves nothing behind.
func TestReloadRemovesTheLastTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "a:8000", vllmsim.Config{})
		serve(t, n, "b:8000", vllmsim.Config{})
		g := startRig(t, n, twoTargets)
		time.Sleep(11 * time.Second)
		g.inFlight("b")
		g.mustReload("targets: []\n")
		if left := g.scrape().of("target="); len(left) != 0 {
			t.Errorf("series of removed targets are left: %q", left)
		}
		time.Sleep(30 * time.Second)
		if left := g.scrape().of("target="); len(left) != 0 {
			t.Errorf("series of removed targets came back: %q", left)
		}
	})
}

// A changed target is another one: it starts at 0. The probes that the one before had sent are answered to
// their end, and only the page tells of them.
func TestReloadLetsProbesOfAChangedTargetEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		a := serve(t, n, "a:8000", vllmsim.Config{})
		serve(t, n, "b:8000", vllmsim.Config{})
		g := startRig(t, n, twoTargets)
		time.Sleep(11 * time.Second)
		g.inFlight("a")
		before := g.scrape()[probes("requests_total", "a")]

		g.mustReload(strings.Replace(twoTargets, `{name: a, url: "http://a:8000"}`, `{name: a, url: "http://a:8000", interval: 60s, metrics_url: ""}`, 1))
		now := g.scrape()
		now.want(t, probes("requests_total", "a"), 0)
		now.want(t, probes("in_flight", "a"), 0)
		now.want(t, probes("interval_seconds", "a"), 60)
		now.want(t, `llm_server_up{target="a"}`, absent)
		now.want(t, `llm_server_up{target="b"}`, 1)

		time.Sleep(3 * time.Second)
		if stats := a.Engine().Stats(); stats.Running != 0 || stats.GenerationTokens != 128*(int(before)+1) {
			t.Errorf("the server made %d tokens and has %d requests; want %d tokens for whole answers only", stats.GenerationTokens, stats.Running, 128*(int(before)+1))
		}
		if got := strings.Count(g.page(t, "/api/v1/results?target=a"), `"success": true`); got != int(before)+1 {
			t.Errorf("the page tells of %d successes, want %v", got, before+1)
		}
	})
}

// page returns a page of the daemon.
func (g *rig) page(t *testing.T, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	f := &flags{telemetryPath: "/metrics"}
	f.handler(g.daemon, &atomic.Bool{}, g.logger).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("GET %s: %d %v %s", path, w.Code, err, body)
	}
	return string(body)
}

// prometheus/prometheus#1378: a target whose files are missing fails for that until they are there; nothing else is
// touched, neither at the start nor at a reload, and none is needed for it to recover.
func TestMissingFilesOfOneTarget(t *testing.T) {
	for _, c := range []struct {
		name, keys    string
		reason, relay string
		content       string // with which the target is probed again
	}{
		{"authority", `tls_config: {ca_file: FILE}`, "tls", "tls", testCA(t)},
		{"credentials", `authorization: {credentials_file: FILE}`, "auth", "auth", "key"},
		{"password", `basic_auth: {username: u, password_file: FILE}`, "auth", "auth", "secret"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "file")
			synctest.Test(t, func(t *testing.T) {
				n := &network{}
				serve(t, n, "a:8000", vllmsim.Config{})
				serve(t, n, "b:8000", vllmsim.Config{})
				broken := strings.Replace(twoTargets, `"http://b:8000"`, `"http://b:8000", engine: vllm, relay_interval: 1s, http_client_config: {`+strings.Replace(c.keys, "FILE", file, 1)+`}`, 1)
				for _, first := range []string{broken, twoTargets} { // at the start, and at a reload
					_ = os.Remove(file)
					g := startRig(t, n, first)
					g.mustReload(broken)
					time.Sleep(11 * time.Second)
					s := g.scrape()
					if got := s[fmt.Sprintf(`llm_probe_request_failures_total{reason=%q,target="b",workload="w"}`, c.reason)]; got < 2 {
						t.Errorf("%g probes failed as %s, want all", got, c.reason)
					}
					if got := s[fmt.Sprintf(`llm_server_scrape_failures_total{reason=%q,target="b"}`, c.relay)]; got < 10 {
						t.Errorf("%g scrapes failed as %s, want all", got, c.relay)
					}
					s.want(t, "llm_probe_consecutive_failures{target=\"a\",workload=\"w\"}", 0)
					if !strings.Contains(g.log.String(), file) {
						t.Errorf("the log does not name %s", file)
					}
					if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
						t.Fatal(err)
					}
					time.Sleep(11 * time.Second)
					s = g.scrape()
					s.want(t, "llm_probe_consecutive_failures{target=\"b\",workload=\"w\"}", 0)
					s.want(t, `llm_server_up{target="b"}`, 1)
					g.daemon.stop()
				}
			})
		})
	}
}

// testCA is a certificate.
func testCA(t *testing.T) string {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// Cases e04, e07, e10: a file with a mistake changes nothing but the metric that says so.
func TestReloadRefusesABadFile(t *testing.T) {
	mistakes := []struct{ name, yaml, want string }{
		{"trailing NULs", twoTargets + strings.Repeat("\x00", 40), "40 NUL bytes"},
		{"two targets of one name", strings.Replace(twoTargets, "name: b", "name: a", 1), `"a" is the name of targets[0]`},
		{"two targets of one url", strings.NewReplacer("name: a, ", "", "name: b, ", "", "//b:", "//a:").Replace(twoTargets), "targets[0]"},
		{"no targets", twoTargets[:strings.Index(twoTargets, "targets:")], "targets"},
		{"unknown key", twoTargets + "slo: []\n", `did you mean "slos"?`},
		{"empty", "", "empty"},
		{"a certificate that is none", strings.Replace(twoTargets, `"http://b:8000"`, `"https://b:8000", http_client_config: {tls_config: {ca: none}}`, 1), "CA cert"},
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &network{}
				serve(t, n, "a:8000", vllmsim.Config{})
				serve(t, n, "b:8000", vllmsim.Config{})
				g := startRig(t, n, twoTargets)
				time.Sleep(11 * time.Second)
				g.inFlight("b")
				before := g.scrape()

				g.write(m.yaml)
				err := g.reload()
				if err == nil || !strings.Contains(err.Error(), m.want) {
					t.Errorf("reload: %v, want an error with %q", err, m.want)
				}
				after := g.scrape()
				after.want(t, "llm_prober_config_last_reload_successful", 0)
				after.want(t, "llm_prober_config_last_reload_success_timestamp_seconds", before["llm_prober_config_last_reload_success_timestamp_seconds"])
				for _, target := range []string{"a", "b"} {
					if diff := changes(forTarget(before, target), forTarget(after, target)); diff != nil {
						t.Errorf("a refused file changed target %s: %q", target, diff)
					}
				}
				after.want(t, probes("in_flight", "b"), 1)

				time.Sleep(10 * time.Second)
				later := g.scrape()
				later.want(t, probes("requests_total", "b"), before[probes("requests_total", "b")]+2)
				g.mustReload(twoTargets)
				g.scrape().want(t, "llm_prober_config_last_reload_successful", 1)
				if got := strings.Count(g.log.String(), "reloading the configuration failed"); got != 1 {
					t.Errorf("the log tells %d times of the refused file, want once", got)
				}
			})
		})
	}
}

// A change of the SLOs changes the SLOs: targets, counters and probes in flight stay, and an SLO that means the
// same keeps its count.
func TestReloadOfSLOsAlone(t *testing.T) {
	const slos = `
slos:
  - {name: fast, indicator: ttft, threshold: 1s, objective: 99}
  - {name: gone, indicator: success, objective: 99}
`
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "a:8000", vllmsim.Config{})
		serve(t, n, "b:8000", vllmsim.Config{})
		g := startRig(t, n, twoTargets+slos)
		time.Sleep(11 * time.Second)
		g.inFlight("a")
		before := g.scrape()
		g.mustReload(twoTargets + `
slos:
  - {name: fast, indicator: ttft, threshold: 1s, objective: 90}
  - {name: new, indicator: duration, threshold: 2s, objective: 99}
`)
		slo := func(metric, name string) string {
			return fmt.Sprintf(`llm_probe_slo_%s{slo=%q,target="a",workload="w"}`, metric, name)
		}
		after := g.scrape()
		if n := before[slo("events_total", "fast")]; n < 2 {
			t.Errorf("%v events of the SLO before the reload, want some", n)
		}
		after.want(t, slo("events_total", "fast"), before[slo("events_total", "fast")])
		after.want(t, slo("objective_ratio", "fast"), 0.9)
		after.want(t, slo("events_total", "gone"), absent)
		after.want(t, slo("events_total", "new"), 0)
		withoutSLOs := func(s samples) samples {
			kept := forTarget(s, "a")
			maps.DeleteFunc(kept, func(name string, _ float64) bool { return strings.HasPrefix(name, "llm_probe_slo_") })
			return kept
		}
		if diff := changes(withoutSLOs(before), withoutSLOs(after)); diff != nil {
			t.Errorf("a change of the SLOs changed more: %q", diff)
		}
		after.want(t, probes("in_flight", "a"), 1)

		time.Sleep(3 * time.Second) // a probe keeps the SLOs that it began with
		later := g.scrape()
		later.want(t, slo("events_total", "fast"), before[slo("events_total", "fast")]+1)
		later.want(t, slo("events_total", "new"), 0)
		time.Sleep(5 * time.Second)
		g.scrape().want(t, slo("bad_events_total", "new"), 1)
	})
}

// A hundred reloads while everything is busy: no probe of a target that stays is lost, none goes on for ever.
func TestReloadUnderLoad(t *testing.T) {
	config := func(other string) string {
		return fmt.Sprintf(`
global: {interval: 1s, timeout: 5s, stall_timeout: 5s, warmup: 0}
workloads: [{name: w, prompt_tokens: 512, output_tokens: 128}]
targets:
  - {name: a, url: "http://a:8000"}
  - {name: %s, url: "http://b:8000"}
`, other)
	}
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		a := serve(t, n, "a:8000", vllmsim.Config{})
		serve(t, n, "b:8000", vllmsim.Config{})
		g := startRig(t, n, config("b"))
		time.Sleep(5 * time.Second)

		var busy sync.WaitGroup
		busy.Go(func() {
			for i := range 100 {
				g.write(config([]string{"c", "b, interval: 2s", "d", "b"}[i%4]))
				if err := g.reload(); err != nil {
					t.Error(err)
				}
				time.Sleep(37 * time.Millisecond)
			}
		})
		for range 2 { // Prometheus, and a person
			busy.Go(func() {
				for range 50 {
					g.scrape()
					g.page(t, "/")
					time.Sleep(70 * time.Millisecond)
				}
			})
		}
		busy.Wait()
		time.Sleep(time.Second / 2)
		s := g.scrape()
		begun := s[probes("start_delay_seconds_count", "a")]
		if s[probes("requests_total", "a")]+s[probes("in_flight", "a")] != begun || begun < 8 {
			t.Errorf("%v probes began, %v ended and %v are in flight", begun, s[probes("requests_total", "a")], s[probes("in_flight", "a")])
		}
		for _, reason := range prober.Reasons() {
			s.want(t, fmt.Sprintf(`llm_probe_request_failures_total{reason=%q,target="a",workload="w"}`, reason), 0)
		}
		s.want(t, probes("missed_total", "a"), 0)
		// The one server has seen whole answers alone, and the page knows of nothing that never ended.
		g.mustReload(strings.ReplaceAll(config("b"), "interval: 1s", "interval: 1h"))
		time.Sleep(6 * time.Second)
		if stats := a.Engine().Stats(); stats.Running != 0 || stats.GenerationTokens != 128*int(begun) {
			t.Errorf("the server made %d tokens for %v probes of 128 and has %d requests", stats.GenerationTokens, begun, stats.Running)
		}
		if page := g.page(t, "/api/v1/targets"); strings.Count(page, `"in_flight": []`) != 2 {
			t.Errorf("probes are in flight that nobody waits for:\n%s", page)
		}
	})
}

// The end does not wait for a server: neither for one that hangs, nor for the probes that a target had in
// flight when a reload replaced it.
func TestStopWaitsForNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		a := serve(t, n, "a:8000", vllmsim.Config{})
		b := serve(t, n, "b:8000", vllmsim.Config{})
		for _, h := range []*host{a, b} {
			if err := h.SetFault(vllmsim.Fault{Name: vllmsim.Hang}); err != nil {
				t.Fatal(err)
			}
		}
		g := startRig(t, n, twoTargets)
		time.Sleep(8 * time.Second)
		g.mustReload(strings.Replace(twoTargets, "{name: a,", "{name: a, interval: 6s,", 1))
		time.Sleep(7 * time.Second)
		before := time.Now()
		g.stop()
		if took := time.Since(before); took > 0 {
			t.Errorf("the end took %v of waiting", took)
		}
		s := g.scrape()
		for _, target := range []string{"a", "b"} {
			s.want(t, probes("requests_total", target), 0)
			s.want(t, probes("in_flight", target), 0)
			s.want(t, probes("consecutive_failures", target), 0)
		}
	})
}

// Cases f02, f03, p17: before the first probe has ended everything that counts is there at 0, and nothing claims
// to be a result.
func TestBeforeTheFirstProbeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		g := startRig(t, n, twoTargets) // both refuse connections
		s := g.scrape()
		for _, target := range []string{"a", "b"} {
			for _, reason := range prober.Reasons() {
				s.want(t, fmt.Sprintf(`llm_probe_request_failures_total{reason=%q,target=%q,workload="w"}`, reason, target), 0)
			}
			for _, slo := range []string{"ttft", "success"} {
				s.want(t, fmt.Sprintf(`llm_probe_slo_events_total{slo=%q,target=%q,workload="w"}`, slo, target), 0)
				s.want(t, fmt.Sprintf(`llm_probe_slo_bad_events_total{slo=%q,target=%q,workload="w"}`, slo, target), 0)
			}
			for _, counter := range []string{"requests_total", "missed_total", "warmup_requests_total", "time_to_first_token_seconds_count", "consecutive_failures", "in_flight", "silence_seconds"} {
				s.want(t, probes(counter, target), 0)
			}
			s.want(t, `llm_server_scrape_failures_total{reason="connect",target="`+target+`"}`, 0)
			for _, result := range []string{"up", "last_success_timestamp_seconds", "tls_certificate_expiry_timestamp_seconds", "tls_certificate_not_before_timestamp_seconds"} {
				s.want(t, probes(result, target), absent)
			}
			for _, relayed := range []string{"up", "healthy", "last_scrape_timestamp_seconds", "last_change_timestamp_seconds", "start_time_seconds"} {
				s.want(t, fmt.Sprintf(`llm_server_%s{target=%q}`, relayed, target), absent)
			}
		}
		time.Sleep(5 * time.Second)
		s = g.scrape()
		s.want(t, `llm_probe_request_failures_total{reason="connect",target="a",workload="w"}`, 1)
		s.want(t, probes("requests_total", "a"), 1)
		s.want(t, probes("up", "a"), 0)
		s.want(t, probes("last_success_timestamp_seconds", "a"), absent)
		s.want(t, probes("time_to_first_token_seconds_count", "a"), 0)
		s.want(t, `llm_server_up{target="a"}`, 0)
		s.want(t, `llm_server_healthy{target="a"}`, 0)

		g.mustReload(twoTargets + "  - {name: late, url: \"http://c:8000\"}\n")
		s = g.scrape()
		s.want(t, `llm_probe_request_failures_total{reason="timeout",target="late",workload="w"}`, 0)
		s.want(t, probes("up", "late"), absent)
	})
}

// Case e13: what is kept of probes is bounded.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "a:8000", vllmsim.Config{Engine: vllmsim.Model{RunningCap: 4, TokenBudget: 8192, KVTokens: 1 << 16, Base: time.Millisecond}})
		g := startRig(t, n, `
global: {interval: 2s, timeout: 5s, stall_timeout: 5s, warmup: 0}
workloads: [{name: w, prompt_tokens: 32, output_tokens: 8}]
targets: [{name: a, url: "http://a:8000", metrics_url: ""}]
`)
		heap := func() (bytes uint64, series int) {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc, len(g.scrape())
		}
		time.Sleep(70 * time.Minute) // the page shows an hour
		before, seriesBefore := heap()
		time.Sleep(210 * time.Minute)
		after, seriesAfter := heap()
		if ended := g.scrape()[probes("requests_total", "a")]; ended < 8390 {
			t.Errorf("only %v probes ended", ended)
		}
		if after > before*6/5 || seriesAfter != seriesBefore {
			t.Errorf("after 2,100 probes %d kB and %d series, after 8,400 %d kB and %d", before>>10, seriesBefore, after>>10, seriesAfter)
		}
		t.Logf("%d kB after 2,100 probes, %d kB after 8,400", before>>10, after>>10)
	})
}

// Case e01, p13: a host that cannot be resolved fails alone, at every interval, and recovers by itself.
func TestOneBadTargetHurtsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "b:8000", vllmsim.Config{})
		g := startRig(t, n, strings.Replace(twoTargets, "http://a:8000", "http://nowhere.invalid:8000", 1))
		time.Sleep(30 * time.Second)
		s := g.scrape()
		s.want(t, `llm_probe_request_failures_total{reason="dns",target="a",workload="w"}`, 6)
		s.want(t, probes("consecutive_failures", "a"), 6)
		s.want(t, probes("up", "b"), 1)
		s.want(t, probes("consecutive_failures", "b"), 0)
		if mean := s[probes("time_to_first_token_seconds_sum", "b")] / s[probes("time_to_first_token_seconds_count", "b")]; mean < 0.092 || mean > 0.095 {
			t.Errorf("mean TTFT of the good target is %v s, want the model's 0.093 s", mean)
		}
		if got := strings.Count(g.log.String(), `msg="probe failed"`); got != 1 {
			t.Errorf("%d lines tell of the failing probes, want one:\n%s", got, g.log)
		}
	})
}

// Case e25: a server that loads for a while: refused, then 503, then slow once.
func TestServerThatIsStillLoading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		g := startRig(t, n, `
global: {interval: 5s, timeout: 20s, warmup: 0}
workloads: [{name: w, prompt_tokens: 512, output_tokens: 128}]
targets: [{name: a, url: "http://a:8000"}]
`)
		time.Sleep(20 * time.Second)
		g.scrape().want(t, `llm_probe_request_failures_total{reason="connect",target="a",workload="w"}`, 4)

		a := serve(t, n, "a:8000", vllmsim.Config{})
		loading := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "loading", http.StatusServiceUnavailable) }
		a.answer(map[string]http.HandlerFunc{"/v1/models": loading, "/v1/chat/completions": loading, "/health": loading, "/metrics": loading})
		time.Sleep(10 * time.Second)
		s := g.scrape()
		s.want(t, `llm_probe_request_failures_total{reason="overloaded",target="a",workload="w"}`, 2)
		s.want(t, `llm_server_healthy{target="a"}`, 0)
		s.want(t, probes("consecutive_failures", "a"), 6)

		a.answer(nil)
		if err := a.SetFault(vllmsim.Fault{Name: vllmsim.SlowHeaders, Value: "8s"}); err != nil {
			t.Fatal(err)
		}
		for g.scrape()[probes("in_flight", "a")] == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		a.ClearFault()
		time.Sleep(16 * time.Second)
		s = g.scrape()
		s.want(t, probes("up", "a"), 1)
		s.want(t, probes("consecutive_failures", "a"), 0)
		if longest := s[probes("time_to_first_token_seconds_sum", "a")]; longest < 8 || longest > 8.5 {
			t.Errorf("the TTFTs sum up to %v s, want the slow 8 s once", longest)
		}
		if log := g.log.String(); strings.Count(log, "probes succeed again") != 1 || !strings.Contains(log, "failures=6") {
			t.Errorf("no line, or several, tell of the recovery after 6 failures:\n%s", log)
		}
	})
}

// The demo's configuration is valid and its server is what it probes.
func TestDemoConfig(t *testing.T) {
	cfg, err := demoConfig("127.0.0.1:9878")
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Targets[0].URL.String(); got != "http://127.0.0.1:9878" || len(cfg.Warnings()) != 0 {
		t.Errorf("the demo probes %s, with warnings %q", got, cfg.Warnings())
	}
}

// A target keeps the place where it starts within the interval over restarts; replicas have their own.
func TestReplicaSeed(t *testing.T) {
	first, restarted, second := replicaSeed([]string{":9877"}), replicaSeed([]string{":9877"}), replicaSeed([]string{":9876"})
	if first != restarted || first == second {
		t.Error("the seed of a replica differs after a restart, or two replicas have the same")
	}
}

// The file of the configuration's own tests can be run.
func TestExampleRuns(t *testing.T) {
	f := &flags{configFile: filepath.Join("..", "..", "internal", "config", "testdata", "valid.yml")}
	load, _ := f.loader()
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		d, err := newDaemon(cfg, load, prober.Options{Dial: n.dial, Logger: newLogger(io.Discard, "debug", "json")})
		if err != nil {
			t.Fatal(err)
		}
		defer d.stop()
		time.Sleep(6 * time.Second)
		families, err := d.targets.Gather()
		if err != nil {
			t.Fatal(err)
		}
		// The file of its credentials is not there, and that is told as such.
		flatten(families).want(t, `llm_probe_request_failures_total{gpu="a10",reason="auth",site="ams",target="qwen-a10",workload="chat-512-128"}`, 1)
	})
}
