package collector

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/common/config"
)

// DefaultRelayInterval is the time between two samples of the server's metrics page.
const DefaultRelayInterval = time.Second

// relayMaxAge is how many intervals a value is shown after it was sampled.
const relayMaxAge = 3

// RelayConfig says whose metrics a [Relay] reads and how. Registerer and URL must be given.
type RelayConfig struct {
	Registerer  prometheus.Registerer
	ConstLabels prometheus.Labels // of every metric: target and the target's own labels
	Logger      log.Logger        // nil: none

	// URL is the root of the server; /health, the version and the API are asked below it.
	URL *url.URL
	// APIPath is that of the API below URL; empty: /v1.
	APIPath string
	// Host is the header Host of requests to the scheme, host and port of URL; empty: that of the address.
	Host string
	// MetricsURL is the metrics page; nil: /metrics below URL.
	MetricsURL *url.URL
	// HealthURL is asked beside it; nil: /health below URL, the empty URL: none is asked.
	HealthURL *url.URL
	// Engine is the server software; empty means [EngineAuto]. Then the engine is how the server signs its models
	// in /v1/models, and where it is none that the relay knows, its metrics page is never touched (TensorRT-LLM's
	// loses its statistics when read), unless MetricsURL names the page: then the page tells.
	Engine Engine
	// Model is the label model_name where the page has none; empty: the first that /v1/models lists.
	Model string

	Interval time.Duration // 0: DefaultRelayInterval
	// Timeout of a whole scrape; 0: three intervals, at least 1 s, so that no page is older than a value may be.
	Timeout time.Duration

	// HTTP holds TLS, credentials and proxy. Redirects are followed within one origin, whatever it says.
	HTTP      promconfig.HTTPClientConfig
	UserAgent string
	// Dial connects; nil: the system's way. Tests use connections in memory.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// OnRestart is called once for each restart of the server, from the sampling goroutine; it must not block.
	OnRestart func()
	// OnSample is told of every sample, of a failed one too, from the sampling goroutine; it must not block.
	OnSample func(RelaySnapshot)
}

// Relay samples a server's own metrics and exposes them under one set of names, whatever the engine. A sample is
// one page; pages are fetched one at a time, at absolute times, and a page that takes longer than an interval
// makes the next samples fall out rather than queue. Nothing that a reader of the metrics does waits for the
// server, and a value older than three intervals is withdrawn.
//
// What counts as the last change (llm_server_last_change_timestamp_seconds) is any difference in a relayed gauge
// or counter; a hung vLLM answers with frozen ones. An idle server stands still as well, but a probed server is
// never idle for longer than the probes' interval.
type Relay struct {
	cfg        RelayConfig
	client     *http.Client
	metrics    *relayMetrics
	metricsURL *url.URL
	healthURL  *url.URL

	state   atomic.Pointer[relayState] // nil before the first sample
	healthy atomic.Pointer[bool]       // nil before the first answer

	// What follows belongs to the sampling goroutine.
	identity relayIdentity
	off      error // why the page is not touched: an errRelayUnknownEngine
	page     *relayPage
	body     bytes.Buffer
	restart  relayRestart
	log      relayLog
}

// relayState is the outcome of the last sample and the last good reading. It does not change once it is stored.
type relayState struct {
	up  bool
	err string

	reading   *relayReading // nil: none, or withdrawn
	scrapedAt time.Time     // of the last good scrape
	changedAt time.Time
	missing   map[relayFamily]bool

	engine         Engine // empty while unknown
	version, model string
	healthCosts    bool
}

// NewRelay makes a relay and registers its metrics. The error tells what is wrong with the configuration.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	if cfg.Registerer == nil || cfg.URL == nil {
		return nil, errors.New("a relay needs a registerer and a URL")
	}
	if cfg.Engine == "" {
		cfg.Engine = EngineAuto
	}
	if cfg.Engine != EngineAuto && engineByName(cfg.Engine) == nil {
		return nil, fmt.Errorf("unknown engine %q", cfg.Engine)
	}
	if cfg.Logger == nil {
		cfg.Logger = log.NewNopLogger()
	}
	if cfg.Interval <= 0 {
		cfg.Interval = DefaultRelayInterval
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = max(time.Second, relayMaxAge*cfg.Interval)
	}
	client, err := newRelayClient(cfg)
	if err != nil {
		return nil, err
	}
	r := &Relay{cfg: cfg, client: client, metricsURL: cfg.MetricsURL, healthURL: cfg.HealthURL}
	if r.metricsURL == nil {
		r.metricsURL = cfg.URL.JoinPath("metrics")
	}
	if r.healthURL == nil {
		r.healthURL = cfg.URL.JoinPath("health")
	}
	r.log = relayLog{logger: log.With(cfg.Logger, "component", "relay", "url", relayLogURL(r.metricsURL))}
	r.metrics = newRelayMetrics(r, cfg.ConstLabels)
	return r, r.metrics.register(cfg.Registerer)
}

