package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/config"
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

	life context.Context // of everything that runs, also of what a reload has replaced
	end  context.CancelFunc

	mu      sync.Mutex // one reload at a time; guards the following
	cfg     *config.Config
	active  map[string]*runningTarget
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
	probed  prober.Target
	metrics *collector.Target
	runner  *prober.Runner
	relay   *relay.Relay // nil: off

	stopProbes context.CancelFunc // ends the runner and abandons its probes
	stopRelay  context.CancelFunc
}

// newDaemon starts to run a configuration; load is where reloads take theirs from. The error is that of apply.
func newDaemon(cfg *config.Config, load func() (*config.Config, error), options prober.Options) (*daemon, error) {
	if options.Dial == nil {
		options.Dial = prober.DefaultDial
	}
	d := &daemon{load: load, logger: options.Logger, options: options, self: collector.NewSelf(), history: &web.History{}, pages: relay.NewLargePages()}
	d.life, d.end = context.WithCancel(context.Background())
	d.targets = collector.NewTargets(d.self)
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
	level.Info(d.logger).Log("msg", "configuration reloaded", "targets", len(cfg.Targets))
	return nil
}

// apply replaces what runs. New targets are prepared first, since that may fail; only then anything changes.
// A target that is the same as before goes on untouched, with its counters and its probes in flight.
func (d *daemon) apply(cfg *config.Config) error {
	next := make(map[string]*runningTarget, len(cfg.Targets))
	var fresh []*runningTarget
	var problems []error
	for _, t := range cfg.Targets {
		if old := d.active[t.Name]; old != nil && reflect.DeepEqual(old.target, *t) {
			next[t.Name] = old
			continue
		}
		u, err := d.prepare(cfg, *t)
		if err != nil {
			problems = append(problems, fmt.Errorf("target %q: %w", t.Name, err))
			continue
		}
		next[t.Name] = u
		fresh = append(fresh, u)
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}

	d.run("check of the files", func() { // reading one may take for ever
		for _, w := range cfg.Warnings() {
			level.Warn(d.logger).Log("msg", "configuration", "warning", w)
		}
	})
	exposed := make([]*collector.Target, 0, len(next))
	for name, u := range next {
		u.metrics.SetSLOs(wire.SLOs(cfg.SLOs, u.target))
		exposed = append(exposed, next[name].metrics)
	}
	d.targets.Set(exposed)
	for name, old := range d.active {
		switch next[name] {
		case old:
		case nil:
			old.remove()
			d.history.Forget(name)
		default:
			old.replace()
		}
	}
	for _, u := range fresh {
		d.start(u)
	}
	d.cfg, d.active = cfg, next
	return nil
}

// prepare makes what is to run for a target.
func (d *daemon) prepare(cfg *config.Config, t config.Target) (*runningTarget, error) {
	u := &runningTarget{target: t, probed: wire.Target(t)}
	u.metrics = collector.NewTarget(collector.TargetConfig{Name: t.Name, Labels: t.Labels, Histograms: histogram.Kind(t.Histograms), Workloads: wire.Workloads(&u.probed), SLOs: wire.SLOs(cfg.SLOs, t)})
	options := d.options
	options.Observer = prober.Observers{u.metrics, d.history}
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
	probing, stopProbes := context.WithCancel(d.life)
	relaying, stopRelay := context.WithCancel(d.life)
	u.stopProbes, u.stopRelay = stopProbes, stopRelay
	d.run("probes of "+u.target.Name, func() {
		u.runner.Run(probing)
		stopProbes()
	})
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

// remove ends what runs for a target that is gone: its probes in flight are nobody's.
func (u *runningTarget) remove() {
	u.stopRelay()
	u.stopProbes()
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

// current returns the configuration in force and what runs for it, in the order of the file.
func (d *daemon) current() (*config.Config, []*runningTarget) {
	d.mu.Lock()
	defer d.mu.Unlock()
	targets := make([]*runningTarget, 0, len(d.active))
	for _, t := range d.cfg.Targets {
		targets = append(targets, d.active[t.Name])
	}
	return d.cfg, targets
}
