package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/collectors/version"
	dto "github.com/prometheus/client_model/go"
)

// Self is what the exporter tells of itself: its build, its process and its configuration.
type Self struct {
	registry *prometheus.Registry
	reloaded *prometheus.GaugeVec // absent until the configuration has been loaded
	loadedAt *prometheus.GaugeVec // absent until it has been loaded with success
}

var _ prometheus.Gatherer = (*Self)(nil)

// NewSelf returns the metrics of the running process.
func NewSelf() *Self {
	set := &metricSet{}
	s := &Self{
		registry: prometheus.NewRegistry(),
		reloaded: set.gauges("llm_prober_config_last_reload_successful", "Whether the last load of the configuration succeeded."),
		loadedAt: set.gauges("llm_prober_config_last_reload_success_timestamp_seconds", "When the configuration was last loaded with success."),
	}
	s.registry.MustRegister(
		set,
		version.NewCollector("llm_prober"),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	return s
}

// Reloaded records that the configuration was loaded, at start or later, and whether it was taken over.
func (s *Self) Reloaded(ok bool) {
	if !ok {
		s.reloaded.WithLabelValues().Set(0)
		return
	}
	s.reloaded.WithLabelValues().Set(1)
	s.loadedAt.WithLabelValues().Set(unixSeconds(time.Now()))
}

// Registerer is where other metrics of the process itself are registered.
func (s *Self) Registerer() prometheus.Registerer { return s.registry }

// Gather implements [prometheus.Gatherer].
func (s *Self) Gather() ([]*dto.MetricFamily, error) { return s.registry.Gather() }
