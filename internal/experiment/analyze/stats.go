package analyze

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/quantile"
	"github.com/llm-prober/llm_prober/prober"
)

// The statistics of docs/definitions.md, "Statistics of a sweep". Nothing in them is random: a run has one summary.

const (
	confidence = 0.95
	// maxBlocks bounds the blocks of a level. More than about 30 add next to nothing to how well the error is known
	// (Schmeiser, Batch Size Effects in the Analysis of Simulation Output, 1982) and make each shorter, so that less
	// of what neighbours share stays within one. Fewer than minBlocks leave the error hardly known.
	maxBlocks, minBlocks = 32, 8
)

// blocked splits requests, which are in the order of their starts, into blocks of equal size. A slow second hits all
// that are in flight, so neighbours are alike. A block is twice as long as the number in flight, and shorter, down to
// that number, where there would be too few; what it then shares with the block beside it [ratioOf] takes into account.
func blocked(requests []*request, inFlight float64) [][]*request {
	n := len(requests)
	waves := float64(n) / max(1, inFlight)
	count := min(maxBlocks, n, max(int(waves/2), min(minBlocks, int(waves))))
	if count < 1 {
		count = min(1, n)
	}
	blocks := make([][]*request, count)
	for i := range blocks {
		blocks[i] = requests[i*n/count : (i+1)*n/count]
	}
	return blocks
}

// ratioOf is Σsums/Σcounts over blocks, with its standard error. Neighbouring blocks share what was in flight at their
// border: their covariance counts where it is positive. The error of one block is unknown (NaN).
func ratioOf(sums, counts []float64) (value, standardError float64) {
	total := floats.Sum(counts)
	value = floats.Sum(sums) / total
	if len(sums) < 2 {
		return value, math.NaN()
	}
	var variance, covariance, before float64
	for i, sum := range sums {
		residual := sum - value*counts[i]
		variance += residual * residual
		covariance += residual * before
		before = residual
	}
	n, lost := float64(len(sums)), 1.0
	if covariance > 0 { // which it never is in two or three blocks, since residuals add up to 0
		variance += 2 * covariance
		lost = 3 // residuals are from the mean of the blocks themselves: each of the three sums is too low by one part in n
	}
	return value, math.Sqrt(n/(n-lost)*variance) / total
}

// studentsT is the half-width, in standard errors, of an interval whose error was found from so many blocks.
func studentsT(blocks int) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: float64(blocks - 1)}.Quantile((1 + confidence) / 2)
}

// average is a mean, its standard error, and from how many blocks that is known.
type average struct {
	value, err float64
	blocks     int
}

// estimate is the average with its interval. No latency and no rate is below 0.
func (a average) estimate() experiment.Estimate {
	half := a.err * studentsT(max(2, a.blocks)) // NaN where the error is
	return interval(experiment.Figure(a.value), experiment.Figure(max(0, a.value-half)), experiment.Figure(a.value+half))
}

// interval is an estimate made of values that are known exactly.
func interval(value, low, high experiment.Figure) experiment.Estimate {
	return experiment.Estimate{Value: value, Low: low, High: high, Least: value, Most: value}
}

// meanOf is Σsums/Σcounts with its interval.
func meanOf(sums, counts []float64) experiment.Estimate {
	value, err := ratioOf(sums, counts)
	return average{value, err, len(sums)}.estimate()
}

// sample is the values of one latency in seconds: those of the first wave of a closed loop, which is sent all at once
// and is unlike all others in every run of its kind, so that nothing in it is by chance; and those of the requests after
// it, in blocks. It is filled by add, endWave, add, endBlock … and sort. A level may have millions, so each is kept once.
type sample struct {
	values []float64
	wave   []float64   // of values; sorted
	blocks [][]float64 // of values; each sorted
	from   int         // where the block begins that is being filled

	inexact inexact // those of the values that are not known exactly
}

// inexact is values, and what they are at least and at most; each sorted.
type inexact struct{ value, least, most []float64 }

// newSample has room for so many values.
func newSample(values int) sample { return sample{values: make([]float64, 0, values)} }

func (s *sample) add(l prober.Latency) {
	s.values = append(s.values, l.Value.Seconds())
	if in := &s.inexact; l.Least != l.Value || l.Most != l.Value {
		in.value = append(in.value, l.Value.Seconds())
		in.least, in.most = append(in.least, l.Least.Seconds()), append(in.most, l.Most.Seconds())
	}
}

func (s *sample) endWave() { s.wave, s.from = s.values, len(s.values) }

// endBlock ends a block; one of no value is left out.
func (s *sample) endBlock() {
	if s.from < len(s.values) {
		s.blocks, s.from = append(s.blocks, s.values[s.from:]), len(s.values)
	}
}

func (s *sample) sort() {
	for _, values := range slices.Concat(s.blocks, [][]float64{s.wave, s.inexact.value, s.inexact.least, s.inexact.most}) {
		slices.Sort(values)
	}
}

