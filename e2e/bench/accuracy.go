//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
	"github.com/llm-prober/llm_prober/prober"
)

// levels are the numbers of concurrent streams.
func levels() []int { return []int{1, 50, 128, 256, 512} }

const (
	paceFirst = 50 * time.Millisecond
	paceEvery = 10 * time.Millisecond
	paceCount = 100
)

// accuracy compares what the prober says with what the server knows.
func accuracy(o options) (string, error) {
	var t, bounds figures.Table
	t.Header("streams", "start", "stamps", "TTFT served, mean / p99", "error of mean", "of p99", "worst sample",
		"ITL served, mean / p99", "error of mean", "of p99", "worst sample", "start stamp → receipt, p50 / p99", "CPU, s", "MB")
	bounds.Header("streams", "start", "`reader_late`", "withheld: TTFT", "ITL", "TPOT", "duration", "truth outside", "worst by, ms",
		"TTFT: hold", "width, ms", "ITL: hold", "width, ms")
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
				if kernel { // without its stamps nobody knows how early a token may have come
					bounds.Row(slices.Concat(level, boundsCells(runs))...)
				}
			}
		}
	}
	return t.String() + "\nBounds:\n\n" + bounds.String(), nil
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

// comparison is one run of the prober beside the server's account of it, or several. Times are in milliseconds.
type comparison struct {
	of      [kinds]samples
	receipt []float64 // from the start stamp to the server's receipt, of probes whose TTFT was recorded
	probes  int
	late    int     // probes of which a sample was withheld
	failed  int     // for no fault of the server's
	cpu     float64 // seconds
	rss     float64 // MB
}

// samples are those of one latency.
type samples struct {
	served      []float64 // recorded or not
	least, most []float64 // what the prober says of each of them
	beyond      []float64 // how far the truth of each lies outside these
	recorded    []float64
	errors      []float64 // how far each recorded one lies outside what the server knows
}

// truth is what the server knows of a latency, in nanoseconds. A token left between the moment before its write(2) and
// the moment after, which are far apart if the server itself lost the processor in between.
type truth struct{ served, least, most int64 }

// truths lists those of one request.
func truths(a mock.Account) (of [kinds][]truth) {
	w, r := a.Writes, a.Returns
	last := len(w) - 1
	from := func(start int64, i int) truth { return truth{w[i] - start, w[i] - start, r[i] - start} }
	of[ttft], of[duration] = []truth{from(a.Received, 0)}, []truth{from(a.Received, last)}
	between := func(i, j, n int) truth {
		by := int64(n)
		return truth{(w[j] - w[i]) / by, (w[j] - r[i]) / by, (r[j] - w[i]) / by}
	}
	for i := range last {
		of[itl] = append(of[itl], between(i, i+1, 1))
	}
	if last > 0 {
		of[tpot] = []truth{between(0, last, last)}
	}
	return of
}

func (s *samples) add(t truth, l prober.Latency) {
	s.served = append(s.served, millis(t.served))
	s.least, s.most = append(s.least, millis(int64(l.Least))), append(s.most, millis(int64(l.Most)))
	s.beyond = append(s.beyond, millis(max(0, t.least-int64(l.Most), int64(l.Least)-t.most)))
	if l.Sound() {
		v := int64(l.Value)
		s.recorded = append(s.recorded, millis(v))
		s.errors = append(s.errors, millis(max(0, v-t.most, t.least-v)))
	}
}

// join adds those of another run.
func (s *samples) join(other samples) {
	for to, from := range map[*[]float64][]float64{
		&s.served: other.served, &s.least: other.least, &s.most: other.most, &s.beyond: other.beyond,
		&s.recorded: other.recorded, &s.errors: other.errors,
	} {
		*to = append(*to, from...)
	}
}

// share is how many samples were recorded, in percent.
func (s *samples) share() float64 { return 100 * float64(len(s.recorded)) / float64(len(s.served)) }

func (s *samples) withheld() float64 { return 100 - s.share() }

// off is how far a figure of what was recorded lies from that of all that was served.
func (s *samples) off(figure func([]float64) float64) float64 {
	return math.Abs(figure(s.recorded) - figure(s.served))
}

// bounds are what a figure of all samples is at least and at most.
func (s *samples) bounds(figure func([]float64) float64) (least, most float64) {
	return figure(s.least), figure(s.most)
}

// holds reports whether the bounds of a figure contain that of all that was served.
func (s *samples) holds(figure func([]float64) float64) bool {
	least, most := s.bounds(figure)
	served := figure(s.served)
	return least-clockSlack <= served && served <= most+clockSlack
}

const (
	// wrong is what counts as a wrong sample when the prober is starved, in milliseconds.
	wrong = 2.0
	// clockSlack is what two clocks read one after the other may differ by without notice, in milliseconds.
	clockSlack = 0.1
)

