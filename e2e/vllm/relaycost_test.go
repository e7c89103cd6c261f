//go:build vllm

package vllm

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/prober"
)

// TestRelayCost measures what reading a server's metrics does to the streams of its users: the gaps between tokens
// of eight streams, with the relay off and on. Rounds are short and take turns, and each is compared with the one
// without a relay of the same turn, so that what else the machine does weighs on all alike.
func TestRelayCost(t *testing.T) {
	const (
		streams = 8
		turns   = 20
	)
	s := startServer(t)
	users := newUsers(t, s)
	users.run(t, streams, 5*time.Second) // the first requests are slow
	idle := pageTime(t, s)
	relays := []string{"off", "1s", "200ms"}
	daemons := map[string]*daemon{}
	for _, relay := range relays[1:] {
		d := configured(t, relayOnly(s, relay))
		eventually(t, 30*time.Second, "the relay runs", func() bool { return d.metrics(t).sum("llm_server_up") == 1 })
		pause(t, d)
		daemons[relay] = d
	}
	length := window(t, time.Minute) / turns
	rounds := map[string][]round{}
	for i := range turns {
		for j := range relays {
			relay := relays[(i+j)%len(relays)]
			if d := daemons[relay]; d != nil {
				resume(t, d)
			}
			rounds[relay] = append(rounds[relay], users.run(t, streams, length))
			if d := daemons[relay]; d != nil {
				pause(t, d)
			}
		}
	}
	for relay, d := range daemons { // lest all was measured with the relay asleep
		resume(t, d)
		eventually(t, 30*time.Second, "the relay has gone on", func() bool { return d.metrics(t).sum("llm_server_up") == 1 })
		if n := d.metrics(t).sum("llm_server_requests_running_sampled_count"); n < turns {
			t.Errorf("relay %s: %v samples in %d turns", relay, n, turns)
		}
		d.stop(t)
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "|\trelay\t| ITL mean\t| median\t| p99\t| mean, to off in the same turn\t|")
	cost := map[string]float64{}
	for _, relay := range relays {
		var mean, median, p99, ratio []float64
		for i, r := range rounds[relay] {
			mean, median, p99 = append(mean, r.mean), append(median, r.median), append(p99, r.p99)
			ratio = append(ratio, r.mean/rounds["off"][i].mean)
		}
		cost[relay] = quantile(ratio, 0.5) - 1
		fmt.Fprintf(w, "|\t%s\t| %s\t| %s\t| %s\t| %+.1f %% (quartiles %+.1f, %+.1f)\t|\n", relay,
			millis(seconds(quantile(mean, 0.5))), millis(seconds(quantile(median, 0.5))), millis(seconds(quantile(p99, 0.5))),
			100*cost[relay], 100*(quantile(ratio, 0.25)-1), 100*(quantile(ratio, 0.75)-1))
	}
	w.Flush()
	t.Logf("%d streams, medians of %d turns of %s each, load %v; the page alone takes %s\n%s", streams, turns, length, loadAverages(t), millis(idle), table.String())
	if cost["1s"] > 0.05 && !overloaded(t) {
		t.Errorf("a relay of 1s makes the mean gap %.1f %% longer, want at most 5 %%: the default is too short", 100*cost["1s"])
	}
	if share := idle.Seconds(); share > 0.02 {
		t.Errorf("the page takes %s of an idle server: a relay of 1s has %.1f %% of its time", millis(idle), 100*share)
	}
}

// pageTime is the median time that the metrics page of an idle server takes.
func pageTime(t *testing.T, s *server) time.Duration {
	t.Helper()
	var times []float64
	for range 50 {
		began := time.Now()
		s.metrics(t)
		times = append(times, time.Since(began).Seconds())
	}
	return seconds(quantile(times, 0.5))
}

// pause stops a daemon where it is; resume lets it go on.
func pause(t *testing.T, d *daemon)  { signal(t, d, syscall.SIGSTOP) }
func resume(t *testing.T, d *daemon) { signal(t, d, syscall.SIGCONT) }

func signal(t *testing.T, d *daemon, sig syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

// relayOnly is a configuration of a relay without probes.
func relayOnly(s *server, relay string) string {
	setting := "relay_interval: " + relay
	if relay == "off" {
		setting = `metrics_url: ""`
	}
	return fmt.Sprintf("targets: [{name: tiny, url: %q, interval: 1000h, %s}]\n", s.url, setting)
}

// round is what users saw in one measurement: gaps between tokens, in seconds.
type round struct{ mean, median, p99 float64 }

// users send requests one after another and time each token as a probe does.
type users struct {
	runner   *prober.Runner
	workload string
}

func newUsers(t *testing.T, s *server) users {
	t.Helper()
	address, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	const workload = "users"
	runner, err := prober.NewRunner(prober.Target{
		Name: "tiny", URL: address, HTTP: promconfig.DefaultHTTPClientConfig,
		Plans: []prober.Plan{{
			Workload: prober.Workload{Name: workload, API: prober.Chat, PromptTokens: 128, OutputTokens: 256, MaxTokensField: "max_tokens"},
			Interval: time.Hour, Timeout: time.Minute, StallTimeout: time.Minute, MaxInFlight: 1,
		}},
	}, prober.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return users{runner, workload}
}

// run keeps so many streams going for some time.
func (u users) run(t *testing.T, streams int, length time.Duration) round {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var mu sync.Mutex
	var gaps []float64
	var wait sync.WaitGroup
	for range streams {
		wait.Go(func() {
			for ctx.Err() == nil {
				r, err := u.runner.Send(ctx, prober.Order{Workload: u.workload})
				if err != nil || !r.OK() && !r.Abandoned {
					t.Errorf("a user's request failed: %v %v", err, r.Err)
					return
				}
				mu.Lock()
				for _, gap := range r.Gaps { // those of a stream that was cut off too
					gaps = append(gaps, gap.Seconds())
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if len(gaps) == 0 {
		t.Fatal("no token came")
	}
	return round{mean(gaps), quantile(gaps, 0.5), quantile(gaps, 0.99)}
}
