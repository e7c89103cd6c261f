//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
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
	var t, tokens figures.Table
	t.Header("streams", "start", "stamps", "TTFT served, mean / p99", "error of mean", "error of p99", "worst sample",
		"ITL served, p50 / p99", "error of p50", "error of p99", "start stamp → receipt, p50 / p99", "`reader_late`", "CPU, s", "MB")
	tokens.Header("streams", "start", "TTFT withheld by probe", "by token", "ITL withheld by token", "TTFT: error of mean", "of p99", "worst sample",
		"ITL: error of mean", "of p99", "worst sample", "mean TTFT against all served, by probe", "by token", "its p99", "mean ITL", "its p99")
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
				level := []string{fmt.Sprint(streams), startName(staggered)}
				t.Row(slices.Concat(level, []string{stampName(kernel)}, accuracyCells(runs))...)
				if kernel { // without its stamps nobody knows which tokens were late
					tokens.Row(slices.Concat(level, tokenCells(runs))...)
				}
			}
		}
	}
	return t.String() + "\nBy token:\n\n" + tokens.String(), nil
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
	server := mock.Config{Prompt: promptTokens, First: paceFirst, Every: paceEvery, Record: true}
	ledger, result, err := exchange(server, "prober", cc, nil)
	if err != nil {
		return comparison{}, err
	}
	return compareWith(ledger, result)
}

// comparison is one run of the prober beside the server's account of it. Times are in milliseconds.
type comparison struct {
	whole   recorded  // by the rule of a daemon: nothing of a probe that was read late
	byToken recorded  // by the rule of an experiment: all that needs no stamp in doubt
	ttft    []float64 // as served to every probe, recorded or not
	itl     []float64
	receipt []float64 // from the start stamp to the server's receipt, of recorded probes
	probes  int
	late    int
	failed  int     // for no fault of the server's
	cpu     float64 // seconds
	rss     float64 // MB
}

// recorded is what one rule records.
type recorded struct {
	ttft, itl samples
}

func (r *recorded) join(other recorded) {
	r.ttft.join(other.ttft)
	r.itl.join(other.itl)
}

func (r *recorded) count() int  { return len(r.ttft.errors) + len(r.itl.errors) }
func (r *recorded) wrong() int  { return wrongOf(r.ttft.errors) + wrongOf(r.itl.errors) }
func (r *recorded) hidden() int { return r.ttft.hidden + r.itl.hidden }

// samples are those of one latency.
type samples struct {
	served, measured []float64
	errors           []float64 // see outside
	withheld         int
	hidden           int // of these, the ones that would have been wrong
}

func (s *samples) add(known bool, served, measured, failing float64) {
	if !known {
		s.withheld++
		s.hidden += wrongOf([]float64{failing})
		return
	}
	s.served = append(s.served, served)
	s.measured = append(s.measured, measured)
	s.errors = append(s.errors, failing)
}

// join adds those of another run.
func (s *samples) join(other samples) {
	s.served = append(s.served, other.served...)
	s.measured = append(s.measured, other.measured...)
	s.errors = append(s.errors, other.errors...)
	s.withheld += other.withheld
	s.hidden += other.hidden
}

// share is how many samples were withheld, in percent.
func (s *samples) share() float64 {
	return 100 * float64(s.withheld) / float64(s.withheld+len(s.errors))
}

// off is how far a figure of what was recorded lies from that of what was served to the same probes.
func (s *samples) off(figure func([]float64) float64) float64 {
	return math.Abs(figure(s.measured) - figure(s.served))
}

// bias is how far a figure of what was recorded lies from that of all that was served.
func bias(s samples, served []float64, figure func([]float64) float64) float64 {
	return figure(s.measured) - figure(served)
}

// wrong is what counts as a wrong sample when the prober is starved, in milliseconds.
const wrong = 2.0

