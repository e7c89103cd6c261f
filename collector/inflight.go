package collector

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/prober"
)

// inFlight holds the probes of one workload that have started and not ended, and the verdicts on them. Warm-up
// probes are among them: a server may hang in its warm-up too.
type inFlight struct {
	count, oldest, silence, unanswered *prometheus.Desc

	mu       sync.Mutex // protects all that follows, and every flight
	slos     *sloMetrics
	flights  map[*prober.Probe]*flight
	answered time.Time // the last token event of any probe
	lost     time.Time // since when the first of the probes waited that have failed without one since; zero: none has
}

// flight is a probe on its way.
type flight struct {
	probe    *prober.Probe
	counted  time.Time     // TTFT and duration count from here: the start, then the moment the request was sent
	last     time.Time     // the last token event; the start if none came
	early    time.Duration // how much earlier than last it may have come
	events   int           // token events so far
	bursts   prober.Bursts
	verdicts []*verdict

	// timer judges the verdict that is next at its deadline plus grace; armed is that deadline.
	timer *time.Timer
	armed time.Time // zero if the timer is not running
	awake time.Time // when the timer fired so late that the process cannot have run; zero: it did not
}

func newInFlight(set *metricSet, slos *sloMetrics) *inFlight {
	l := &inFlight{
		count:      set.desc("llm_probe_in_flight", "Probes that have started and not ended, warm-up included."),
		oldest:     set.desc("llm_probe_oldest_in_flight_seconds", "Age of the oldest probe in flight; 0 if there is none."),
		silence:    set.desc("llm_probe_silence_seconds", "How long the probe in flight that waits longest has been waiting for its next token; 0 if there is none."),
		unanswered: set.desc("llm_probe_unanswered_seconds", "How long no probe has got a token: since the first wait that none has come after; 0 if no probe waits or has failed since the last one."),
		slos:       slos,
		flights:    make(map[*prober.Probe]*flight),
	}
	set.add(l)
	return l
}

// Describe implements [prometheus.Collector].
func (l *inFlight) Describe(ch chan<- *prometheus.Desc) {
	ch <- l.count
	ch <- l.oldest
	ch <- l.silence
	ch <- l.unanswered
}

// Collect implements [prometheus.Collector]. Ages are those of this moment, so that a hang shows at the next
// scrape although nothing happens.
func (l *inFlight) Collect(ch chan<- prometheus.Metric) {
	count, oldest, silence, unanswered := l.ages(time.Now())
	ch <- prometheus.MustNewConstMetric(l.count, prometheus.GaugeValue, float64(count))
	ch <- prometheus.MustNewConstMetric(l.oldest, prometheus.GaugeValue, oldest.Seconds())
	ch <- prometheus.MustNewConstMetric(l.silence, prometheus.GaugeValue, silence.Seconds())
	ch <- prometheus.MustNewConstMetric(l.unanswered, prometheus.GaugeValue, unanswered.Seconds())
}

func (l *inFlight) ages(now time.Time) (count int, oldest, silence, unanswered time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.lost.IsZero() {
		unanswered = now.Sub(l.lost)
	}
	for _, f := range l.flights {
		wait := now.Sub(f.last)
		oldest = max(oldest, now.Sub(f.probe.Started))
		silence = max(silence, wait)
		if !f.overtaken(l.answered) {
			unanswered = max(unanswered, wait)
		}
	}
	return len(l.flights), oldest, silence, unanswered
}

// overtaken tells whether a probe got a token since this one waits.
func (f *flight) overtaken(answered time.Time) bool { return f.last.Before(answered) }

func (l *inFlight) setSLOs(slos []SLO) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slos.replace(slos)
}

func (l *inFlight) verdicts(workload string) []Verdicts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.slos.verdicts(workload)
}

func (l *inFlight) started(p *prober.Probe) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &flight{probe: p, counted: p.Started, last: p.Started}
	for _, s := range l.slos.current {
		f.verdicts = append(f.verdicts, &verdict{slo: s})
	}
	l.flights[p] = f
	l.arm(f)
}

