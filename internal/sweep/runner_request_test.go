package sweep

import (
	"slices"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// The record of a request gives the gaps that the prober itself would trust: none that came through a proxy that
// buffers, although a token of it was read late.
func TestRecordOfABufferedAnswer(t *testing.T) {
	began := time.Now()
	after := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	res := &prober.Result{
		Probe: &prober.Probe{Scheduled: began, Started: began}, Suspect: prober.SuspectReaderLate, LateTokens: []int{1},
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
	if ttft := r.Value(TTFT); ttft < 0.0489 || ttft > 0.0491 {
		t.Errorf("TTFT %v, want 0.049", ttft)
	}
}
