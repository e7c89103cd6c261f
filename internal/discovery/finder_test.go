package discovery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"

	"github.com/llm-prober/llm_prober/internal/config"
)

// script is a service discovery that does what a test says.
type script struct {
	Version int // two of different versions are different
	run     *running
}

type running struct {
	mu     sync.Mutex
	starts int
	fail   error // of the start
	tell   chan []*targetgroup.Group
	report chan string // an error to be logged
	end    chan struct{}
}

func newScript(version int) (*script, *running) {
	r := &running{tell: make(chan []*targetgroup.Group), report: make(chan string), end: make(chan struct{})}
	return &script{version, r}, r
}

func (s *script) Name() string { return "script" }

func (s *script) NewDiscovererMetrics(prometheus.Registerer, discovery.RefreshMetricsInstantiator) discovery.DiscovererMetrics {
	return &discovery.NoopDiscovererMetrics{}
}

func (s *script) NewDiscoverer(o discovery.DiscovererOptions) (discovery.Discoverer, error) {
	s.run.mu.Lock()
	defer s.run.mu.Unlock()
	s.run.starts++
	return scripted{s.run, o.Logger}, s.run.fail
}

type scripted struct {
	*running
	logger *slog.Logger
}

func (s scripted) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	for {
		select {
		case groups := <-s.tell:
			up <- groups
		case text := <-s.report:
			s.logger.Error("Unable to refresh target groups", "err", text)
		case <-s.end:
			return
		case <-ctx.Done():
			return
		}
	}
}

// targets is one group of Prometheus with addresses.
func targets(source string, addresses ...string) *targetgroup.Group {
	g := &targetgroup.Group{Source: source}
	for _, a := range addresses {
		g.Targets = append(g.Targets, model.LabelSet{model.AddressLabel: model.LabelValue(a)})
	}
	return g
}

// harness runs a finder in virtual time.
type harness struct {
	t *testing.T
	*Finder
	log *bytes.Buffer
}

func inBubble(t *testing.T, test func(h harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		log := &bytes.Buffer{}
		h := harness{t, NewFinder(ctx, slog.New(slog.NewTextHandler(log, nil)), nil), log}
		ended := make(chan struct{})
		go func() { h.Run(); close(ended) }()
		test(h)
		cancel()
		<-ended
	})
}

func (h harness) apply(sources ...discovery.Config) {
	h.Apply([]*config.TargetGroup{{Name: "g", Sources: sources}})
}

// found waits for as long as the manager may take and returns the addresses.
func (h harness) found() []string {
	time.Sleep(6 * time.Second)
	synctest.Wait()
	var addresses []string
	for _, l := range h.Found()["g"].Labels {
		addresses = append(addresses, l.Get(model.AddressLabel))
	}
	return addresses
}

func (h harness) want(addresses ...string) {
	h.t.Helper()
	if got := h.found(); !slices.Equal(got, addresses) {
		h.t.Errorf("found %q, want %q", got, addresses)
	}
}

func TestFinderTakesWhatIsFound(t *testing.T) {
	inBubble(t, func(h harness) {
		s, run := newScript(1)
		h.apply(s)
		h.want()
		run.tell <- []*targetgroup.Group{targets("x", "b", "a"), targets("y", "c")}
		h.want("a", "b", "c")
		run.tell <- []*targetgroup.Group{targets("x", "d")}
		h.want("c", "d")
		run.tell <- []*targetgroup.Group{targets("x"), targets("y")}
		h.want()
	})
}

func TestReloadGoesOnWithSourcesThatStay(t *testing.T) {
	inBubble(t, func(h harness) {
		s, run := newScript(1)
		h.apply(s)
		run.tell <- []*targetgroup.Group{targets("x", "a")}
		h.want("a")
		for range 3 {
			same := *s
			h.apply(&same)
			h.want("a")
		}
		if run.starts != 1 {
			t.Errorf("started %d times", run.starts)
		}
	})
}

func TestReplacedSourceTakesNothingAwayBeforeItHasTold(t *testing.T) {
	inBubble(t, func(h harness) {
		first, run := newScript(1)
		h.apply(first)
		run.tell <- []*targetgroup.Group{targets("x", "a", "b", "c")}
		h.want("a", "b", "c")
		second, run := newScript(2)
		h.apply(second)
		h.want("a", "b", "c")
		// Piece by piece, as that of Kubernetes does.
		run.tell <- []*targetgroup.Group{targets("1", "b")}
		h.want("a", "b", "c")
		run.tell <- []*targetgroup.Group{targets("2", "d")}
		time.Sleep(settleTime)
		h.want("b", "d")
	})
}

func TestReplacedSourceThatFailsKeepsWhatThereWas(t *testing.T) {
	inBubble(t, func(h harness) {
		first, run := newScript(1)
		h.apply(first)
		run.tell <- []*targetgroup.Group{targets("x", "a")}
		h.want("a")
		second, run := newScript(2)
		run.fail = errors.New("no such file")
		h.apply(second)
		time.Sleep(time.Hour)
		h.want("a")
		if s := h.Found()["g"].Sources[0]; !strings.Contains(s.Err, "no such file") || !s.Answered.IsZero() {
			t.Errorf("%+v", s)
		}
		run.mu.Lock()
		run.fail = nil
		run.mu.Unlock()
		time.Sleep(startAgain)
		run.tell <- []*targetgroup.Group{targets("x", "b")}
		time.Sleep(settleTime)
		h.want("b")
		if s := h.Found()["g"].Sources[0]; s.Err != "" || s.Answered.IsZero() {
			t.Errorf("%+v", s)
		}
	})
}

