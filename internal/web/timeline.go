package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/quantile"
	"github.com/llm-prober/llm_prober/internal/scrub"
	"github.com/llm-prober/llm_prober/prober"
)

// probePage is the time line of one probe.
type probePage struct {
	frame
	Target, ID string
	Missing    bool // nothing is kept under this id
	InFlight   bool
	mark
	Outcome  string
	Phases   []phase
	Total    string
	Drawn    bool // a part's place in the first token's time is drawn, not measured
	Ticks    string
	Gaps     *columns
	Facts    []fact
	Suspects []fact
	Error    string
	Body     string
	Advice   *advice
}

type fact struct{ Name, Value string }

// phase is one bar of the time line. X and W are thousandths of the whole.
type phase struct {
	Class          string
	Name, At, Took string
	X, W           float64
	Tokens         bool // draws a tick for each token event
}

func (s *site) probe(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	target, id := r.URL.Query().Get("target"), r.URL.Query().Get("id")
	now := time.Now()
	rec, flight, limit := s.findProbe(target, id, now)
	if prefersJSON(r.Header.Get("Accept")) {
		if rec == nil {
			writeError(w, http.StatusNotFound, "no ended probe is kept under this target and id")
			return
		}
		writeJSON(w, http.StatusOK, newAPIResult(rec))
		return
	}
	page := probePage{frame: s.frame("probe "+scrub.Text(id, maxID)+" – llm_prober", Unknown, now), Target: scrub.Text(target, maxName), ID: scrub.Text(id, maxID)}
	page.Refresh = flight != nil
	status := http.StatusOK
	switch {
	case rec != nil:
		page.tell(rec)
	case flight != nil:
		page.tellFlight(flight, flight.silence >= limit)
	default:
		page.Missing = true
		status = http.StatusNotFound
	}
	page.Icon = iconColour(page.State)
	s.render(w, status, "probe.html", page)
}

// findProbe looks for a probe that is kept or in flight, and how long one of its target may be silent; both are nil if
// it is neither.
func (s *site) findProbe(target, id string, now time.Time) (rec *record, flight *flightView, limit time.Duration) {
	targets := s.Targets()
	at := slices.IndexFunc(targets, func(t Target) bool { return t.Name == target })
	if at < 0 {
		return nil, nil, 0
	}
	for _, w := range s.History.snapshots(target, now) {
		if rec := w.find(id); rec != nil {
			return rec, nil, 0
		}
	}
	for _, f := range s.History.inFlight(now)[target] {
		if scrub.Text(f.RequestID, maxID) == id {
			return nil, &f, targets[at].silenceLimit()
		}
	}
	return nil, nil, 0
}

// tell fills the page with an ended probe.
func (p *probePage) tell(rec *record) {
	p.mark, p.Outcome = markOf(OK), "succeeded"
	if !rec.OK() {
		a := adviceFor(rec.Reason)
		p.mark, p.Outcome, p.Advice = markOf(Failing), "failed: "+string(rec.Reason), &a
		p.mark.Word = "Failed"
	}
	if rec.Warmup {
		p.Outcome += ", in warm-up"
	}
	total := rec.Ended.Sub(rec.Started)
	p.Total = humanize.Duration(total)
	p.Outcome += " in " + p.Total
	if rec.ttft > 0 {
		p.Outcome += ": first token after " + humanize.Duration(rec.ttft)
		if rec.itlP50 > 0 {
			p.Outcome += ", then one every " + humanize.Duration(rec.itlP50) + " (median)"
		}
	}
	p.Phases = phases(rec, scale{rec.Started, total})
	p.Drawn = rec.Server != nil && rec.OK()
	p.Ticks = ticks(rec, scale{rec.Started, total})
	p.Gaps = newGapChart(rec)
	p.Facts = facts(rec)
	for _, name := range rec.Suspect.Names() {
		p.Suspects = append(p.Suspects, fact{name, suspectMeaning(name)})
	}
	p.Error, p.Body = rec.errText(), rec.Body
}

