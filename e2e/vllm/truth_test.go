//go:build vllm

package vllm

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// The shape of the probes that are compared.
const (
	promptTokens = 512
	outputTokens = 64
)

// window is how long a measurement lasts, unless the environment says otherwise.
func window(t *testing.T, usual time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv("LLM_PROBER_VLLM_WINDOW")
	if text == "" {
		return usual
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("LLM_PROBER_VLLM_WINDOW: %v", err)
	}
	return min(d, usual)
}

// TestTruth probes as a person would who has one server, and holds all that it measures against the server's own
// account and against vLLM's benchmark, run just before and just after.
func TestTruth(t *testing.T) {
	s := startServer(t)
	requests := int(window(t, time.Minute).Seconds())
	before := vllmBench(t, s, promptTokens, outputTokens, requests)
	d := startDaemon(t, "--target.url="+s.url, "--probe.interval=1s", "--probe.prompt-tokens=512", "--probe.output-tokens=64")
	ours := checkProbes(t, s, d, window(t, 2*time.Minute))
	d.stop(t)
	after := vllmBench(t, s, promptTokens, outputTokens, requests)
	compare(t, ours, before.and(after))
}

// checkProbes watches a daemon that probes s once a second for some time. Each probe must have the shape that was
// asked for, by the server's own count, and each time must agree with what the server says of the same requests.
func checkProbes(t *testing.T, s *server, d *daemon, window time.Duration) measured {
	t.Helper()
	eventually(t, 2*time.Minute, "the warm-up is over", func() bool {
		p := d.metrics(t)
		return p.sum("llm_probe_warmup_requests_total") == 5 && p.sum("llm_probe_requests_total") > 0
	})
	probesBefore, serverBefore := settle(t, s, d)
	results := watch(t, d, window)
	probesAfter, serverAfter := settle(t, s, d)
	probes, server := growth{probesBefore, probesAfter}, growth{serverBefore, serverAfter}

	checkShape(t, probes, server, window)
	for _, r := range results {
		checkResult(t, r.result)
	}
	checkAccount(t, probes, server)
	checkRelay(t, s, d)

	m := measured{server: server}
	for _, r := range results {
		if r.TTFT != nil {
			m.ttfts = append(m.ttfts, *r.TTFT)
			m.gaps = append(m.gaps, r.gaps...)
		}
	}
	return m
}

// settle reads both pages at a moment when no probe is in flight, so that both count the same requests.
func settle(t *testing.T, s *server, d *daemon) (probes, server page) {
	t.Helper()
	eventually(t, 90*time.Second, "no probe is in flight", func() bool {
		if probes = d.metrics(t); probes.sum("llm_probe_in_flight") > 0 {
			return false
		}
		server = s.metrics(t)
		again := d.metrics(t)
		return again.sum("llm_probe_in_flight") == 0 && again.sum("llm_probe_requests_total") == probes.sum("llm_probe_requests_total")
	})
	return probes, server
}

type watched struct {
	result
	gaps []float64
}

// watch collects every result of some time, with every gap while it is still kept.
func watch(t *testing.T, d *daemon, window time.Duration) []watched {
	t.Helper()
	seen := map[string]bool{}
	for _, r := range d.results(t) {
		seen[r.RequestID] = true
	}
	var all []watched
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for end := time.Now().Add(window); time.Now().Before(end); <-tick.C {
		for _, r := range d.results(t) {
			if !seen[r.RequestID] {
				seen[r.RequestID] = true
				all = append(all, watched{r, d.gaps(t, r)})
			}
		}
	}
	return all
}

