// Package relay reads the metrics that an LLM server shows of itself, and exposes them under one set of names, whatever
// the engine. What is known of an engine is one table in engines.go.
//
// The package knows nothing of probes, configuration files or the registry that its metrics are gathered from.
package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"mime"
	"net"
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

	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// DefaultInterval is the time between two samples of the server's metrics page. vLLM's API server, which has one core
// for all its streams, takes some 6 ms for a page.
const DefaultInterval = 5 * time.Second

// idleTimeout is how long vLLM keeps a connection on which nothing is asked.
const idleTimeout = 5 * time.Second

// maxAge is how many intervals a value is shown after it was sampled.
const maxAge = 3

// Config says whose metrics a [Relay] reads and how. Registerer and URL must be given.
type Config struct {
	Registerer  prometheus.Registerer
	ConstLabels prometheus.Labels // of every metric: target and the target's own labels
	Histograms  histogram.Kind
	Logger      log.Logger // nil: none

	// URL is the root of the server; /health, the version and the API are asked below it.
	URL *url.URL
	// APIPath is that of the API below URL; empty: /v1.
	APIPath string
	// Host is the header Host of requests to the scheme, host and port of URL; empty: that of the address.
	Host string
	// MetricsURL is the metrics page as the user named it; nil: /metrics below URL.
	MetricsURL *url.URL
	// HealthURL is the health page as the user named it; nil: /health below URL, asked only while the engine is
	// known; the empty URL: none is asked.
	HealthURL *url.URL
	// Engine is the server software; empty means [EngineAuto]. Then the engine is how the server signs its models
	// in /v1/models. A server whose engine is unknown is asked for nothing else: TensorRT-LLM's metrics page loses
	// its statistics when read, a gateway may pass a health check on to every model behind it. Where MetricsURL
	// names the page, it is read, and its samples tell the engine.
	Engine Engine
	// Model is the label model_name where the page has none; empty: the first that /v1/models lists.
	Model string

	Interval time.Duration // 0: DefaultInterval
	// Timeout of a whole scrape; 0: three intervals, at least 1 s, so that no page is older than a value may be.
	Timeout time.Duration

	// HTTP holds TLS, credentials and proxy. Redirects are followed within one origin, whatever it says.
	HTTP      promconfig.HTTPClientConfig
	UserAgent string
	// Dial connects; nil: the system's way. Tests use connections in memory.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// LargePages is shared with the other relays of the process; nil: with none.
	LargePages *LargePages

	// OnRestart is called once for each restart of the server, from the sampling goroutine; it must not block.
	OnRestart func()
	// OnSample is told of every sample, of a failed one too, from the sampling goroutine; it must not block.
	OnSample func(Snapshot)
}

// Relay samples a server's own metrics and exposes them under one set of names, whatever the engine. A sample is
// one page; pages are fetched one at a time, at absolute times, and a page that takes longer than an interval
// makes the next samples fall out rather than queue. Nothing that a reader of the metrics does waits for the
// server, and a value older than three intervals is withdrawn.
//
// A page costs the relay at most a twentieth of a core, whatever is on it: see restAfter. Where that makes samples
// fall out, values live as much longer.
//
// What counts as the last change (llm_server_last_change_timestamp_seconds) is any difference in a relayed gauge
// or counter; a hung vLLM answers with frozen ones. An idle server stands still as well, but a probed server is
// never idle for longer than the probes' interval.
type Relay struct {
	cfg        Config
	client     *client
	health     *client
	secrets    scrub.Secrets
	metrics    *metrics
	metricsURL *url.URL
	healthURL  *url.URL

	state   atomic.Pointer[state] // nil before the first sample
	healthy atomic.Pointer[bool]  // nil before the first answer
	engine  engineState

	// What follows belongs to the sampling goroutine.
	identity identity
	off      error // why the page is not touched: an errUnknownEngine
	page     *pageReader
	pacer    pacer     // of the page of this sample
	resting  time.Time // no page is asked for before
	useless  int       // large pages that failed, in a row
	restart  restartWatch
	log      stateLog

	cameBefore int64 // bytes, before this sample
}

// engineState tells whoever asks whether the server's engine is known.
type engineState struct {
	known atomic.Bool
	once  sync.Once
	first chan struct{} // closed when it is known for the first time
}

