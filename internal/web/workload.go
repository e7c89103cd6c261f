package web

import (
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// youngResults is how many of the newest results keep every gap and the whole body.
const youngResults = 16

// State says in one word how a target, or one workload of it, does.
type State string

// States, in the order in which they are shown.
const (
	Failing   State = "failing"    // the last probe that ended failed
	Silent    State = "silent"     // a probe has been waiting for its next token for too long
	WarmingUp State = "warming_up" // successes that do not measure yet
	OK        State = "ok"         // the last probe that ended succeeded
	Unknown   State = "unknown"    // none has ended yet
)

// ring keeps the newest of the records put into it; those that are no longer young are thinned.
type ring struct {
	records []*record // the oldest is overwritten once the ring is full
	next    int
}

func (r *ring) put(rec *record, size int) {
	if len(r.records) < size {
		r.records = append(r.records, rec)
	} else {
		r.records[r.next] = rec
	}
	r.next = (r.next + 1) % size
	if len(r.records) > youngResults {
		i := r.index(youngResults)
		r.records[i] = r.records[i].thin()
	}
}

// index is where the record is that as many came after as age says.
func (r *ring) index(age int) int {
	n := len(r.records)
	return (r.next - 1 - age + 2*n) % n
}

// newest lists the records, newest first.
func (r *ring) newest() []*record {
	list := make([]*record, len(r.records))
	for age := range list {
		list[age] = r.records[r.index(age)]
	}
	return list
}

// Totals counts what happened to a workload of a target since the prober started.
type Totals struct {
	Ended    int                   `json:"requests_total"` // outside of warm-up
	Failed   int                   `json:"request_failures_total"`
	Suspect  int                   `json:"suspect_total"`
	Warmup   int                   `json:"warmup_requests_total"`
	Missed   int                   `json:"missed_total"`
	ByReason map[prober.Reason]int `json:"request_failures_by_reason,omitempty"`
}

// standing is how a workload of a target does.
type standing struct {
	state       State // Failing, WarmingUp, OK or Unknown
	since       time.Time
	consecutive int // failures since the last success
	lastSuccess time.Time
	totals      Totals
}

// workloadHistory is what is kept of one workload of one target.
type workloadHistory struct {
	standing
	results  ring
	failures ring
	minutes  lastHour
}

func newWorkloadHistory() *workloadHistory {
	return &workloadHistory{standing: standing{state: Unknown, totals: Totals{ByReason: map[prober.Reason]int{}}}}
}

func (s *workloadHistory) add(rec *record, results, failures int) {
	s.results.put(rec, results)
	s.minutes.add(rec)
	s.count(rec)
	if !rec.OK() {
		s.shareTexts(rec)
		s.failures.put(rec, failures)
		s.consecutive++
		s.become(Failing, rec.Started) // since at most then: it is when the first failing probe began
		return
	}
	s.consecutive = 0
	s.lastSuccess = rec.Ended
	if rec.Warmup {
		s.become(WarmingUp, rec.Ended)
		return
	}
	s.become(OK, rec.Ended)
}

func (s *workloadHistory) become(state State, since time.Time) {
	if s.state != state {
		s.state, s.since = state, since
	}
}

func (s *workloadHistory) count(rec *record) {
	if rec.OK() && rec.Warmup {
		s.totals.Warmup++
		return
	}
	s.totals.Ended++
	if rec.Suspect != 0 {
		s.totals.Suspect++
	}
	if !rec.OK() {
		s.totals.Failed++
		s.totals.ByReason[rec.Reason]++
	}
}

// shareTexts lets failures that say the same share one copy of it; an outage says the same for hours.
func (s *workloadHistory) shareTexts(rec *record) {
	if len(s.failures.records) == 0 {
		return
	}
	last := s.failures.newest()[0]
	if last.Body == rec.Body {
		rec.Body = last.Body
	}
	if last.errText() == rec.errText() {
		rec.Err = last.Err
	}
}
