package prober

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Every latency has the error of its two stamps: the truth lies between its bounds.
func TestLatencies(t *testing.T) {
	const ms = time.Millisecond
	early := func(token int, d time.Duration) func(*Result) {
		return func(r *Result) {
			r.Early = make([]time.Duration, 4)
			r.Early[token] = d
		}
	}
	const all = "ttft=50 answer=90 itl=10,30,20 tpot=20 duration=110"
	for _, c := range []struct {
		name   string
		change func(*Result)
		want   string
	}{
		{"exact stamps", func(*Result) {}, all},
		{"the first token may have come earlier", early(0, 6*ms), "ttft=44–50 answer=90 itl=10–16,30,20 tpot=20–22 duration=110"},
		{"the second", early(1, 6*ms), "ttft=50 answer=90 itl=4–10,30–36,20 tpot=20 duration=110"},
		{"that of the first answer", early(2, 6*ms), "ttft=50 answer=84–90 itl=10,24–30,20–26 tpot=20 duration=110"},
		{"the last", early(3, 6*ms), "ttft=50 answer=90 itl=10,30,14–20 tpot=18–20 duration=104–110"},
		{"by more than the gap", early(1, 12*ms), "ttft=50 answer=90 itl=0–10,30–42,20 tpot=20 duration=110"},
		{"the request may have left later", func(r *Result) { r.SentLate = 5 * ms }, "ttft=45–50 answer=85–90 itl=10,30,20 tpot=20 duration=105–110"},
		{"both", func(r *Result) { early(0, 6*ms)(r); r.SentLate = 5 * ms }, "ttft=39–50 answer=85–90 itl=10–16,30,20 tpot=20–22 duration=105–110"},
		{"a failure", func(r *Result) { r.Reason = ReasonStalled }, "ttft=none answer=none itl= tpot=none duration=none"},
		{"abandoned", func(r *Result) { r.Abandoned = true }, "ttft=none answer=none itl= tpot=none duration=none"},
		{"a cut answer", func(r *Result) { r.Suspect = SuspectLongOutput }, "ttft=50 answer=90 itl=10,30,20 tpot=none duration=none"},
		{"a proxy that buffers", func(r *Result) { r.Suspect = SuspectCoalesced }, "ttft=50 answer=90 itl= tpot=none duration=110"},
		{"no answer", func(r *Result) { r.FirstAnswer = time.Time{} }, "ttft=50 answer=none itl=10,30,20 tpot=20 duration=110"},
		{"one token", func(r *Result) { r.Gaps, r.OutputTokens, r.LastToken = nil, 1, r.FirstToken }, "ttft=50 answer=90 itl= tpot=none duration=50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := time.Now()
			r := &Result{
				Sent: sent, FirstToken: sent.Add(50 * ms), FirstAnswer: sent.Add(90 * ms), AnswerToken: 2, LastToken: sent.Add(110 * ms),
				Gaps: []time.Duration{10 * ms, 30 * ms, 20 * ms}, FirstTokens: 1, OutputTokens: 4,
			}
			c.change(r)
			var itl string
			for l := range r.ITL() {
				itl += "," + millisText(l, true)
			}
			got := fmt.Sprintf("ttft=%s answer=%s itl=%s tpot=%s duration=%s",
				millisText(r.TTFT()), millisText(r.TTFA()), itl[min(1, len(itl)):], millisText(r.TPOT()), millisText(r.Duration()))
			if got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// millisText writes a latency as its bounds.
func millisText(l Latency, known bool) string {
	least, most := float64(l.Least)/float64(time.Millisecond), float64(l.Most)/float64(time.Millisecond)
	switch {
	case !known:
		return "none"
	case l.Least == l.Most:
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%v–%v", least, most)
}

// A latency is recorded if its error is at most 1 ms or 2 % of it, whichever is larger.
func TestSound(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		latency Latency
		want    bool
	}{
		{Latency{0, 0, 0}, true},
		{Latency{10 * ms, 9 * ms, 10 * ms}, true},
		{Latency{10 * ms, 9*ms - 1, 10 * ms}, false},
		{Latency{10 * ms, 10 * ms, 11 * ms}, true},
		{Latency{10 * ms, 10 * ms, 11*ms + 1}, false},
		{Latency{10 * ms, 9 * ms, 11 * ms}, true},
		{Latency{500 * ms, 490 * ms, 500 * ms}, true},
		{Latency{500 * ms, 490*ms - 1, 500 * ms}, false},
	} {
		if got := c.latency.Sound(); got != c.want {
			t.Errorf("%+v: sound %v, want %v", c.latency, got, c.want)
		}
	}
}

// A proxy that buffers is told by gaps that no error of ours explains.
func TestCoalesced(t *testing.T) {
	const ms = time.Millisecond
	bursts := append([]time.Duration{10 * ms}, make([]time.Duration, 9)...)
	for _, c := range []struct {
		name        string
		gaps, early []time.Duration
		want        bool
	}{
		{"bursts", bursts, nil, true},
		{"one of them may have been read late", bursts, []time.Duration{0, 0, 9 * ms}, true},
		{"all of them may", bursts, slices.Repeat([]time.Duration{9 * ms}, 11), false},
		{"even", slices.Repeat([]time.Duration{10 * ms}, 10), nil, false},
		{"too few", bursts[:7], nil, false},
	} {
		if got := (&Result{Gaps: c.gaps, Early: c.early}).coalesced(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