// checkShape holds the counters of both sides against what was asked for.
func checkShape(t *testing.T, probes, server growth, window time.Duration) {
	t.Helper()
	n := probes.of("llm_probe_requests_total")
	if least := window.Seconds() - 3; n < least {
		t.Errorf("%v probes in %s at one a second, want at least %v", n, window, least)
	}
	for _, want := range []struct {
		growth growth
		name   string
		labels []string
		value  float64
	}{
		{probes, "llm_probe_request_failures_total", nil, 0},
		{probes, "llm_probe_missed_total", nil, 0},
		{probes, "llm_probe_warmup_requests_total", nil, 0},
		{probes, "llm_probe_prompt_tokens_total", nil, promptTokens * n},
		{probes, "llm_probe_cached_prompt_tokens_total", nil, 0},
		{probes, "llm_probe_output_tokens_total", []string{`source="usage"`}, outputTokens * n},
		{probes, "llm_probe_output_tokens_total", []string{`source="chunks"`}, 0},
		{probes, "llm_probe_slo_events_total", []string{`slo="success"`}, n},
		{probes, "llm_probe_slo_bad_events_total", []string{`slo="success"`}, 0},
		{server, "vllm:prompt_tokens_total", nil, promptTokens * n},
		{server, "vllm:prompt_tokens_cached_total", nil, 0},
		{server, "vllm:prefix_cache_hits_total", nil, 0},
		{server, "vllm:generation_tokens_total", nil, outputTokens * n},
		{server, "vllm:request_success_total", []string{`finished_reason="length"`}, n},
		{server, "vllm:time_to_first_token_seconds_count", nil, n},
	} {
		if got := want.growth.of(want.name, want.labels...); got != want.value {
			t.Errorf("%s%v rose by %v, want %v (%v probes)", want.name, want.labels, got, want.value, n)
		}
	}
	late := probes.of("llm_probe_suspect_total", `reason="reader_late"`)
	if suspect := probes.of("llm_probe_suspect_total"); suspect != late {
		t.Errorf("%v suspect probes, %v of them reader_late, want no other", suspect, late)
	}
	// Samples that a prober was too late to know are withheld, not recorded wrong. Without load it has no excuse.
	withheld := probes.of("llm_probe_samples_withheld_total")
	if samples := outputTokens * n; withheld > 0.005*samples && !overloaded(t) {
		t.Errorf("%v of about %v samples were withheld, want at most 0.5 %%", withheld, samples)
	}
	t.Logf("%v probes, every prompt %d tokens, every answer %d; %v read late, %v TTFTs and %v gaps withheld; %.2f tokens an event",
		n, promptTokens, outputTokens, late, withheldOf(probes, "time_to_first_token_seconds"), withheldOf(probes, "inter_token_latency_seconds"), outputTokens*n/probes.of("llm_probe_stream_events_total"))
}

// withheldOf is how many samples of a latency were withheld.
func withheldOf(probes growth, metric string) float64 {
	return probes.of("llm_probe_samples_withheld_total", `metric="`+metric+`"`)
}

// checkResult holds one probe against what was asked for.
func checkResult(t *testing.T, r result) {
	t.Helper()
	type outcome struct {
		success                bool
		status                 int
		finish, source         string
		prompt, cached, output int
	}
	want := outcome{true, 200, "length", "usage", promptTokens, 0, outputTokens}
	if r.PromptTokens == nil || r.CachedTokens == nil {
		t.Errorf("%s: the server counted no prompt tokens", r.RequestID)
		return
	}
	if got := (outcome{r.Success, r.Status, r.FinishReason, r.TokenSource, *r.PromptTokens, *r.CachedTokens, r.OutputTokens}); got != want {
		t.Errorf("%s: %+v, want %+v", r.RequestID, got, want)
	}
	late := slices.Contains(r.Suspect, "reader_late")
	switch {
	case len(r.Suspect) > 1 || len(r.Suspect) == 1 && !late:
		t.Errorf("%s is suspect: %v", r.RequestID, r.Suspect)
	case r.TTFT == nil && late: // withheld
	case r.Outside == nil || r.ReadDelay == nil:
		t.Errorf("%s has no account of the server, or no kernel stamps", r.RequestID)
	case *r.Outside < 0:
		t.Errorf("%s: queue %v + prefill %v exceed TTFT %v", r.RequestID, *r.Queue, *r.Prefill, *r.TTFT)
	}
}

