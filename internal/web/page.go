package web

import (
	"cmp"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

const (
	maxCards  = 20 // targets shown at length; the others have a line each
	shortList = 10 // results shown of a workload, where the page is not about its target alone
)

// frame is what every page has.
type frame struct {
	Title   string
	Icon    string // colour of the icon in the browser's tab, without the #
	Version string
	Now     time.Time
	Refresh bool
	Metrics string // path of the metrics, relative
	Style   template.CSS
	Script  template.JS
}

func (s *site) frame(title string, worst State, now time.Time) frame {
	return frame{
		Title: title, Icon: iconColour(worst), Version: s.Version, Now: now.UTC(), Refresh: true,
		Metrics: strings.TrimPrefix(s.TelemetryPath, "/"), Style: template.CSS(s.style), Script: template.JS(s.script),
	}
}

func iconColour(s State) string {
	colours := map[State]string{Failing: "d03b3b", Silent: "d03b3b", stateSlow: "d98a00", OK: "2f9e54"}
	return cmp.Or(colours[s], "8a919c")
}

// stateSlow is how the page marks a target that is OK but slow.
const stateSlow State = "slow"

// mark is how a state looks: never by colour alone.
type mark struct {
	State State // also the CSS class
	Sign  string
	Word  string
}

func markOf(s State) mark {
	marks := map[State]mark{
		Failing: {Failing, "✖", "Failing"}, Silent: {Silent, "…", "Silent"}, stateSlow: {stateSlow, "▲", "Slow"},
		WarmingUp: {WarmingUp, "◐", "Warming up"}, OK: {OK, "✔", "OK"}, Unknown: {Unknown, "?", "Unknown"},
	}
	return marks[s]
}

// shown is the state as the page tells it.
func (v *targetView) shown() State {
	if (v.state == OK || v.state == WarmingUp) && len(v.slow()) > 0 {
		return stateSlow
	}
	return v.state
}

// indexPage is the page of all targets.
type indexPage struct {
	frame
	Summary string
	Chips   []chip
	Cards   []card
	Lines   []line // of the targets that have no card
	Target  string // the only one shown; "" all
	Filter  State
}

// chip is a state, how many targets have it, and whether only those are shown.
type chip struct {
	mark
	Count  int
	Active bool
}

// line is a target in brief.
type line struct {
	mark
	Name, Since, TTFT, ITL, Running, Waiting string
}

func (s *site) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if prefersJSON(r.Header.Get("Accept")) {
		s.apiTargets(w, r)
		return
	}
	now := time.Now()
	s.render(w, http.StatusOK, "index.html", s.indexPage(s.targets(now), r.URL.Query().Get("target"), State(r.URL.Query().Get("state")), now))
}

func (s *site) indexPage(views []targetView, target string, filter State, now time.Time) indexPage {
	worst := OK
	if len(views) > 0 {
		worst = views[0].shown()
	}
	page := indexPage{Target: clean(target, maxName), Filter: filter, Chips: chips(views, filter)}
	page.Summary = summary(page.Chips, len(views))
	page.frame = s.frame(page.Summary+" – llm_prober", worst, now)
	for i := range views {
		v := &views[i]
		switch {
		case target != "" && v.name != target, filter != "" && v.shown() != filter:
		case len(page.Cards) < maxCards:
			page.Cards = append(page.Cards, newCard(v, target != "", now))
		default:
			page.Lines = append(page.Lines, newLine(v, now))
		}
	}
	return page
}

func chips(views []targetView, filter State) []chip {
	var list []chip
	for _, state := range []State{Failing, Silent, stateSlow, WarmingUp, OK, Unknown} {
		c := chip{mark: markOf(state), Active: filter == state}
		for i := range views {
			if views[i].shown() == state {
				c.Count++
			}
		}
		if c.Count > 0 || c.Active {
			list = append(list, c)
		}
	}
	return list
}

func summary(chips []chip, total int) string {
	if total == 0 {
		return "no targets"
	}
	var parts []string
	for _, c := range chips {
		if c.Count > 0 {
			parts = append(parts, strconv.Itoa(c.Count)+" "+strings.ToLower(c.Word))
		}
	}
	return strings.Join(parts, ", ")
}

