package web

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// targetView is all that is known of a target at one moment; the page and the API both tell it.
type targetView struct {
	name, url, model string
	group            string // empty: it stands in the file
	labels           []label
	state            State
	since            time.Time // zero where the state is Unknown
	server           Server
	serverKnown      bool
	flights          []flightView
	silenceLimit     time.Duration
	workloads        []workloadView
}

type label struct{ Name, Value string }

// workloadView is one workload of a target at one moment.
type workloadView struct {
	snapshot
	plan   *prober.Plan // nil: no longer probed
	recent recentProbes
	slow   []slowPart
	slos   []SLO
}

// targets looks at every target, those in trouble first.
func (s *site) targets(now time.Time) []targetView {
	flights := s.History.inFlight(now)
	var views []targetView
	for _, t := range s.Targets() {
		views = append(views, s.look(t, flights[t.Name], now))
	}
	slices.SortStableFunc(views, func(a, b targetView) int {
		return cmp.Or(cmp.Compare(a.trouble(), b.trouble()), cmp.Compare(a.name, b.name))
	})
	return views
}

func (s *site) look(t Target, flights []flightView, now time.Time) targetView {
	v := targetView{name: t.Name, group: t.Group, url: shownURL(t.URL), model: t.Model, flights: flights, silenceLimit: t.silenceLimit(), state: Unknown}
	for _, name := range slices.Sorted(maps.Keys(t.Labels)) {
		v.labels = append(v.labels, label{scrub.Text(name, maxName), scrub.Text(t.Labels[name], maxName)})
	}
	if s.Server != nil {
		v.server, v.serverKnown = s.Server(t.Name)
		v.server.Running, v.server.Waiting, v.server.KVCache = finite(v.server.Running), finite(v.server.Waiting), finite(v.server.KVCache)
		v.server.Version = scrub.Text(v.server.Version, maxWord)
		v.server.Engine = scrub.Text(v.server.Engine, maxWord)
		v.server.Error = scrub.Text(v.server.Error, maxError)
	}
	v.workloads = workloadsOf(t, s.History.snapshots(t.Name, now))
	if v.model == "" {
		v.model = lastModel(v.workloads)
	}
	v.model = scrub.Text(v.model, maxName)
	v.judge(now)
	return v
}

// workloadsOf lists the workloads that a target is probed with in their own order, then those it was.
func workloadsOf(t Target, kept []snapshot) []workloadView {
	var views []workloadView
	for i := range t.Plans {
		plan := &t.Plans[i]
		past := snapshot{workload: plan.Name, standing: standing{state: Unknown}}
		at := slices.IndexFunc(kept, func(k snapshot) bool { return k.workload == plan.Name })
		if at >= 0 {
			past = kept[at]
			kept = slices.Delete(kept, at, at+1)
		}
		w := newWorkloadView(past, plan)
		for _, slo := range t.SLOs {
			if slo.Workload == plan.Name {
				w.slos = append(w.slos, slo)
			}
		}
		views = append(views, w)
	}
	for _, past := range kept {
		views = append(views, newWorkloadView(past, nil))
	}
	return views
}

func newWorkloadView(past snapshot, plan *prober.Plan) workloadView {
	w := workloadView{snapshot: past, plan: plan, recent: recentOf(past.results)}
	w.slow = findSlow(w.recent, past.minutes)
	return w
}

func lastModel(workloads []workloadView) string {
	for _, w := range workloads {
		if len(w.results) > 0 {
			return w.results[0].Model
		}
	}
	return ""
}

// judge finds the state of a target: the worst of its workloads' states, for as long as it has been that.
// A workload that is no longer probed says nothing.
func (v *targetView) judge(now time.Time) {
	for _, w := range v.workloads {
		if w.plan == nil {
			continue
		}
		switch c := cmp.Compare(severity(w.state), severity(v.state)); {
		case c < 0:
			v.state, v.since = w.state, w.since
		case c == 0 && w.state == OK && w.since.After(v.since): // well since the last one is
			v.since = w.since
		case c == 0 && w.state != OK && w.since.Before(v.since):
			v.since = w.since
		}
	}
	if v.state == Failing || len(v.flights) == 0 {
		return
	}
	if f := v.flights[0]; f.silence >= v.silenceLimit {
		v.state, v.since = Silent, now.Add(-f.silence)
	}
}

func severity(s State) int {
	return slices.Index([]State{Failing, Silent, WarmingUp, OK, Unknown}, s)
}

// slow lists what is slow in any workload.
func (v *targetView) slow() []slowPart {
	var found []slowPart
	for _, w := range v.workloads {
		if w.plan != nil {
			found = append(found, w.slow...)
		}
	}
	return found
}

// trouble orders targets: failing, silent, slow, then the rest.
func (v *targetView) trouble() int {
	switch {
	case v.state == Failing:
		return 0
	case v.state == Silent:
		return 1
	case len(v.slow()) > 0:
		return 2
	}
	return 3 + severity(v.state)
}

// kept lists the results that are kept of a workload, newest first: the last ones, then older failures.
func (w *snapshot) kept() []*record {
	list := slices.Clone(w.results)
	seen := make(map[*prober.Probe]bool, len(list))
	for _, rec := range list {
		seen[rec.Probe] = true
	}
	for _, rec := range w.failures {
		if !seen[rec.Probe] {
			list = append(list, rec)
		}
	}
	slices.SortStableFunc(list, func(a, b *record) int { return b.Ended.Compare(a.Ended) })
	return list
}

// find looks for a kept result by request id; of a failure, the copy that keeps most.
func (w *snapshot) find(id string) *record {
	var found *record
	for _, rec := range slices.Concat(w.failures, w.results) {
		if rec.RequestID == id && (found == nil || len(rec.Gaps)+len(rec.Body) > len(found.Gaps)+len(found.Body)) {
			found = rec
		}
	}
	return found
}