// checkAccount holds our means against the server's for the same requests. They nest: what the engine did lies
// within what the API server saw, and that within what a client saw.
func checkAccount(t *testing.T, probes, server growth) {
	t.Helper()
	queue, prefill := probes.mean("llm_probe_server_queue_seconds"), probes.mean("llm_probe_server_prefill_seconds")
	seen, ttft := server.mean("vllm:time_to_first_token_seconds"), probes.mean("llm_probe_time_to_first_token_seconds")
	t.Logf("mean TTFT %s = queue %s + prefill %s + outside the engine %s; the server saw %s, %s less than the client",
		millis(ttft), millis(queue), millis(prefill), millis(ttft-queue-prefill), millis(seen), millis(ttft-seen))
	if withheld := withheldOf(probes, "time_to_first_token_seconds"); withheld > 0 {
		t.Logf("%v TTFTs were withheld: the mean of the others is not held against the server's", withheld)
	} else if queue+prefill > seen || seen > ttft {
		t.Errorf("want queue + prefill (%s) <= TTFT of the server (%s) <= TTFT of the prober (%s)", millis(queue+prefill), millis(seen), millis(ttft))
	}
	// From receipt to the engine and back: parsing, tokenizing, two hops between processes.
	if rest := ttft - queue - prefill; rest > ttft*3/4 {
		t.Errorf("%s of TTFT %s are outside the engine of an idle server", millis(rest), millis(ttft))
	}
	for _, same := range []struct{ ours, theirs string }{
		{"llm_probe_server_queue_seconds", "vllm:request_queue_time_seconds"},
		{"llm_probe_server_prefill_seconds", "vllm:request_prefill_time_seconds"},
	} {
		ours, theirs := probes.mean(same.ours), server.mean(same.theirs)
		if off := (ours - theirs).Abs(); off > 100*time.Microsecond {
			t.Errorf("mean of %s is %s, that of the server's %s %s", same.ours, millis(ours), same.theirs, millis(theirs))
		}
	}
	ours, theirs := probes.mean("llm_probe_inter_token_latency_seconds"), server.mean("vllm:inter_token_latency_seconds")
	t.Logf("mean ITL %s, by the server's count %s", millis(ours), millis(theirs))
	if ratio := float64(ours) / float64(theirs); math.Abs(ratio-1) > 0.05 {
		t.Errorf("mean ITL %s is %.3f of the server's %s", millis(ours), ratio, millis(theirs))
	}
}

