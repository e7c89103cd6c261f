package prober

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// Options are what a runner needs beside its target. The zero value of each is valid.
type Options struct {
	Observer  Observer   // nil: nobody is told
	Logger    log.Logger // nil: nothing is logged
	UserAgent string
	Dial      DialFunc // nil: DefaultDial
	Watch     *Watch   // nil: what is read late is not known as well
	// Seed differs between replicas, so that they do not probe at the same instant.
	Seed uint64
}

// rewarmPause is the least time between two warm-ups for a restart: a server that restarts over and over is
// still measured.
const rewarmPause = 10 * time.Minute

// Runner probes one target: every workload on its own schedule, in an open loop.
type Runner struct {
	target Target
	opts   Options
	logger log.Logger
	client *client
	server *server
	loops  []*workloadLoop

	drain     chan struct{}
	drainOnce sync.Once
	probes    sync.WaitGroup

	mu   sync.Mutex
	warm warmup
}

// workloadLoop runs one workload of a target.
type workloadLoop struct {
	plan     Plan
	schedule *Schedule
	inFlight int    // guarded by Runner.mu
	seen     int    // warm-up probes that had begun at the last slot; guarded by Runner.mu
	state    record // has its own lock
}

// warmup is the state of a target's warm-up.
type warmup struct {
	left  int  // successes still to come
	busy  bool // one of its probes is under way
	begun int  // its probes so far
	again time.Time
}

// NewRunner prepares a target. The error is about its HTTP client configuration, such as an inline certificate that is
// none. A file that is missing is no error: probes fail until it is there.
func NewRunner(t Target, o Options) (*Runner, error) {
	if o.Observer == nil {
		o.Observer = Observers(nil)
	}
	if o.Logger == nil {
		o.Logger = log.NewNopLogger()
	}
	if o.Dial == nil {
		o.Dial = DefaultDial
	}
	logger := log.With(o.Logger, "target", t.Name)
	c, err := newClient(&t, o.Dial, o.UserAgent)
	if err != nil {
		return nil, err
	}
	if proxy := t.HTTP.ProxyURL.URL; proxy != nil && c.proxy == "" {
		level.Warn(logger).Log("msg", "the target is reached without its proxy_url: it is named in no_proxy, or is a loopback address, which any no_proxy leaves out", "proxy", proxy.Host)
	}
	c.watch = o.Watch
	r := &Runner{
		target: t, opts: o, logger: logger, client: c, server: newServer(c, logger),
		drain: make(chan struct{}), warm: warmup{left: t.Warmup},
	}
	for i := range t.Plans {
		p := t.Plans[i]
		phase := Phase(t.Name, p.Name, o.Seed, p.Interval)
		l := &workloadLoop{plan: p, schedule: NewSchedule(p.Arrival, p.Interval, phase, newRandom())}
		l.state.logger = log.With(logger, "workload", p.Name)
		r.loops = append(r.loops, l)
	}
	return r, nil
}

// newRandom is seeded by the operating system: prompts must not repeat after a restart either.
func newRandom() *rand.Rand {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails (crypto/rand)
	return rand.New(rand.NewChaCha8(seed))
}

// Run probes until the context is cancelled or Drain was called. A cancelled context abandons the probes in
// flight. Run returns when no probe is left.
func (r *Runner) Run(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errAbandoned)
	var loops sync.WaitGroup
	for _, l := range r.loops {
		loops.Go(func() { r.run(ctx, l) })
	}
	loops.Wait()
	r.probes.Wait()
}

// Drain ends the schedule; probes in flight go on to their end, and then Run returns.
func (r *Runner) Drain() { r.drainOnce.Do(func() { close(r.drain) }) }

// WarmUp is to be called when the server has restarted: what was known about it is forgotten, and its next
// successful probes measure nothing (at most once in ten minutes).
func (r *Runner) WarmUp() {
	r.server.forget()
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.After(r.warm.again) {
		r.warm.left = r.target.Warmup
		r.warm.again = now.Add(rewarmPause)
		level.Info(r.logger).Log("msg", "the server has restarted, warming up", "probes", r.warm.left)
	}
}

// Order asks for one probe outside the schedule.
type Order struct {
	Workload  string    // name of one of the target's plans
	Scheduled time.Time // when it is due; zero: now
	Warmup    bool      // mark it: a success of it measures nothing
}

