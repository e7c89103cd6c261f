package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/prober"
)

// headline says in one sentence how a target does, and in a second one what to know next to it.
func headline(v *targetView, now time.Time) (sentence, detail string) {
	switch v.shown() {
	case Failing:
		return failingHeadline(v, now)
	case Silent:
		f := v.flights[0]
		return fmt.Sprintf("No token for %s: a probe waits since %s UTC.", humanize.Span(f.silence), clock(now.Add(-f.silence), now)), silentHint(v.server, v.serverKnown, now)
	case stateSlow:
		return slowHeadline(v.slow()), slowHint(v)
	case WarmingUp:
		return "Warming up: successes do not measure yet.", ""
	case OK:
		return okHeadline(v), ""
	}
	return "No probe has ended yet.", ""
}

func failingHeadline(v *targetView, now time.Time) (sentence, detail string) {
	w := v.failing()
	sentence = fmt.Sprintf("%d probes failed in a row: %s.", w.consecutive, reasonCounts(w.streak()))
	if w.consecutive == 1 {
		sentence = fmt.Sprintf("The last probe failed: %s.", reasonCounts(w.streak()))
	}
	if w.lastSuccess.IsZero() {
		return sentence, "None has succeeded since the prober started."
	}
	return sentence, fmt.Sprintf("The last success ended at %s UTC, %s ago.", clock(w.lastSuccess, now), humanize.Span(now.Sub(w.lastSuccess)))
}

// silentHint tells a hang from a full queue, as far as the server's own numbers do.
func silentHint(s Server, known bool, now time.Time) string {
	switch {
	case !known:
		return "The server's own numbers are not known, so this may be a hang or a full queue."
	case !s.Up:
		return "Its metrics page does not answer either."
	case !s.LastChange.IsZero() && now.Sub(s.LastChange) >= DefaultSilenceLimit:
		return "The server's own numbers have stood still for " + humanize.Span(now.Sub(s.LastChange)) + ": the engine hangs."
	case some(s.Waiting):
		return humanize.Number(*s.Waiting) + " requests wait in its queue and its numbers move: it is full, not hung."
	}
	return "The server's own numbers move, so the engine works: look at what lies between."
}

// slowHeadline names what is slow; since when it is told beside the state, unless it differs.
func slowHeadline(slow []slowPart) string {
	first := earliestSlow(slow)
	var parts []string
	for _, s := range slow {
		part := fmt.Sprintf("%s takes %s, usually %s", partNames()[s.part], humanize.Duration(s.now), humanize.Duration(s.usual))
		if s.since.After(first) {
			part += " (since " + s.since.UTC().Format("15:04") + " UTC)"
		}
		if !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return "Slow: " + strings.Join(parts, "; ") + "."
}

// slowHint says what a slow part usually means.
func slowHint(v *targetView) string {
	hints := map[Part]string{
		PartQueue:   "Requests wait to be scheduled: more load than the server can take.",
		PartPrefill: "The prompt takes longer to compute: longer prompts beside it, or a slower machine.",
		PartOutside: "The time passes outside the engine: network, proxy, HTTP server or tokenizer.",
		PartDecode:  "Each token takes longer: larger batches, prefills in between, or a slower machine.",
		PartConnect: "DNS, TCP or TLS take longer: look at the network.",
		PartTTFT:    "The server does not tell queue and prefill of a request, so the part is not known.",
	}
	part := v.slow()[0].part
	if part == PartTTFT && v.serverKnown && some(v.server.Waiting) {
		return humanize.Number(*v.server.Waiting) + " requests wait in the server's queue."
	}
	return hints[part]
}

func okHeadline(v *targetView) string {
	for _, w := range v.workloads {
		if w.recent.probes == 0 {
			continue
		}
		text := "First token in " + humanize.Duration(w.recent.ttft)
		if w.recent.itl > 0 {
			text += ", then one every " + humanize.Duration(w.recent.itl)
		}
		if usual(w.minutes, func(m minute) time.Duration { return m.ttft }) > 0 {
			text += ", as usual"
		}
		return text + "."
	}
	return "Probes succeed; none has measured yet."
}

// why explains a failing target: what happened, reason by reason, and what to look at for the last one.
type why struct {
	Target   string
	Workload string
	Last     prober.Reason
	Means    string
	Hint     string // what the server's own numbers say to it
	Check    []string
	Reasons  []reasonSeen
}

// reasonSeen is a reason of the failures in a row, and the last of them in its own words.
type reasonSeen struct {
	Reason prober.Reason
	Count  int
	At     string
	ID     string
	Status int
	Error  string
	Body   string
}

// newWhy is nil for a target that does not fail.
func newWhy(v *targetView, now time.Time) *why {
	if v.state != Failing {
		return nil
	}
	w := v.failing()
	last := w.failures[0].Reason
	a := adviceFor(last)
	y := &why{Target: v.name, Workload: w.workload, Last: last, Means: a.Means, Check: a.Check}
	if last == prober.ReasonTimeout || last == prober.ReasonStalled {
		y.Hint = silentHint(v.server, v.serverKnown, now)
	}
	for _, c := range countReasons(w.streak()) {
		y.Reasons = append(y.Reasons, reasonSeen{
			Reason: c.last.Reason, Count: c.count, At: clock(c.last.Ended, now), ID: c.last.RequestID,
			Status: c.last.Status, Error: c.last.errText(), Body: c.last.Body,
		})
	}
	return y
}

// failing is the workload that has failed for longest.
func (v *targetView) failing() *workloadView {
	var worst *workloadView
	for i := range v.workloads {
		w := &v.workloads[i]
		if w.plan != nil && w.state == Failing && (worst == nil || w.since.Before(worst.since)) {
			worst = w
		}
	}
	return worst
}

// streak lists the kept failures since the last success, newest first.
func (w *snapshot) streak() []*record { return w.failures[:min(w.consecutive, len(w.failures))] }

// reasonCount is how many failures had a reason, and the last of them.
type reasonCount struct {
	last  *record
	count int
}

// countReasons counts failures, newest first, by reason; the most frequent reason comes first.
func countReasons(failures []*record) []reasonCount {
	var counts []reasonCount
	for _, rec := range failures {
		i := slices.IndexFunc(counts, func(c reasonCount) bool { return c.last.Reason == rec.Reason })
		if i < 0 {
			counts = append(counts, reasonCount{rec, 1})
			continue
		}
		counts[i].count++
	}
	slices.SortStableFunc(counts, func(a, b reasonCount) int { return b.count - a.count })
	return counts
}

// reasonCounts writes them in a line: timeout ×12, connect ×3.
func reasonCounts(failures []*record) string {
	counts := countReasons(failures)
	if len(counts) == 1 {
		return string(counts[0].last.Reason)
	}
	var parts []string
	for _, c := range counts {
		parts = append(parts, string(c.last.Reason)+" ×"+strconv.Itoa(c.count))
	}
	return strings.Join(parts, ", ")
}
