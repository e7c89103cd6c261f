package relay

import (
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/internal/histogram"
)

// metricKind is how a family is exposed.
type metricKind int

const (
	kindGauge metricKind = iota
	kindRatio            // a gauge from 0 to 1, which does not add up
	kindCounter
	kindSummary // sum and count only
)

func (k metricKind) gauge() bool { return k == kindGauge || k == kindRatio }

type familySpec struct {
	name string // without llm_server_; also the label metric of llm_server_metric_missing
	help string
	kind metricKind
}

// spec tells how the family is exposed.
func (f family) spec() familySpec {
	return [families]familySpec{
		familyRunning:          {"requests_running", "Requests that the engine is working on, by its own count.", kindGauge},
		familyWaiting:          {"requests_waiting", "Requests that wait to be scheduled by the engine, by its own count.", kindGauge},
		familyKVUsage:          {"kv_cache_usage_ratio", "Part of the KV cache that is in use, from 0 to 1.", kindRatio},
		familyPreemptions:      {"preemptions_total", "Times that a running request was put back into the queue for want of KV cache.", kindCounter},
		familyPromptTokens:     {"prompt_tokens_total", "Prompt tokens of all requests of the server, those found in the prefix cache included.", kindCounter},
		familyGenerationTokens: {"generation_tokens_total", "Tokens that the server generated for all requests; its rate is the throughput of the server.", kindCounter},
		familyCacheQueries:     {"prefix_cache_queries_total", "Prompt tokens that were looked up in the prefix cache.", kindCounter},
		familyCacheHits:        {"prefix_cache_hits_total", "Prompt tokens that were found in the prefix cache.", kindCounter},
		familyTTFT:             {"time_to_first_token_seconds", "Time to first token of all requests, as the server sees it.", kindSummary},
		familyQueueTime:        {"queue_time_seconds", "Time that requests waited to be scheduled, as the server sees it.", kindSummary},
		familyPrefillTime:      {"prefill_time_seconds", "Time from being scheduled to the first token, as the server sees it.", kindSummary},
	}[f]
}

// Reasons of a failed scrape. The set is closed: it becomes a label value.
const (
	reasonConnect        = "connect"         // no connection, or it broke before the page was there
	reasonTimeout        = "timeout"         // no whole page within the timeout
	reasonTLS            = "tls"             // no handshake, a certificate that is refused, an alert also after the handshake
	reasonHTTPStatus     = "http_status"     // a status other than 200, a redirect elsewhere included
	reasonAuth           = "auth"            // 401, 403, or credentials that cannot be read
	reasonParse          = "parse"           // a page that is malformed, cut off, or no page
	reasonTooLarge       = "too_large"       // a page above one of the bounds
	reasonSeveralServers = "several_servers" // values alternate: several servers behind one address
	reasonInternal       = "internal"        // a fault of the relay, or of its machine: no file descriptor left
)

func reasons() []string {
	return []string{
		reasonConnect, reasonTLS, reasonTimeout, reasonHTTPStatus, reasonAuth, reasonParse, reasonTooLarge, reasonSeveralServers, reasonInternal,
	}
}

// infoNames lists the labels of llm_server_info that are read from a page, by their number.
func infoNames() []string {
	return []string{infoCacheDtype: "cache_dtype", infoPrefixCaching: "prefix_caching", infoBlockSize: "block_size", infoKVCacheTokens: "kv_cache_tokens"}
}

// metrics turns the state of a relay into metrics.
type metrics struct {
	relay *Relay

	up, healthy, lastScrape, missing, lastChange, start, info *prometheus.Desc

	families [families]*prometheus.Desc

	failures       *prometheus.CounterVec
	dropped        prometheus.Counter
	runningSampled prometheus.Histogram
	waitingSampled prometheus.Histogram
}

var _ prometheus.Collector = (*metrics)(nil)