func newLine(v *targetView, now time.Time) line {
	l := line{mark: markOf(v.shown()), Name: v.name, TTFT: "–", ITL: "–", Running: "–", Waiting: "–"}
	if !v.since.IsZero() {
		l.Since = formatAge(now.Sub(v.since))
	}
	if v.serverKnown {
		l.Running, l.Waiting = formatNumber(v.server.Running), formatNumber(v.server.Waiting)
	}
	for _, w := range v.workloads { // of the first workload that has them
		if w.recent.probes > 0 {
			l.TTFT, l.ITL = orDash(w.recent.ttft), orDash(w.recent.itl)
			break
		}
	}
	return l
}

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
		c.Since, c.Age = formatClock(since, now), formatAge(now.Sub(since))
	}
	c.Headline, c.Detail = headline(v, now)
	if v.serverKnown {
		c.Server = newServerBox(v.server, now)
	}
	for _, f := range v.flights {
		c.Flights = append(c.Flights, newFlightRow(f))
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
		Running: formatNumber(s.Running), Waiting: formatNumber(s.Waiting), KVCache: formatPercent(s.KVCache),
		Queued: known(s.Waiting) && s.Waiting > 0, Health: s.Healthy, Name: strings.TrimSpace(s.Engine + " " + s.Version),
	}
	switch {
	case !s.Up && s.LastScrape.IsZero():
		box.Note = "its metrics page cannot be read"
	case !s.Up || now.Sub(s.LastScrape) > staleServer:
		box.Note = "its metrics page has not been read for " + formatAge(now.Sub(s.LastScrape))
	case !s.LastChange.IsZero() && s.Running > 0 && now.Sub(s.LastChange) > staleServer:
		box.Note = "these numbers have stood still for " + formatAge(now.Sub(s.LastChange)) + " while requests run"
	}
	if s.Error != "" && box.Note != "" {
		box.Note += ": " + s.Error
	}
	return box
}

func newFlightRow(f flightView) flightRow {
	row := flightRow{ID: clean(f.RequestID, maxID), Workload: f.Workload.Name, Age: formatAge(f.age), Silence: formatAge(f.silence), Silent: f.silence >= DefaultSilenceLimit}
	switch {
	case f.tokens > 0:
		row.Stage = formatCount(f.tokens, "token event")
	case f.sent > 0:
		row.Stage = "waits for its first token"
	default:
		row.Stage = "connects"
	}
	return row
}

func earliestSlow(slow []slowness) time.Time {
	return slices.MinFunc(slow, func(a, b slowness) int { return a.since.Compare(b.since) }).since
}

// workloadCard is one workload of a target.
type workloadCard struct {
	Target, Name, Shape string
	mark
	TTFT, ITL, ITLP95, Connect, Duration, Speed string
	TTFTUsual, ITLUsual                         string
	TTFTSlow, ITLSlow, ConnectSlow              bool
	Measured                                    string // which probes the numbers are of
	Parts                                       []part
	Charts                                      []chart
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
	ID, Ended, Outcome, TTFT, Queue, Prefill, Outside, ITL, ITLP95, Duration, Tokens string
	Failed, Warmup                                                                   bool
	Suspects                                                                         []string
}

func newWorkloadCard(target string, w *workloadView, alone bool, now time.Time) workloadCard {
	r := w.recent
	c := workloadCard{
		Target: target, Name: w.workload, mark: markOf(w.state), Shape: shape(w.plan), Open: alone, Totals: totals(w.totals),
		TTFT: orDash(r.ttft), ITL: orDash(r.itl), ITLP95: orDash(r.itlP95), Connect: orDash(r.connect), Duration: orDash(r.duration),
		Speed: "–", Parts: parts(r, w.slow), Charts: charts(w, now),
	}
	if r.speed > 0 {
		c.Speed = significant(r.speed)
	}
	if r.probes > 0 {
		c.Measured = fmt.Sprintf("median of %s up to %s UTC", formatCount(r.probes, "probe"), formatClock(r.last, now))
	}
	c.TTFTUsual = orEmpty(usual(w.minutes, func(m minute) time.Duration { return m.ttft }))
	c.ITLUsual = orEmpty(usual(w.minutes, func(m minute) time.Duration { return m.itl }))
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
	every := "every " + formatAge(p.Interval)
	if p.Interval%time.Second != 0 {
		every = "every " + p.Interval.String()
	}
	if p.Arrival == prober.Poisson {
		every += " on average (Poisson)"
	}
	return fmt.Sprintf("%s, %d prompt tokens, %d output tokens, %s", p.API, p.PromptTokens, p.OutputTokens, every)
}

// parts is the recent mean time to first token, cut into what the server told.
func parts(r recently, slow []slowness) []part {
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
		isSlow := slices.ContainsFunc(slow, func(s slowness) bool { return s.part == p.class })
		list = append(list, part{Class: p.class, Name: partNames()[p.class], Value: formatDuration(p.d), X: x, W: w, Slow: isSlow})
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
		ID: rec.RequestID, Ended: formatClock(rec.Ended, now), Outcome: "ok", Failed: !rec.OK(), Warmup: rec.Warmup,
		ITL: orDash(rec.itlP50), ITLP95: orDash(rec.itlP95), TTFT: "–", Queue: "–", Prefill: "–", Outside: "–", Duration: "–",
		Tokens: strconv.Itoa(rec.OutputTokens), Suspects: rec.Suspect.Names(),
	}
	if row.Failed {
		row.Outcome = string(rec.Reason)
	}
	if d, ok := rec.TTFT(); ok {
		row.TTFT = formatDuration(d)
	}
	if queue, prefill, outside, ok := rec.split(); ok {
		row.Queue, row.Prefill, row.Outside = formatDuration(queue), formatDuration(prefill), formatDuration(outside)
	}
	if d, ok := rec.Duration(); ok {
		row.Duration = formatDuration(d)
	}
	return row
}

func orDash(d time.Duration) string { return cmp.Or(orEmpty(d), "–") }

func orEmpty(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return formatDuration(d)
}