// tellFlight fills the page with a probe that has not ended.
func (p *probePage) tellFlight(f *flightView, silent bool) {
	p.InFlight, p.Outcome = true, "in flight for "+humanize.Span(f.age)
	p.mark = mark{Unknown, "…", "In flight"}
	if silent {
		p.mark = markOf(Silent)
	}
	p.Total = humanize.Duration(f.age)
	sc := scale{f.Started, f.age}
	at := func(d time.Duration) time.Time { return f.Started.Add(d) }
	switch {
	case f.sent == 0:
		p.Phases = append(p.Phases, sc.phase("connect", "connecting", f.Started, at(f.age)))
	case f.firstToken == 0:
		p.Phases = append(p.Phases, sc.phase("connect", "connect", f.Started, at(f.sent)), sc.phase("wait", "waiting for the first token", at(f.sent), at(f.age)))
	default:
		last := f.age - f.silence
		p.Phases = append(p.Phases, sc.phase("connect", "connect", f.Started, at(f.sent)), sc.phase("ttft", "first token", at(f.sent), at(f.firstToken)),
			sc.phase("decode", "tokens", at(f.firstToken), at(last)), sc.phase("wait", "silence", at(last), at(f.age)))
	}
	p.Facts = []fact{
		{"request id", scrub.Text(f.RequestID, maxID)},
		{"target", f.Target},
		{"workload", f.Workload.Name},
		{"started", stamp(f.Started)},
		{"token events", strconv.Itoa(f.tokens)},
		{"silent for", humanize.Span(f.silence)},
	}
}

// scale places moments on the time line.
type scale struct {
	start time.Time
	total time.Duration
}

func (sc scale) x(at time.Time) float64 {
	if sc.total <= 0 {
		return 0
	}
	return min(1000, max(0, 1000*at.Sub(sc.start).Seconds()/sc.total.Seconds()))
}

func (sc scale) phase(class, name string, from, to time.Time) phase {
	x := sc.x(from)
	return phase{
		Class: class, Name: name, At: humanize.Duration(from.Sub(sc.start)), Took: humanize.Duration(to.Sub(from)),
		X: x, W: max(2, sc.x(to)-x), // a bar that cannot be seen says that nothing was there
	}
}

// phases are the bars of an ended probe, in the order of time.
func phases(rec *record, sc scale) []phase {
	var list []phase
	if !rec.DialStart.IsZero() {
		name, to := "connect", rec.Connected
		if to.IsZero() {
			name, to = "connect, in vain", rec.Ended
		}
		list = append(list, sc.phase("connect", name, rec.DialStart, to))
	}
	if rec.Sent.IsZero() {
		return list
	}
	if rec.FirstToken.IsZero() {
		if !rec.Headers.IsZero() {
			return append(list, sc.phase("ttft", "until the headers", rec.Sent, rec.Headers), sc.phase("wait", "no token", rec.Headers, rec.Ended))
		}
		return append(list, sc.phase("wait", "no answer", rec.Sent, rec.Ended))
	}
	list = append(list, firstToken(rec, sc)...)
	if rec.LastToken.After(rec.FirstToken) {
		decode := sc.phase("decode", humanize.Count(rec.events, "token event"), rec.FirstToken, rec.LastToken)
		decode.Tokens = len(rec.Gaps) > 0
		list = append(list, decode)
	}
	if rec.OK() {
		return append(list, sc.phase("end", "usage and end", rec.LastToken, rec.Ended))
	}
	return append(list, sc.phase("wait", "silence", rec.LastToken, rec.Ended))
}

// firstToken is the time to first token, cut into what the server told. Where in it the time outside the
// engine lay nobody knows; it is drawn at the end.
func firstToken(rec *record, sc scale) []phase {
	queue, prefill, _, ok := rec.split()
	if !ok {
		return []phase{sc.phase("ttft", "first token", rec.Sent, rec.FirstToken)}
	}
	scheduled := rec.Sent.Add(queue)
	prefilled := scheduled.Add(prefill)
	if prefilled.After(rec.FirstToken) { // the server's clock says more than there was
		prefilled = rec.FirstToken
	}
	return []phase{
		sc.phase("queue", "queue", rec.Sent, scheduled),
		sc.phase("prefill", "prefill", scheduled, prefilled),
		sc.phase("outside", "outside the engine", prefilled, rec.FirstToken),
	}
}