// checkRelay: what is relayed lies between what the server said before and what it says after.
func checkRelay(t *testing.T, s *server, d *daemon) {
	t.Helper()
	before, now := s.metrics(t), time.Now()
	var relayed page
	eventually(t, 30*time.Second, "the relay takes a sample", func() bool {
		relayed = d.metrics(t)
		return relayed.sum("llm_server_last_scrape_timestamp_seconds") > float64(now.UnixMilli())/1e3+2 // begun after now
	})
	after := s.metrics(t)
	for ours, theirs := range map[string]string{
		"llm_server_prompt_tokens_total":             "vllm:prompt_tokens_total",
		"llm_server_generation_tokens_total":         "vllm:generation_tokens_total",
		"llm_server_prefix_cache_queries_total":      "vllm:prefix_cache_queries_total",
		"llm_server_time_to_first_token_seconds_sum": "vllm:time_to_first_token_seconds_sum",
		"llm_server_queue_time_seconds_count":        "vllm:request_queue_time_seconds_count",
	} {
		low, got, high := before.sum(theirs), relayed.sum(ours), after.sum(theirs)
		if !(low <= got && got <= high) {
			t.Errorf("%s is %v, the server's own page said %v before and %v after", ours, got, low, high)
		}
	}
	for name, want := range map[string]float64{"llm_server_up": 1, "llm_server_healthy": 1, "llm_server_scrape_failures_total": 0, "llm_server_requests_waiting": 0} {
		if got := relayed.sum(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if running := relayed.sum("llm_server_requests_running"); running != 0 && running != 1 {
		t.Errorf("llm_server_requests_running is %v, want 0 or 1", running)
	}
}

// compare puts the prober and vLLM's benchmark side by side.
func compare(t *testing.T, ours, bench measured) {
	t.Helper()
	// The benchmark takes the role chunk for a token: it comes with the first, so each request has one gap more, of
	// no time. Counted like that, ours have it too.
	benchWay := ours
	benchWay.gaps = slices.Concat(ours.gaps, make([]float64, len(ours.ttfts)))

	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "|\t\tllm_prober\t\tvllm bench serve\t\tratio\t|")
	row := func(name string, of func(measured) time.Duration, a, b measured) {
		fmt.Fprintf(w, "|\t%s\t| %s\t| %s\t| %.3f\t|\n", name, millis(of(a)), millis(of(b)), float64(of(a))/float64(of(b)))
	}
	row("TTFT median", func(m measured) time.Duration { return m.ttft(0.5) }, ours, bench)
	row("TTFT mean", measured.meanTTFT, ours, bench)
	row("TTFT mean, by the server", measured.serverTTFT, ours, bench)
	row("TTFT mean, client less server", func(m measured) time.Duration { return m.meanTTFT() - m.serverTTFT() }, ours, bench)
	row("ITL median", func(m measured) time.Duration { return m.itl(0.5) }, ours, bench)
	row("ITL p95", func(m measured) time.Duration { return m.itl(0.95) }, ours, bench)
	row("ITL mean", measured.meanITL, ours, bench)
	row("ITL mean, the role chunk a token", measured.meanITL, benchWay, bench)
	row("ITL mean, by the server", measured.serverITL, ours, bench)
	w.Flush()
	t.Logf("%d probes, %d requests of the benchmark, load %v\n%s", len(ours.ttfts), len(bench.ttfts), loadAverages(t), table.String())

	// The work was not the same where the server itself took longer; that is no difference of measurement.
	ttftWork := float64(ours.serverTTFT()) / float64(bench.serverTTFT())
	itlWork := float64(ours.serverITL()) / float64(bench.serverITL())
	judge := t.Errorf
	if overloaded(t) {
		t.Log("the machine is overloaded: times of different minutes differ, and are not judged")
		judge = t.Logf
	}
	agree := func(a, b time.Duration, work float64) bool {
		ratio := float64(a) / float64(b)
		return math.Abs(ratio-1) <= 0.05 || math.Abs(ratio/work-1) <= 0.05
	}
	if !agree(ours.ttft(0.5), bench.ttft(0.5), ttftWork) {
		// What is left is the clients' own: a Python client stamps late. Ours must be the nearer to the server.
		own, theirs := ours.meanTTFT()-ours.serverTTFT(), bench.meanTTFT()-bench.serverTTFT()
		if own < 0 || own > theirs {
			judge("median TTFT %s and %s; the prober's mean is %s beside the server's, the benchmark's %s",
				millis(ours.ttft(0.5)), millis(bench.ttft(0.5)), millis(own), millis(theirs))
		}
	}
	if !agree(ours.itl(0.5), bench.itl(0.5), itlWork) {
		judge("median ITL %s and %s", millis(ours.itl(0.5)), millis(bench.itl(0.5)))
	}
	if !agree(benchWay.meanITL(), bench.meanITL(), itlWork) {
		judge("mean ITL counted the same way is %s and %s", millis(benchWay.meanITL()), millis(bench.meanITL()))
	}
}

// overloaded tells whether more wanted to run in the last minute than there are processors.
func overloaded(t *testing.T) bool {
	t.Helper()
	load, err := strconv.ParseFloat(loadAverages(t)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return load > float64(runtime.NumCPU())
}

// loadAverages are those of the last 1, 5 and 15 minutes.
func loadAverages(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))[:3]
}