// Send sends one probe and returns its result once it has ended. It may be called from any number of goroutines at
// once: neither the schedule, nor the warm-up, nor MaxInFlight has to do with it.
//
// The request is made first, and then sent when it is due; who calls Send a few milliseconds ahead has none of the
// making (about 1 ms for 8,192 prompt tokens) in the start delay. The error says why nothing was sent: there is no
// such workload, or ctx ended before the probe was due. A context that ends later abandons the probe.
func (r *Runner) Send(ctx context.Context, o Order) (*Result, error) {
	l, err := r.loop(o.Workload)
	if err != nil {
		return nil, err
	}
	d := r.prepare(l)
	if o.Scheduled.IsZero() {
		o.Scheduled = time.Now()
	}
	if wait := time.Until(o.Scheduled); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting until a probe of workload %q is due: %w", o.Workload, context.Cause(ctx))
		}
	}
	return r.probe(ctx, l, d, o.Scheduled, o.Warmup), nil
}

// Prepare finds out what probes of a workload need to know about the server, so that none of them has to: the
// model, how prompts get their exact length, whether they fit the model's context. It sends no probe. The error is
// what a probe would fail with, or says that this server cannot run the workload.
func (r *Runner) Prepare(ctx context.Context, workload string) error {
	l, err := r.loop(workload)
	if err != nil {
		return err
	}
	_, err = r.server.learnt(ctx, &l.plan.Workload)
	if err = cmp.Or(err, r.server.unreachable()); err != nil {
		if errors.Is(err, errAbandoned) {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("target %q: preparing workload %q: %w", r.target.Name, workload, err)
	}
	return nil
}

// Model is the model that a target's probes ask for.
type Model struct {
	Name   string // empty: the server has not been asked yet, and the target names none
	MaxLen int    // most tokens of prompt and answer together (max_model_len); 0: not known
}

// Model tells what is known of the model so far; [Runner.Prepare] finds it out.
func (r *Runner) Model() Model {
	m := r.server.served()
	m.Name = cmp.Or(m.Name, r.target.Model)
	return m
}

func (r *Runner) loop(workload string) (*workloadLoop, error) {
	for _, l := range r.loops {
		if l.plan.Name == workload {
			return l, nil
		}
	}
	return nil, fmt.Errorf("target %q has no workload %q", r.target.Name, workload)
}

// run waits for the slots of one workload.
func (r *Runner) run(ctx context.Context, l *workloadLoop) {
	due, _ := l.schedule.Next(time.Now())
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.drain:
			return
		case <-timer.C:
		}
		r.dispatch(ctx, l, due)
		next, missed := l.schedule.Next(time.Now())
		for range missed {
			r.miss(l) // the prober itself was asleep
		}
		due = next
		timer.Reset(time.Until(due))
	}
}

func (r *Runner) miss(l *workloadLoop) { r.opts.Observer.Missed(r.target.Name, l.plan.Name) }

// dispatch uses one slot: it starts a probe, or counts the slot as missed. It never waits.
func (r *Runner) dispatch(ctx context.Context, l *workloadLoop, due time.Time) {
	r.mu.Lock()
	covered := r.warm.begun > l.seen
	l.seen = r.warm.begun
	switch {
	case !r.server.runs(&l.plan.Workload):
		r.mu.Unlock()
		r.miss(l)
	case r.warm.left > 0 && r.warm.busy:
		r.mu.Unlock()
		if !covered { // one probe of the warm-up has taken the whole interval
			r.miss(l)
		}
	case r.warm.left > 0:
		r.warm.busy = true
		r.warm.begun++
		l.seen = r.warm.begun
		r.mu.Unlock()
		r.probes.Go(func() { r.warmUp(ctx, l, due) })
	case l.inFlight >= l.plan.MaxInFlight:
		r.mu.Unlock()
		r.miss(l)
	default:
		l.inFlight++
		r.mu.Unlock()
		r.probes.Go(func() {
			r.probe(ctx, l, r.prepare(l), due, false)
			r.mu.Lock()
			l.inFlight--
			r.mu.Unlock()
			r.server.refresh(ctx)
		})
	}
}

