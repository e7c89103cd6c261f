package discovery

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/llm-prober/llm_prober/internal/config"
)

const (
	// settleTime is how long a source that a reload has changed may be telling what there is piece by piece: until then
	// it only adds to what was found before.
	settleTime = 10 * time.Second
	// silence is how long what was found before outlives a change of its source that neither answers nor fails: some
	// never tell that there is nothing.
	silence = 2 * time.Minute
	// throttle bounds how often the manager hands out what it has. It draws its pauses: they are up to half as long
	// again.
	throttle = 2 * time.Second
	// lookAgain is the time between two looks at what only time changes.
	lookAgain = 5 * time.Second
)

// Finder runs the service discovery of target groups, on Prometheus' own manager. Its methods may be called at once
// from several goroutines.
//
// What a source has found stays until it tells that something else is there: one that fails, that stops answering, or
// that a reload has replaced and that has not answered yet takes nothing away.
type Finder struct {
	logger  *slog.Logger
	manager *discovery.Manager
	metrics *prometheus.Registry
	changed chan struct{}

	mu      sync.Mutex
	groups  []string           // in the order of the configuration
	sources map[string]*source // by the name of their set
	ended   bool
	running sync.WaitGroup // of sources and of the manager
}

// NewFinder makes a finder whose sources run until ctx is done. HTTP service discoveries are reached by dial. It panics if its metrics cannot be registered.
func NewFinder(ctx context.Context, logger *slog.Logger, dial promconfig.DialContextFunc) *Finder {
	metrics := prometheus.NewRegistry()
	sd, err := discovery.CreateAndRegisterSDMetrics(metrics)
	if err != nil {
		panic(fmt.Sprintf("registering the metrics of service discovery: %v", err)) // in a registry of their own
	}
	return &Finder{
		logger: logger, metrics: metrics, changed: make(chan struct{}, 1), sources: make(map[string]*source),
		manager: discovery.NewManager(ctx, logger, metrics, sd, discovery.Name("target_groups"), discovery.Updatert(throttle), discovery.HTTPClientOptions(clientOptions(dial)...)),
	}
}

// Gather implements [prometheus.Gatherer]: Prometheus' own metrics of service discovery (prometheus_sd_…). There are none
// while no source runs.
func (f *Finder) Gather() ([]*dto.MetricFamily, error) {
	f.mu.Lock()
	idle := len(f.sources) == 0
	f.mu.Unlock()
	if idle {
		return nil, nil
	}
	return f.metrics.Gather()
}

// Changed receives when something was found or a source has begun or ceased to fail. Several changes may be one.
func (f *Finder) Changed() <-chan struct{} { return f.changed }

func (f *Finder) tell() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// Run takes what the sources find until the context of the finder is done and nothing of them runs any more.
func (f *Finder) Run() {
	f.running.Go(func() { _ = f.manager.Run() }) // its error is that of the context
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	var failures kubernetesFailures
	for sets := f.manager.SyncCh(); sets != nil; {
		select {
		case found, more := <-sets:
			if !more {
				sets = nil
				break
			}
			f.take(found)
		case <-look.C:
			f.take(nil)
			f.judge(&failures)
		}
	}
	f.mu.Lock()
	f.ended = true
	f.mu.Unlock()
	f.running.Wait()
}

// begin counts a source that begins to run; false: nothing is to begin any more.
func (f *Finder) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.running.Add(1)
	}
	return !f.ended
}

// Apply makes groups those whose members are found. Sources that are as before go on untouched; what a changed or a
// removed one had found stays, in the same group, until that in its place has answered.
func (f *Finder) Apply(groups []*config.TargetGroup) {
	configs := make(map[string]discovery.Configs)
	f.mu.Lock()
	sources := make(map[string]*source)
	f.groups = nil
	for _, g := range groups {
		f.groups = append(f.groups, g.Name)
		for i, c := range g.Sources {
			set := setName(g.Name, i)
			s := f.sources[set]
			if s == nil || !reflect.DeepEqual(s.config, c) {
				s = newSource(f, g.Name, i, c, s)
			}
			sources[set] = s
			if !s.known {
				configs[set] = discovery.Configs{watched{set, c, s}}
			}
		}
	}
	f.sources = sources
	f.mu.Unlock()
	_ = f.manager.ApplyConfig(configs) // always nil
	f.tell()
}

