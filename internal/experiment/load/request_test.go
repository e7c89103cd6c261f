package load

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/internal/experiment"
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
	ttft, _ := r.Latency(experiment.TTFT)
	if diff := cmp.Diff(experiment.Span{Value: 0.049, Least: 0.04896, Most: 0.049}, ttft, cmp.AllowUnexported(experiment.Span{}), cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
		t.Errorf("TTFT (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(experiment.Span{Value: 0.01, Least: 0.007, Most: 0.01}, r.Gap(0), cmp.AllowUnexported(experiment.Span{}), cmpopts.EquateApprox(1e-9, 1e-12)); diff != "" {
		t.Errorf("first gap (-want +got):\n%s", diff)
	}
	if !r.LateAt(1) || r.LateAt(0) || r.LeftLate() {
		t.Errorf("late tokens 0: %v, 1: %v, sent late %v; want the second token alone", r.LateAt(0), r.LateAt(1), r.LeftLate())
	}
}
