package sweep

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
	if want := []string{"coalesced", "reader_late"}; !slices.Equal(r.Suspect, want) {
		t.Errorf("suspect for %v, want %v", r.Suspect, want)
	}
	if gaps := r.ITL(); len(gaps) > 0 {
		t.Errorf("gaps %v of a stream in bursts", gaps)
	}
	ttft, _ := r.latency(TTFT)
	if diff := cmp.Diff(span{0.049, 0.04896, 0.049}, ttft, cmp.AllowUnexported(span{}), nearly); diff != "" {
		t.Errorf("TTFT (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(span{0.01, 0.007, 0.01}, r.gap(0), cmp.AllowUnexported(span{}), nearly); diff != "" {
		t.Errorf("first gap (-want +got):\n%s", diff)
	}
	if !r.late(1) || r.late(0) || r.sentLate() {
		t.Errorf("late tokens 0: %v, 1: %v, sent late %v; want the second token alone", r.late(0), r.late(1), r.sentLate())
	}
}
