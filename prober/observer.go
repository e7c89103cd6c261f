package prober

import "time"

// Probe identifies a probe from its start on. The pointer is its identity; its fields do not change.
type Probe struct {
	Target    string
	Workload  *Workload
	RequestID string    // sent as X-Request-Id
	Warmup    bool      // a success of it measures nothing
	Scheduled time.Time // when it was due
	Started   time.Time // when it began; the difference is the prober's own fault
}

// StartDelay is how much later than due the probe began.
func (p *Probe) StartDelay() time.Duration { return p.Started.Sub(p.Scheduled) }

// Observer is told what happens to the probes of a target while it happens, so that nothing that a hang
// should move waits for a probe to end. Calls for one probe come in order (Started, Sent, Token…, Ended)
// and not at once; calls for different probes may overlap. A call must return quickly: the reader of the
// stream is waiting.
type Observer interface {
	// Started: the probe begins. Every started probe ends.
	Started(p *Probe)
	// Sent: the first byte of the request was written at the given time. A request that is sent again
	// without a refused field is reported again.
	Sent(p *Probe, at time.Time)
	// Token: a token event arrived at the given time, or earlier by up to early, as far as is known now.
	Token(p *Probe, at time.Time, early time.Duration)
	// Ended: the probe is over, whatever its outcome.
	Ended(r *Result)
	// Missed: a probe was due but not sent.
	Missed(target, workload string)
}

// Observers tells several observers in turn.
type Observers []Observer

var _ Observer = Observers(nil)

// Started implements [Observer].
func (os Observers) Started(p *Probe) {
	for _, o := range os {
		o.Started(p)
	}
}

// Sent implements [Observer].
func (os Observers) Sent(p *Probe, at time.Time) {
	for _, o := range os {
		o.Sent(p, at)
	}
}

// Token implements [Observer].
func (os Observers) Token(p *Probe, at time.Time, early time.Duration) {
	for _, o := range os {
		o.Token(p, at, early)
	}
}

// Ended implements [Observer].
func (os Observers) Ended(r *Result) {
	for _, o := range os {
		o.Ended(r)
	}
}

// Missed implements [Observer].
func (os Observers) Missed(target, workload string) {
	for _, o := range os {
		o.Missed(target, workload)
	}
}
