package web

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// Records kept of each workload of each target, where History does not say otherwise.
const (
	DefaultResults  = 100
	DefaultFailures = 50
)

// History remembers the last results of every target, and what is in flight, for the status page. Its memory
// is bounded however long it runs and whatever servers send: gaps and bodies are kept of the newest results
// only. The zero value is ready to use, by several goroutines at once.
type History struct {
	// Results and Failures are how many results are kept of each workload of each target, and how many
	// failures beyond those. 0 means DefaultResults and DefaultFailures.
	Results, Failures int

	flights sync.Map // *prober.Probe → *flight

	mu      sync.Mutex
	targets map[string]map[string]*workloadHistory // by target and workload
}

var _ prober.Observer = (*History)(nil)

// flight is a probe that has not ended. Times are nanoseconds since its start; 0 means not yet.
type flight struct {
	probe             *prober.Probe
	sent, first, last atomic.Int64
	tokens            atomic.Int64
}

func (f *flight) since(at time.Time) int64 { return max(1, int64(at.Sub(f.probe.Started))) }

// Started implements [prober.Observer].
func (h *History) Started(p *prober.Probe) { h.flights.Store(p, &flight{probe: p}) }

// Sent implements [prober.Observer].
func (h *History) Sent(p *prober.Probe, at time.Time) {
	if f, ok := h.flights.Load(p); ok {
		f := f.(*flight)
		f.sent.Store(f.since(at))
	}
}

// Token implements [prober.Observer]. It takes no lock and allocates nothing.
func (h *History) Token(p *prober.Probe, at time.Time, _ time.Duration) {
	v, ok := h.flights.Load(p)
	if !ok {
		return
	}
	f := v.(*flight)
	ns := f.since(at)
	if f.tokens.Add(1) == 1 {
		f.first.Store(ns)
	}
	f.last.Store(ns)
}

// Ended implements [prober.Observer].
func (h *History) Ended(r *prober.Result) {
	h.flights.Delete(r.Probe)
	if r.Abandoned {
		return
	}
	rec := newRecord(r)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workloadOf(r.Target, r.Workload.Name).add(rec, orDefault(h.Results, DefaultResults), orDefault(h.Failures, DefaultFailures))
}

// Missed implements [prober.Observer].
func (h *History) Missed(target, workload string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workloadOf(target, workload).totals.Missed++
}

// Forget drops all that is known of a target: it was removed, or is another server now.
func (h *History) Forget(target string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.targets, target)
}

// workloadOf is called with mu held.
func (h *History) workloadOf(target, workload string) *workloadHistory {
	workloads := h.targets[target]
	if workloads == nil {
		if h.targets == nil {
			h.targets = map[string]map[string]*workloadHistory{}
		}
		workloads = map[string]*workloadHistory{}
		h.targets[target] = workloads
	}
	s := workloads[workload]
	if s == nil {
		s = newWorkloadHistory()
		workloads[workload] = s
	}
	return s
}

// snapshot is the history of a workload at one moment.
type snapshot struct {
	standing
	workload string
	results  []*record // newest first
	failures []*record // newest first; the young ones are among the results too
	minutes  []minute  // oldest first
}

// snapshots lists the workloads of a target by name.
func (h *History) snapshots(target string, now time.Time) []snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	workloads := h.targets[target]
	views := make([]snapshot, 0, len(workloads))
	for _, name := range slices.Sorted(maps.Keys(workloads)) {
		s := workloads[name]
		v := snapshot{s.standing, name, s.results.newest(), s.failures.newest(), s.minutes.last(now)}
		v.totals.ByReason = maps.Clone(s.totals.ByReason)
		views = append(views, v)
	}
	return views
}

// flightView is a probe in flight at one moment.
type flightView struct {
	*prober.Probe
	age        time.Duration
	silence    time.Duration // since the last token, or since the start if none came
	sent       time.Duration // after the start; 0: not yet
	firstToken time.Duration // after the start; 0: none yet
	tokens     int           // token events
}

// inFlight lists what is in flight by target, the longest silent first.
func (h *History) inFlight(now time.Time) map[string][]flightView {
	flights := map[string][]flightView{}
	h.flights.Range(func(_, v any) bool {
		f := v.(*flight)
		age := now.Sub(f.probe.Started)
		flights[f.probe.Target] = append(flights[f.probe.Target], flightView{
			Probe: f.probe, age: age, silence: max(0, age-time.Duration(f.last.Load())),
			sent: time.Duration(f.sent.Load()), firstToken: time.Duration(f.first.Load()), tokens: int(f.tokens.Load()),
		})
		return true
	})
	for _, list := range flights {
		slices.SortFunc(list, func(a, b flightView) int {
			if a.silence != b.silence {
				return int(b.silence - a.silence)
			}
			return a.Started.Compare(b.Started)
		})
	}
	return flights
}

func orDefault(n, def int) int {
	if n > 0 {
		return n
	}
	return def
}
