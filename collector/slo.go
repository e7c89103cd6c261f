package collector

import (
	"iter"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/llm-prober/llm_prober/internal/quantile"
	"github.com/llm-prober/llm_prober/prober"
)

// Indicator says what of a probe an SLO judges.
type Indicator string

// The indicators.
const (
	IndicatorTTFT     Indicator = "ttft"     // time to first token; while connecting, the time since the start
	IndicatorDuration Indicator = "duration" // request duration; while connecting, the time since the start
	IndicatorSuccess  Indicator = "success"  // the probe succeeds; has no threshold
	IndicatorITLMax   Indicator = "itl_max"  // the longest gap
	IndicatorITLP95   Indicator = "itl_p95"  // the 95th percentile of the gaps, nearest rank
)

// SLO is an objective for the probes of one target: each probe is one event, good or bad.
type SLO struct {
	Name      string
	Indicator Indicator
	Threshold time.Duration // more than this is bad; 0 for [IndicatorSuccess]
	Objective float64       // share of good events, between 0 and 1
	Workloads []string      // names of those it covers; nil covers all
}

func (s SLO) covers(workload string) bool {
	return s.Workloads == nil || slices.Contains(s.Workloads, workload)
}

// grace is how long after a threshold an open wait is judged. A token that arrived in time may lie unread in the
// kernel when the threshold passes; 100 ms later it has been read, and its stamp, not the moment it was read,
// decides.
const grace = 100 * time.Millisecond

// fewestGaps is the fewest gaps whose 95th percentile is not simply the longest.
const fewestGaps = 20

// sloMetrics are the SLOs of one workload and what they counted.
type sloMetrics struct {
	objective, threshold *prometheus.GaugeVec
	bad, events          *prometheus.CounterVec
	unjudged             *prometheus.CounterVec
	current              []*slo
}

// slo is an SLO with its counters. A probe keeps those that it began with; once an SLO is removed, they are no
// longer exposed and what they count is lost with them.
type slo struct {
	SLO
	bad, events, unjudged prometheus.Counter
}

func newSLOMetrics(set *metricSet) *sloMetrics {
	return &sloMetrics{
		objective: set.gauges("llm_probe_slo_objective_ratio", "Share of events that the SLO wants to be good.", "slo"),
		threshold: set.gauges("llm_probe_slo_threshold_seconds", "Threshold above which an event of the SLO is bad.", "slo", "indicator"),
		bad:       set.counters("llm_probe_slo_bad_events_total", "Probes that the SLO judged to be bad.", "slo"),
		events:    set.counters("llm_probe_slo_events_total", "Probes that the SLO has judged.", "slo"),
		unjudged:  set.counters("llm_probe_slo_unjudged_total", "Probes that the SLO could not judge, because the prober read too late to know on which side of the threshold they were.", "slo"),
	}
}

// replace makes slos the current ones. One whose indicator and threshold are as before keeps its counters: they
// count the same, whatever the objective. Any other starts at 0.
func (m *sloMetrics) replace(slos []SLO) {
	for _, old := range m.current {
		if !slices.ContainsFunc(slos, old.sameEvents) {
			m.remove(old.Name)
		}
	}
	m.current = nil
	for _, s := range slos {
		m.current = append(m.current, &slo{
			SLO: s, bad: m.bad.WithLabelValues(s.Name), events: m.events.WithLabelValues(s.Name), unjudged: m.unjudged.WithLabelValues(s.Name),
		})
		m.describe(s)
	}
}

func (s *slo) sameEvents(t SLO) bool {
	return s.Name == t.Name && s.Indicator == t.Indicator && s.Threshold == t.Threshold
}

func (m *sloMetrics) describe(s SLO) {
	m.objective.WithLabelValues(s.Name).Set(s.Objective)
	if s.Indicator != IndicatorSuccess {
		m.threshold.WithLabelValues(s.Name, string(s.Indicator)).Set(s.Threshold.Seconds())
	}
}

func (m *sloMetrics) remove(name string) {
	m.objective.DeleteLabelValues(name)
	m.threshold.DeletePartialMatch(prometheus.Labels{"slo": name})
	m.bad.DeleteLabelValues(name)
	m.events.DeleteLabelValues(name)
	m.unjudged.DeleteLabelValues(name)
}