// Run samples until ctx is done; then no goroutine and no connection is left.
func (r *Relay) Run(ctx context.Context) {
	defer r.client.CloseIdleConnections()
	var health sync.WaitGroup
	if *r.healthURL != (url.URL{}) {
		health.Go(func() { r.watchHealth(ctx) })
	}
	defer health.Wait()
	r.every(ctx, func() { r.sample(ctx) })
}

// every calls do at the relay's times until ctx is done. The times are absolute, at a phase that differs from
// server to server; a time that passes while do is busy is left out.
func (r *Relay) every(ctx context.Context, do func()) {
	h := fnv.New64a()
	h.Write([]byte(r.metricsURL.String()))
	phase := time.Duration(h.Sum64() % uint64(r.cfg.Interval))
	due := relayNext(time.Now(), r.cfg.Interval, phase)
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		do()
		now := time.Now()
		if now.Before(due) {
			now = due // the wall clock lags behind the timer: do not take the same time twice
		}
		due = relayNext(now, r.cfg.Interval, phase)
		timer.Reset(time.Until(due))
	}
}

// relayNext is the first time after now that lies phase after a whole multiple of interval since 1970.
func relayNext(now time.Time, interval, phase time.Duration) time.Time {
	since := (now.UnixNano() - int64(phase)) % int64(interval)
	return now.Add(interval - time.Duration(since))
}

// sample takes one sample and stores what came of it.
func (r *Relay) sample(ctx context.Context) {
	before := r.state.Load()
	if before == nil {
		before = &relayState{}
	}
	after, err := r.trySample(ctx, before)
	switch {
	case ctx.Err() != nil:
		return // shutting down: nobody's failure
	case errors.Is(err, errRelayUnknownEngine):
		r.log.note("engine", "the relay is off: set engine or metrics_url to switch it on", "err", err)
		after = nil
	case err != nil:
		after = r.failed(before, err)
	default:
		r.log.recovered()
	}
	r.state.Store(after)
	if r.cfg.OnSample != nil {
		snapshot := r.Last()
		if after == nil {
			snapshot.Err, snapshot.Version, snapshot.Model = err.Error(), r.identity.version, r.identity.model
		}
		r.cfg.OnSample(snapshot)
	}
}

// trySample takes one sample; a panic in it is a failure of the relay, not of the process.
func (r *Relay) trySample(ctx context.Context, before *relayState) (after *relayState, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = relayFail(relayInternal, "panic: %v", v)
		}
	}()
	if r.identity.stale(time.Now()) {
		if err := r.refreshIdentity(ctx); err != nil {
			return nil, err
		}
	}
	reading, err := r.scrape(ctx)
	if err != nil {
		return nil, err
	}
	return r.accept(before, reading)
}

// refreshIdentity asks the server who it is. An answer that could not be had is a failure only where the page
// must not be touched without it; what was known before stays.
func (r *Relay) refreshIdentity(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	id, err := r.identify(ctx)
	switch r.off = nil; {
	case errors.Is(err, errRelayUnknownEngine):
		r.off = err // asked again after a while
	case err != nil:
		return err
	default:
		if id.table != nil {
			r.log.clear("engine")
		}
		id.version = cmp.Or(id.version, r.identity.version)
		id.model = cmp.Or(id.model, r.identity.model)
	}
	r.identity = id
	return nil
}

