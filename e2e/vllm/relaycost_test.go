//go:build vllm

package vllm

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/prober"
)

// TestRelayCost measures what reading a server's metrics does to the streams of its users: the gaps between tokens
// of eight streams, with the relay off and on, in rounds that take turns.
func TestRelayCost(t *testing.T) {
	const (
		streams = 8
		rounds  = 5
	)
	s := startServer(t)
	users := newUsers(t, s)
	users.run(t, streams, 5*time.Second) // the first requests are slow
	relays := []string{"off", "1s", "200ms"}
	measured := map[string][]round{}
	for i := range rounds {
		for j := range relays {
			relay := relays[(i+j)%len(relays)]
			d := configured(t, relayOnly(s, relay))
			eventually(t, 30*time.Second, "the relay runs", func() bool { return relay == "off" || d.metrics(t).sum("llm_server_up") == 1 })
			before := d.metrics(t)
			measured[relay] = append(measured[relay], users.run(t, streams, window(t, 20*time.Second)))
			if failed := growthOf(before, d.metrics(t), "llm_server_scrape_failures_total"); failed > 0 {
				t.Errorf("relay %s: %v failed samples", relay, failed)
			}
			d.stop(t)
		}
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "|\trelay\t| ITL mean\t| median\t| p99\t| tokens/s\t| mean, to off\t|")
	off := medianRound(measured["off"])
	for _, relay := range relays {
		r := medianRound(measured[relay])
		fmt.Fprintf(w, "|\t%s\t| %.3f ms\t| %.3f ms\t| %.3f ms\t| %.0f\t| %+.1f %%\t|\n", relay, r.mean*1e3, r.median*1e3, r.p99*1e3, r.rate, 100*(r.mean/off.mean-1))
	}
	w.Flush()
	t.Logf("%d streams, medians of %d rounds each, load %v\n%s", streams, rounds, loadAverages(t), table.String())
	if cost := medianRound(measured["1s"]).mean/off.mean - 1; cost > 0.05 {
		t.Errorf("a relay of 1s makes the mean gap %.1f %% longer, want at most 5 %%: the default is too short", 100*cost)
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

// round is what users saw in one measurement: gaps between tokens in seconds, and tokens a second of all streams.
type round struct{ mean, median, p99, rate float64 }

// medianRound takes the median of each figure.
func medianRound(rounds []round) round {
	of := func(figure func(round) float64) float64 {
		var all []float64
		for _, r := range rounds {
			all = append(all, figure(r))
		}
		return quantile(all, 0.5)
	}
	return round{
		of(func(r round) float64 { return r.mean }), of(func(r round) float64 { return r.median }),
		of(func(r round) float64 { return r.p99 }), of(func(r round) float64 { return r.rate }),
	}
}

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
				r, err := u.runner.Once(ctx, u.workload)
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
	slices.Sort(gaps)
	return round{mean(gaps), quantile(gaps, 0.5), quantile(gaps, 0.99), float64(len(gaps)) / length.Seconds()}
}