// warmUp sends the probes of the warm-up one after another, the workloads in turn, until enough have succeeded
// or one has not.
func (r *Runner) warmUp(ctx context.Context, first *workloadLoop, due time.Time) {
	defer func() {
		r.mu.Lock()
		r.warm.busy = false
		r.mu.Unlock()
	}()
	at := 0
	for r.loops[at] != first {
		at++
	}
	for {
		l := r.loops[at%len(r.loops)]
		ok := r.probe(ctx, l, r.prepare(l), due, true).OK()
		r.mu.Lock()
		if ok {
			r.warm.left--
		}
		more := ok && r.warm.left > 0
		r.mu.Unlock()
		select {
		case <-r.drain:
			return
		default:
		}
		if !more {
			return
		}
		at++
		due = time.Now()
		r.mu.Lock()
		r.warm.begun++
		r.mu.Unlock()
	}
}

// prepared is a probe before its start: its id and, if all that it takes is known, its request.
type prepared struct {
	id      string
	request request
	made    bool
}

// prepare makes as much of the next probe as can be made without asking the server. That is not part of the probe.
func (r *Runner) prepare(l *workloadLoop) prepared {
	d := prepared{id: "probe-" + crand.Text()}
	if spec, ok := r.server.known(&l.plan.Workload); ok {
		var err error
		d.request, err = spec.request(d.id)
		d.made = err == nil // the probe itself fails if it cannot be made
	}
	return d
}

// probe runs one probe to its end and tells the observer.
func (r *Runner) probe(ctx context.Context, l *workloadLoop, d prepared, due time.Time, warm bool) *Result {
	res := &Result{
		Probe: &Probe{
			Target: r.target.Name, Workload: &l.plan.Workload, RequestID: d.id,
			Warmup: warm, Scheduled: due, Started: time.Now(),
		},
		PromptTokens: -1, CachedTokens: -1,
	}
	r.opts.Observer.Started(res.Probe)
	ctx, cancel := context.WithDeadlineCause(ctx, res.Started.Add(l.plan.Timeout), fmt.Errorf("%w: no end after %s", errTimeout, l.plan.Timeout))
	defer cancel()
	err := r.client.secrets.Error(r.attempt(ctx, l, d, res)) // whoever made it, nothing in it is shown as it came
	res.Ended = time.Now()
	res.setCert(expiredCert(err))
	var f *failure
	var unfit *unfitError
	switch {
	case err == nil:
	case errors.Is(err, errAbandoned):
		res.Abandoned = true
	case errors.As(err, &unfit):
		res.Abandoned, res.Err = true, err
		log := level.Error
		if unfit.known {
			log = level.Debug
		}
		log(r.logger).Log("msg", "workload cannot run on this server and is not sent", "workload", l.plan.Name, "err", err, "recheck", unfitRecheck)
	case errors.As(err, &f):
		res.Reason, res.Err = f.reason, err
	default:
		res.Reason, res.Err = ReasonInternal, err
	}
	r.server.learn(res)
	l.state.note(res)
	r.opts.Observer.Ended(res)
	if unfit != nil {
		r.miss(l)
	}
	return res
}

// attempt sends the request, and sends it again without fields that the server refuses or may refuse, if a probe may
// do without them. A panic is a failure like any other.
func (r *Runner) attempt(ctx context.Context, l *workloadLoop, d prepared, res *Result) (err error) {
	defer func() {
		if p := recover(); p != nil {
			level.Error(r.logger).Log("msg", "panic in a probe", "panic", p, "stack", string(debug.Stack()))
			err = failf(ReasonInternal, "panic: %v", p)
		}
	}()
	w := &l.plan.Workload
	if !d.made {
		spec, err := r.server.learnt(ctx, w)
		if err != nil {
			return err
		}
		if d.request, err = spec.request(d.id); err != nil {
			return err
		}
	}
	var why error // the last refusal
	for req := d.request; ; {
		res.Model = req.model
		if req.from.shapeChanged(w) {
			res.Suspect |= SuspectFieldRefused
		}
		before := res.Suspect
		err := r.client.stream(ctx, req, l.plan.StallTimeout, res, r.opts.Observer)
		if err == nil {
			if why != nil && len(d.request.from.trial) == 0 { // a trial that fails is nothing new
				res.Suspect |= SuspectFieldRefused
			}
			r.server.accepted(req, why)
			r.server.correct(res, req.words)
			return nil
		}
		again, advice := r.server.again(req, err)
		if advice != "" {
			err = fmt.Errorf("%w (%s)", err, advice)
		}
		if again == nil {
			if why != nil {
				r.server.refusedAnyway()
			}
			return err
		}
		why = err
		if req, err = again.request(d.id); err != nil {
			return err
		}
		res.Body, res.FinishReason, res.Status, res.Sent, res.Suspect = "", "", 0, time.Time{}, before
	}
}