func newMetrics(r *Relay, labels prometheus.Labels, kind histogram.Kind) *metrics {
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc("llm_server_"+name, help, variable, labels)
	}
	m := &metrics{
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
			append([]string{"engine_type", "version", "model_name"}, infoNames()...)...),

		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "llm_server_scrape_failures_total", Help: "Failed scrapes of the server's own metrics.", ConstLabels: labels,
		}, []string{"reason"}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name:        "llm_server_dropped_samples_total",
			Help:        "Samples and label values of the server's own metrics that were not relayed: repeated, too long, not UTF-8, too many, not finite or out of range.",
			ConstLabels: labels,
		}),
		runningSampled: prometheus.NewHistogram(kind.Opts("llm_server_requests_running_sampled",
			"llm_server_requests_running, summed over the engines, once a scrape: peaks between two scrapes of the exporter are kept.", labels, queueBounds())),
		waitingSampled: prometheus.NewHistogram(kind.Opts("llm_server_requests_waiting_sampled",
			"llm_server_requests_waiting, summed over the engines, once a scrape: peaks between two scrapes of the exporter are kept.", labels, queueBounds())),
	}
	for f := range families {
		spec := f.spec()
		m.families[f] = desc(spec.name, spec.help, "engine", "model_name")
	}
	for _, reason := range reasons() {
		m.failures.WithLabelValues(reason)
	}
	return m
}

// queueBounds serve request counts, from an idle engine to one with a queue that nobody will wait for.
func queueBounds() []float64 { return []float64{0, 1, 2, 5, 10, 50, 200, 1000} }

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
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
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	defer func() {
		if v := recover(); v != nil {
			m.failures.WithLabelValues(reasonInternal).Inc()
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
		gauge(m.healthy, toFloat(*h))
	}
	st := m.relay.state.Load()
	if st == nil {
		return
	}
	gauge(m.up, toFloat(st.up))
	if !st.scrapedAt.IsZero() {
		gauge(m.lastScrape, unixSeconds(st.scrapedAt))
		gauge(m.lastChange, unixSeconds(st.changedAt))
	}
	if rd := m.relay.current(st); rd != nil {
		m.collectReading(ch, st, rd)
	}
}

func (m *metrics) collectReading(ch chan<- prometheus.Metric, st *state, rd *reading) {
	for f, series := range rd.families {
		kind := family(f).spec().kind
		for _, s := range series {
			ch <- constMetric(m.families[f], kind, s)
		}
	}
	for f, missing := range st.missing {
		ch <- prometheus.MustNewConstMetric(m.missing, prometheus.GaugeValue, toFloat(missing), f.spec().name)
	}
	if !math.IsNaN(rd.start) {
		ch <- prometheus.MustNewConstMetric(m.start, prometheus.GaugeValue, rd.start)
	}
	if st.engine == "" {
		return
	}
	for _, labels := range infoLabels(st, rd) {
		ch <- prometheus.MustNewConstMetric(m.info, prometheus.GaugeValue, 1, labels[:]...)
	}
}

func constMetric(desc *prometheus.Desc, kind metricKind, s series) prometheus.Metric {
	switch kind {
	case kindSummary:
		return prometheus.MustNewConstSummary(desc, uint64(s.count), s.value, nil, s.engine, s.model)
	case kindCounter:
		return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, s.value, s.engine, s.model)
	default:
		return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, s.value, s.engine, s.model)
	}
}

// infoLabels lists the label values of llm_server_info: one set for each way an engine is configured. An
// engine that shows no configuration has its type, version and model.
func infoLabels(st *state, rd *reading) [][7]string {
	infos := rd.info
	if len(infos) == 0 {
		infos = []engineInfo{{engine: "0"}}
	}
	var all [][7]string
	seen := map[[7]string]bool{}
	for _, info := range infos {
		labels := [7]string{string(st.engine), st.version, modelOf(info.engine, st, rd)}
		copy(labels[3:], info.fields[:])
		if !seen[labels] {
			seen[labels] = true
			all = append(all, labels)
		}
	}
	return all
}

// modelOf is the model that an engine serves, as its other series name it.
func modelOf(engine string, st *state, rd *reading) string {
	for _, series := range rd.families {
		for _, s := range series {
			if s.engine == engine {
				return s.model
			}
		}
	}
	return st.model
}

func toFloat(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// register adds the metrics to a registry.
func (m *metrics) register(registerer prometheus.Registerer) error {
	if err := registerer.Register(m); err != nil {
		return fmt.Errorf("registering the relay's metrics: %w", err)
	}
	return nil
}

// unixSeconds is exact to the millisecond; a finer reading would be noise in the digits that a float64 has left.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }
