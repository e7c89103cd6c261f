package relay

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/internal/histogram"
)

// relayKind is how a family is exposed.
type relayKind int

const (
	relayGauge relayKind = iota
	relayRatio           // a gauge from 0 to 1, which does not add up
	relayCounter
	relaySummary // sum and count only
)

func (k relayKind) gauge() bool { return k == relayGauge || k == relayRatio }

type relayFamilySpec struct {
	name string // without llm_server_; also the label metric of llm_server_metric_missing
	help string
	kind relayKind
}

// relayFamilyTable tells how a family is exposed.
func relayFamilyTable(f relayFamily) relayFamilySpec {
	return [relayFamilies]relayFamilySpec{
		relayRunning:          {"requests_running", "Requests that the engine is working on, by its own count.", relayGauge},
		relayWaiting:          {"requests_waiting", "Requests that wait to be scheduled by the engine, by its own count.", relayGauge},
		relayKVUsage:          {"kv_cache_usage_ratio", "Part of the KV cache that is in use, from 0 to 1.", relayRatio},
		relayPreemptions:      {"preemptions_total", "Times that a running request was put back into the queue for want of KV cache.", relayCounter},
		relayPromptTokens:     {"prompt_tokens_total", "Prompt tokens of all requests of the server, those found in the prefix cache included.", relayCounter},
		relayGenerationTokens: {"generation_tokens_total", "Tokens that the server generated for all requests; its rate is the throughput of the server.", relayCounter},
		relayCacheQueries:     {"prefix_cache_queries_total", "Prompt tokens that were looked up in the prefix cache.", relayCounter},
		relayCacheHits:        {"prefix_cache_hits_total", "Prompt tokens that were found in the prefix cache.", relayCounter},
		relayTTFT:             {"time_to_first_token_seconds", "Time to first token of all requests, as the server sees it.", relaySummary},
		relayQueueTime:        {"queue_time_seconds", "Time that requests waited to be scheduled, as the server sees it.", relaySummary},
		relayPrefillTime:      {"prefill_time_seconds", "Time from being scheduled to the first token, as the server sees it.", relaySummary},
	}[f]
}

// Reasons of a failed scrape. The set is closed: it becomes a label value.
const (
	relayConnect        = "connect"         // no connection, or it broke before the page was there
	relayTimeout        = "timeout"         // no whole page within the timeout
	relayTLS            = "tls"             // no handshake, a certificate that is refused, an alert also after the handshake
	relayHTTPStatus     = "http_status"     // a status other than 200, a redirect elsewhere included
	relayAuth           = "auth"            // 401, 403, or credentials that cannot be read
	relayParse          = "parse"           // a page that is malformed, cut off, or no page
	relayTooLarge       = "too_large"       // a page above one of the bounds
	relaySeveralServers = "several_servers" // values alternate: several servers behind one address
	relayInternal       = "internal"        // a fault of the relay, or of its machine: no file descriptor left
)

func relayReasons() []string {
	return []string{
		relayConnect, relayTLS, relayTimeout, relayHTTPStatus, relayAuth, relayParse, relayTooLarge, relaySeveralServers, relayInternal,
	}
}

// relayInfoNames lists the labels of llm_server_info that are read from a page, by their number.
func relayInfoNames() []string {
	return []string{relayCacheDtype: "cache_dtype", relayPrefixCaching: "prefix_caching", relayBlockSize: "block_size", relayKVCacheTokens: "kv_cache_tokens"}
}

// relayMetrics turns the state of a relay into metrics.
type relayMetrics struct {
	relay *Relay

	up, healthy, lastScrape, missing, lastChange, start, info *prometheus.Desc

	families [relayFamilies]*prometheus.Desc

	failures       *prometheus.CounterVec
	dropped        prometheus.Counter
	runningSampled prometheus.Histogram
	waitingSampled prometheus.Histogram
}

var _ prometheus.Collector = (*relayMetrics)(nil)

func newRelayMetrics(r *Relay, labels prometheus.Labels) *relayMetrics {
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("llm_server_"+name, help, variable, labels)
	}
	m := &relayMetrics{
		relay: r,

		up:         desc("up", "1 if the last scrape of the server's own metrics succeeded. It stays 1 in a hang."),
		healthy:    desc("healthy", "1 if the server's /health last answered 200. A hung vLLM still does."),
		lastScrape: desc("last_scrape_timestamp_seconds", "Unix time of the last successful scrape of the server's own metrics."),
		missing:    desc("metric_missing", "1 if the server should show a metric but does not; absent while that cannot be told.", "metric"),
		lastChange: desc("last_change_timestamp_seconds",
			"Unix time of the last scrape in which a relayed gauge or counter differed from the scrape before. "+
				"It stands still when the server hangs, but also when it is idle: read it together with llm_probe_silence_seconds."),
		start: desc("start_time_seconds", "Unix time at which the server's process started."),
		info: desc("info", "What the server says of itself; constant 1.",
			append([]string{"engine_type", "version", "model_name"}, relayInfoNames()...)...),

		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llm_server_scrape_failures_total", Help: "Failed scrapes of the server's own metrics.", ConstLabels: labels,
		}, []string{"reason"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name:        "llm_server_dropped_samples_total",
			Help:        "Samples and label values of the server's own metrics that were not relayed: repeated, too long, not UTF-8, too many, not finite or out of range.",
			ConstLabels: labels,
		}),
		runningSampled: prometheus.NewHistogram(histogram.Opts("llm_server_requests_running_sampled",
			"llm_server_requests_running, summed over the engines, once a scrape: peaks between two scrapes of the exporter are kept.", labels, relayQueueBounds())),
		waitingSampled: prometheus.NewHistogram(histogram.Opts("llm_server_requests_waiting_sampled",
			"llm_server_requests_waiting, summed over the engines, once a scrape: peaks between two scrapes of the exporter are kept.", labels, relayQueueBounds())),
	}
	for f := range relayFamilies {
		spec := relayFamilyTable(f)
		m.families[f] = desc(spec.name, spec.help, "engine", "model_name")
	}
	for _, reason := range relayReasons() {
		m.failures.WithLabelValues(reason)
	}
	return m
}

