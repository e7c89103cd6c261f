package model

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// cost is a parameter of the time of a step.
type cost int

// The costs, in the order in which they are looked for: one that says nothing new beside those before it is left out.
const (
	costBase cost = iota
	costPrefill
	costDecode
	costAdmission
	costContext
	costs
)

// share is how much of a cost a step has.
func (c cost) share(w vllmsim.Work) float64 {
	return []float64{1, float64(w.Prefill), float64(w.Decoding), float64(w.Admitted), float64(w.Context)}[c]
}

// alike is the share of a cost's variance that must be its own: where it is less, the steps do not tell two costs
// apart, as prefill and admission where all prompts are equally long.
const alike = 0.01

// solution is the costs of steps.
type solution struct {
	value, err [costs]float64 // seconds, and standard errors
	status     [costs]string  // why a cost is 0; empty: it is not
	residuals  []float64      // seconds
}

// significant is how many standard errors a cost is from 0, at least.
const significant = 2

// The reasons for which a cost is 0.
const (
	notSeen  = "not seen: no step had any, or it cost too little to be told from chance"
	notApart = "not to be told apart from the other costs: it is in them"
)

// solve finds the costs that explain the times of steps, by least squares that outliers cannot spoil.
func solve(steps []observation) solution {
	var s solution
	var kept []cost
	for c := range costs {
		switch own := ownShare(steps, kept, c); {
		case own == 0:
			s.status[c] = notSeen
		case own < alike:
			s.status[c] = notApart
		default:
			kept = append(kept, c)
		}
	}
	for len(kept) > 0 {
		values, errs, residuals := robust(steps, kept)
		s.residuals = residuals
		worst := -1
		for i, v := range values {
			if !(v > significant*errs[i]) && (worst < 0 || v/errs[i] < values[worst]/errs[worst]) {
				worst = i
			}
		}
		if worst < 0 {
			for i, c := range kept {
				s.value[c], s.err[c] = values[i], errs[i]
			}
			return s
		}
		s.status[kept[worst]] = notSeen
		kept = slices.Delete(kept, worst, worst+1)
	}
	return s
}

// ownShare is the part of a cost's variance over the steps that the costs kept do not explain: 0 of one that no step
// has, 1 of one that is unlike all others.
func ownShare(steps []observation, kept []cost, c cost) float64 {
	column := func(c cost) []float64 {
		values := make([]float64, len(steps))
		for i, s := range steps {
			values[i] = c.share(s.work)
		}
		return values
	}
	rest := column(c)
	all := floats.Dot(rest, rest)
	if all == 0 {
		return 0
	}
	if c == costBase {
		return 1
	}
	var basis [][]float64 // orthonormal; the first is constant
	for _, k := range kept {
		v := column(k)
		for range 2 { // twice is enough to lose nothing to rounding
			for _, b := range basis {
				floats.AddScaled(v, -floats.Dot(v, b), b)
			}
		}
		if norm := floats.Norm(v, 2); norm > 0 {
			floats.Scale(1/norm, v)
			basis = append(basis, v)
		}
	}
	for i, b := range basis {
		floats.AddScaled(rest, -floats.Dot(rest, b), b)
		if i == 0 {
			all = floats.Dot(rest, rest) // from the mean
		}
	}
	if !(all > 1e-9*float64(len(steps))) {
		return alike / 2 // the same in all steps: part of the base
	}
	return floats.Dot(rest, rest) / all
}

// robust is least squares in which an outlier counts with its distance, not its square (Huber 1964). The errors are
// standard errors.
func robust(steps []observation, kept []cost) (values, errs, residuals []float64) {
	const tuning, rounds = 1.345, 30 // 95 % as good as least squares where there is no outlier
	weights := make([]float64, len(steps))
	for i := range weights {
		weights[i] = 1
	}
	for range rounds {
		before := values
		values, errs, residuals = weighted(steps, kept, weights)
		if values == nil {
			return make([]float64, len(kept)), make([]float64, len(kept)), residuals
		}
		if floats.EqualFunc(before, values, func(a, b float64) bool { return math.Abs(a-b) <= 1e-7*math.Abs(b) }) {
			break
		}
		sizes := make([]float64, len(residuals))
		for i, r := range residuals {
			sizes[i] = math.Abs(r)
		}
		slices.Sort(sizes)
		scale := max(1e-9, 1.4826*stat.Quantile(0.5, stat.Empirical, sizes, nil)) // of a normal distribution, its deviation
		for i, r := range residuals {
			weights[i] = min(1, tuning*scale/max(1e-12, math.Abs(r)))
		}
	}
	return values, errs, residuals
}

// weighted is weighted least squares; values are nil if it has no solution.
func weighted(steps []observation, kept []cost, weights []float64) (values, errs, residuals []float64) {
	n, p := len(steps), len(kept)
	scales := make([]float64, p) // columns of like size lose nothing to rounding
	for j, c := range kept {
		for _, s := range steps {
			scales[j] = max(scales[j], math.Abs(c.share(s.work)))
		}
	}
	gram, right := mat.NewSymDense(p, nil), mat.NewVecDense(p, nil)
	row := make([]float64, p)
	for i, s := range steps {
		for j, c := range kept {
			row[j] = c.share(s.work) / scales[j]
		}
		v := mat.NewVecDense(p, row)
		gram.SymRankOne(gram, weights[i], v)
		right.AddScaledVec(right, weights[i]*s.seconds, v)
	}
	var chol mat.Cholesky
	solved := mat.NewVecDense(p, nil)
	inverse := mat.NewSymDense(p, nil)
	if n <= p || !chol.Factorize(gram) || chol.SolveVecTo(solved, right) != nil || chol.InverseTo(inverse) != nil {
		return nil, nil, nil
	}
	values, errs, residuals = make([]float64, p), make([]float64, p), make([]float64, n)
	for j := range values {
		values[j] = solved.AtVec(j) / scales[j]
	}
	squares := 0.0
	for i, s := range steps {
		residuals[i] = s.seconds
		for j, c := range kept {
			residuals[i] -= values[j] * c.share(s.work)
		}
		squares += weights[i] * residuals[i] * residuals[i]
	}
	for j := range errs {
		errs[j] = math.Sqrt(squares/float64(n-p)*inverse.At(j, j)) / scales[j]
	}
	return values, errs, residuals
}
