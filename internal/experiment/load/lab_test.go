package load_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/load"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// lab is a simulated server on a network in memory, to be used in a synctest bubble. A step takes 10 ms, so that an
// answer of 4 tokens takes 40.
type lab struct {
	sim   *vllmsim.Server
	web   *http.Server
	conns chan net.Conn
	gone  chan struct{} // closed when the server dies

	mu     sync.Mutex
	refuse bool // new connections
	now    int  // completions under way
	peak   int
	asked  int // completions so far
	dials  int // so far, refused ones too
}

func newLab(t *testing.T, cfg vllmsim.Config) *lab {
	t.Helper()
	if cfg.Engine == (vllmsim.Model{}) {
		cfg.Engine = vllmsim.Model{RunningCap: 1000, TokenBudget: 1 << 20, KVTokens: 1 << 22, Base: 10 * time.Millisecond, Window: time.Microsecond}
	}
	l := &lab{sim: vllmsim.New(cfg), conns: make(chan net.Conn), gone: make(chan struct{})}
	l.web = &http.Server{Handler: http.HandlerFunc(l.serve)}
	var ended sync.WaitGroup
	ended.Go(func() { _ = l.web.Serve(l) })
	t.Cleanup(func() {
		l.sim.Close()
		_ = l.web.Close()
		ended.Wait()
	})
	return l
}

func (l *lab) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "completions") {
		l.mu.Lock()
		l.asked++
		l.now++
		l.peak = max(l.peak, l.now)
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			l.now--
			l.mu.Unlock()
		}()
	}
	l.sim.Handler().ServeHTTP(w, r)
}

// die closes every connection and refuses new ones.
func (l *lab) die() { _ = l.web.Close() }

// refuses makes the server refuse new connections, or accept them again.
func (l *lab) refuses(is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuse = is
}

func (l *lab) fault(t *testing.T, f vllmsim.Fault) {
	t.Helper()
	if err := l.sim.SetFault(f); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	l.mu.Lock()
	l.dials++
	refuse := l.refuse
	l.mu.Unlock()
	if refuse {
		return nil, refused
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.gone:
		return nil, refused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *lab) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.gone:
		return nil, net.ErrClosed
	}
}

func (l *lab) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.gone:
	default:
		close(l.gone)
	}
	return nil
}

func (l *lab) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "memory"} }

// tally is the number of completions asked for, the most at once, and of dials.
func (l *lab) tally() (asked, peak, dials int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.peak, l.dials
}

func (l *lab) server() load.Server {
	base := &url.URL{Scheme: "http", Host: "llm.example:8000"}
	return load.Server{
		Target:   prober.Target{Name: "t", URL: base, IPFamily: prober.AnyFamily},
		Workload: prober.Workload{API: prober.Chat, Seed: 42, MaxTokensField: "max_tokens"},
		Relay:    collector.RelayConfig{URL: base, Dial: l.dial},
		Tool:     "probetool test", Dial: l.dial,
	}
}

// plan has small requests and no warm-up.
func plan(levels ...experiment.Level) experiment.Plan {
	p := experiment.Plan{Name: "test", Levels: levels, Timeout: 10 * time.Second, StallTimeout: 5 * time.Second, Settle: time.Minute, Seed: 42}
	for i := range p.Levels {
		if l := &p.Levels[i]; l.PromptTokens == 0 {
			l.PromptTokens, l.OutputTokens = 64, 4
		}
	}
	return p
}

// notes is a watcher that keeps what it is told in words.
type notes struct {
	mu   sync.Mutex
	all  []string
	hook func(phase experiment.Phase)
}

func (n *notes) add(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf(format, args...))
}

func (n *notes) Began(*experiment.Run)                 { n.add("began") }
func (n *notes) LevelBegan(i int, run *experiment.Run) { n.add("%d began: %s", i, run.Plan.Levels[i]) }
func (n *notes) Ended(*experiment.Request)             {}
func (n *notes) Sampled(experiment.QueueSample)        {}
func (n *notes) LevelEnded(i int, run *experiment.Run) { n.add("%d ended: %q", i, run.Levels[i].Cut) }
func (n *notes) Finished(*experiment.Run)              { n.add("finished") }
func (n *notes) Noted(text string)                     { n.add("note: %s", text) }
func (n *notes) Entered(i int, p experiment.Phase, _ time.Time) {
	n.add("%d %s", i, p)
	if n.hook != nil {
		n.hook(p)
	}
}

// told lists what was noted in words.
func (n *notes) told() (texts []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.all {
		if text, ok := strings.CutPrefix(line, "note: "); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// measure runs a plan.
func (l *lab) measure(t *testing.T, ctx context.Context, p experiment.Plan) (*experiment.Run, *notes) {
	t.Helper()
	return measure(t, ctx, l.server(), p)
}

func measure(t *testing.T, ctx context.Context, s load.Server, p experiment.Plan) (*experiment.Run, *notes) {
	t.Helper()
	n := &notes{}
	r, err := load.NewRunner(p, s)
	if err != nil {
		t.Fatal(err)
	}
	run := r.Run(ctx, n)
	if left := r.InFlight(); left != 0 {
		t.Errorf("%d requests are still in flight", left)
	}
	return run, n
}

// measured lists a level's requests by when they were due.
func measured(run *experiment.Run, level int) (requests []experiment.Request) {
	for _, r := range run.Requests {
		if r.Level == level && !r.Warmup {
			requests = append(requests, r)
		}
	}
	slices.SortStableFunc(requests, func(a, b experiment.Request) int { return a.Scheduled.Compare(b.Scheduled) })
	return requests
}

// outcomes counts how requests ended.
func outcomes(requests []experiment.Request) map[string]int {
	counts := map[string]int{}
	for _, r := range requests {
		switch {
		case r.Abandoned:
			counts["abandoned"]++
		case r.Reason != "":
			counts[string(r.Reason)]++
		default:
			counts["ok"]++
		}
	}
	return counts
}
