package analyze

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

var nan = experiment.Figure(math.NaN())

// nearly compares figures to a billionth, and takes two unknown ones for equal.
var nearly = cmp.Options{cmpopts.EquateApprox(1e-9, 1e-12), cmpopts.EquateNaNs(), cmp.Comparer(func(a, b experiment.Figure) bool {
	return a == b || !a.Known() && !b.Known() || math.Abs(float64(a-b)) <= 1e-9*math.Abs(float64(a))
})}

// The ranks are those of binomial tables, for example of Conover, Practical Nonparametric Statistics, table A3.
func TestBounds(t *testing.T) {
	for _, c := range []struct {
		n, worth  int
		quantile  float64
		low, high int
	}{
		{5, 5, 0.5, 0, 0}, // (1/2)^5 = 3.1 % is more than a tail
		{6, 6, 0.5, 1, 6}, // (1/2)^6 = 1.6 %
		{10, 10, 0.5, 2, 9},
		{20, 20, 0.5, 6, 15},
		{100, 100, 0.5, 40, 61},
		{71, 71, 0.95, 63, 0}, // 0.95^71 = 2.6 %
		{72, 72, 0.95, 64, 72},
		{100, 100, 0.99, 97, 0}, // 0.99^100 = 37 %
		{367, 367, 0.99, 359, 0},
		{368, 368, 0.99, 360, 368},
		{100, 10, 0.5, 18, 83}, // ranks 2 and 9 of 10, in a sample of 100
		{100, 0, 0.5, 0, 0},
	} {
		low, high := bounds(c.n, c.worth, c.quantile)
		if low != c.low || high != c.high {
			t.Errorf("p%g of %d worth %d lies between ranks %d and %d, not %d and %d",
				100*c.quantile, c.n, c.worth, low, high, c.low, c.high)
		}
	}
}

// The bounds keep what they promise, by the binomial probabilities themselves, summed here term by term.
func TestBoundsCover(t *testing.T) {
	for _, n := range []int{80, 128, 500, 2048} {
		for _, quantile := range []float64{0.5, 0.9, 0.95} {
			low, high := bounds(n, n, quantile)
			covered := 0.0
			for k := low; k < high; k++ {
				choose, _ := math.Lgamma(float64(n + 1))
				a, _ := math.Lgamma(float64(k + 1))
				b, _ := math.Lgamma(float64(n - k + 1))
				covered += math.Exp(choose - a - b + float64(k)*math.Log(quantile) + float64(n-k)*math.Log1p(-quantile))
			}
			if covered < 0.95 || covered > 0.985 {
				t.Errorf("the interval of the p%g of %d covers it in %.1f %% of all samples", 100*quantile, n, 100*covered)
			}
		}
	}
}

func TestNeeded(t *testing.T) {
	for quantile, want := range map[float64]int{0.5: 6, 0.9: 36, 0.95: 72, 0.99: 368} {
		if got := needed(quantile); got != want {
			t.Errorf("a p%g needs %d values, not %d", 100*quantile, got, want)
		}
		if _, high := bounds(want, want, quantile); high == 0 {
			t.Errorf("%d values give the p%g no upper bound", want, 100*quantile)
		}
		if _, high := bounds(want-1, want-1, quantile); high != 0 {
			t.Errorf("%d values give the p%g an upper bound", want-1, 100*quantile)
		}
	}
}

