package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/discovery"
	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/internal/relay"
	"github.com/llm-prober/llm_prober/internal/web"
	"github.com/llm-prober/llm_prober/internal/wire"
	"github.com/llm-prober/llm_prober/prober"
)

// daemon is everything that runs for the current configuration, and what it takes to replace it.
type daemon struct {
	load    func() (*config.Config, error)
	logger  log.Logger
	options prober.Options // of every runner, but for its observer; relays dial and sign in the same way

	self    *collector.Self
	targets *collector.Targets
	pages   *relay.LargePages
	history *web.History
	finder  *discovery.Finder
	groups  atomic.Pointer[[]discovery.Group] // target groups and their members; nil before the first configuration

	life context.Context // of everything that runs, also of what a reload has replaced
	end  context.CancelFunc

	mu      sync.Mutex // one reload at a time; guards the following
	cfg     *config.Config
	active  map[string]*runningTarget
	order   []string // names of active, in the order of the file and then of groups
	finding bool     // the finder runs
	running sync.WaitGroup

	atWork atWork // has its own lock
}

// atWork counts what runs, by its name.
type atWork struct {
	mu    sync.Mutex
	names map[string]int
}

func (w *atWork) add(name string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil {
		w.names = map[string]int{}
	}
	if w.names[name] += n; w.names[name] == 0 {
		delete(w.names, name)
	}
}

func (w *atWork) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.names))
}

// runningTarget is one target with all that runs for it.
type runningTarget struct {
	target  config.Target
	life    *lifetime
	probed  prober.Target
	metrics *collector.Target
	runner  *prober.Runner
	relay   *relay.Relay // nil: off

	stopRelay context.CancelFunc
}

// newDaemon starts to run a configuration; load is where reloads take theirs from. The error is that of apply.
func newDaemon(cfg *config.Config, load func() (*config.Config, error), options prober.Options) (*daemon, error) {
	dial := options.Dial
	if dial == nil {
		options.Dial, dial = prober.DefaultDial, (&net.Dialer{}).DialContext
	}
	d := &daemon{load: load, logger: options.Logger, options: options, self: collector.NewSelf(), history: &web.History{}, pages: relay.NewLargePages()}
	d.life, d.end = context.WithCancel(context.Background())
	d.finder = discovery.NewFinder(d.life, slog.New(slogHandler{logger: log.With(d.logger, "component", "discovery")}), promconfig.DialContextFunc(dial))
	d.self.Registerer().MustRegister(discovery.NewCollector(d.members))
	d.targets = collector.NewTargets(d.self, d.finder)
	if err := d.apply(cfg); err != nil {
		return nil, err
	}
	d.self.Reloaded(true)
	return d, nil
}

// reload reads the configuration again. If anything is wrong with it, all stays as it is.
func (d *daemon) reload() error {
	const name = "reload of the configuration"
	d.atWork.add(name, 1)
	defer d.atWork.add(name, -1)
	d.mu.Lock()
	defer d.mu.Unlock()
	cfg, err := d.load()
	if err == nil {
		err = d.apply(cfg)
	}
	d.self.Reloaded(err == nil)
	if err != nil {
		level.Error(d.logger).Log("msg", "reloading the configuration failed, the one before stays in force", "err", err)
		return err
	}
	level.Info(d.logger).Log("msg", "configuration reloaded", "targets", len(d.active))
	return nil
}

// apply puts a configuration into force, or changes nothing.
func (d *daemon) apply(cfg *config.Config) error {
	for _, g := range cfg.Groups {
		if _, err := d.prepare(cfg, *g.Template, nil); err != nil {
			return fmt.Errorf("target group %q: %w", g.Name, err)
		}
	}
	if err := d.replace(cfg); err != nil {
		return err
	}
	d.run("check of the files", func() { // reading one may take for ever
		for _, w := range cfg.Warnings() {
			level.Warn(d.logger).Log("msg", "configuration", "warning", w)
		}
	})
	if len(cfg.Groups) > 0 && !d.finding {
		d.find()
	}
	d.finder.Apply(cfg.Groups)
	return nil
}

