package web

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// card is a target at length.
type card struct {
	mark
	Name, URL, Model string
	Labels           []label
	Since, Age       string
	Headline         string
	Detail           string
	Server           *serverBox
	Flights          []flightRow
	Workloads        []workloadCard
	Why              *why
	Alone            bool // the page is about this target
}

// serverBox is what the relay says now.
type serverBox struct {
	Running, Waiting, KVCache string
	Queued                    bool
	Health                    Health
	Name                      string // engine and version
	Note                      string // why the numbers cannot be trusted, or that they stand still
}

// flightRow is a probe in flight.
type flightRow struct {
	ID, Workload, Age, Silence, Stage string
	Silent                            bool
}

func newCard(v *targetView, alone bool, now time.Time) card {
	c := card{mark: markOf(v.shown()), Name: v.name, URL: v.url, Model: v.model, Labels: v.labels, Alone: alone}
	since := v.since
	if c.State == stateSlow {
		since = earliestSlow(v.slow())
	}
	if !since.IsZero() {
		c.Since, c.Age = clock(since, now), humanize.Span(now.Sub(since))
	}
	c.Headline, c.Detail = headline(v, now)
	if v.serverKnown {
		c.Server = newServerBox(v.server, now)
	}
	for _, f := range v.flights {
		c.Flights = append(c.Flights, newFlightRow(f, v.silenceLimit))
	}
	for i := range v.workloads {
		c.Workloads = append(c.Workloads, newWorkloadCard(v.name, &v.workloads[i], alone, now))
	}
	c.Why = newWhy(v, now)
	return c
}

// staleServer is how old the relay's numbers may be before the page says so.
const staleServer = 10 * time.Second

func newServerBox(s Server, now time.Time) *serverBox {
	box := &serverBox{
		Running: gauge(s.Running, humanize.Number), Waiting: gauge(s.Waiting, humanize.Number), KVCache: gauge(s.KVCache, humanize.Share),
		Queued: some(s.Waiting), Health: s.Healthy, Name: strings.TrimSpace(s.Engine + " " + s.Version),
	}
	switch {
	case !s.Up && s.LastScrape.IsZero():
		box.Note = "its metrics page cannot be read"
	case !s.Up || now.Sub(s.LastScrape) > staleServer:
		box.Note = "its metrics page has not been read for " + humanize.Span(now.Sub(s.LastScrape))
	case !s.LastChange.IsZero() && some(s.Running) && now.Sub(s.LastChange) > staleServer:
		box.Note = "these numbers have stood still for " + humanize.Span(now.Sub(s.LastChange)) + " while requests run"
	}
	if s.Error != "" && box.Note != "" {
		box.Note += ": " + s.Error
	}
	return box
}

func newFlightRow(f flightView, limit time.Duration) flightRow {
	row := flightRow{ID: scrub.Text(f.RequestID, maxID), Workload: f.Workload.Name, Age: humanize.Span(f.age), Silence: humanize.Span(f.silence), Silent: f.silence >= limit}
	switch {
	case f.tokens > 0:
		row.Stage = humanize.Count(f.tokens, "token event")
	case f.sent > 0:
		row.Stage = "waits for its first token"
	default:
		row.Stage = "connects"
	}
	return row
}

func earliestSlow(slow []slowPart) time.Time {
	return slices.MinFunc(slow, func(a, b slowPart) int { return a.since.Compare(b.since) }).since
}

// workloadCard is one workload of a target.
type workloadCard struct {
	Target, Name, Shape string
	mark
	TTFT, ITL, ITLP95, Connect, Duration, Speed string
	TTFTUsual, ITLUsual                         string
	TTFTSlow, ITLSlow, ConnectSlow              bool
	Measured                                    string // which probes the numbers are of
	Old                                         bool   // probes have failed since then
	Parts                                       []part
	Charts                                      []columns
	SLOs                                        []sloRow
	Rows                                        []resultRow
	More                                        int // results that are kept and not shown
	Totals                                      []total
	Open                                        bool
}

// part is a share of the time to first token.
type part struct {
	Class       Part
	Name, Value string
	X, W        float64 // of 100
	Slow        bool
}

type total struct{ Name, Value string }

// resultRow is one ended probe.
type resultRow struct {
	ID, Ended, Outcome, Error, TTFT, Queue, Prefill, Outside, ITL, ITLP95, Duration, Tokens string
	Failed, Warmup                                                                          bool
	Suspects                                                                                []string
}