func (l *inFlight) sent(p *prober.Probe, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flights[p]; f != nil {
		f.expire(at)
		f.counted = at
		l.arm(f)
	}
}

func (l *inFlight) token(p *prober.Probe, at time.Time, early time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.flights[p]; f != nil {
		f.expire(at.Add(-early))
		f.token(at, early)
		if at.After(l.answered) {
			l.answered, l.lost = at, time.Time{}
		}
		l.arm(f)
	}
}

func (l *inFlight) ended(r *prober.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.flights[r.Probe]
	if f == nil {
		return
	}
	delete(l.flights, r.Probe)
	if f.timer != nil {
		f.timer.Stop()
	}
	if !r.OK() && !r.Abandoned && r.Reason != prober.ReasonInternal && !f.overtaken(l.answered) && (l.lost.IsZero() || f.last.Before(l.lost)) {
		l.lost = f.last
	}
	for _, v := range f.verdicts {
		v.end(r)
	}
}

// due is called when the time of a verdict has come.
func (l *inFlight) due(f *flight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.flights[f.probe] != f {
		return // it ended while the timer fired
	}
	if now := time.Now(); f.awake.IsZero() && !f.armed.IsZero() && now.Sub(f.armed) > 2*grace {
		// The process was stopped, and the reader has been as long as this timer: give it as long as ever to read
		// what came meanwhile.
		f.awake = now
		f.timer.Reset(grace)
		return
	}
	f.awake = time.Time{}
	// The verdict whose deadline is exactly the grace ago is due: it is before this moment.
	f.expire(time.Now().Add(time.Nanosecond - grace))
	f.armed = time.Time{}
	l.arm(f)
}

// arm sets the timer of a flight to the verdict that is next.
func (l *inFlight) arm(f *flight) {
	next := f.nextDeadline()
	if next.Equal(f.armed) { // as most token events leave it
		return
	}
	f.awake = time.Time{}
	switch {
	case next.IsZero():
		f.timer.Stop()
	case f.timer == nil:
		f.timer = time.AfterFunc(time.Until(next)+grace, func() { l.due(f) })
	default:
		f.timer.Reset(time.Until(next) + grace)
	}
	f.armed = next
}

// undecided calls do with each verdict that may still be given while the probe is in flight. There is none for a
// warm-up probe: were it slow and then successful, it would have been measured. If it fails, its end tells.
func (f *flight) undecided(do func(v *verdict, deadline time.Time)) {
	if f.probe.Warmup {
		return
	}
	for _, v := range f.verdicts {
		if deadline, ok := v.deadline(f); ok && !v.given {
			do(v, deadline)
		}
	}
}

// nextDeadline is the earliest deadline, zero if there is none.
func (f *flight) nextDeadline() (next time.Time) {
	f.undecided(func(_ *verdict, deadline time.Time) {
		if next.IsZero() || deadline.Before(next) {
			next = deadline
		}
	})
	return next
}

// expire finds the probe bad for every SLO whose deadline lies before a moment up to which all is known.
func (f *flight) expire(moment time.Time) {
	f.undecided(func(v *verdict, deadline time.Time) {
		if deadline.Before(moment) {
			v.give(true)
		}
	})
}

// token takes in a token event that came at the given time, or earlier by up to early.
func (f *flight) token(at time.Time, early time.Duration) {
	if f.events > 0 {
		gap := at.Sub(f.last)
		f.bursts.Add(gap, gap+f.early)
		for _, v := range f.verdicts {
			if gap-early > v.Threshold {
				v.over++
			}
		}
	}
	f.events++
	f.last, f.early = at, early
}

// gapIsOpen tells whether, by the plan, another token event follows the last one.
func (f *flight) gapIsOpen() bool { return f.events > 0 && f.events < f.probe.Workload.OutputTokens }
