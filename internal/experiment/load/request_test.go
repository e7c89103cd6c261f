package load

import (
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// The record of a request has the latencies of its result, with their errors.
func TestRecordOfARequest(t *testing.T) {
	began := time.Now()
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	res := &prober.Result{
		Probe: &prober.Probe{Scheduled: began, Started: began}, Suspect: prober.SuspectReaderLate | prober.SuspectCoalesced,
		Early: []time.Duration{0, 3 * time.Millisecond, 0, 0, 0, 0, 0, 0, 0, 0, 0}, SentLate: 40 * time.Microsecond,
		Sent: after(1), FirstToken: after(50), LastToken: after(60), Ended: after(61),
		Gaps: append([]time.Duration{10 * time.Millisecond}, make([]time.Duration, 9)...), FirstTokens: 1, OutputTokens: 11,
	}
	r := clock{began}.request(0, res)
	if r.Suspect != res.Suspect {
		t.Errorf("suspect for %v, want %v", r.Suspect.Names(), res.Suspect.Names())
	}
	for gap := range r.ITL() {
		t.Errorf("gap %v of a stream in bursts", gap)
	}
	ms := time.Millisecond
	if ttft, _ := r.TTFT(); ttft != (prober.Latency{Value: 49 * ms, Least: 49*ms - 40*time.Microsecond, Most: 49 * ms}) {
		t.Errorf("TTFT %v", ttft)
	}
	if gap := r.Gap(0); gap != (prober.Latency{Value: 10 * ms, Least: 7 * ms, Most: 10 * ms}) {
		t.Errorf("first gap %v", gap)
	}
}