func (e *engineState) set(known bool) {
	if e.known.Store(known); known {
		e.once.Do(func() { close(e.first) })
	}
}

// state is the outcome of the last sample and the last good rd. It does not change once it is stored.
type state struct {
	up  bool
	err string

	reading   *reading      // nil: none, or withdrawn
	scrapedAt time.Time     // of the last good scrape
	rest      time.Duration // after it, in which no page was to be asked for
	changedAt time.Time
	missing   map[family]bool

	engine         Engine // empty while unknown
	version, model string
	healthCosts    bool
}

// New makes a relay and registers its metrics. The error tells what is wrong with the configuration.
func New(cfg Config) (*Relay, error) {
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
		cfg.Interval = DefaultInterval
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = max(time.Second, maxAge*cfg.Interval)
	}
	r := &Relay{cfg: cfg, metricsURL: cfg.MetricsURL, healthURL: cfg.HealthURL}
	for _, c := range []**client{&r.client, &r.health} { // a page that does not come does not hold up health
		var err error
		if *c, err = newClient(&cfg); err != nil {
			return nil, err
		}
	}
	r.engine.first = make(chan struct{})
	r.engine.set(cfg.Engine != EngineAuto)
	if r.metricsURL == nil {
		r.metricsURL = cfg.URL.JoinPath("metrics")
	}
	if r.healthURL == nil {
		r.healthURL = cfg.URL.JoinPath("health")
	}
	r.secrets.Client(&cfg.HTTP)
	for _, u := range []*url.URL{cfg.URL, r.metricsURL, r.healthURL} {
		r.secrets.URL(u)
	}
	r.log = stateLog{logger: log.With(cfg.Logger, "component", "relay", "url", logURL(r.metricsURL))}
	r.metrics = newMetrics(r, cfg.ConstLabels, cfg.Histograms)
	return r, r.metrics.register(cfg.Registerer)
}

// Run samples until ctx is done; then no goroutine and no connection is left.
func (r *Relay) Run(ctx context.Context) {
	ctx = r.secrets.Trace(ctx)
	defer r.closeIdle()
	var health sync.WaitGroup
	if *r.healthURL != (url.URL{}) {
		health.Go(func() { r.watchHealth(ctx) })
	}
	defer health.Wait()
	r.every(ctx, func() { r.sampleOrRest(ctx) })
}

func (r *Relay) closeIdle() {
	r.client.http.CloseIdleConnections()
	r.health.http.CloseIdleConnections()
}

// every calls do at the relay's times until ctx is done. The times are absolute, at a phase that differs from
// server to server; a time that passes while do is busy is left out.
func (r *Relay) every(ctx context.Context, do func()) {
	h := fnv.New64a()
	h.Write([]byte(r.metricsURL.String()))
	phase := time.Duration(h.Sum64() % uint64(r.cfg.Interval))
	due := nextTime(time.Now(), r.cfg.Interval, phase)
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
		due = nextTime(now, r.cfg.Interval, phase)
		timer.Reset(time.Until(due))
	}
}

// nextTime is the first time after now that lies phase after a whole multiple of interval since 1970.
func nextTime(now time.Time, interval, phase time.Duration) time.Time {
	since := (now.UnixNano() - int64(phase)) % int64(interval)
	return now.Add(interval - time.Duration(since))
}

// guard does something in which a panic is a failure of the relay, not of the process. Its error can be shown.
func (r *Relay) guard(do func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fail(reasonInternal, "panic: %v", v)
		}
		err = r.secrets.Error(err)
	}()
	return do()
}

// sampleOrRest takes a sample, unless the work on those before has to be paid for.
func (r *Relay) sampleOrRest(ctx context.Context) {
	if time.Now().Before(r.resting) {
		return
	}
	r.sample(ctx)
	rest := r.rest()
	if st := r.state.Load(); st != nil && !st.up && r.read() > largePage {
		r.useless++
		rest = min(rest<<min(r.useless, maxDoublings), max(rest, longestRest))
	} else {
		r.useless = 0
	}
	r.resting = time.Now().Add(rest)
	if rest > r.cfg.Interval {
		r.log.note("rest", "the metrics page costs too much to be read at every interval")
	}
}