// relayQueueBounds serve request counts, from an idle engine to one with a queue that nobody will wait for.
func relayQueueBounds() []float64 { return []float64{0, 1, 2, 5, 10, 50, 200, 1000} }

// Describe implements [prometheus.Collector].
func (m *relayMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.up, m.healthy, m.lastScrape, m.missing, m.lastChange, m.start, m.info} {
		ch <- d
	}
	for _, d := range m.families {
		ch <- d
	}
	m.failures.Describe(ch)
	m.dropped.Describe(ch)
	m.runningSampled.Describe(ch)
	m.waitingSampled.Describe(ch)
}

// Collect implements [prometheus.Collector]. It reads the last sample and waits for nothing. A fault in it costs what
// was not yet collected, not the process.
func (m *relayMetrics) Collect(ch chan<- prometheus.Metric) {
	defer func() {
		if v := recover(); v != nil {
			m.failures.WithLabelValues(relayInternal).Inc()
		}
	}()
	m.failures.Collect(ch)
	m.dropped.Collect(ch)
	m.runningSampled.Collect(ch)
	m.waitingSampled.Collect(ch)

	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if h := m.relay.healthy.Load(); h != nil {
		gauge(m.healthy, relayBool(*h))
	}
	st := m.relay.state.Load()
	if st == nil {
		return
	}
	gauge(m.up, relayBool(st.up))
	if !st.scrapedAt.IsZero() {
		gauge(m.lastScrape, unixSeconds(st.scrapedAt))
		gauge(m.lastChange, unixSeconds(st.changedAt))
	}
	if reading := m.relay.current(st); reading != nil {
		m.collectReading(ch, st, reading)
	}
}

func (m *relayMetrics) collectReading(ch chan<- prometheus.Metric, st *relayState, reading *relayReading) {
	for f, series := range reading.families {
		kind := relayFamilyTable(relayFamily(f)).kind
		for _, s := range series {
			ch <- relayConstMetric(m.families[f], kind, s)
		}
	}
	for f, missing := range st.missing {
		ch <- prometheus.MustNewConstMetric(m.missing, prometheus.GaugeValue, relayBool(missing), relayFamilyTable(f).name)
	}
	if !math.IsNaN(reading.start) {
		ch <- prometheus.MustNewConstMetric(m.start, prometheus.GaugeValue, reading.start)
	}
	if st.engine == "" {
		return
	}
	for _, labels := range relayInfoLabels(st, reading) {
		ch <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, labels[:]...)
	}
}

func relayConstMetric(desc *prometheus.Desc, kind relayKind, s relaySeries) prometheus.Metric {
	switch kind {
	case relaySummary:
		return prometheus.MustNewConstSummary(desc, uint64(s.count), s.value, nil, s.engine, s.model)
	case relayCounter:
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, s.value, s.engine, s.model)
	default:
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, s.value, s.engine, s.model)
	}
}

// relayInfoLabels lists the label values of llm_server_info: one set for each way an engine is configured. An
// engine that shows no configuration has its type, version and model.
func relayInfoLabels(st *relayState, reading *relayReading) [][7]string {
	infos := reading.info
	if len(infos) == 0 {
		infos = []relayInfo{{engine: "0"}}
	}
	var all [][7]string
	seen := map[[7]string]bool{}
	for _, info := range infos {
		labels := [7]string{string(st.engine), st.version, relayModelOf(info.engine, st, reading)}
		copy(labels[3:], info.fields[:])
		if !seen[labels] {
			seen[labels] = true
			all = append(all, labels)
		}
	}
	return all
}

// relayModelOf is the model that an engine serves, as its other series name it.
func relayModelOf(engine string, st *relayState, reading *relayReading) string {
	for _, series := range reading.families {
		for _, s := range series {
			if s.engine == engine {
				return s.model
			}
		}
	}
	return st.model
}

func relayBool(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// register adds the metrics to a registry.
func (m *relayMetrics) register(registerer prometheus.Registerer) error {
	if err := registerer.Register(m); err != nil {
		return fmt.Errorf("registering the relay's metrics: %w", err)
	}
	return nil
}

// unixSeconds is exact to the millisecond; a finer reading would be noise in the digits that a float64 has left.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