func newWorkloadCard(target string, w *workloadView, alone bool, now time.Time) workloadCard {
	r := w.recent
	c := workloadCard{
		Target: target, Name: w.workload, mark: markOf(w.state), Shape: shape(w.plan), Open: alone, Totals: totals(w.totals),
		TTFT: latency(r.ttft), ITL: latency(r.itl), ITLP95: latency(r.itlP95), Connect: latency(r.connect), Duration: latency(r.duration),
		Speed: humanize.Unknown, Parts: parts(r, w.slow), Charts: charts(w, now),
	}
	if r.speed > 0 {
		c.Speed = humanize.Number(r.speed)
	}
	if r.probes > 0 {
		c.Old = w.state == Failing
		c.Measured = fmt.Sprintf("Median of %s up to %s UTC", humanize.Count(r.probes, "probe"), clock(r.last, now))
		if c.Old {
			c.Measured += ", before they failed"
		}
	}
	c.TTFTUsual = usually(usual(w.minutes, func(m minute) time.Duration { return m.ttft }))
	c.ITLUsual = usually(usual(w.minutes, func(m minute) time.Duration { return m.itl }))
	for _, slo := range w.slos {
		c.SLOs = append(c.SLOs, newSLORow(slo))
	}
	for _, s := range w.slow {
		switch s.part {
		case PartDecode:
			c.ITLSlow = true
		case PartConnect:
			c.ConnectSlow = true
		default:
			c.TTFTSlow = true
		}
	}
	kept := w.kept()
	if !alone && len(kept) > shortList {
		c.More = len(kept) - shortList
		kept = kept[:shortList]
	}
	for _, rec := range kept {
		c.Rows = append(c.Rows, newResultRow(rec, now))
	}
	return c
}

func shape(p *prober.Plan) string {
	if p == nil {
		return "no longer probed"
	}
	every := "every " + humanize.Setting(p.Interval)
	if p.Arrival == prober.Poisson {
		every += " on average (Poisson)"
	}
	return fmt.Sprintf("%s, %d prompt tokens, %d output tokens, %s", p.API, p.PromptTokens, p.OutputTokens, every)
}

// parts is the recent mean time to first token, cut into what the server told.
func parts(r recentProbes, slow []slowPart) []part {
	whole := r.queue + r.prefill + r.outside
	if r.split == 0 || whole <= 0 {
		return nil
	}
	var list []part
	var x float64
	for _, p := range []struct {
		class Part
		d     time.Duration
	}{{PartQueue, r.queue}, {PartPrefill, r.prefill}, {PartOutside, r.outside}} {
		w := 100 * p.d.Seconds() / whole.Seconds()
		isSlow := slices.ContainsFunc(slow, func(s slowPart) bool { return s.part == p.class })
		list = append(list, part{Class: p.class, Name: partNames()[p.class], Value: humanize.Duration(p.d), X: x, W: w, Slow: isSlow})
		x += w
	}
	return list
}

func partNames() map[Part]string {
	return map[Part]string{
		PartQueue: "queue", PartPrefill: "prefill", PartOutside: "outside the engine", PartTTFT: "first token",
		PartDecode: "decode", PartConnect: "connect",
	}
}

func totals(t Totals) []total {
	list := []total{{"ended", strconv.Itoa(t.Ended)}, {"failed", strconv.Itoa(t.Failed)}, {"suspect", strconv.Itoa(t.Suspect)}, {"warm-up", strconv.Itoa(t.Warmup)}, {"missed", strconv.Itoa(t.Missed)}}
	for _, reason := range prober.Reasons() {
		if n := t.ByReason[reason]; n > 0 {
			list = append(list, total{string(reason), strconv.Itoa(n)})
		}
	}
	return list
}

func newResultRow(rec *record, now time.Time) resultRow {
	row := resultRow{
		ID: rec.RequestID, Ended: clock(rec.Ended, now), Outcome: "ok", Failed: !rec.OK(), Warmup: rec.Warmup,
		TTFT: latency(rec.ttft), ITL: latency(rec.itlP50), ITLP95: latency(rec.itlP95), Duration: latency(rec.duration),
		Queue: humanize.Unknown, Prefill: humanize.Unknown, Outside: humanize.Unknown,
		Tokens: strconv.Itoa(rec.OutputTokens), Suspects: rec.Suspect.Names(),
	}
	if row.Failed {
		row.Outcome, row.Error = string(rec.Reason), scrub.Text(rec.errText(), maxThin)
	}
	if queue, prefill, outside, ok := rec.split(); ok {
		row.Queue, row.Prefill, row.Outside = humanize.Duration(queue), humanize.Duration(prefill), humanize.Duration(outside)
	}
	return row
}