// scrape fetches the page and reads it.
func (r *Relay) scrape(ctx context.Context) (*relayReading, error) {
	if r.off != nil {
		return nil, r.off
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	if r.body.Cap() > relayKeepBuf {
		r.body = bytes.Buffer{}
	}
	answer, err := relayGet(ctx, r.client, r.metricsURL, "text/plain;version=0.0.4", relayMaxPage, &r.body)
	if err != nil {
		return nil, err
	}
	r.checkContentType(answer.contentType)
	return r.readPage(answer)
}

func (r *Relay) readPage(answer relayAnswer) (*relayReading, error) {
	table := r.tableFor(answer.body)
	if r.page == nil || r.page.table.engine != table.engine {
		r.page = newRelayPage(table)
	}
	reading, err := r.page.read(answer.body, answer.contentType, r.model())
	if err != nil {
		return nil, relayFail(relayParse, "reading the page (content type %q): %w", relayMediaType(answer.contentType), err)
	}
	r.metrics.dropped.Add(float64(reading.dropped))
	return reading, nil
}

// tableFor is the table to read a page by. A page that was named by hand tells its engine itself.
func (r *Relay) tableFor(page []byte) *engineTable {
	table := r.identity.table
	if r.cfg.Engine == EngineAuto && r.cfg.MetricsURL != nil {
		table = cmp.Or(relayTableOfPage(page), table)
	}
	if table == nil {
		r.log.note("engine", "the metrics page is of no known engine: set engine")
		return &engineTable{}
	}
	return table
}

func (r *Relay) model() string { return cmp.Or(r.cfg.Model, r.identity.model) }

// checkContentType warns of a page that is read although it is announced as something else: the body decides.
func (r *Relay) checkContentType(contentType string) {
	mediaType := relayMediaType(contentType)
	if mediaType == "text/plain" || mediaType == "application/openmetrics-text" {
		r.log.clear("content_type")
		return
	}
	r.log.note("content_type", "the metrics page is announced as something else", "content_type", mediaType)
}

// relayMediaType is a content type as it may be shown: without parameters, in which a server can repeat what it
// was sent, and empty if it is none.
func relayMediaType(contentType string) string {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || len(mediaType) > 60 {
		return ""
	}
	return mediaType
}

// accept makes the state that follows from a good reading, or fails if it comes from another server.
func (r *Relay) accept(before *relayState, reading *relayReading) (*relayState, error) {
	switch r.restart.observe(reading.start, reading.tokens()) {
	case relaySeveral:
		return nil, relayFail(relaySeveralServers, "values alternate: several servers answer at this address")
	case relayRestarted:
		level.Info(r.log.logger).Log("msg", "the server was restarted")
		r.identity.askedAt = time.Time{}
		if r.cfg.OnRestart != nil {
			r.cfg.OnRestart()
		}
	}
	now := time.Now()
	after := &relayState{
		up: true, reading: reading, scrapedAt: now, changedAt: before.changedAt,
		engine: r.page.table.engine, version: r.identity.version, model: r.model(), healthCosts: r.page.table.healthCosts,
		missing: reading.missing(r.page.table),
	}
	if before.scrapedAt.IsZero() || before.reading == nil || reading.moved(before.reading) {
		after.changedAt = now
	}
	r.observe(reading)
	r.noteMissing(after.missing)
	return after, nil
}

func (r *Relay) observe(reading *relayReading) {
	if running, known := reading.total(relayRunning); known {
		r.metrics.runningSampled.Observe(running)
	}
	if waiting, known := reading.total(relayWaiting); known {
		r.metrics.waitingSampled.Observe(waiting)
	}
}

func (r *Relay) noteMissing(missing map[relayFamily]bool) {
	var names []string
	for f, is := range missing {
		if is {
			names = append(names, relayFamilyTable(f).name)
		}
	}
	if len(names) == 0 {
		r.log.clear("missing")
		return
	}
	slices.Sort(names)
	r.log.note("missing", "the server does not show all it should", "metrics", strings.Join(names, ","))
}

// failed makes the state that follows from a failed sample: the last good reading stays until it is too old,
// unless the values may be those of another server.
func (r *Relay) failed(before *relayState, err error) *relayState {
	reason := relayInternal
	var failure *relayFailure
	if errors.As(err, &failure) {
		reason = failure.reason
	}
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.log.failed(reason, err)
	if reason == relayConnect {
		r.identity.askedAt = time.Time{} // whoever comes back may be another
	}
	after := *before
	after.up, after.err = false, relayShorten(err.Error())
	if reason == relaySeveralServers {
		after.reading = nil
	}
	return &after
}

// current is the reading of a state, nil if it is too old to be shown.
func (r *Relay) current(st *relayState) *relayReading {
	if st.reading == nil || time.Since(st.scrapedAt) > relayMaxAge*r.cfg.Interval {
		return nil
	}
	return st.reading
}

// RelaySnapshot is the last that a relay knows of its server.
type RelaySnapshot struct {
	Up      bool // the last scrape succeeded
	Healthy bool // /health last answered 200
	Err     string

	// What the server last said; nil where it is unknown or too old.
	Running, Waiting *float64 // summed over its engines
	KVUsage          *float64 // of its fullest engine, 0 to 1
	// Counters, summed over its engines.
	PromptTokens, GenerationTokens, Preemptions *float64

	EngineType Engine // empty while unknown
	Version    string
	Model      string // as configured, or the first that it lists
	// Launch is what the first engine shows of how it was launched, under the label names of llm_server_info; nil
	// where it shows nothing.
	Launch map[string]string

	SampledAt  time.Time // of the last good scrape; zero before it
	LastChange time.Time
}

// Last tells what the relay knows now. It is safe for concurrent use.
func (r *Relay) Last() RelaySnapshot {
	var snapshot RelaySnapshot
	if h := r.healthy.Load(); h != nil {
		snapshot.Healthy = *h
	}
	st := r.state.Load()
	if st == nil {
		return snapshot
	}
	snapshot.Up, snapshot.Err = st.up, st.err
	snapshot.EngineType, snapshot.Version, snapshot.Model = st.engine, st.version, st.model
	snapshot.SampledAt, snapshot.LastChange = st.scrapedAt, st.changedAt
	if reading := r.current(st); reading != nil {
		snapshot.Running = relayKnown(reading.total(relayRunning))
		snapshot.Waiting = relayKnown(reading.total(relayWaiting))
		snapshot.KVUsage = relayKnown(reading.peak(relayKVUsage))
		snapshot.PromptTokens = relayKnown(reading.total(relayPromptTokens))
		snapshot.GenerationTokens = relayKnown(reading.total(relayGenerationTokens))
		snapshot.Preemptions = relayKnown(reading.total(relayPreemptions))
		snapshot.Launch = reading.launch()
	}
	return snapshot
}

func relayKnown(value float64, known bool) *float64 {
	if !known || math.IsNaN(value) {
		return nil
	}
	return &value
}
