package web

import (
	"cmp"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/scrub"
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
	Pprof   bool   // there are profiles
	Grouped bool   // there are target groups
	Style   template.CSS
	Script  template.JS
}

func (s *site) frame(title string, worst State, now time.Time) frame {
	return frame{
		Title: title, Icon: iconColour(worst), Version: s.Version, Now: now.UTC(), Refresh: true,
		Metrics: strings.TrimPrefix(s.TelemetryPath, "/"), Pprof: s.Pprof, Grouped: len(s.groups()) > 0, Style: template.CSS(s.style), Script: template.JS(s.script),
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
	Groups  []groupLine
	Target  string // the only one shown; "" all
	Group   string // the only one whose targets are shown; "" all
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
	query := r.URL.Query()
	s.render(w, http.StatusOK, "index.html", s.indexPage(query.Get("target"), query.Get("group"), State(query.Get("state")), time.Now()))
}

func (s *site) indexPage(target, group string, filter State, now time.Time) indexPage {
	views := s.targets(now)
	groups := groupLines(s.groups(), views, group)
	if group != "" {
		views = slices.DeleteFunc(views, func(v targetView) bool { return v.group != group })
	}
	worst := OK
	if len(views) > 0 {
		worst = views[0].shown()
	}
	page := indexPage{Target: scrub.Text(target, maxName), Group: scrub.Text(group, maxName), Filter: filter, Groups: groups, Chips: chips(views, filter)}
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
	l := line{mark: markOf(v.shown()), Name: v.name, TTFT: humanize.Unknown, ITL: humanize.Unknown, Running: gauge(v.server.Running, humanize.Number), Waiting: gauge(v.server.Waiting, humanize.Number)}
	if !v.since.IsZero() {
		l.Since = humanize.Span(now.Sub(v.since))
	}
	for _, w := range v.workloads { // of the first workload that has them
		if w.recent.probes > 0 {
			l.TTFT, l.ITL = latency(w.recent.ttft), latency(w.recent.itl)
			break
		}
	}
	return l
}