// setName is the manager's name of the i-th source of a group: each source is a set of its own, so that one that does
// not answer is told from one that finds nothing.
func setName(group string, i int) string { return group + "/" + strconv.Itoa(i) }

// kubernetesFailures is what is known of requests to the API of Kubernetes. Of these Prometheus' discovery tells only how
// many have failed, of all sources together.
type kubernetesFailures struct {
	count float64
	last  time.Time // when there was another
}

// mendTime is how long no request may have failed for the API to be well: client-go tries again within 30 s.
const mendTime = 2 * time.Minute

// judge tells sources of Kubernetes whether requests fail.
func (f *Finder) judge(k *kubernetesFailures) {
	var sources []*source
	f.mu.Lock()
	for _, s := range f.sources {
		if _, ok := s.config.(*kubernetes.SDConfig); ok {
			sources = append(sources, s)
		}
	}
	f.mu.Unlock()
	if len(sources) == 0 {
		return
	}
	count, now := sum(f.metrics, "prometheus_sd_kubernetes_failures_total"), time.Now()
	if count > k.count {
		k.count, k.last = count, now
		for _, s := range sources {
			s.failed("requests to the API of Kubernetes fail; the log tells why")
		}
	} else if !k.last.IsZero() && now.Sub(k.last) > mendTime {
		k.last = time.Time{}
		for _, s := range sources {
			s.mended()
		}
	}
}

// sum adds the values of a counter.
func sum(metrics prometheus.Gatherer, name string) (total float64) {
	families, _ := metrics.Gather() // what there is
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}

// take takes what the manager has found, by set; nil: only time has passed.
func (f *Finder) take(found map[string][]*targetgroup.Group) {
	now := time.Now()
	changed := false
	f.mu.Lock()
	for set, s := range f.sources {
		groups, told := found[set]
		if s.take(now, groups, told) {
			changed = true
		}
	}
	f.mu.Unlock()
	if changed {
		f.tell()
	}
}

// Found is what was found for one group, and by whom.
type Found struct {
	Sources []Source
	Labels  []labels.Labels // of each that was found, in the order of [labels.Compare]
	More    int             // found beyond those
}

// Found returns what there is, by the name of the group.
func (f *Finder) Found() map[string]Found {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]Found, len(f.groups))
	for _, s := range slices.SortedFunc(maps.Values(f.sources), func(a, b *source) int { return cmp.Compare(a.index, b.index) }) {
		g := all[s.group]
		g.Sources = append(g.Sources, s.state)
		g.Labels = append(g.Labels, s.found...)
		g.More += s.more
		all[s.group] = g
	}
	for name, g := range all {
		slices.SortFunc(g.Labels, labels.Compare)
		all[name] = g
	}
	return all
}

// labelSets makes one set of labels of each target, those of its group included, in order, and counts those beyond
// [MaxMembers]. It is never nil.
func labelSets(groups []*targetgroup.Group, hide func(string) string) (sets []labels.Labels, more int) {
	sets = []labels.Labels{}
	for _, g := range groups {
		for _, t := range g.Targets {
			if len(sets) == MaxMembers {
				more++
				continue
			}
			b := labels.NewScratchBuilder(len(t) + len(g.Labels))
			for name, value := range g.Labels {
				if _, own := t[name]; !own {
					b.Add(string(name[:min(len(name), maxSeen)]), valueOf(name, value, hide))
				}
			}
			for name, value := range t {
				b.Add(string(name[:min(len(name), maxSeen)]), valueOf(name, value, hide))
			}
			b.Sort()
			sets = append(sets, b.Labels().WithoutEmpty())
		}
	}
	slices.SortFunc(sets, labels.Compare)
	return sets, more
}

// maxSeen bounds a label in bytes for all that follows: an annotation of Kubernetes has at most that.
const maxSeen = 256 << 10

// valueOf is the value of a label; that of __meta_url is the whole address of an HTTP service discovery, secrets included.
func valueOf(name model.LabelName, value model.LabelValue, hide func(string) string) string {
	v := string(value[:min(len(value), maxSeen)])
	if name == model.MetaLabelPrefix+"url" {
		return hide(v)
	}
	return v
}
