package discovery

import "github.com/prometheus/client_golang/prometheus"

// Collector exposes how many members the groups have in each state.
type Collector struct {
	groups func() []Group
	desc   *prometheus.Desc
}

var _ prometheus.Collector = (*Collector)(nil)

// NewCollector returns a collector of what groups returns when it is asked.
func NewCollector(groups func() []Group) *Collector {
	return &Collector{groups, prometheus.NewDesc(
		"llm_prober_discovered_targets", "Members of a target group: those that are probed (active), and those that are not.",
		[]string{"group", "state"}, nil,
	)}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, g := range c.groups() {
		for _, s := range States() {
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(g.Count(s)), g.Name, string(s))
		}
	}
}
