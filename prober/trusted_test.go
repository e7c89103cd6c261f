package prober

import (
	"fmt"
	"testing"
	"time"
)

// Every latency that needs no stamp in doubt is given, and no other.
func TestTrusted(t *testing.T) {
	gaps := func(ms ...int) (list []time.Duration) {
		for _, d := range ms {
			list = append(list, time.Duration(d)*time.Millisecond)
		}
		return list
	}
	const all = "ttft=50ms answer=90ms itl=[10ms 30ms 20ms] tpot=20ms duration=110ms"
	for _, c := range []struct {
		name   string
		change func(*Result)
		want   string
	}{
		{"nothing in doubt", func(*Result) {}, all},
		{"the first token", func(r *Result) { r.LateTokens = []int{0} }, "ttft=none answer=90ms itl=[30ms 20ms] tpot=none duration=110ms"},
		{"the second", func(r *Result) { r.LateTokens = []int{1} }, "ttft=50ms answer=90ms itl=[20ms] tpot=20ms duration=110ms"},
		{"that of the first answer", func(r *Result) { r.LateTokens = []int{2} }, "ttft=50ms answer=none itl=[10ms] tpot=20ms duration=110ms"},
		{"the last", func(r *Result) { r.LateTokens = []int{3} }, "ttft=50ms answer=90ms itl=[10ms 30ms] tpot=none duration=none"},
		{"several", func(r *Result) { r.LateTokens = []int{1, 3} }, "ttft=50ms answer=90ms itl=none tpot=none duration=none"},
		{"all", func(r *Result) { r.LateTokens = []int{0, 1, 2, 3} }, "ttft=none answer=none itl=none tpot=none duration=none"},
		{"the start", func(r *Result) { r.SentLate = true }, "ttft=none answer=none itl=[10ms 30ms 20ms] tpot=20ms duration=none"},
		{"a failure", func(r *Result) { r.Reason = ReasonStalled }, "ttft=none answer=none itl=none tpot=none duration=none"},
		{"abandoned", func(r *Result) { r.Abandoned = true }, "ttft=none answer=none itl=none tpot=none duration=none"},
		{"a cut answer", func(r *Result) { r.Suspect |= SuspectLongOutput }, "ttft=50ms answer=90ms itl=[10ms 30ms 20ms] tpot=none duration=none"},
		{"a proxy that buffers", func(r *Result) { r.Suspect = SuspectCoalesced }, "ttft=50ms answer=90ms itl=none tpot=none duration=110ms"},
		{"one that shows once late tokens are left out", func(r *Result) {
			r.Gaps, r.LateTokens = append(gaps(10), make([]time.Duration, 9)...), []int{1}
		}, "ttft=50ms answer=90ms itl=none tpot=none duration=110ms"},
		{"no answer", func(r *Result) { r.FirstAnswer = time.Time{} }, "ttft=50ms answer=none itl=[10ms 30ms 20ms] tpot=20ms duration=110ms"},
		{"one token", func(r *Result) { r.Gaps, r.OutputTokens = nil, 1 }, "ttft=50ms answer=90ms itl=none tpot=none duration=110ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := time.Now()
			r := &Result{
				Suspect: SuspectReaderLate, Sent: sent, FirstToken: sent.Add(50 * time.Millisecond), FirstAnswer: sent.Add(90 * time.Millisecond),
				AnswerToken: 2, LastToken: sent.Add(110 * time.Millisecond), Gaps: gaps(10, 30, 20), FirstTokens: 1, OutputTokens: 4,
			}
			c.change(r)
			text := func(d time.Duration, known bool) string {
				if !known {
					return "none"
				}
				return d.String()
			}
			itl := "none"
			if list := r.Trusted().ITL(); len(list) > 0 {
				itl = fmt.Sprint(list)
			}
			got := fmt.Sprintf("ttft=%s answer=%s itl=%s tpot=%s duration=%s", text(r.Trusted().TTFT()), text(r.Trusted().TTFA()), itl,
				text(r.Trusted().TPOT()), text(r.Trusted().Duration()))
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// A proxy that buffers is told also of a probe that was read late, and by the tokens that were not.
func TestTrustedSuspect(t *testing.T) {
	bursts := append([]time.Duration{10 * time.Millisecond}, make([]time.Duration, 9)...)
	even := make([]time.Duration, 10)
	for i := range even {
		even[i] = 10 * time.Millisecond
	}
	for _, c := range []struct {
		name   string
		result Result
		want   Suspect
	}{
		{"bursts", Result{Suspect: SuspectReaderLate, Gaps: bursts, LateTokens: []int{1}}, SuspectReaderLate | SuspectCoalesced},
		{"bursts of tokens read late", Result{Suspect: SuspectReaderLate, Gaps: bursts, LateTokens: []int{2, 3, 4, 5, 6, 7, 8, 9}}, SuspectReaderLate},
		{"even", Result{Suspect: SuspectReaderLate, Gaps: even, LateTokens: []int{1}}, SuspectReaderLate},
		{"known before", Result{Suspect: SuspectCoalesced, Gaps: even}, SuspectCoalesced},
		{"nothing", Result{Gaps: even}, 0},
		{"a failure", Result{Reason: ReasonStalled, Suspect: SuspectReaderLate, Gaps: bursts, LateTokens: []int{1}}, SuspectReaderLate},
	} {
		if got := c.result.Trusted().Suspect(); got != c.want {
			t.Errorf("%s: suspect for %v, want %v", c.name, got.Names(), c.want.Names())
		}
	}
}