func compareWith(ledger map[string]mock.Account, r clientResult) (comparison, error) {
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

func (c *comparison) add(a mock.Account, p probe) {
	if p.Late {
		c.late++
	} else {
		c.receipt = append(c.receipt, millis(a.Received-p.Sent))
	}
	served, measured := millis(a.Writes[0]-a.Received), millis(int64(p.TTFT))
	failing := outside(int64(p.TTFT), a.Writes[0]-a.Received, a.Returns[0]-a.Received)
	c.ttft = append(c.ttft, served)
	c.whole.ttft.add(!p.Late, served, measured, failing)
	c.byToken.ttft.add(p.TTFTKnown, served, measured, failing)
	for i, gap := range p.Gaps {
		served, measured := millis(a.Writes[i+1]-a.Writes[i]), millis(int64(gap))
		failing := outside(int64(gap), a.Writes[i+1]-a.Returns[i], a.Returns[i+1]-a.Writes[i])
		c.itl = append(c.itl, served)
		c.whole.itl.add(!p.Late, served, measured, failing)
		c.byToken.itl.add(p.GapsKnown[i], served, measured, failing)
	}
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

// over is the median of a figure of several runs.
func over(runs []comparison, figure func(*comparison) float64) float64 {
	var values []float64
	for i := range runs {
		if v := figure(&runs[i]); !math.IsNaN(v) { // NaN: nothing was recorded
			values = append(values, v)
		}
	}
	return figures.Median(values)
}

func p50(values []float64) float64 { return figures.Quantile(values, 0.5) }
func p99(values []float64) float64 { return figures.Quantile(values, 0.99) }

// accuracyCells are the medians of several runs.
func accuracyCells(runs []comparison) []string {
	ms := func(figure func(*comparison) float64) string { return fmt.Sprintf("%.3f", over(runs, figure)) }
	late, probes := 0, 0
	for _, r := range runs {
		late += r.late
		probes += r.probes
	}
	return []string{
		fmt.Sprintf("%.1f / %.1f", over(runs, func(c *comparison) float64 { return figures.Mean(c.whole.ttft.served) }),
			over(runs, func(c *comparison) float64 { return p99(c.whole.ttft.served) })),
		ms(func(c *comparison) float64 { return c.whole.ttft.off(figures.Mean) }),
		ms(func(c *comparison) float64 { return c.whole.ttft.off(p99) }),
		ms(func(c *comparison) float64 { return worst(c.whole.ttft.errors) }),
		fmt.Sprintf("%.2f / %.2f", over(runs, func(c *comparison) float64 { return p50(c.whole.itl.served) }),
			over(runs, func(c *comparison) float64 { return p99(c.whole.itl.served) })),
		ms(func(c *comparison) float64 { return c.whole.itl.off(p50) }),
		ms(func(c *comparison) float64 { return c.whole.itl.off(p99) }),
		ms(func(c *comparison) float64 { return p50(c.receipt) }) + " / " + ms(func(c *comparison) float64 { return p99(c.receipt) }),
		fmt.Sprintf("%.1f %%", 100*float64(late)/float64(probes)),
		fmt.Sprintf("%.2f", over(runs, func(c *comparison) float64 { return c.cpu })),
		fmt.Sprintf("%.0f", over(runs, func(c *comparison) float64 { return c.rss })),
	}
}

// tokenCells are the medians of what the two rules record: how much, how far from what was served to the same probes,
// and how far from what was served to all, which is what the rule's choice of samples does to them.
func tokenCells(runs []comparison) []string {
	ms := func(figure func(*comparison) float64) string { return fmt.Sprintf("%.3f", over(runs, figure)) }
	percent := func(figure func(*comparison) float64) string { return fmt.Sprintf("%.1f %%", over(runs, figure)) }
	return []string{
		percent(func(c *comparison) float64 { return c.whole.ttft.share() }),
		percent(func(c *comparison) float64 { return c.byToken.ttft.share() }),
		percent(func(c *comparison) float64 { return c.byToken.itl.share() }),
		ms(func(c *comparison) float64 { return c.byToken.ttft.off(figures.Mean) }),
		ms(func(c *comparison) float64 { return c.byToken.ttft.off(p99) }),
		ms(func(c *comparison) float64 { return worst(c.byToken.ttft.errors) }),
		ms(func(c *comparison) float64 { return c.byToken.itl.off(figures.Mean) }),
		ms(func(c *comparison) float64 { return c.byToken.itl.off(p99) }),
		ms(func(c *comparison) float64 { return worst(c.byToken.itl.errors) }),
		ms(func(c *comparison) float64 { return bias(c.whole.ttft, c.ttft, figures.Mean) }),
		ms(func(c *comparison) float64 { return bias(c.byToken.ttft, c.ttft, figures.Mean) }),
		ms(func(c *comparison) float64 { return bias(c.byToken.ttft, c.ttft, p99) }),
		ms(func(c *comparison) float64 { return bias(c.byToken.itl, c.itl, figures.Mean) }),
		ms(func(c *comparison) float64 { return bias(c.byToken.itl, c.itl, p99) }),
	}
}
