package relay

import (
	"math"
	"slices"
)

// series is one relayed series: a value, or the sum and count of a summary.
type series struct {
	engine, model string
	value, count  float64
}

// engineInfo is what a page says of one engine's configuration.
type engineInfo struct {
	engine string
	fields [infoFields]string
}

// reading is what one page says, in our own terms. It does not change once it is made.
type reading struct {
	families [families][]series
	info     []engineInfo
	start    float64 // process start, Unix seconds; NaN where the page has none

	dropped int              // samples and label values that were left out
	drops   [dropCauses]bool // why
	partial [families]bool   // a sample of the family was left out: its sum is not known

	any   bool // the page has a sample that the engine's table names
	older bool // the page shows the KV cache usage under an older name
	own   bool // a sample has no labels, or one by which the engine tells its models or replicas apart
}

// dropCause numbers the causes for which something of a page is left out.
type dropCause int

const (
	dropRepeated dropCause = iota
	dropText
	dropSeries
	dropValue
	dropCauses // how many there are
)

// String says what was left out.
func (d dropCause) String() string {
	return [dropCauses]string{
		dropRepeated: "repeated samples",
		dropText:     "label values that are too long or not UTF-8",
		dropSeries:   "more series of a metric than are relayed",
		dropValue:    "values that cannot be",
	}[d]
}

func (r *reading) drop(cause dropCause) {
	r.dropped++
	r.drops[cause] = true
}

// total sums a family over its series; unknown where it has none, or not all of them.
func (r *reading) total(f family) (sum float64, known bool) {
	for _, s := range r.families[f] {
		sum += s.value
	}
	return sum, len(r.families[f]) > 0 && !r.partial[f]
}

// peak is the largest value of a family; unknown where it has no series.
func (r *reading) peak(f family) (peak float64, known bool) {
	for i, s := range r.families[f] {
		if i == 0 || s.value > peak {
			peak = s.value
		}
	}
	return peak, len(r.families[f]) > 0
}

// tokens is the sum of all token counters; NaN where the page has none, or where one was left out.
func (r *reading) tokens() float64 {
	prompt, hasPrompt := r.total(familyPromptTokens)
	generation, hasGeneration := r.total(familyGenerationTokens)
	if !hasPrompt && !hasGeneration || r.partial[familyPromptTokens] || r.partial[familyGenerationTokens] {
		return math.NaN()
	}
	return prompt + generation
}

// launch is what the first engine says of its configuration; nil if it says nothing.
func (r *reading) launch() map[string]string {
	if len(r.info) == 0 {
		return nil
	}
	shown := map[string]string{}
	for f, name := range infoNames() {
		if text := r.info[0].fields[f]; text != "" {
			shown[name] = text
		}
	}
	return shown
}

// moved reports whether a gauge or counter differs from the reading before. The summaries are left out: they
// change only together with counters.
func (r *reading) moved(before *reading) bool {
	for f := range families {
		if f.spec().kind != kindSummary && !slices.Equal(r.families[f], before.families[f]) {
			return true
		}
	}
	return false
}

// missing tells, for each family that the table promises, whether the page lacks it. A family that cannot be judged yet
// is not among them:
//   - vLLM in multi-process mode shows no gauge before its engine's first step. Gauges are judged once there is one, or
//     a count above zero.
//   - SGLang shows no counter before the first request has ended. Counters and summaries are judged once a count is
//     above zero.
//   - A page that has nothing of the engine at all is judged at once.
//   - What an older version of the engine does not have is not missing.
//   - The page of a router is not judged. It shows under the engine's names what it knows itself: its samples have
//     labels, and none is one of the engine's (production-stack: server, in src/vllm_router/services/metrics_service).
func (r *reading) missing(table *engineTable) map[family]bool {
	if r.any && !r.own && table.engineLabel != "" {
		return nil
	}
	gauge, counted := false, false
	for f, series := range r.families {
		isGauge := family(f).spec().kind.gauge()
		for _, s := range series {
			gauge = gauge || isGauge
			counted = counted || !isGauge && s.value+s.count > 0
		}
	}
	judged := map[family]bool{}
	for _, source := range table.sources {
		isGauge := source.family.spec().kind.gauge()
		if source.optional || source.newer && r.older || r.any && !counted && !(isGauge && gauge) {
			continue
		}
		judged[source.family] = len(r.families[source.family]) == 0
	}
	return judged
}
