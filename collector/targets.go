package collector

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Targets is the set of targets as one [prometheus.Gatherer]. Its methods may be called at once from several
// goroutines.
type Targets struct {
	also []prometheus.Gatherer

	mu      sync.RWMutex
	targets []*Target // in order of name
}

var _ prometheus.Gatherer = (*Targets)(nil)

// NewTargets returns an empty set. What the given gatherers gather is exposed beside the targets.
func NewTargets(also ...prometheus.Gatherer) *Targets { return &Targets{also: also} }

// Set replaces the targets; names must differ. A target that is no longer among them is gone from the next
// scrape on, whatever its probes in flight still report.
func (ts *Targets) Set(targets []*Target) {
	sorted := slices.SortedFunc(slices.Values(targets), func(a, b *Target) int { return cmp.Compare(a.name, b.name) })
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.targets = sorted
}

// Gather implements [prometheus.Gatherer]: families of the same name become one, ordered by target. On an error
// what could be gathered is returned with it.
//
// It does what [prometheus.Gatherers] does but for the search for duplicate series, which takes most of the time
// at 1,000 targets: each registry has searched its own, and no two have the label "target" in common.
func (ts *Targets) Gather() ([]*dto.MetricFamily, error) {
	gatherers := ts.gatherers()
	gathered := make([][]*dto.MetricFamily, len(gatherers))
	errs := make([]error, len(gatherers))
	inParallel(len(gatherers), func(i int) { gathered[i], errs[i] = gatherers[i].Gather() })

	merged, err := mergeFamilies(gathered)
	return merged, errors.Join(append(errs, err)...)
}

func (ts *Targets) gatherers() []prometheus.Gatherer {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	gatherers := slices.Clone(ts.also)
	for _, t := range ts.targets {
		gatherers = append(gatherers, t)
	}
	return gatherers
}

// inParallel calls do with 0 to n−1, from as many goroutines as can run at once.
func inParallel(n int, do func(i int)) {
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	workers.Wait()
}

// mergeFamilies makes families of the same name one. It takes over the families it is given.
func mergeFamilies(gathered [][]*dto.MetricFamily) ([]*dto.MetricFamily, error) {
	var errs []error
	byName := make(map[string]*dto.MetricFamily)
	for _, families := range gathered {
		for _, f := range families {
			first, ok := byName[f.GetName()]
			switch {
			case !ok:
				byName[f.GetName()] = f
			case first.GetType() != f.GetType() || first.GetHelp() != f.GetHelp():
				errs = append(errs, fmt.Errorf("merging metric %s: two targets disagree on its type or help", f.GetName()))
			default:
				first.Metric = append(first.Metric, f.Metric...)
			}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *dto.MetricFamily) int {
		return cmp.Compare(a.GetName(), b.GetName())
	}), errors.Join(errs...)
}