// Verdicts is what an SLO has counted for one workload since the target was first observed.
type Verdicts struct {
	SLO
	Workload    string
	Events, Bad int
}

// verdicts reads the counters of the current SLOs.
func (m *sloMetrics) verdicts(workload string) []Verdicts {
	var list []Verdicts
	for _, s := range m.current {
		list = append(list, Verdicts{SLO: s.SLO, Workload: workload, Events: counterValue(s.events), Bad: counterValue(s.bad)})
	}
	return list
}

func counterValue(c prometheus.Counter) int {
	var m dto.Metric
	if c.Write(&m) != nil { // cannot fail for a counter of client_golang
		return 0
	}
	return int(m.GetCounter().GetValue())
}

// verdict is what one SLO makes of one probe: at most one event.
type verdict struct {
	*slo
	given bool
	over  int // gaps above the threshold so far
}

// give counts the event. The event counter rises first, so that bad events never exceed events.
func (v *verdict) give(bad bool) {
	v.given = true
	v.events.Inc()
	if bad {
		v.bad.Inc()
	}
}

// deadline is the moment after which the probe is bad if nothing more arrives; there is none if the probe waits
// for nothing that this SLO judges.
func (v *verdict) deadline(f *flight) (at time.Time, ok bool) {
	switch v.Indicator {
	case IndicatorTTFT:
		return f.counted.Add(v.Threshold), f.events == 0
	case IndicatorDuration:
		return f.counted.Add(v.Threshold), f.events == 0 || f.events < f.probe.Workload.OutputTokens
	case IndicatorITLMax, IndicatorITLP95:
		return f.last.Add(v.Threshold), f.gapIsOpen() && !f.bursts.Coalesced() && v.openGapDecides(f) // a proxy that buffers is judged at the end
	}
	return time.Time{}, false
}

// openGapDecides tells whether one more long gap makes the probe bad. How many gaps there will be is taken from
// the plan while the probe runs.
func (v *verdict) openGapDecides(f *flight) bool {
	planned := f.probe.Workload.OutputTokens - 1
	return v.enough(planned) && v.over >= v.allowed(planned)
}

// enough tells whether the indicator is defined for so many latencies.
func (v *verdict) enough(n int) bool {
	if v.Indicator == IndicatorITLP95 {
		return n >= fewestGaps
	}
	return n > 0
}

// allowed is how many of so many gaps may exceed the threshold: none for the maximum; for the 95th percentile by
// nearest rank n − ⌈0.95·n⌉.
func (v *verdict) allowed(gaps int) int {
	if v.Indicator == IndicatorITLP95 {
		return gaps - quantile.Rank(gaps, 0.95)
	}
	return 0
}

// end gives the verdict on a probe that has ended, if it has not been given.
func (v *verdict) end(r *prober.Result) {
	switch {
	case v.given || r.Abandoned:
	case r.Reason == prober.ReasonInternal: // a fault of the prober says nothing about the server
	case !r.OK():
		v.give(true)
	case r.Warmup: // a success of it measures nothing
	case v.Indicator == IndicatorSuccess:
		v.give(false)
	default:
		v.judge(r)
	}
}

// judge gives the verdict on a successful probe from the bounds of its latencies: bad if they break the threshold at
// their least, good if they hold it at their most. Else nobody knows, and that is counted.
func (v *verdict) judge(r *prober.Result) {
	surely, perhaps, n := 0, 0, 0
	for l := range v.latencies(r) {
		n++
		if l.Least > v.Threshold {
			surely++
		}
		if l.Most > v.Threshold {
			perhaps++
		}
	}
	switch allowed := v.allowed(n); {
	case !v.enough(n):
	case surely > allowed:
		v.give(true)
	case perhaps <= allowed:
		v.give(false)
	default:
		v.unjudged.Inc()
	}
}

// latencies lists what of a probe the SLO judges.
func (v *verdict) latencies(r *prober.Result) iter.Seq[prober.Latency] {
	one := func(l prober.Latency, known bool) iter.Seq[prober.Latency] {
		return func(yield func(prober.Latency) bool) {
			if known {
				yield(l)
			}
		}
	}
	switch v.Indicator {
	case IndicatorTTFT:
		return one(r.TTFT())
	case IndicatorDuration:
		return one(r.ToLastToken())
	}
	return r.ITL() // none of a probe that was coalesced
}