func TestBlocked(t *testing.T) {
	for _, c := range []struct {
		name     string
		requests int
		inFlight float64
		want     []int // lengths
	}{
		{"none", 0, 4, []int{}},
		{"fewer than are in flight", 3, 4, []int{3}},
		{"none shorter than those in flight", 14, 4, []int{4, 5, 5}},
		{"eight if they can be", 62, 4, []int{7, 8, 8, 8, 7, 8, 8, 8}},
		{"twice those in flight", 80, 4, slices.Repeat([]int{8}, 10)},
		{"less than one in flight", 5, 0.1, []int{1, 1, 1, 1, 1}},
		{"at most 32", 64, 1, slices.Repeat([]int{2}, 32)},
	} {
		lengths := []int{}
		for _, block := range blocked(make([]*request, c.requests), c.inFlight) {
			lengths = append(lengths, len(block))
		}
		if diff := cmp.Diff(c.want, lengths); diff != "" {
			t.Errorf("%s: lengths of blocks (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestRatio(t *testing.T) {
	for _, c := range []struct {
		name         string
		sums, counts []float64
		value, err   float64
	}{
		{"one block", []float64{6}, []float64{3}, 2, math.NaN()},
		// residuals 1 -1 1 -1: neighbours differ, their covariance does not count. 4/3·4 = 5.33, its root over 4.
		{"equal blocks", []float64{3, 1, 3, 1}, []float64{1, 1, 1, 1}, 2, math.Sqrt(16.0/3) / 4},
		// residuals 1 1 -1 -1: covariance 1 - 1 + 1 = 1. 4/(4-3)·(4+2) = 24.
		{"neighbours alike", []float64{3, 3, 1, 1}, []float64{1, 1, 1, 1}, 2, math.Sqrt(24) / 4},
		// residuals -1, 1
		{"unequal blocks", []float64{1, 7}, []float64{1, 3}, 2, 2.0 / 4},
	} {
		value, err := ratioOf(c.sums, c.counts)
		if diff := cmp.Diff([]float64{c.value, c.err}, []float64{value, err}, nearly); diff != "" {
			t.Errorf("%s: value and standard error (-want +got):\n%s", c.name, diff)
		}
	}
}

// 0 to 99, in 20 blocks of 5 that each hold two neighbours of every other: 0 1 40 41 80 … so that blocks tell nothing
// against independence.
func TestDescribe(t *testing.T) {
	blocks := make([][]float64, 20)
	for i := range 100 {
		blocks[i%20] = append(blocks[i%20], float64(i))
	}
	// Sums of the blocks are 200, 205 … 295; the residuals -47.5, -42.5 … 47.5 have squares that add up to
	// 25·(20³-20)/12 = 16625, and products of neighbours that add up to 25·Σ(k-9.5)(k-8.5) = 14131.25 for k = 0 … 18.
	standardError := math.Sqrt(20.0/17*(16625+2*14131.25)) / 100
	half := experiment.Figure(standardError * 2.093024054408263) // Student's t, 97.5 %, 19 degrees of freedom
	// Of each block two or three values are at or below 49, the ten with three side by side: residuals of ±0.5, squares
	// 20·0.25, neighbours 18·0.25 - 0.25: variance 20/17·(5+8.5)/100² = 0.00159, less than 0.5²/100 of independent
	// values. So the sample is worth its 100 values, but the error is known from 20 blocks: 100·(1.98422/2.09302)² =
	// 89.9, that is 89.
	want := experiment.Distribution{
		Count: 100, Mean: interval(49.5, 49.5-half, 49.5+half),
		P50: interval(49, 38, 61), // ranks 35 and 55 of 89 are 39.3 and 61.7 of 100
		// In the same way it is worth 50, 37 and 88 values for the others.
		P90: interval(89, 80, 99),  // ranks 41 and 50 of 50 are 81.2 and 99.02
		P95: interval(94, 84, nan), // rank 32 of 37 is 85.1; there is no other
		P99: interval(98, 95, nan), // rank 85 of 88 is 96.5
		Min: 0, Max: 99,
	}
	if diff := cmp.Diff(want, sampled(nil, exactBlocks(blocks)).describe(), nearly); diff != "" {
		t.Errorf("distribution (-want +got):\n%s", diff)
	}
}

// The first wave is in the figures, but not in how much they differ by chance: of eight blocks that are alike, and a
// wave that is not, the mean is known exactly, and the p50 as well as of 72 independent values.
func TestDescribeWave(t *testing.T) {
	s := sampled(exactly(slices.Repeat([]float64{100}, 8)), exactBlocks(slices.Repeat([][]float64{{1, 2, 3, 4, 5, 6, 7, 8}}, 8)))
	d := s.describe()
	mean := experiment.Figure(8*100+8*36) / 72
	for _, c := range []struct {
		name      string
		got, want experiment.Estimate
	}{
		{"mean", d.Mean, interval(mean, mean, mean)},
		// 72·(1.99394/2.36462)² = 51.2, that is 51: ranks 19 and 33 are 26.7 and 46.3 of 72, and of each value there are 8.
		{"p50", d.P50, interval(5, 4, 6)},
		{"p95", d.P95, interval(100, 8, nan)}, // rank 45 is 63.2
	} {
		if diff := cmp.Diff(c.want, c.got, nearly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestDescribeNothing(t *testing.T) {
	want := experiment.Distribution{
		Count: 0, Mean: experiment.Unknown(), P50: experiment.Unknown(), P90: experiment.Unknown(), P95: experiment.Unknown(), P99: experiment.Unknown(), Min: nan, Max: nan,
	}
	for name, blocks := range map[string][][]float64{"no block": nil, "empty blocks": {nil, {}}} {
		if diff := cmp.Diff(want, sampled(nil, exactBlocks(blocks)).describe(), nearly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Figures of one value, or of one block, have no interval.
func TestDescribeOneBlock(t *testing.T) {
	d := sampled(nil, exactBlocks([][]float64{{3, 1, 2}})).describe()
	for name, c := range map[string]struct{ got, want experiment.Estimate }{
		"mean": {d.Mean, interval(2, nan, nan)},
		"p50":  {d.P50, interval(2, nan, nan)},
		"p99":  {d.P99, interval(3, nan, nan)},
	} {
		if diff := cmp.Diff(c.want, c.got, nearly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Constant values are known exactly, but not beyond what their number tells.
func TestDescribeConstant(t *testing.T) {
	d := sampled(nil, exactBlocks(slices.Repeat([][]float64{slices.Repeat([]float64{7}, 4)}, 32))).describe()
	want := experiment.Distribution{
		Count: 128, Mean: interval(7, 7, 7),
		P50: interval(7, 7, 7), P90: interval(7, 7, 7), P95: interval(7, 7, 7), P99: interval(7, 7, nan), Min: 7, Max: 7,
	}
	if diff := cmp.Diff(want, d, nearly); diff != "" {
		t.Errorf("distribution (-want +got):\n%s", diff)
	}
}

// coverage is how often, in a thousand data sets, the intervals of an estimate hold the true value.
func coverage(truth float64, estimate func(random *rand.Rand) experiment.Estimate) float64 {
	random := rand.New(rand.NewPCG(42, 42))
	covered := 0
	for range 1000 {
		e := estimate(random)
		// A bound that the data do not give is no bound.
		if !(float64(e.Low) > truth) && !(float64(e.High) < truth) {
			covered++
		}
	}
	return float64(covered) / 1000
}

// z95 is the 95th percentile of the standard normal distribution.
const z95 = 1.6448536269514722

// lognormal is exp(z/2) of a series of standard normal z; its p50 is 1, its p95 exp(z95/2).
func lognormal(z []float64) []float64 {
	values := make([]float64, len(z))
	for i := range z {
		values[i] = math.Exp(z[i] / 2)
	}
	return values
}

func independent(n int, random *rand.Rand) []float64 {
	z := make([]float64, n)
	for i := range z {
		z[i] = random.NormFloat64()
	}
	return z
}

// shared is standard normal values of which half the variance is of shocks that hit a number of neighbours each, as
// a slow second hits all requests in flight.
func shared(n, inFlight int, random *rand.Rand) []float64 {
	shocks := independent(n+inFlight, random)
	z := independent(n, random)
	sum := 0.0
	for i := range n + inFlight {
		sum += shocks[i]
		if i >= inFlight {
			sum -= shocks[i-inFlight]
			z[i-inFlight] = math.Sqrt(0.5)*z[i-inFlight] + math.Sqrt(0.5/float64(inFlight))*sum
		}
	}
	return z
}

// waning is standard normal values whose correlation falls by a factor e over so many neighbours (first-order
// autoregression): it never ends, which is worse than blocks are made for.
func waning(n int, over float64, random *rand.Rand) []float64 {
	phi := math.Exp(-1 / over)
	z := independent(n, random)
	for i := 1; i < n; i++ {
		z[i] = phi*z[i-1] + math.Sqrt(1-phi*phi)*z[i]
	}
	return z
}

// inBlocks makes a sample of a series as [view.measure] does of requests.
func inBlocks(values []float64, inFlight float64) sample {
	blocks := blocked(make([]*request, len(values)), inFlight)
	parts, at := make([][]float64, len(blocks)), 0
	for i, block := range blocks {
		parts[i] = values[at : at+len(block)]
		at += len(block)
	}
	return sampled(nil, exactBlocks(parts))
}

func TestCoverage(t *testing.T) {
	at := func(quantile float64) func(sample) experiment.Estimate {
		return func(s sample) experiment.Estimate { return s.percentile(quantile) }
	}
	for _, c := range []struct {
		name     string
		values   func(random *rand.Rand) []float64
		inFlight float64
		estimate func(sample) experiment.Estimate
		truth    float64
		low      float64 // least coverage
		high     float64
	}{
		{"p50 of independent", func(r *rand.Rand) []float64 { return independent(500, r) }, 1, at(0.5), 1, 0.95, 0.99},
		{"p95 of independent", func(r *rand.Rand) []float64 { return independent(500, r) }, 1, at(0.95), math.Exp(z95 / 2), 0.95, 0.99},
		{"mean of independent", func(r *rand.Rand) []float64 { return independent(500, r) }, 1, sample.mean, math.Exp(0.125), 0.92, 0.98},
		{"p50 of shared", func(r *rand.Rand) []float64 { return shared(1024, 32, r) }, 32, at(0.5), 1, 0.92, 0.98},
		{"p95 of shared", func(r *rand.Rand) []float64 { return shared(1024, 32, r) }, 32, at(0.95), math.Exp(z95 / 2), 0.92, 0.98},
		{"mean of shared", func(r *rand.Rand) []float64 { return shared(1024, 32, r) }, 32, sample.mean, math.Exp(0.125), 0.92, 0.98},
		{"p95 of shared, 8 blocks", func(r *rand.Rand) []float64 { return shared(1024, 128, r) }, 128, at(0.95), math.Exp(z95 / 2), 0.90, 0.99},
		{"p95 of waning", func(r *rand.Rand) []float64 { return waning(1024, 16, r) }, 32, at(0.95), math.Exp(z95 / 2), 0.92, 0.98},
	} {
		got := coverage(c.truth, func(random *rand.Rand) experiment.Estimate {
			return c.estimate(inBlocks(lognormal(c.values(random)), c.inFlight))
		})
		t.Logf("%s: %.3f", c.name, got)
		if got < c.low || got > c.high {
			t.Errorf("%s: intervals cover the truth in %.1f %% of data sets, not in %.0f to %.0f %%", c.name, 100*got, 100*c.low, 100*c.high)
		}
	}
}

// exactly makes latencies without errors.
func exactly(values []float64) []prober.Latency {
	all := make([]prober.Latency, len(values))
	for i, value := range values {
		all[i] = prober.Latency{Value: seconds(value), Least: seconds(value), Most: seconds(value)}
	}
	return all
}

func exactBlocks(blocks [][]float64) [][]prober.Latency {
	all := make([][]prober.Latency, len(blocks))
	for i, block := range blocks {
		all[i] = exactly(block)
	}
	return all
}

// sampled makes a sample of the latencies of a first wave and of blocks.
func sampled(wave []prober.Latency, blocks [][]prober.Latency) sample {
	s := newSample(0)
	for _, l := range wave {
		s.add(l)
	}
	s.endWave()
	for _, block := range blocks {
		for _, l := range block {
			s.add(l)
		}
		s.endBlock()
	}
	s.sort()
	return s
}

// What was read late is in every figure, and widens it: the figure and its interval hold what it may have been.
func TestFiguresHoldTheErrorsOfTimeStamps(t *testing.T) {
	blocks := make([][]prober.Latency, 10)
	for i := range 100 {
		v := float64(i)
		blocks[i%10] = append(blocks[i%10], prober.Latency{Value: seconds(v), Least: seconds(v - 2), Most: seconds(v + 1)})
	}
	exact, wide := sampled(nil, exactBlocks(numbered(10))).describe(), sampled(nil, blocks).describe()
	for _, c := range []struct {
		name        string
		exact, wide experiment.Estimate
	}{{"mean", exact.Mean, wide.Mean}, {"p50", exact.P50, wide.P50}, {"p90", exact.P90, wide.P90}, {"p95", exact.P95, wide.P95}, {"p99", exact.P99, wide.P99}} {
		want := experiment.Estimate{Value: c.exact.Value, Low: c.exact.Low - 2, High: c.exact.High + 1, Least: c.exact.Value - 2, Most: c.exact.Value + 1}
		if diff := cmp.Diff(want, c.wide, nearly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// numbered is the numbers from 0 to 99 in so many blocks.
func numbered(count int) [][]float64 {
	blocks := make([][]float64, count)
	for i := range 100 {
		blocks[i%count] = append(blocks[i%count], float64(i))
	}
	return blocks
}