// ticks draws every token event on the time line, as one path; at most one a thousandth.
func ticks(rec *record, sc scale) string {
	if len(rec.Gaps) == 0 {
		return ""
	}
	var b strings.Builder
	at, drawn := rec.FirstToken, -1.0
	for i := -1; i < len(rec.Gaps); i++ {
		if i >= 0 {
			at = at.Add(rec.Gaps[i])
		}
		if x := sc.x(at); x-drawn >= 1 {
			fmt.Fprintf(&b, "M%.1f 0v10", x)
			drawn = x
		}
	}
	return b.String()
}

// maxColumns is how many columns can be told apart.
const maxColumns = 300

// newGapChart shows each gap between token events in order; nil if there is none.
func newGapChart(rec *record) *columns {
	n := len(rec.Gaps)
	if n == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(rec.Gaps))
	p50, p95, longest := quantile.NearestRank(sorted, 0.5), quantile.NearestRank(sorted, 0.95), sorted[n-1]
	each := (n + maxColumns - 1) / maxColumns
	c := &columns{Axis: []string{"first gap", "a column is a gap"}, Tall: true}
	if each > 1 {
		c.Axis[1] = fmt.Sprintf("a column is the longest of %d gaps", each)
	}
	if rec.gapsCut {
		c.Axis[1] += "; the later gaps are not kept"
	}
	at := slices.Index(rec.Gaps, longest)
	drawn := chart.NewColumns(max(longest, 1).Seconds(), chart.Key{Class: "decode"}, chart.Key{
		Class: "longest", Name: "longest", Value: humanize.Duration(longest), Note: fmt.Sprintf("(gap %d of %d)", at+1, n),
	})
	place := 1 / float64(max((n+each-1)/each, 20))
	i := 0
	for chunk := range slices.Chunk(rec.Gaps, each) {
		class := 0
		if i == at/each {
			class = 1
		}
		drawn.Add(class, float64(i)*place, 0.8*place, 0, slices.Max(chunk).Seconds())
		i++
	}
	drawn.Mark(p50.Seconds(), chart.Key{Class: "usual", Name: "median", Value: humanize.Duration(p50)})
	drawn.Mark(p95.Seconds(), chart.Key{Class: "p95", Name: "95th percentile", Value: humanize.Duration(p95)})
	c.draw(drawn, fmt.Sprintf("%s: median %s, 95th percentile %s, longest %s", humanize.Count(n, "gap"), humanize.Duration(p50), humanize.Duration(p95), humanize.Duration(longest)))
	return c
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// facts is what is known of a probe besides its times.
func facts(rec *record) []fact {
	list := []fact{
		{"request id", rec.RequestID},
		{"target", rec.Target},
		{"workload", rec.Workload.Name},
		{"scheduled", stamp(rec.Scheduled)},
		{"started", stamp(rec.Started) + ", " + humanize.Duration(rec.StartDelay()) + " late"},
		{"ended", stamp(rec.Ended)},
		{"server address", cmp.Or(rec.RemoteAddr, humanize.Unknown)},
		{"HTTP status", humanize.Unknown},
		{"model", cmp.Or(rec.Model, humanize.Unknown)},
		{"finish reason", cmp.Or(rec.FinishReason, humanize.Unknown)},
		{"prompt tokens", fmt.Sprintf("%s of %d asked for", humanize.Whole(rec.PromptTokens), rec.Workload.PromptTokens)},
		{"cached prompt tokens", humanize.Whole(rec.CachedTokens)},
		{"output tokens", fmt.Sprintf("%s of %d asked for, counted by %s", humanize.Whole(rec.OutputTokens), rec.Workload.OutputTokens, cmp.Or(rec.TokenSource, prober.FromChunks))},
		{"read delay", readDelay(rec)},
	}
	if rec.Status != 0 {
		list[7].Value = strconv.Itoa(rec.Status)
	}
	for _, l := range []struct {
		name string
		is   time.Duration
	}{
		{"time to first token", rec.ttft}, {"time to first answer", rec.ttfa}, {"time per output token", rec.tpot}, {"duration", rec.duration},
	} {
		if l.is > 0 {
			list = append(list, fact{l.name, humanize.Duration(l.is)})
		}
	}
	if !rec.CertExpiry.IsZero() {
		list = append(list, fact{"certificate expires", stamp(rec.CertExpiry)})
	}
	return list
}

func readDelay(rec *record) string {
	if !rec.KernelStamps {
		return "not known: no kernel stamps"
	}
	return "at most " + humanize.Duration(rec.ReadDelay)
}