// Kubernetes and files tell nothing where there is nothing.
func TestReplacedSourceThatIsSilentHasFoundNothing(t *testing.T) {
	inBubble(t, func(h harness) {
		first, run := newScript(1)
		h.apply(first)
		run.tell <- []*targetgroup.Group{targets("x", "a")}
		h.want("a")
		second, _ := newScript(2)
		h.apply(second)
		time.Sleep(silence - 10*time.Second)
		h.want("a")
		time.Sleep(10 * time.Second)
		h.want()
	})
}

func TestSourceThatStopsAnsweringKeepsWhatItHasFound(t *testing.T) {
	inBubble(t, func(h harness) {
		s, run := newScript(1)
		h.apply(s)
		run.tell <- []*targetgroup.Group{targets("x", "a")}
		h.want("a")
		for range 100 {
			run.report <- "connection refused"
			time.Sleep(time.Minute)
		}
		h.want("a")
		if got := h.Found()["g"].Sources[0].Err; got != "Unable to refresh target groups: connection refused" {
			t.Errorf("error %q", got)
		}
		run.tell <- []*targetgroup.Group{targets("x", "a")}
		h.want("a")
		if got := h.Found()["g"].Sources[0].Err; got != "" {
			t.Errorf("error %q after an answer", got)
		}
		if n := strings.Count(h.log.String(), "\n"); n != 2 { // that it fails, and that it answers again
			t.Errorf("%d lines:\n%s", n, h.log)
		}
	})
}

func TestSourceThatEndsIsStartedAgain(t *testing.T) {
	inBubble(t, func(h harness) {
		s, run := newScript(1)
		h.apply(s)
		run.tell <- []*targetgroup.Group{targets("x", "a")}
		run.end <- struct{}{}
		h.want("a")
		time.Sleep(startAgain)
		run.tell <- []*targetgroup.Group{targets("x", "b")}
		h.want("b")
	})
}

func TestSourcesOfAGroupAreToldApart(t *testing.T) {
	inBubble(t, func(h harness) {
		static := discovery.StaticConfig{targets("0", "s")}
		one, runOne := newScript(1)
		two, runTwo := newScript(2)
		h.apply(static, one, two)
		h.want("s")
		runOne.tell <- []*targetgroup.Group{targets("x", "a")}
		runTwo.tell <- []*targetgroup.Group{targets("x", "b")}
		h.want("a", "b", "s")
		// One that is put before others moves them, and takes nothing away.
		three, runThree := newScript(3)
		h.apply(static, three, one, two)
		h.want("a", "b", "s")
		runThree.tell <- []*targetgroup.Group{targets("x", "c")}
		runOne.tell <- []*targetgroup.Group{targets("x", "a")}
		runTwo.tell <- []*targetgroup.Group{targets("x", "b")}
		time.Sleep(settleTime)
		h.want("a", "b", "c", "s")
		h.apply(discovery.StaticConfig{targets("0", "t")}, three, one, two)
		h.want("a", "b", "c", "t")
		h.apply()
		h.want()
	})
}

func TestNothingIsToldWhereNothingChanges(t *testing.T) {
	inBubble(t, func(h harness) {
		s, run := newScript(1)
		h.apply(s)
		run.tell <- []*targetgroup.Group{targets("x", "a")}
		h.want("a")
		<-h.Changed()
		for range 5 {
			run.tell <- []*targetgroup.Group{targets("x", "a")}
			h.want("a")
		}
		select {
		case <-h.Changed():
			t.Error("the same set again is told as a change")
		default:
		}
	})
}

func TestWhatIsFoundIsBounded(t *testing.T) {
	many := &targetgroup.Group{Source: "x"}
	for range MaxMembers + 5 {
		many.Targets = append(many.Targets, model.LabelSet{model.AddressLabel: "a"})
	}
	sets, more := labelSets([]*targetgroup.Group{many}, nil)
	if len(sets) != MaxMembers || more != 5 {
		t.Errorf("%d and %d more", len(sets), more)
	}
	huge := model.LabelValue(strings.Repeat("x", 20<<20)) // more than the library can hold
	sets, _ = labelSets([]*targetgroup.Group{{Targets: []model.LabelSet{{"a": huge, model.LabelName(huge): "b", "empty": ""}}}}, nil)
	if got := sets[0].Get("a"); len(got) != maxSeen || sets[0].Len() != 2 {
		t.Errorf("a value of %d bytes, %d labels", len(got), sets[0].Len())
	}
}

func TestLabelsOfATargetComeBeforeThoseOfItsGroup(t *testing.T) {
	sets, _ := labelSets([]*targetgroup.Group{{Labels: model.LabelSet{"a": "group", "b": "group"}, Targets: []model.LabelSet{{"a": "own"}}}}, nil)
	if diff := cmp.Diff(map[string]string{"a": "own", "b": "group"}, sets[0].Map()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
