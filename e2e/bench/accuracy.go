//go:build linux

package main

import (
	"fmt"
	"math"
	"time"
)

// levels are the numbers of concurrent streams.
func levels() []int { return []int{1, 50, 256, 512} }

const (
	paceFirst = 50 * time.Millisecond
	paceEvery = 10 * time.Millisecond
	paceCount = 100
)

// accuracy compares what the prober says with what the server knows.
func accuracy(o options) (string, error) {
	var t table
	t.header("streams", "start", "stamps", "TTFT served, mean / p99", "error of mean", "error of p99", "worst sample",
		"ITL served, p50 / p99", "error of p50", "error of p99", "start stamp → receipt, p50 / p99", "`reader_late`", "CPU, s", "MB")
	for _, staggered := range []bool{false, true} {
		for _, streams := range levels() {
			for _, kernel := range []bool{true, false} {
				var runs []comparison
				for range o.runs {
					c, err := compare(streams, staggered, kernel)
					if err != nil {
						return "", err
					}
					runs = append(runs, c)
				}
				t.row(append([]string{fmt.Sprint(streams), startName(staggered), stampName(kernel)}, accuracyCells(runs)...)...)
			}
		}
	}
	return t.String(), nil
}

func startName(staggered bool) string {
	if staggered {
		return "spread"
	}
	return "together"
}

func stampName(kernel bool) string {
	if kernel {
		return "kernel"
	}
	return "user space"
}

// compare makes one run. Few streams are repeated, so that there is something to take a percentile of.
func compare(streams int, staggered, kernel bool) (comparison, error) {
	cc := clientConfig{Streams: streams, Rounds: max(1, min(10, 100/streams)), Tokens: paceCount, Kernel: kernel}
	if staggered {
		// Starts are spread over the length of one stream, twice: the second half meets all of the first.
		length := paceFirst + (paceCount-1)*paceEvery
		cc.Stagger = length / time.Duration(streams)
		cc.Streams, cc.Rounds = max(5, 2*streams), 1
	}
	server := serverConfig{First: paceFirst, Every: paceEvery, Tokens: paceCount, Usage: true, Record: true}
	ledger, result, err := exchange(server, "prober", cc, nil)
	if err != nil {
		return comparison{}, err
	}
	return compareWith(ledger, result)
}

// comparison is one run of the prober beside the server's account of it. Times are in milliseconds.
type comparison struct {
	served, measured struct{ ttft, itl []float64 } // of the probes that were recorded
	ttftErrors       []float64                     // one a recorded probe; see outside
	gapErrors        []float64                     // one a recorded gap
	receipt          []float64                     // from the start stamp to the server's receipt
	hidden           int                           // samples that were withheld and would have been wrong
	probes, late     int
	failed           int // for no fault of the server's
	samples          int
	cpu              float64 // seconds
	rss              float64 // MB
}

// wrong is what counts as a wrong sample when the prober is starved, in milliseconds.
const wrong = 2.0

func compareWith(ledger map[string]account, r clientResult) (comparison, error) {
	c := comparison{probes: len(r.Probes), cpu: r.CPU.Seconds(), rss: float64(r.PeakRSS) / 1e6}
	for _, p := range r.Probes {
		a, ok := ledger[p.ID]
		if p.Failed != "" {
			c.failed++
			continue
		}
		if !ok || len(a.Returns) != len(p.Gaps)+1 {
			return c, fmt.Errorf("probe %s: known to the server %v, %d gaps of %d tokens", p.ID, ok, len(p.Gaps), len(a.Writes))
		}
		c.add(a, p)
	}
	return c, nil
}

func (c *comparison) add(a account, p probe) {
	errors := []float64{outside(int64(p.TTFT), a.Writes[0]-a.Received, a.Returns[0]-a.Received)}
	for i, gap := range p.Gaps {
		errors = append(errors, outside(int64(gap), a.Writes[i+1]-a.Returns[i], a.Returns[i+1]-a.Writes[i]))
	}
	if p.Late {
		c.late++
		c.hidden += wrongOf(errors)
		return
	}
	c.samples += len(errors)
	c.served.ttft = append(c.served.ttft, millis(a.Writes[0]-a.Received))
	c.measured.ttft = append(c.measured.ttft, millis(int64(p.TTFT)))
	for i, gap := range p.Gaps {
		c.served.itl = append(c.served.itl, millis(a.Writes[i+1]-a.Writes[i]))
		c.measured.itl = append(c.measured.itl, millis(int64(gap)))
	}
	c.ttftErrors = append(c.ttftErrors, errors[0])
	c.gapErrors = append(c.gapErrors, errors[1:]...)
	c.receipt = append(c.receipt, millis(a.Received-p.Sent))
}

// outside is how far a measured time lies outside what the server knows: a token left between the moment before
// its write(2) and the moment after, which are far apart if the server itself lost the processor in between.
func outside(measured, least, most int64) float64 {
	return millis(max(0, measured-most) - max(0, least-measured))
}

func millis(ns int64) float64 { return float64(ns) / 1e6 }

func wrongOf(errors []float64) (n int) {
	for _, e := range errors {
		if math.Abs(e) > wrong {
			n++
		}
	}
	return n
}

func worst(errors []float64) float64 {
	far := 0.0
	for _, e := range errors {
		far = max(far, math.Abs(e))
	}
	return far
}

// accuracyCells are the medians of several runs.
func accuracyCells(runs []comparison) []string {
	over := func(f func(comparison) float64) float64 {
		var values []float64
		for _, r := range runs {
			if v := f(r); !math.IsNaN(v) { // NaN: nothing was recorded
				values = append(values, v)
			}
		}
		return median(values)
	}
	ms := func(f func(comparison) float64) string { return fmt.Sprintf("%.3f", over(f)) }
	ttft99 := func(c comparison) float64 { return quantile(c.served.ttft, 0.99) }
	itl50 := func(c comparison) float64 { return quantile(c.served.itl, 0.5) }
	itl99 := func(c comparison) float64 { return quantile(c.served.itl, 0.99) }
	late, probes := 0, 0
	for _, r := range runs {
		late += r.late
		probes += r.probes
	}
	return []string{
		fmt.Sprintf("%.1f / %.1f", over(func(c comparison) float64 { return mean(c.served.ttft) }), over(ttft99)),
		ms(func(c comparison) float64 { return math.Abs(mean(c.measured.ttft) - mean(c.served.ttft)) }),
		ms(func(c comparison) float64 { return math.Abs(quantile(c.measured.ttft, 0.99) - ttft99(c)) }),
		ms(func(c comparison) float64 { return worst(c.ttftErrors) }),
		fmt.Sprintf("%.2f / %.2f", over(itl50), over(itl99)),
		ms(func(c comparison) float64 { return math.Abs(quantile(c.measured.itl, 0.5) - itl50(c)) }),
		ms(func(c comparison) float64 { return math.Abs(quantile(c.measured.itl, 0.99) - itl99(c)) }),
		fmt.Sprintf("%s / %s", ms(func(c comparison) float64 { return quantile(c.receipt, 0.5) }), ms(func(c comparison) float64 { return quantile(c.receipt, 0.99) })),
		fmt.Sprintf("%.1f %%", 100*float64(late)/float64(probes)),
		fmt.Sprintf("%.2f", over(func(c comparison) float64 { return c.cpu })),
		fmt.Sprintf("%.0f", over(func(c comparison) float64 { return c.rss })),
	}
}
