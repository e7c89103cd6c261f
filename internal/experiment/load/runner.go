package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-kit/log"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// Server is the server that an experiment loads, and what its requests have in common.
type Server struct {
	Target   prober.Target   // its plans and its warm-up are made by the runner
	Workload prober.Workload // its name and lengths are those of the levels
	// Relay tells how the server's own metrics are read; without a URL they are not. Its registerer, interval and
	// callbacks are the runner's.
	Relay collector.RelayConfig

	Tool      string     // name and version of the program, for the facts
	UserAgent string     //
	Logger    log.Logger // nil: nothing is logged
	Dial      prober.DialFunc
	Watch     *prober.Watch // nil: what is read late is known less well
}

// Runner runs experiments on a real server. [Runner.Run] runs a whole plan; who decides on the next level by what
// the one before has shown calls Begin, Level and Finish instead.
type Runner struct {
	plan   experiment.Plan
	server Server
	prober *prober.Runner
	clock  clock
	keep   *keeper

	sampler *sampler // nil: the server's own metrics are not read

	inFlight atomic.Int64 // requests begun and not ended
	tokens   atomic.Int64 // token events so far

	mu   sync.Mutex
	open map[*prober.Probe]bool // requests written to a connection and not ended
}

// errLost is the cause for which a level ends when the server is gone.
var errLost = &experiment.Stop{Why: experiment.CutLost, Err: errors.New("no connection")}

// NewRunner prepares a plan. Only lengths of prompt and answer that are in the plan can be run. The error is about
// the configuration of the client.
func NewRunner(plan experiment.Plan, server Server) (*Runner, error) {
	r := &Runner{plan: plan, server: server, open: map[*prober.Probe]bool{}}
	t := server.Target
	t.Plans, t.Warmup = nil, 0
	for _, l := range plan.Levels {
		if slices.ContainsFunc(t.Plans, func(p prober.Plan) bool { return p.Name == l.Shape() }) {
			continue
		}
		w := server.Workload
		w.Name, w.PromptTokens, w.OutputTokens = l.Shape(), l.PromptTokens, l.OutputTokens
		t.Plans = append(t.Plans, prober.Plan{
			Workload: w, Interval: time.Second, Arrival: prober.Constant, // no schedule of the prober's own is used
			Timeout: plan.Timeout, StallTimeout: plan.StallTimeout, MaxInFlight: 1,
		})
	}
	var err error
	r.prober, err = prober.NewRunner(t, prober.Options{
		Observer: &counting{r}, Logger: server.Logger, UserAgent: server.UserAgent, Dial: server.Dial, Watch: server.Watch,
	})
	if err != nil {
		return nil, fmt.Errorf("preparing to measure: %w", err)
	}
	if server.Relay.URL != nil {
		if r.sampler, err = newSampler(server.Relay); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// InFlight is how many requests are under way now.
func (r *Runner) InFlight() int { return int(r.inFlight.Load()) }

// Tokens is how many token events have come so far.
func (r *Runner) Tokens() int { return int(r.tokens.Load()) }

// Run runs the levels of the plan one after another, until ctx ends or the server is lost, tells the watcher, and
// returns all that was seen. Requests in flight when ctx ends are abandoned; its cause may be a [experiment.Stop].
func (r *Runner) Run(ctx context.Context, watcher experiment.Watcher) *experiment.Run {
	r.Begin(ctx, watcher)
	for _, l := range r.plan.Levels {
		if _, more := r.Level(ctx, l); !more {
			break
		}
	}
	return r.Finish()
}

// Begin looks at the server before any load. The watcher may be nil.
func (r *Runner) Begin(ctx context.Context, watcher experiment.Watcher) {
	if watcher == nil {
		watcher = experiment.Watchers(nil)
	}
	r.clock = clock{time.Now()}
	run := &experiment.Run{Plan: r.plan, Facts: clientFacts(r.server.Tool, r.clock.at(r.clock.began))}
	run.Plan.Levels = nil
	run.Facts.URL, run.Facts.Model = r.server.Target.URL.Redacted(), r.server.Target.Model
	r.keep = newKeeper(run, watcher)
	if r.sampler != nil {
		r.sampler.start(ctx, r.clock)
		r.lookBefore(ctx)
	}
	r.keep.settled(func() { watcher.Began(run) })
}

// Finish ends the run and returns all that was seen.
func (r *Runner) Finish() *experiment.Run {
	r.sampler.stop()
	run := r.keep.run
	r.keep.settled(func() {
		run.Facts.Ended = r.clock.at(time.Now())
		r.keep.watcher.Finished(run)
	})
	r.keep.close()
	return run
}

// Level runs one level and returns how it went; more is false if none can follow: the run was interrupted, or the
// server is lost.
func (r *Runner) Level(ctx context.Context, l experiment.Level) (went experiment.LevelRun, more bool) {
	index := len(r.keep.run.Plan.Levels)
	r.keep.settled(func() {
		run := r.keep.run
		run.Plan.Levels = append(run.Plan.Levels, l)
		run.Levels = append(run.Levels, experiment.LevelRun{})
		r.keep.watcher.LevelBegan(index, run)
	})
	lv := &level{Runner: r, Level: l, index: index}
	went = lv.run(ctx)
	r.keep.settled(func() {
		run := r.keep.run
		lv.account(&went, run)
		run.Levels[index] = went
		r.keep.watcher.LevelEnded(index, run)
	})
	return went, ctx.Err() == nil && lv.lost() == nil
}

// Seen is what the run has seen up to the last level.
func (r *Runner) Seen() (run *experiment.Run) {
	r.keep.settled(func() {
		seen := *r.keep.run
		run = &seen
	})
	return run
}

// Note tells the watcher something that is worth to be known.
func (r *Runner) Note(text string) { r.keep.noted(text) }

// modelFacts notes what is known of the model once the server has been asked.
func (r *Runner) modelFacts() {
	m := r.prober.Model()
	r.keep.do(func() { r.keep.run.Facts.Model, r.keep.run.Facts.MaxContext = m.Name, m.MaxLen })
}

// unreachable reports whether an error means that nobody answers.
func unreachable(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr)
}

// answering reports whether a request is on a connection, waiting for its answer or the rest of it.
func (r *Runner) answering() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open) > 0
}

// counting counts what is under way.
type counting struct{ *Runner }

var _ prober.Observer = (*counting)(nil)

// Started implements [prober.Observer].
func (c *counting) Started(*prober.Probe) { c.inFlight.Add(1) }

// Sent implements [prober.Observer].
func (c *counting) Sent(p *prober.Probe, _ time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[p] = true
}

// Token implements [prober.Observer].
func (c *counting) Token(*prober.Probe, time.Time, time.Duration) { c.tokens.Add(1) }

// Missed implements [prober.Observer].
func (c *counting) Missed(string, string) {}

// Ended implements [prober.Observer].
func (c *counting) Ended(r *prober.Result) {
	c.inFlight.Add(-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, r.Probe)
}
