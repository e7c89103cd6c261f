package collector

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/prober"
)

// TargetConfig says what a [Target] observes.
type TargetConfig struct {
	Name string
	// Labels are the target's own labels, on every one of its series. They must be valid and may not take a
	// name that the exporter uses itself; configuration is checked for that.
	Labels     map[string]string
	Histograms histogram.Kind
	Workloads  []WorkloadConfig
	SLOs       []SLO
}

// WorkloadConfig is a workload as the target runs it.
type WorkloadConfig struct {
	Workload *prober.Workload
	Interval time.Duration // mean time between two starts
	Model    string        // empty: whichever the requests name
}

// Target observes the probes of one server and exposes what they tell. It has a registry of its own, so that
// nothing of it remains once it is dropped. Its methods may be called at once from several goroutines.
type Target struct {
	name       string
	labels     prometheus.Labels
	histograms histogram.Kind
	registry   *prometheus.Registry
	workloads  map[string]*workload
}

// workload is all that a target exposes of one of its workloads.
type workload struct {
	name     string
	metrics  *probeMetrics
	inFlight *inFlight
}

var (
	_ prober.Observer     = (*Target)(nil)
	_ prometheus.Gatherer = (*Target)(nil)
)

// NewTarget returns a target with every counter and histogram at 0. It panics if the labels are invalid, as
// registering a metric with them would.
func NewTarget(cfg TargetConfig) *Target {
	t := &Target{
		name:       cfg.Name,
		labels:     prometheus.Labels{},
		histograms: cfg.Histograms,
		registry:   prometheus.NewRegistry(),
		workloads:  make(map[string]*workload, len(cfg.Workloads)),
	}
	maps.Copy(t.labels, cfg.Labels)
	t.labels["target"] = cfg.Name
	for _, w := range cfg.Workloads {
		t.workloads[w.Workload.Name] = t.newWorkload(w)
	}
	t.SetSLOs(cfg.SLOs)
	return t
}

func (t *Target) newWorkload(cfg WorkloadConfig) *workload {
	labels := t.Labels()
	labels["workload"] = cfg.Workload.Name
	set := &metricSet{labels: labels, histograms: t.histograms}
	w := &workload{
		name:     cfg.Workload.Name,
		metrics:  newProbeMetrics(set, cfg),
		inFlight: newInFlight(set, newSLOMetrics(set)),
	}
	t.registry.MustRegister(set)
	return w
}

// Name is the name of the target.
func (t *Target) Name() string { return t.name }

// Labels returns the constant labels of every series of the target: "target" and its own.
func (t *Target) Labels() prometheus.Labels { return maps.Clone(t.labels) }

// Registerer is where other collectors of the same target, with [Target.Labels], are registered.
func (t *Target) Registerer() prometheus.Registerer { return t.registry }

// Gather implements [prometheus.Gatherer].
func (t *Target) Gather() ([]*dto.MetricFamily, error) { return t.registry.Gather() }

// SetSLOs replaces the SLOs. Counters of SLOs whose indicator and threshold stay are kept, series of the others
// vanish. A probe in flight keeps the SLOs it began with.
func (t *Target) SetSLOs(slos []SLO) {
	for _, w := range t.workloads {
		var covering []SLO
		for _, s := range slos {
			if s.covers(w.name) {
				covering = append(covering, s)
			}
		}
		w.inFlight.setSLOs(covering)
	}
}

// Verdicts tells what the SLOs have counted, in no particular order of workloads.
func (t *Target) Verdicts() []Verdicts {
	var all []Verdicts
	for name, w := range t.workloads {
		all = append(all, w.inFlight.verdicts(name)...)
	}
	return all
}

// Started implements [prober.Observer].
func (t *Target) Started(p *prober.Probe) {
	if w := t.workload(p); w != nil {
		w.metrics.started(p)
		w.inFlight.started(p)
	}
}

// Sent implements [prober.Observer].
func (t *Target) Sent(p *prober.Probe, at time.Time) {
	if w := t.workload(p); w != nil {
		w.inFlight.sent(p, at)
	}
}

// Token implements [prober.Observer].
func (t *Target) Token(p *prober.Probe, at time.Time, early time.Duration) {
	if w := t.workload(p); w != nil {
		w.inFlight.token(p, at, early)
	}
}

// Ended implements [prober.Observer].
func (t *Target) Ended(r *prober.Result) {
	if w := t.workload(r.Probe); w != nil {
		w.inFlight.ended(r)
		w.metrics.ended(r)
	}
}

// Missed implements [prober.Observer].
func (t *Target) Missed(_, workload string) {
	if w := t.workloads[workload]; w != nil {
		w.metrics.missed.Inc()
	}
}

// workload is nil for a workload that the target does not have: no probe can create series.
func (t *Target) workload(p *prober.Probe) *workload { return t.workloads[p.Workload.Name] }
