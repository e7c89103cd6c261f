package collector

import (
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/prober"
)

// probeMetrics are the results of the probes of one workload. Its methods are the only place where a
// [prober.Result] becomes samples.
type probeMetrics struct {
	failures *prometheus.CounterVec
	requests prometheus.Counter
	missed   prometheus.Counter
	warmups  prometheus.Counter
	suspect  *prometheus.CounterVec

	consecutiveFailures prometheus.Gauge
	up                  *prometheus.GaugeVec // absent until a probe has ended
	lastSuccess         *prometheus.GaugeVec // absent until a probe has succeeded
	certExpiry          *prometheus.GaugeVec // absent until there was a certificate
	certNotBefore       *prometheus.GaugeVec
	info                *workloadInfo

	withheld                       *prometheus.CounterVec
	ttft, itl, tpot, duration      latencyHistogram
	ttfa                           func() latencyHistogram // absent until a model has reasoned
	connect, startDelay, readDelay prometheus.Histogram
	serverQueue, serverPrefill     prometheus.Histogram

	promptTokens, streamEvents prometheus.Counter
	cachedTokens               *prometheus.CounterVec // absent until the server sends a count
	outputTokens               *prometheus.CounterVec
}

// newProbeMetrics makes the metrics of a workload in set, every counter and histogram at 0.
func newProbeMetrics(set *metricSet, cfg WorkloadConfig) *probeMetrics {
	m := &probeMetrics{
		failures: set.counters("llm_probe_request_failures_total", "Probes that failed, by reason.", "reason"),
		suspect:  set.counters("llm_probe_suspect_total", "Successful probes whose shape or measurement is off, by reason.", "reason"),
		requests: set.counter("llm_probe_requests_total", "Probes that ended, whatever the outcome; successful warm-up and abandoned probes excluded."),
		missed:   set.counter("llm_probe_missed_total", "Probes that were due but not sent, because as many as allowed were in flight."),
		warmups:  set.counter("llm_probe_warmup_requests_total", "Warm-up probes that succeeded; nothing else counts or measures them."),

		consecutiveFailures: set.gauge("llm_probe_consecutive_failures", "Probes that failed since the last success."),
		up:                  set.gauges("llm_probe_up", "Whether the last ended probe succeeded. Do not alert on it: it stays 1 in a hang."),
		lastSuccess:         set.gauges("llm_probe_last_success_timestamp_seconds", "When the last successful probe ended."),
		certExpiry:          set.gauges("llm_probe_tls_certificate_expiry_timestamp_seconds", "When the first certificate of the server's verified chain expires."),
		certNotBefore:       set.gauges("llm_probe_tls_certificate_not_before_timestamp_seconds", "Since when the certificate that expires first is valid."),
		info:                newWorkloadInfo(set, cfg),

		connect:    set.histogram("llm_probe_connect_duration_seconds", "Time that DNS, TCP and TLS of a new connection took.", connectBounds()),
		startDelay: set.histogram("llm_probe_start_delay_seconds", "How much later than due a probe started: the prober's own fault.", delayBounds()),
		readDelay:  set.histogram("llm_probe_read_delay_seconds", "Longest time that a probe's token events lay in the kernel before they were read: the prober's own fault.", delayBounds()),

		serverQueue:   set.histogram("llm_probe_server_queue_seconds", "Time the probe waited in the engine's queue, by the server's account.", phaseBounds()),
		serverPrefill: set.histogram("llm_probe_server_prefill_seconds", "Time from being scheduled to the first token, by the server's account.", phaseBounds()),

		promptTokens: set.counter("llm_probe_prompt_tokens_total", "Prompt tokens of probes, by the server's count."),
		streamEvents: set.counter("llm_probe_stream_events_total", "Token events received by probes."),
		cachedTokens: set.counters("llm_probe_cached_prompt_tokens_total", "Prompt tokens of probes that the server had cached, by its count."),
		outputTokens: set.counters("llm_probe_output_tokens_total", "Output tokens of probes, by the source of the count.", "source"),
	}
	m.withheld = set.counters("llm_probe_samples_withheld_total", "Latencies of successful probes that were not recorded, because the prober read too late to know them to 1 ms or 2 %, by the name of their histogram without llm_probe_.", "metric")
	m.ttft = m.latency(set, "time_to_first_token_seconds", "Time from the first byte of the request written to the first token event.", waitBounds())
	m.itl = m.latency(set, "inter_token_latency_seconds", "Time between neighbouring token events, one sample a gap.", gapBounds())
	m.tpot = m.latency(set, "time_per_output_token_seconds", "Time per output token after the first token event, one sample a probe.", gapBounds())
	m.duration = m.latency(set, "request_duration_seconds", "Time from the first byte of the request written to the last token event.", waitBounds())
	const ttfa = "time_to_first_answer_seconds"
	late := set.lateHistogram("llm_probe_"+ttfa, "Time from the first byte of the request written to the first event that is not reasoning, where reasoning came first.", waitBounds())
	m.ttfa = func() latencyHistogram { return latencyHistogram{late(), m.withheld.WithLabelValues(ttfa)} }
	set.gauge("llm_probe_interval_seconds", "Mean time between the starts of two probes.").Set(cfg.Interval.Seconds())
	m.startAtZero()
	return m
}