// describe makes a distribution of a sample; of an empty one, of unknown figures.
func (s sample) describe() experiment.Distribution {
	return experiment.Distribution{
		Count: len(s.values), Mean: s.mean(),
		P50: s.percentile(0.5), P90: s.percentile(0.9), P95: s.percentile(0.95), P99: s.percentile(0.99),
		Min: s.placed(min(1, len(s.values)), s.inexact.value), Max: s.placed(len(s.values), s.inexact.value),
	}
}

func (s sample) mean() experiment.Estimate {
	if len(s.values) == 0 {
		return experiment.Unknown()
	}
	e := s.average(floats.Sum).estimate()
	n, value := float64(len(s.values)), floats.Sum(s.inexact.value)
	e.Least -= experiment.Figure((value - floats.Sum(s.inexact.least)) / n)
	e.Most += experiment.Figure((floats.Sum(s.inexact.most) - value) / n)
	return widened(e)
}

// widened makes an interval hold what the errors of time stamps allow as well.
func widened(e experiment.Estimate) experiment.Estimate {
	e.Low, e.High = max(0, e.Low-(e.Value-e.Least)), e.High+(e.Most-e.Value)
	return e
}

// average is the mean of a function of the values, given its sum over any of them.
func (s sample) average(sum func(values []float64) float64) average {
	sums, counts := make([]float64, len(s.blocks)), make([]float64, len(s.blocks))
	for i, block := range s.blocks {
		sums[i], counts[i] = sum(block), float64(len(block))
	}
	_, err := ratioOf(sums, counts)
	n := float64(len(s.values))
	return average{(floats.Sum(sums) + sum(s.wave)) / n, err * floats.Sum(counts) / n, len(s.blocks)}
}

// percentile is the percentile by nearest rank, with an interval of two order statistics. How many independent
// values the sample is worth follows from the share of values at or below the percentile: how much that share differs
// from block to block, against what it would in independent values (Woodruff 1952; Korn and Graubard 1998).
func (s sample) percentile(q float64) experiment.Estimate {
	n := len(s.values)
	if n == 0 {
		return experiment.Unknown()
	}
	place, in := quantile.Rank(n, q), s.inexact
	value := s.placed(place, in.value)
	low, high := bounds(n, s.worth(float64(value)), q)
	return experiment.Estimate{
		Value: value, Low: s.placed(low, in.least), High: s.placed(high, in.most),
		Least: s.placed(place, in.least), Most: s.placed(place, in.most),
	}
}

// placed is the value of a rank, counted from 1; unknown for rank 0. The given values stand in place of those that are
// not known exactly. The value is found by halving: no latency is below 0, so floats are in the order of their bits.
func (s sample) placed(place int, inexact []float64) experiment.Figure {
	if place == 0 {
		return experiment.Figure(math.NaN())
	}
	low, high := uint64(0), math.Float64bits(math.Inf(1))
	for low < high {
		middle := low + (high-low)/2
		value := math.Float64frombits(middle)
		count := countUpTo(s.wave, value) - countUpTo(s.inexact.value, value) + countUpTo(inexact, value)
		for _, block := range s.blocks {
			count += countUpTo(block, value)
		}
		if count >= place {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return experiment.Figure(math.Float64frombits(low))
}

// countUpTo is how many of the sorted values are at most the given one.
func countUpTo(sorted []float64, value float64) int {
	return sort.Search(len(sorted), func(k int) bool { return sorted[k] > value })
}

// worth is how many independent values would tell the share of values at or below the given one as well as the
// sample does: at most all, 0 if one block alone cannot tell.
func (s sample) worth(value float64) int {
	share := s.average(func(sorted []float64) float64 { return float64(countUpTo(sorted, value)) })
	if math.IsNaN(share.err) {
		return 0
	}
	n := len(s.values)
	independent := share.value * (1 - share.value) / float64(n)
	effect := 1.0 // the design effect
	if independent > 0 {
		effect = max(1, share.err*share.err/independent)
	}
	// The error itself is known only as well as the blocks are many.
	t := studentsT(share.blocks) / studentsT(n)
	return int(float64(n)/(effect*t*t) + 1e-9)
}

// bounds are the ranks, from 1, of the order statistics between which a percentile lies with 95 % confidence,
// whatever the distribution; 0 where none is so low or so high. The n values are worth so many independent ones.
func bounds(n, worth int, quantile float64) (low, high int) {
	if worth < 1 {
		return 0, 0
	}
	tail := (1 - confidence) / 2
	below := distuv.Binomial{N: float64(worth), P: quantile} // how many values are below the true percentile
	l := sort.Search(worth, func(k int) bool { return below.CDF(float64(k)) > tail })
	h := sort.Search(worth, func(k int) bool { return below.CDF(float64(k)) >= 1-tail }) + 1
	scale := float64(n+1) / float64(worth+1)
	if l >= 1 {
		low = int(float64(l)*scale + 1e-9)
	}
	if h <= worth {
		high = int(math.Ceil(float64(h)*scale - 1e-9))
	}
	return low, high
}

// needed is how many independent values give a percentile an upper bound.
func needed(quantile float64) int {
	return int(math.Ceil(math.Log((1-confidence)/2) / math.Log(quantile)))
}