// rest is what the sample that is under way, or the last, asks for.
func (r *Relay) rest() time.Duration { return restAfter(r.pacer.spent, r.pacer.unpacked+r.read()) }

// read is how many bytes came for it.
func (r *Relay) read() int64 { return r.client.came.Load() - r.cameBefore }

// sample takes one sample and stores what came of it.
func (r *Relay) sample(ctx context.Context) {
	if err := r.guard(func() error { r.sampleNow(ctx); return nil }); err != nil {
		r.state.Store(r.failed(cmp.Or(r.state.Load(), &state{}), err))
	}
}

func (r *Relay) sampleNow(ctx context.Context) {
	before := cmp.Or(r.state.Load(), &state{})
	r.cameBefore, r.pacer = r.client.came.Load(), pacer{}
	var after *state
	err := r.guard(func() (err error) {
		after, err = r.trySample(ctx, before)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return // shutting down: nobody's failure
	case errors.Is(err, errUnknownEngine):
		r.log.note("engine", "the relay is off: set engine or metrics_url to switch it on", "err", scrub.Text(err.Error(), maxErr))
		after = nil
	case err != nil:
		after = r.failed(before, err)
	default:
		after.rest = r.rest()
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

func (r *Relay) trySample(ctx context.Context, before *state) (*state, error) {
	if r.identity.stale(time.Now()) {
		if err := r.refreshIdentity(ctx); err != nil {
			return nil, err
		}
	}
	rd, err := r.scrape(ctx)
	if err != nil {
		return nil, err
	}
	return r.accept(before, rd)
}

// refreshIdentity asks the server who it is. An answer that could not be had is a failure only where the page
// must not be touched without it; what was known before stays.
func (r *Relay) refreshIdentity(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	id, err := r.identify(ctx)
	switch r.off = nil; {
	case errors.Is(err, errUnknownEngine):
		r.off = err // asked again after a while
	case err != nil:
		r.unwell(err)
		return err
	default:
		if id.table != nil {
			r.log.clear("engine")
		}
		id.version = cmp.Or(id.version, r.identity.version)
		id.model = cmp.Or(id.model, r.identity.model)
	}
	if r.identity = id; id.table != nil || r.cfg.MetricsURL == nil {
		r.recognised(id.table) // else the page tells
	}
	return nil
}

// unwell notes that a server that is not known yet cannot be reached: that much is known without its /health.
func (r *Relay) unwell(err error) {
	var failure *scrapeError
	if r.cfg.HealthURL == nil && !r.engine.known.Load() && errors.As(err, &failure) && failure.reason != reasonInternal {
		r.healthy.Store(new(bool))
	}
}

// recognised says whether the engine is known. What is known of the health of a server goes with its engine.
func (r *Relay) recognised(table *engineTable) {
	known := table != nil
	if r.engine.set(known); !known && r.cfg.HealthURL == nil {
		r.healthy.Store(nil)
	}
}

// scrape fetches the page and reads it.
func (r *Relay) scrape(ctx context.Context) (rd *reading, err error) {
	if r.off != nil {
		return nil, r.off
	}
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	r.pacer.ctx, r.pacer.pages = ctx, r.cfg.LargePages
	ask := question{url: r.metricsURL, accept: "text/plain;version=0.0.4", limit: maxPage, pacer: &r.pacer}
	err = r.client.get(ctx, ask, func(body io.Reader, contentType string) error {
		r.checkContentType(contentType)
		rd, err = r.readPage(body, contentType)
		return err
	})
	return rd, err
}

func (r *Relay) readPage(body io.Reader, contentType string) (*reading, error) {
	if r.page == nil {
		r.page = newPageReader()
		r.page.shown = func(s string) string { return labelText(r.secrets.Hide(s)) }
	}
	byPage := r.cfg.Engine == EngineAuto && r.cfg.MetricsURL != nil // a page that was named by hand tells its engine itself
	rd, err := r.page.read(body, contentType, r.model(), r.identity.table, byPage)
	var fault *pageFault
	isFault := errors.As(err, &fault)
	if err == nil || isFault {
		r.noteEngine(byPage)
	}
	switch {
	case errors.Is(err, errBounds):
		return nil, &scrapeError{reasonTooLarge, err}
	case isFault:
		return nil, fail(reasonParse, "reading the page (content type %q): %w", mediaTypeOf(contentType), err)
	case err != nil:
		return nil, err
	}
	if rd.start > unixSeconds(time.Now().Add(maxAhead)) {
		rd.start = math.NaN()
		rd.drop(dropValue)
	}
	r.noteDropped(rd)
	return rd, nil
}

// noteEngine says by which engine's table a page was read.
func (r *Relay) noteEngine(byPage bool) {
	table := r.page.known()
	if byPage {
		r.recognised(table)
	}
	if table == nil {
		r.log.note("engine", "the metrics page is of no known engine: set engine")
	}
}

// maxAhead is how far a server's clock may be ahead of ours before its start time is not believed.
const maxAhead = 24 * time.Hour

// noteDropped counts what of a page was left out, and says so when the causes change.
func (r *Relay) noteDropped(rd *reading) {
	if rd.dropped == 0 {
		r.log.clear("dropped")
		return
	}
	r.metrics.dropped.Add(float64(rd.dropped))
	var causes []string
	for cause, is := range rd.drops {
		if is {
			causes = append(causes, dropCause(cause).String())
		}
	}
	r.log.note("dropped", "not all of the server's metrics can be relayed", "left_out", strings.Join(causes, ", "))
}

func (r *Relay) model() string { return cmp.Or(r.cfg.Model, r.identity.model) }

// checkContentType warns of a page that is read although it is announced as something else: the body decides.
func (r *Relay) checkContentType(contentType string) {
	mediaType := mediaTypeOf(contentType)
	if mediaType == "text/plain" || mediaType == "application/openmetrics-text" {
		r.log.clear("content_type")
		return
	}
	r.log.note("content_type", "the metrics page is announced as something else", "content_type", mediaType)
}

// mediaTypeOf is a content type as it may be shown: without parameters, in which a server can repeat what it
// was sent, and empty if it is none.
func mediaTypeOf(contentType string) string {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil || len(mediaType) > 60 {
		return ""
	}
	return mediaType
}

// accept makes the state that follows from a good reading, or fails if it comes from another server.
func (r *Relay) accept(before *state, rd *reading) (*state, error) {
	switch r.restart.observe(rd.start, rd.tokens()) {
	case severalProcesses:
		return nil, fail(reasonSeveralServers, "values alternate: several servers answer at this address")
	case restarted:
		level.Info(r.log.logger).Log("msg", "the server was restarted")
		r.identity.askedAt = time.Time{}
		if r.cfg.OnRestart != nil {
			r.cfg.OnRestart()
		}
	}
	now := time.Now()
	after := &state{
		up: true, reading: rd, scrapedAt: now, changedAt: before.changedAt,
		engine: r.page.table.engine, version: r.identity.version, model: r.model(), healthCosts: r.page.table.healthCosts,
		missing: rd.missing(r.page.table),
	}
	if before.scrapedAt.IsZero() || before.reading == nil || rd.moved(before.reading) {
		after.changedAt = now
	}
	r.observe(rd)
	r.noteMissing(after.missing)
	return after, nil
}

func (r *Relay) observe(rd *reading) {
	if running, known := rd.total(familyRunning); known {
		r.metrics.runningSampled.Observe(running)
	}
	if waiting, known := rd.total(familyWaiting); known {
		r.metrics.waitingSampled.Observe(waiting)
	}
}

func (r *Relay) noteMissing(missing map[family]bool) {
	var names []string
	for f, is := range missing {
		if is {
			names = append(names, f.spec().name)
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
func (r *Relay) failed(before *state, err error) *state {
	reason := reasonInternal
	var failure *scrapeError
	if errors.As(err, &failure) {
		reason = failure.reason
	}
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.log.failed(reason, err)
	if reason == reasonConnect {
		r.identity.askedAt = time.Time{} // whoever comes back may be another
	}
	after := *before
	after.up, after.err = false, scrub.Text(err.Error(), maxErr)
	if reason == reasonSeveralServers {
		after.reading = nil
	}
	return &after
}

// current is the reading of a state, nil if it is too old to be shown.
func (r *Relay) current(st *state) *reading {
	if st.reading == nil || time.Since(st.scrapedAt) > maxAge*r.cfg.Interval+st.rest {
		return nil
	}
	return st.reading
}