// startAtZero creates every series that a later result may raise: increase() does not see the first step of a
// counter that is born with it. Those that need a count from the server wait for the first one.
func (m *probeMetrics) startAtZero() {
	for _, reason := range prober.Reasons() {
		m.failures.WithLabelValues(string(reason))
	}
	for _, name := range prober.SuspectNames() {
		if name != cachedPrompt() {
			m.suspect.WithLabelValues(name)
		}
	}
	m.outputTokens.WithLabelValues(string(prober.FromUsage))
	m.outputTokens.WithLabelValues(string(prober.FromChunks))
}

func cachedPrompt() string { return prober.SuspectCachedPrompt.Names()[0] }

// latencyHistogram is a latency that the prober measures, and those of its samples that it does not know well enough.
type latencyHistogram struct {
	prometheus.Histogram
	withheld prometheus.Counter
}

// latency makes the histogram of a latency.
func (m *probeMetrics) latency(set *metricSet, name, help string, bounds []float64) latencyHistogram {
	return latencyHistogram{set.histogram("llm_probe_"+name, help, bounds), m.withheld.WithLabelValues(name)}
}

// observe records a sample, or counts that it was withheld. It does nothing where there is none.
func (h latencyHistogram) observe(l prober.Latency, known bool, exemplar prometheus.Labels) (recorded bool) {
	switch {
	case !known:
	case l.Sound():
		observe(h.Histogram, l.Value, exemplar)
		return true
	default:
		h.withheld.Inc()
	}
	return false
}

// started records that a probe began. Warm-up probes measure nothing.
func (m *probeMetrics) started(p *prober.Probe) {
	if !p.Warmup {
		m.startDelay.Observe(p.StartDelay().Seconds())
	}
}

// ended records the outcome of a probe.
func (m *probeMetrics) ended(r *prober.Result) {
	if r.Abandoned {
		return
	}
	m.state(r)
	if r.OK() && r.Warmup {
		m.warmups.Inc()
		return
	}
	m.requests.Inc()
	m.cost(r)
	if !r.OK() {
		m.failures.WithLabelValues(knownReason(r.Reason)).Inc()
		return
	}
	for _, name := range r.Suspect.Names() {
		m.suspect.WithLabelValues(name).Inc()
	}
	m.latencies(r)
}

// knownReason keeps the label "reason" within its closed set.
func knownReason(reason prober.Reason) string {
	for _, known := range prober.Reasons() {
		if reason == known {
			return string(reason)
		}
	}
	return string(prober.ReasonInternal)
}

// state sets what describes the server now rather than counts or measures probes. A successful warm-up probe
// sets it too: after a restart the server is up before it is measured again.
func (m *probeMetrics) state(r *prober.Result) {
	m.info.seen(r.Model)
	if !r.CertExpiry.IsZero() {
		m.certExpiry.WithLabelValues().Set(unixSeconds(r.CertExpiry))
		m.certNotBefore.WithLabelValues().Set(unixSeconds(r.CertNotBefore))
	}
	if r.CachedTokens >= 0 {
		m.cachedTokens.WithLabelValues()
		m.suspect.WithLabelValues(cachedPrompt())
	}
	if !r.OK() {
		m.up.WithLabelValues().Set(0)
		m.consecutiveFailures.Inc()
		return
	}
	m.up.WithLabelValues().Set(1)
	m.consecutiveFailures.Set(0)
	m.lastSuccess.WithLabelValues().Set(unixSeconds(r.Ended))
}