// replace replaces what runs. New targets are prepared first, since that may fail; only then anything changes.
// A target that is the same as before goes on untouched, with its counters and its probes in flight.
func (d *daemon) replace(cfg *config.Config) error {
	groups := d.resolve(cfg)
	targets := slices.Concat(cfg.Targets, discovery.Targets(groups))
	next := make(map[string]*runningTarget, len(targets))
	var fresh []*runningTarget
	var order []string
	var problems []error
	for _, t := range targets {
		if old := d.active[t.Name]; old != nil && reflect.DeepEqual(old.target, *t) {
			next[t.Name] = old
			order = append(order, t.Name)
			continue
		}
		u, err := d.prepare(cfg, *t, d.lifetime(t.Name))
		switch {
		case err == nil:
			next[t.Name] = u
			order = append(order, t.Name)
			fresh = append(fresh, u)
		case t.Group != "":
			refuse(groups, t, err)
		default:
			problems = append(problems, fmt.Errorf("target %q: %w", t.Name, err))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}

	exposed := make([]*collector.Target, 0, len(next))
	for name, u := range next {
		if cfg != d.cfg {
			u.metrics.SetSLOs(wire.SLOs(cfg.SLOs, u.target))
		}
		exposed = append(exposed, next[name].metrics)
	}
	d.targets.Set(exposed)
	changes := make(map[string]*change)
	of := func(group string) *change {
		if changes[group] == nil {
			changes[group] = &change{}
		}
		return changes[group]
	}
	for _, name := range d.order {
		old := d.active[name]
		switch next[name] {
		case old:
		case nil:
			of(old.target.Group).removed = append(of(old.target.Group).removed, name)
			old.life.close(name)
		default:
			of(old.target.Group).replaced = append(of(old.target.Group).replaced, name)
			old.replace()
		}
	}
	for _, u := range fresh {
		if d.active[u.target.Name] == nil {
			of(u.target.Group).added = append(of(u.target.Group).added, u.target.Name)
		}
		d.start(u)
	}
	d.logChanges(changes, d.members(), groups)
	d.cfg, d.active, d.order = cfg, next, order
	d.groups.Store(&groups)
	return nil
}

// lifetime returns that of a name, a new one if no target has it.
func (d *daemon) lifetime(name string) *lifetime {
	if old := d.active[name]; old != nil {
		return old.life
	}
	return &lifetime{History: d.history}
}

// prepare makes what is to run for a target.
func (d *daemon) prepare(cfg *config.Config, t config.Target, life *lifetime) (*runningTarget, error) {
	u := &runningTarget{target: t, life: life, probed: wire.Target(t)}
	u.metrics = collector.NewTarget(collector.TargetConfig{Name: t.Name, Labels: t.Labels, Histograms: histogram.Kind(t.Histograms), Workloads: wire.Workloads(&u.probed), SLOs: wire.SLOs(cfg.SLOs, t)})
	options := d.options
	options.Observer = prober.Observers{u.metrics, life}
	var err error
	if u.runner, err = prober.NewRunner(u.probed, options); err != nil {
		return nil, err
	}
	if t.MetricsURL == "" {
		return u, nil
	}
	reads, err := relayConfig(t, u, options)
	if err != nil {
		return nil, err
	}
	reads.LargePages = d.pages
	u.relay, err = relay.New(reads)
	return u, err
}

func (d *daemon) start(u *runningTarget) {
	if u.life.ctx == nil {
		u.life.ctx, u.life.end = context.WithCancel(d.life)
	}
	var relaying context.Context
	relaying, u.stopRelay = context.WithCancel(u.life.ctx)
	d.run("probes of "+u.target.Name, func() { u.runner.Run(u.life.ctx) })
	if u.relay != nil {
		d.run("relay of "+u.target.Name, func() { u.relay.Run(relaying) })
	}
}

// run does what ends with the daemon.
func (d *daemon) run(name string, do func()) {
	d.atWork.add(name, 1)
	d.running.Go(func() {
		defer d.atWork.add(name, -1)
		do()
	})
}

// replace ends what runs for a target that has changed. Its probes in flight go on to their end.
func (u *runningTarget) replace() {
	u.stopRelay()
	u.runner.Drain()
}

// stop abandons everything in flight and waits until nothing runs any more.
func (d *daemon) stop() { d.stopWithin(context.Background()) }

// stopWithin abandons everything in flight and waits until nothing runs any more or ctx is done. It names what is left
// then.
func (d *daemon) stopWithin(ctx context.Context) (left []string) {
	d.end()
	ended := make(chan struct{})
	go func() {
		d.mu.Lock() // a reload may be starting something
		defer d.mu.Unlock()
		d.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return d.atWork.list()
	}
}

// current returns the configuration in force and what runs for it, in the order of the file and then of groups.
func (d *daemon) current() (*config.Config, []*runningTarget) {
	d.mu.Lock()
	defer d.mu.Unlock()
	targets := make([]*runningTarget, 0, len(d.active))
	for _, name := range d.order {
		targets = append(targets, d.active[name])
	}
	return d.cfg, targets
}
