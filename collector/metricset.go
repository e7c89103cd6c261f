package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/internal/histogram"
)

// metricSet makes metrics with the same constant labels and collects them in the order in which they were made.
// The order matters: of two counters where one may never exceed the other, the smaller is made first and
// incremented last, so that no scrape between the two increments shows more failures than requests.
//
// The labels are constant labels of each metric, because a registerer that wraps them around every metric at
// every scrape costs too much at 1,000 targets.
//
// A vector made without labels is a metric that is absent until it is first used.
type metricSet struct {
	labels     prometheus.Labels
	histograms histogram.Kind
	all        []prometheus.Collector
}

// Describe implements [prometheus.Collector].
func (s *metricSet) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range s.all {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (s *metricSet) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s.all {
		c.Collect(ch)
	}
}

func (s *metricSet) add(c prometheus.Collector) { s.all = append(s.all, c) }

func (s *metricSet) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: s.labels})
	s.add(c)
	return c
}

func (s *metricSet) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: s.labels}, labels)
	s.add(c)
	return c
}

func (s *metricSet) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: s.labels})
	s.add(g)
	return g
}

func (s *metricSet) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: s.labels}, labels)
	s.add(g)
	return g
}

func (s *metricSet) histogram(name, help string, bounds []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(s.histograms.Opts(name, help, s.labels, bounds))
	s.add(h)
	return h
}

// lateHistogram makes a histogram that is absent until it is first used.
func (s *metricSet) lateHistogram(name, help string, bounds []float64) func() prometheus.Histogram {
	v := prometheus.NewHistogramVec(s.histograms.Opts(name, help, s.labels, bounds), nil)
	s.add(v)
	return func() prometheus.Histogram { return v.WithLabelValues().(prometheus.Histogram) }
}

func (s *metricSet) desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, s.labels)
}