// cost counts what a probe made the server do, whether or not it succeeded.
func (m *probeMetrics) cost(r *prober.Result) {
	if r.PromptTokens > 0 {
		m.promptTokens.Add(float64(r.PromptTokens))
	}
	if r.CachedTokens > 0 {
		m.cachedTokens.WithLabelValues().Add(float64(r.CachedTokens))
	}
	if r.OutputTokens > 0 {
		source := prober.FromChunks
		if r.TokenSource == prober.FromUsage {
			source = prober.FromUsage
		}
		m.outputTokens.WithLabelValues(string(source)).Add(float64(r.OutputTokens))
	}
	if !r.FirstToken.IsZero() {
		m.streamEvents.Add(float64(1 + len(r.Gaps)))
	}
}

// latencies observes what a successful probe measured.
func (m *probeMetrics) latencies(r *prober.Result) {
	id := exemplar(r.RequestID)
	ttft, known := r.TTFT()
	if m.ttft.observe(ttft, known, id) && r.Server != nil {
		// Only together with TTFT, so that the means add up: TTFT = queue + prefill + everything outside.
		observe(m.serverQueue, r.Server.Queue, nil)
		observe(m.serverPrefill, r.Server.Prefill, nil)
	}
	if ttfa, known := r.TTFA(); known {
		m.ttfa().observe(ttfa, known, nil)
	}
	tpot, known := r.TPOT()
	m.tpot.observe(tpot, known, nil)
	duration, known := r.Duration()
	m.duration.observe(duration, known, id)
	if d, known := r.ConnectTime(); known {
		observe(m.connect, d, nil)
	}
	if r.KernelStamps {
		observe(m.readDelay, r.ReadDelay, nil)
	}
	m.gaps(r.ITL(), id)
}

// gaps observes every gap; the longest carries the exemplar. (An exemplar a gap would cost 25 times as much.)
func (m *probeMetrics) gaps(gaps iter.Seq[prober.Latency], id prometheus.Labels) {
	longest := time.Duration(-1)
	for l := range gaps {
		if l.Sound() {
			longest = max(longest, l.Value)
		}
	}
	for l := range gaps {
		if l.Value == longest && l.Sound() {
			m.itl.observe(l, true, id)
			longest = -1
			continue
		}
		m.itl.observe(l, true, nil)
	}
}

func observe(h prometheus.Histogram, d time.Duration, exemplar prometheus.Labels) {
	h.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), exemplar)
}

// exemplar is nil for an id that the OpenMetrics limit for exemplars (128 characters, name included) or UTF-8
// rules out; observing it would panic.
func exemplar(requestID string) prometheus.Labels {
	const name = "request_id"
	if requestID == "" || !utf8.ValidString(requestID) ||
		utf8.RuneCountInString(name+requestID) > prometheus.ExemplarMaxRunes {
		return nil
	}
	return prometheus.Labels{name: requestID}
}

// unixSeconds is exact to the millisecond; a finer reading would be noise in the digits that a float64 has left.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// workloadInfo is the metric that tells the shape of a workload and the model it talks to. It is a collector of
// its own, so that a scrape sees the old model or the new one, never both and never neither.
type workloadInfo struct {
	desc   *prometheus.Desc
	shape  [3]string
	pinned bool // the configuration names the model
	model  atomic.Pointer[string]
}

func newWorkloadInfo(set *metricSet, cfg WorkloadConfig) *workloadInfo {
	w := cfg.Workload
	i := &workloadInfo{
		desc: set.desc("llm_probe_workload_info", "The shape of a workload's requests and the model they name.",
			"api", "prompt_tokens", "output_tokens", "model"),
		shape:  [3]string{string(w.API), strconv.Itoa(w.PromptTokens), strconv.Itoa(w.OutputTokens)},
		pinned: cfg.Model != "",
	}
	model := labelValue(cfg.Model)
	i.model.Store(&model)
	set.add(i)
	return i
}

// seen takes over the model that a request named, unless the configuration names one.
func (i *workloadInfo) seen(model string) {
	if !i.pinned && model != "" {
		model = labelValue(model)
		i.model.Store(&model)
	}
}

// Describe implements [prometheus.Collector].
func (i *workloadInfo) Describe(ch chan<- *prometheus.Desc) { ch <- i.desc }

// Collect implements [prometheus.Collector].
func (i *workloadInfo) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(i.desc, prometheus.GaugeValue, 1, i.shape[0], i.shape[1], i.shape[2], *i.model.Load())
}

// labelValue makes a text that a server chose fit for a label: valid UTF-8 and at most 256 bytes.
func labelValue(s string) string {
	if len(s) > 256 {
		s = s[:256]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
