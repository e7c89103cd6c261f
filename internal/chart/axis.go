package chart

import (
	"math"
	"slices"

	"github.com/llm-prober/llm_prober/internal/humanize"
)

// Axis is a direction of a chart: which values it has room for, where they are marked and how they are written.
type Axis struct {
	Name      string
	log       bool
	Low, High float64
	Ticks     []float64
	format    func(float64) string // of a tick
}

// at is where on the axis a value lies, 0 to 1; values beyond the ends lie at the ends.
func (a *Axis) at(v float64) float64 {
	low, high := a.Low, a.High
	if a.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	if !(high > low) {
		return 0.5
	}
	return min(max((v-low)/(high-low), 0), 1)
}

// shows reports whether the axis can show a value.
func (a *Axis) shows(v float64) bool { return Finite(v) && (!a.log || v > 0) }

// logFrom is the ratio of the largest to the smallest value from which on latencies are drawn on a logarithmic axis.
const logFrom = 8

// LatencyAxis has room for latencies: logarithmic where they differ by much, else from 0 on.
func LatencyAxis(values []float64) Axis {
	values = Positive(values)
	if len(values) > 0 && slices.Max(values) > logFrom*slices.Min(values) {
		return logAxis(values, humanize.Chosen)
	}
	return LinearAxis(values, humanize.Chosen)
}

// Positive lists the values that are known and above 0.
func Positive(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !Finite(v) || v <= 0 })
}

// LinearAxis goes from 0 to the round value above all values.
func LinearAxis(values []float64, format func(float64) string) Axis {
	top := 0.0
	for _, v := range values {
		if Finite(v) {
			top = max(top, v)
		}
	}
	if top <= 0 {
		top = 1
	}
	step := roundUp(top/4, 1, 2, 2.5, 5)
	a := Axis{format: format}
	for i := 0.0; ; i++ {
		a.Ticks = append(a.Ticks, i*step)
		if a.High = i * step; a.High >= top*0.999 || i > 10 {
			return a
		}
	}
}

// roundUp is the next of some factors from 1 on times a power of ten.
func roundUp(v float64, factors ...float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range factors {
		if v <= f*power*1.001 {
			return f * power
		}
	}
	return 10 * power
}

// logAxis goes from the round value below all values to the one above them. The values must be positive.
func logAxis(values []float64, format func(float64) string) Axis {
	low, high := slices.Min(values), slices.Max(values)
	a := Axis{log: true, format: format}
	all := steps(low, high, []float64{1, 2, 5})
	a.Low, a.High = all[0], all[len(all)-1]
	for _, factors := range [][]float64{{1, 2, 5}, {1, 3}, {1}} {
		a.Ticks = slices.DeleteFunc(steps(a.Low, a.High, factors), func(v float64) bool { return v < a.Low*0.999 || v > a.High*1.001 })
		if len(a.Ticks) <= 7 {
			break
		}
	}
	return a
}

// RatioAxis has room for ratios, and always for 1 and something around it.
func RatioAxis(values []float64) Axis {
	values = append(Positive(values), 0.8, 1.25)
	low, high := slices.Min(values), slices.Max(values)
	round := []float64{0.8, 0.9, 1, 1.1, 1.25}
	if low < 0.799 || high > 1.251 {
		round = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
	}
	a := Axis{log: true, Low: round[0], High: round[len(round)-1], format: func(v float64) string { return humanize.Exact(v) + "×" }}
	for _, v := range round {
		if v <= low*1.001 {
			a.Low = v
		}
		if v >= high*0.999 {
			a.High = v
			break
		}
	}
	a.Ticks = slices.DeleteFunc(round, func(v float64) bool { return v < a.Low || v > a.High })
	if len(a.Ticks) > 7 {
		a.Ticks = slices.DeleteFunc(a.Ticks, func(v float64) bool { e := math.Log10(v); return math.Abs(e-math.Round(e)) > 1e-9 })
	}
	return a
}

// steps are the multiples of powers of ten from the last at or below low to the first at or above high.
func steps(low, high float64, factors []float64) []float64 {
	var all []float64
	for e := int(math.Floor(math.Log10(low))) - 1; ; e++ {
		for _, f := range factors {
			v := f * math.Pow(10, float64(e))
			if v <= low*1.001 {
				all = all[:0]
			}
			all = append(all, v)
			if v >= high*0.999 {
				return all
			}
		}
	}
}

// LevelAxis has a tick at each level. Loads and lengths that grow by factors are spread evenly.
func LevelAxis(name string, values []float64) Axis {
	values = Positive(values)
	slices.Sort(values)
	values = slices.Compact(values)
	a := Axis{Name: name, format: humanize.Exact, Ticks: values}
	if len(values) == 0 {
		a.High = 1
		return a
	}
	a.Low, a.High = values[0], values[len(values)-1]
	a.log = a.High/a.Low > 6.5
	if !a.log && len(values) > 1 && a.Low < a.High/3 {
		a.Low = 0
	}
	return a
}

// TimeAxis goes from low to high, both in seconds since the start of a level.
func TimeAxis(low, high float64) Axis {
	a := Axis{Low: low, High: high, format: TickClock}
	if high-low >= 300 {
		a.format = tickMinutes
	}
	step := ClockStep((high - low) / 8)
	for t := math.Ceil(low/step) * step; t <= high; t += step {
		a.Ticks = append(a.Ticks, t+0) // +0 makes 0 of -0
	}
	return a
}

// ClockStep is the next step in which clocks are read.
func ClockStep(v float64) float64 {
	for _, s := range []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200} {
		if v <= s {
			return s
		}
	}
	return 86400 * math.Ceil(v/86400)
}
