package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/discovery"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// found is a target group of Prometheus, as an HTTP service discovery tells it.
type found struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// registry is an HTTP service discovery at sd:80 of a network in memory.
type registry struct {
	mu     sync.Mutex
	groups []found
	broken bool
	asked  int
}

func serveRegistry(t *testing.T, n *network, groups ...found) *registry {
	t.Helper()
	r := &registry{groups: groups}
	server, ended := &http.Server{Handler: r}, make(chan struct{})
	l := n.listen("sd:80")
	go func() {
		defer close(ended)
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving the registry: %v", err)
		}
	}()
	t.Cleanup(func() { server.Close(); <-ended })
	return r
}

func (r *registry) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.broken {
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r.groups)
}

// has makes what the registry tells, and waits until the daemon has followed: 5 s to the next question, 3 s to the
// manager's next word.
func (r *registry) has(groups ...found) {
	r.mu.Lock()
	r.groups = groups
	r.mu.Unlock()
	time.Sleep(8 * time.Second)
	synctest.Wait()
}

// oneGroup is probed every 5 s, as its registry says.
const oneGroup = `
global: {interval: 5s, timeout: 20s, stall_timeout: 10s, warmup: 0}
workloads: [{name: w, prompt_tokens: 512, output_tokens: 128}]
target_groups:
  - name: fleet
    http_sd_configs: [{url: "http://sd", refresh_interval: 5s}]
`

// state is the count of a state of the group fleet.
func state(s discovery.State) string {
	return fmt.Sprintf(`llm_prober_discovered_targets{group="fleet",state=%q}`, s)
}

// wantStates checks all counts of the group fleet.
func (s samples) wantStates(t *testing.T, active, dropped, invalid, overLimit float64) {
	t.Helper()
	s.want(t, state(discovery.Active), active)
	s.want(t, state(discovery.Dropped), dropped)
	s.want(t, state(discovery.Invalid), invalid)
	s.want(t, state(discovery.OverLimit), overLimit)
}

// lines counts the lines of the log with a text.
func (g *rig) lines(text string) (n int) {
	for line := range strings.Lines(g.log.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

const membersChanged = "targets of a group have changed"

func TestMembersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "a:8000", vllmsim.Config{})
		b := serve(t, n, "b:8000", vllmsim.Config{})
		sd := serveRegistry(t, n)
		g := startRig(t, n, oneGroup)
		sd.has()
		if s := g.scrape(); len(s.of(`target="`)) != 0 {
			t.Fatalf("series of targets that there are not: %q", s.of(`target="`))
		}

		sd.has(found{Targets: []string{"a:8000"}}, found{[]string{"b:8000"}, map[string]string{"site": "ams"}})
		s := g.scrape()
		s.wantStates(t, 2, 0, 0, 0)
		s.want(t, `llm_probe_in_flight{site="ams",target="b:8000",workload="w"}`, 0)
		time.Sleep(20 * time.Second)
		g.inFlight("a:8000")
		before := g.scrape()
		if ended := before[probes("requests_total", "a:8000")]; ended < 3 {
			t.Fatalf("%v probes of a ended in over 20 s", ended)
		}
		if n := g.lines(membersChanged); n != 1 {
			t.Errorf("%d lines tell of one change:\n%s", n, g.log)
		}

		sd.has(found{Targets: []string{"a:8000"}})
		after := g.scrape()
		after.wantStates(t, 1, 0, 0, 0)
		if left := after.of(`b:8000`); len(left) != 0 {
			t.Errorf("series of a target that is gone: %q", left)
		}
		if ended := after[probes("requests_total", "a:8000")]; ended <= before[probes("requests_total", "a:8000")] {
			t.Errorf("the target that stays has %v probes, and had %v", ended, before[probes("requests_total", "a:8000")])
		}
		made := b.Engine().Stats()
		time.Sleep(time.Minute)
		if later := b.Engine().Stats(); later.PromptTokens != made.PromptTokens || later.Running != 0 {
			t.Errorf("a target that is gone is sent requests: %+v, then %+v", made, later)
		}
	})
}

// A set that is the same changes nothing, however often it is told, whatever its order.
func TestSameSetChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		for _, name := range []string{"a:8000", "b:8000"} {
			serve(t, n, name, vllmsim.Config{})
		}
		sd := serveRegistry(t, n)
		g := startRig(t, n, oneGroup)
		sd.has(found{Targets: []string{"a:8000", "b:8000"}})
		g.inFlight("a:8000")
		_, units := g.current()
		for range 5 {
			sd.has(found{Targets: []string{"b:8000"}}, found{Targets: []string{"a:8000"}})
			sd.has(found{Targets: []string{"a:8000", "b:8000", "a:8000"}})
		}
		if _, now := g.current(); !slices.Equal(units, now) {
			t.Error("targets that are the same were replaced")
		}
		s := g.scrape()
		s.want(t, state(discovery.Active), 2)
		s.want(t, state(discovery.Dropped), 1) // found twice
		for _, target := range []string{"a:8000", "b:8000"} {
			s.want(t, probes("missed_total", target), 0)
			if ended := s[probes("requests_total", target)]; ended < 80/5-2 {
				t.Errorf("%v probes of %s in 80 s", ended, target)
			}
		}
		if n := g.lines(membersChanged); n != 1 {
			t.Errorf("%d lines tell of one change:\n%s", n, g.log)
		}
	})
}

func TestChangedMemberAloneIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		for _, name := range []string{"a:8000", "b:8000"} {
			serve(t, n, name, vllmsim.Config{})
		}
		sd := serveRegistry(t, n, found{Targets: []string{"a:8000"}}, found{Targets: []string{"b:8000"}})
		g := startRig(t, n, oneGroup)
		time.Sleep(20 * time.Second)
		_, before := g.current()
		sd.has(found{Targets: []string{"a:8000"}}, found{[]string{"b:8000"}, map[string]string{"site": "ams", "__interval__": "10s"}})
		_, after := g.current()
		if before[0] != after[0] || before[1] == after[1] {
			t.Error("not the changed target alone was replaced")
		}
		s := g.scrape()
		s.want(t, `llm_probe_interval_seconds{site="ams",target="b:8000",workload="w"}`, 10)
		if got := g.lines("replaced=1"); got != 1 {
			t.Errorf("%d lines tell of the change:\n%s", got, g.log)
		}
	})
}

// What is in flight when its target goes ends at once, is counted nowhere and leaves nothing behind.
func TestProbesInFlightOfAMemberThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		a := serve(t, n, "a:8000", vllmsim.Config{})
		serve(t, n, "b:8000", vllmsim.Config{})
		yaml := strings.Replace(oneGroup, "output_tokens: 128", "output_tokens: 600", 1) // always one in flight
		sd := serveRegistry(t, n, found{Targets: []string{"a:8000", "b:8000"}})
		g := startRig(t, n, yaml)
		time.Sleep(30 * time.Second)
		for range 10 {
			sd.has(found{Targets: []string{"b:8000"}})
			if running := a.Engine().Stats().Running; running != 0 {
				t.Fatalf("%d requests go on", running)
			}
			if f := g.scrape().of("a:8000"); len(f) != 0 {
				t.Fatalf("series are left: %q", f)
			}
			sd.has(found{Targets: []string{"a:8000", "b:8000"}})
			time.Sleep(7 * time.Second)
		}
		for _, name := range g.scrape().of("llm_probe_request_failures_total{") {
			if v := g.scrape()[name]; v != 0 {
				t.Errorf("%s = %v", name, v)
			}
		}
	})
}

func TestMembersThatAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		for _, name := range []string{"static:8000", "a:8000", "b:8000", "c:8000", "d:8000"} {
			serve(t, n, name, vllmsim.Config{})
		}
		sd := serveRegistry(t, n)
		g := startRig(t, n, oneGroup+`
    target_limit: 2
    relabel_configs: [{source_labels: [role], regex: decode, action: drop}]
targets: [{url: "http://static:8000"}]`)
		sd.has(
			found{Targets: []string{"b:8000", "c:8000"}},
			found{[]string{"d:8000"}, map[string]string{"role": "decode"}},
			found{[]string{"x:1"}, map[string]string{"target": "static:8000"}},
			found{[]string{"x:2"}, map[string]string{"job": "vllm"}},
			found{[]string{"http://x:3/v1"}, nil},
		)
		g.scrape().wantStates(t, 2, 1, 3, 0)
		// One more: those that are probed stay, though it comes before them.
		sd.has(found{Targets: []string{"a:8000", "b:8000", "c:8000"}})
		g.scrape().wantStates(t, 2, 0, 0, 1)
		want := []string{
			"a:8000 over_limit: the group has 2 targets, its target_limit",
			"b:8000 active: ",
			"c:8000 active: ",
		}
		var got []string
		for _, m := range g.members()[0].Members {
			got = append(got, fmt.Sprintf("%s %s: %s", m.Discovered.Get("__address__"), m.State, m.Reason))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// A place becomes free.
		sd.has(found{Targets: []string{"a:8000", "c:8000"}})
		s := g.scrape()
		s.wantStates(t, 2, 0, 0, 0)
		s.want(t, probes("missed_total", "a:8000"), 0)
		if n := g.lines(membersChanged); n != 3 {
			t.Errorf("%d lines tell of three changes:\n%s", n, g.log)
		}
		if n := g.lines("is the name of a target of the file"); n != 1 {
			t.Errorf("%d lines give the reason:\n%s", n, g.log)
		}
	})
}

func TestDiscoveryThatFailsKeepsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "a:8000", vllmsim.Config{})
		sd := serveRegistry(t, n)
		g := startRig(t, n, oneGroup)
		sd.has(found{Targets: []string{"a:8000"}})
		sd.mu.Lock()
		sd.broken = true
		sd.mu.Unlock()
		time.Sleep(10 * time.Minute)
		s := g.scrape()
		s.wantStates(t, 1, 0, 0, 0)
		s.want(t, probes("missed_total", "a:8000"), 0)
		if failed := s[`prometheus_sd_refresh_failures_total{config="fleet/0",mechanism="http"}`]; failed < 100 {
			t.Errorf("%v refreshes have failed", failed)
		}
		if err := g.members()[0].Sources[0].Err; !strings.Contains(err, "500") {
			t.Errorf("error %q", err)
		}
		if n := g.lines("500 Internal Server Error"); n != 1 {
			t.Errorf("%d lines tell of one failure:\n%s", n, g.log)
		}
	})
}

// A reload goes on with members that are the same, also when what finds them has changed.
func TestReloadKeepsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		serve(t, n, "a:8000", vllmsim.Config{})
		serve(t, n, "b:8000", vllmsim.Config{})
		sd := serveRegistry(t, n)
		g := startRig(t, n, oneGroup)
		sd.has(found{Targets: []string{"a:8000", "b:8000"}})
		_, before := g.current()
		for _, yaml := range []string{
			oneGroup,
			oneGroup + "slos: []",
			strings.Replace(oneGroup, "refresh_interval: 5s", "refresh_interval: 6s", 1),
			strings.Replace(oneGroup, `{url: "http://sd",`, `{url: "http://nobody"}, {url: "http://sd",`, 1),
		} {
			g.mustReload(yaml)
			for range 30 {
				time.Sleep(time.Second)
				synctest.Wait()
				if _, now := g.current(); !slices.Equal(before, now) {
					t.Fatalf("targets were replaced by a reload of\n%s\n%s", yaml, g.log)
				}
			}
		}
		g.mustReload(strings.Replace(oneGroup, "name: fleet", "name: others", 1))
		time.Sleep(8 * time.Second)
		g.scrape().want(t, `llm_prober_discovered_targets{group="others",state="active"}`, 2)
		g.mustReload(`targets: [{url: "http://a:8000"}]`)
		time.Sleep(time.Second)
		s := g.scrape()
		if left := append(s.of("llm_prober_discovered_targets"), s.of("prometheus_sd_")...); len(left) != 0 {
			t.Errorf("without groups there are %q", left)
		}
		asked := sd.asked
		time.Sleep(time.Minute)
		if sd.asked != asked {
			t.Error("a discovery that is gone goes on asking")
		}
	})
}

// Many that come at once are asked one after another, over the interval.
func TestNewMembersAreSpreadInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const members = 300
		n := &network{}
		var mu sync.Mutex
		firsts := make(map[string]time.Time) // the first request of the prober to each, the relay's aside
		var list []string
		for i := range members {
			address := fmt.Sprintf("m%d:8000", i)
			h := serve(t, n, address, vllmsim.Config{})
			sim := h.Handler()
			first := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				if _, ok := firsts[address]; !ok {
					firsts[address] = time.Now()
				}
				mu.Unlock()
				sim.ServeHTTP(w, r)
			})
			h.instead.Store(&first)
			list = append(list, address)
		}
		sd := serveRegistry(t, n)
		startRig(t, n, strings.Replace(oneGroup, "name: fleet", "name: fleet\n    metrics_url: ''\n    interval: 30s", 1))
		sd.has(found{Targets: list})
		time.Sleep(30 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(firsts) != members {
			t.Fatalf("%d were asked within an interval", len(firsts))
		}
		seconds := make(map[int64]int)
		for _, at := range firsts {
			seconds[at.Unix()]++
		}
		for at, n := range seconds {
			if n > 5*members/30 {
				t.Errorf("%d were first asked in second %d", n, at)
			}
		}
	})
}

// What comes and goes for long leaves nothing behind.
func TestChurnLeaksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		var list []string
		for i := range 20 {
			list = append(list, fmt.Sprintf("m%d:8000", i))
			serve(t, n, list[i], vllmsim.Config{})
		}
		sd := serveRegistry(t, n)
		g := startRig(t, n, oneGroup)
		measure := func() (goroutines, series int) {
			sd.has(found{Targets: list[:10]})
			time.Sleep(30 * time.Second)
			sd.has()
			time.Sleep(10 * time.Second) // servers close idle connections after 5
			synctest.Wait()
			return runtime.NumGoroutine(), len(g.scrape())
		}
		goroutines, series := measure()
		for i := range 50 {
			sd.has(found{Targets: append(slices.Clone(list[i%10:i%10+10]), fmt.Sprintf("gone%d:1", i))})
		}
		if g2, s2 := measure(); g2 > goroutines || s2 != series {
			t.Errorf("%d goroutines became %d, %d series became %d", goroutines, g2, series, s2)
		}
		if left := g.atWork.list(); len(left) != 2 { // the discovery itself
			t.Errorf("at work: %q", left)
		}
	})
}
