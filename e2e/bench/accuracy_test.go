//go:build linux

package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
	"github.com/llm-prober/llm_prober/prober"
)

const ms = time.Millisecond

// exact is a latency without an error.
func exact(d time.Duration) prober.Latency { return prober.Latency{Value: d, Least: d, Most: d} }

// paced is a request that came at 0; its tokens at 50, 60, 70 and 80 ms were each written in a tenth of a millisecond.
func paced() (a mock.Account) {
	for i := range int64(4) {
		at := int64(50*ms) + i*int64(10*ms)
		a.Writes = append(a.Writes, at)
		a.Returns = append(a.Returns, at+int64(ms/10))
	}
	return a
}

// What is recorded of a probe, how far that is from what the server knows, and whether the bounds of all hold.
func TestComparison(t *testing.T) {
	for _, c := range []struct {
		name           string
		ttft           prober.Latency
		gaps           []prober.Latency
		tpot, duration prober.Latency
		want           string
	}{
		{
			"read in time",
			exact(50 * ms),
			[]prober.Latency{exact(10 * ms), exact(10 * ms), exact(10 * ms)},
			exact(10 * ms),
			exact(80 * ms),
			"6 of 6 recorded, worst 0.0, 0 of 6 outside by 0.0, figures hold",
		},
		{
			"a token that was read with the next",
			exact(50 * ms),
			[]prober.Latency{exact(10 * ms), {Value: 20 * ms, Least: 5 * ms, Most: 20 * ms}, {Value: 0, Least: 0, Most: 15 * ms}},
			exact(10 * ms),
			exact(80 * ms),
			"4 of 6 recorded, worst 0.0, 0 of 6 outside by 0.0, figures hold",
		},
		{
			"within what a write takes",
			exact(50*ms + ms/20),
			[]prober.Latency{exact(10 * ms), exact(10 * ms), exact(10 * ms)},
			exact(10 * ms),
			exact(80 * ms),
			"6 of 6 recorded, worst 0.0, 0 of 6 outside by 0.0, figures hold",
		},
		{
			"one that nobody noticed",
			exact(50 * ms),
			[]prober.Latency{exact(10 * ms), exact(15 * ms), exact(10 * ms)},
			exact(10 * ms),
			exact(80 * ms),
			"6 of 6 recorded, worst 4.9, 1 of 6 outside by 4.9, figures do not hold",
		},
		{
			"bounds that are too narrow, of one that is withheld",
			prober.Latency{Value: 60 * ms, Least: 52 * ms, Most: 60 * ms},
			[]prober.Latency{exact(10 * ms), exact(10 * ms), exact(10 * ms)},
			exact(10 * ms),
			exact(80 * ms),
			"5 of 6 recorded, worst 0.0, 1 of 6 outside by 1.9, figures do not hold",
		},
		{
			"a proxy that buffers has no gaps",
			exact(50 * ms),
			nil,
			exact(10 * ms),
			exact(80 * ms),
			"3 of 3 recorded, worst 0.0, 0 of 3 outside by 0.0, figures hold",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := probe{ID: "p", Tokens: 4, Latencies: [kinds][]prober.Latency{ttft: {c.ttft}, itl: c.gaps, tpot: {c.tpot}, duration: {c.duration}}}
			got, err := compareWith(map[string]mock.Account{"p": paced()}, clientResult{Probes: []probe{p}})
			if err != nil {
				t.Fatal(err)
			}
			recorded, far, hold := 0, 0.0, "figures hold"
			for _, s := range got.of {
				recorded, far = recorded+len(s.recorded), max(far, worst(s.errors))
				if len(s.served) > 0 && !(s.holds(figures.Mean) && s.holds(p99)) {
					hold = "figures do not hold"
				}
			}
			n, all, by := got.outside()
			if text := fmt.Sprintf("%d of %d recorded, worst %.1f, %d of %d outside by %.1f, %s", recorded, all, far, n, all, by, hold); text != c.want {
				t.Errorf("%s\nwant %s", text, c.want)
			}
		})
	}
}

// Shares and errors are against all that was served, recorded or not.
func TestSharesAndErrors(t *testing.T) {
	var s samples
	for i := range 4 {
		at := time.Duration(i+1) * 10 * ms
		l := exact(at + ms/2)
		if i == 3 {
			l.Least = 0
		}
		s.add(truth{int64(at), int64(at), int64(at)}, l)
	}
	if got := fmt.Sprintf("%.1f %% withheld, off by %.1f", s.withheld(), s.off(figures.Mean)); got != "25.0 % withheld, off by 4.5" {
		t.Error(got)
	}
	if least, most := s.bounds(figures.Mean); least != 61.5/4 || most != 25.5 {
		t.Errorf("the mean of all is between %v and %v", least, most)
	}
}

// An account that does not fit a probe is no truth.
func TestComparisonRefusesWhatDoesNotFit(t *testing.T) {
	for name, p := range map[string]probe{"unknown": {ID: "q", Tokens: 4}, "a token is missing": {ID: "p", Tokens: 3}} {
		if _, err := compareWith(map[string]mock.Account{"p": paced()}, clientResult{Probes: []probe{p}}); err == nil {
			t.Errorf("%s: compared", name)
		}
	}
}