func compareWith(ledger map[string]mock.Account, r clientResult) (comparison, error) {
	c := comparison{probes: len(r.Probes), cpu: r.CPU.Seconds(), rss: float64(r.PeakRSS) / 1e6}
	for _, p := range r.Probes {
		a, ok := ledger[p.ID]
		if p.Failed != "" {
			c.failed++
			continue
		}
		if !ok || len(a.Returns) != p.Tokens {
			return c, fmt.Errorf("probe %s: known to the server %v, %d token events of %d", p.ID, ok, p.Tokens, len(a.Writes))
		}
		c.add(a, p)
	}
	return c, nil
}

func (c *comparison) add(a mock.Account, p probe) {
	if p.Late {
		c.late++
	}
	if p.Latencies[ttft][0].Sound() {
		c.receipt = append(c.receipt, millis(a.Received-p.Sent))
	}
	known := truths(a)
	for kind, latencies := range p.Latencies {
		for i, l := range latencies {
			c.of[kind].add(known[kind][i], l)
		}
	}
}

// join adds another run.
func (c *comparison) join(other comparison) {
	c.probes += other.probes
	c.late += other.late
	c.failed += other.failed
	for kind := range c.of {
		c.of[kind].join(other.of[kind])
	}
}

// outside tells of how many samples, recorded or not, the truth lies outside their bounds, and by how much at most.
func (c *comparison) outside() (n, all int, far float64) {
	for _, s := range c.of {
		n, all, far = n+over(s.beyond, clockSlack), all+len(s.beyond), max(far, worst(s.beyond))
	}
	return n, all, far
}

// lateShare is how many probes were marked reader_late, in percent.
func (c *comparison) lateShare() float64 { return 100 * float64(c.late) / float64(c.probes) }

func millis(ns int64) float64 { return float64(ns) / 1e6 }

// over is how many values exceed a limit.
func over(values []float64, limit float64) (n int) {
	for _, v := range values {
		if v > limit {
			n++
		}
	}
	return n
}

// worst is the largest of values that are not negative; 0 of none.
func worst(values []float64) float64 { return slices.Max(append([]float64{0}, values...)) }

// median is that of a figure of several runs.
func median(runs []comparison, figure func(*comparison) float64) float64 {
	var values []float64
	for i := range runs {
		if v := figure(&runs[i]); !math.IsNaN(v) { // NaN: nothing was recorded
			values = append(values, v)
		}
	}
	return figures.Median(values)
}

func p50(values []float64) float64 { return figures.Quantile(values, 0.5) }
func p95(values []float64) float64 { return figures.Quantile(values, 0.95) }
func p99(values []float64) float64 { return figures.Quantile(values, 0.99) }

// accuracyCells are the medians of several runs.
func accuracyCells(runs []comparison) []string {
	print := func(format string, figure func(*comparison) float64) string {
		return fmt.Sprintf(format, median(runs, figure))
	}
	var cells []string
	for _, kind := range []int{ttft, itl} {
		cells = append(cells,
			print("%.2f", func(c *comparison) float64 { return figures.Mean(c.of[kind].served) })+" / "+
				print("%.2f", func(c *comparison) float64 { return p99(c.of[kind].served) }),
			print("%.3f", func(c *comparison) float64 { return c.of[kind].off(figures.Mean) }),
			print("%.3f", func(c *comparison) float64 { return c.of[kind].off(p99) }),
			print("%.3f", func(c *comparison) float64 { return worst(c.of[kind].errors) }))
	}
	return append(cells,
		print("%.3f", func(c *comparison) float64 { return p50(c.receipt) })+" / "+print("%.3f", func(c *comparison) float64 { return p99(c.receipt) }),
		print("%.2f", func(c *comparison) float64 { return c.cpu }), print("%.0f", func(c *comparison) float64 { return c.rss }))
}

// boundsCells are what was withheld, in all runs together; how often the bounds hold; and the medians of their widths.
func boundsCells(runs []comparison) []string {
	var all comparison
	for _, r := range runs {
		all.join(r)
	}
	cells := []string{fmt.Sprintf("%.1f %%", all.lateShare())}
	for kind := range all.of {
		cells = append(cells, fmt.Sprintf("%.2f %%", all.of[kind].withheld()))
	}
	n, samples, far := all.outside()
	cells = append(cells, fmt.Sprintf("%d of %d", n, samples), fmt.Sprintf("%.3f", far))
	statistics := []func([]float64) float64{figures.Mean, p50, p95, p99}
	for _, kind := range []int{ttft, itl} {
		hold := 0
		var widths []float64
		for _, figure := range statistics {
			for i := range runs {
				if runs[i].of[kind].holds(figure) {
					hold++
				}
			}
			widths = append(widths, median(runs, func(c *comparison) float64 {
				least, most := c.of[kind].bounds(figure)
				return most - least
			}))
		}
		cells = append(cells, fmt.Sprintf("%d of %d", hold, len(runs)*len(statistics)), strings.ReplaceAll(each(widths, "%.3f"), " ", " / "))
	}
	return cells
}
