package web

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/llm-prober/llm_prober/internal/discovery"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// maxMembers bounds the members of a group in one state that a page lists; the API lists as many as it is asked for.
const maxMembers = 100

// Members of a group that /api/v1/discovery lists.
const (
	defaultMembers = 1000
	mostMembers    = discovery.MaxMembers
)

type apiDiscovery struct {
	Groups []apiGroup `json:"groups"`
}

// apiGroup counts all members; those that are listed may be fewer.
type apiGroup struct {
	Name    string                  `json:"group"`
	Counts  map[discovery.State]int `json:"targets"`
	Sources []apiSource             `json:"sources"`
	Members []apiMember             `json:"members"`
}

type apiSource struct {
	Mechanism string    `json:"mechanism"`
	Answered  time.Time `json:"last_answer,omitzero"`
	Err       string    `json:"error,omitempty"`
	ErrAt     time.Time `json:"error_time,omitzero"`
}

type apiMember struct {
	State      discovery.State `json:"state"`
	Target     string          `json:"target,omitempty"` // of an active one
	Reason     string          `json:"reason,omitempty"` // of the others
	Discovered labels.Labels   `json:"discovered_labels"`
	Labels     labels.Labels   `json:"labels"`
}

func (s *site) groups() []discovery.Group {
	if s.Groups == nil {
		return nil
	}
	return s.Groups()
}

func (s *site) apiDiscovery(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	limit := defaultMembers
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostMembers {
			writeError(w, http.StatusBadRequest, "limit must be a whole number from 0 to "+strconv.Itoa(mostMembers))
			return
		}
		limit = n
	}
	name, state := query.Get("group"), discovery.State(query.Get("state"))
	if state != "" && !slices.Contains(discovery.States(), state) {
		writeError(w, http.StatusBadRequest, "there is no such state")
		return
	}
	answer := apiDiscovery{Groups: []apiGroup{}}
	for _, g := range s.groups() {
		if name == "" || g.Name == name {
			answer.Groups = append(answer.Groups, newAPIGroup(&g, state, limit))
		}
	}
	if name != "" && len(answer.Groups) == 0 {
		writeError(w, http.StatusNotFound, "no such group")
		return
	}
	writeJSON(w, http.StatusOK, answer)
}

func newAPIGroup(g *discovery.Group, state discovery.State, limit int) apiGroup {
	a := apiGroup{Name: g.Name, Counts: make(map[discovery.State]int), Sources: []apiSource{}, Members: []apiMember{}}
	for _, s := range discovery.States() {
		a.Counts[s] = g.Count(s)
	}
	for _, s := range g.Sources {
		a.Sources = append(a.Sources, apiSource{s.Mechanism, utc(s.Answered), s.Err, utc(s.ErrAt)})
	}
	for i := range g.Members {
		if m := &g.Members[i]; len(a.Members) < limit && (state == "" || m.State == state) {
			a.Members = append(a.Members, apiMember{m.State, targetOf(m), m.Reason, m.Discovered, m.Labels})
		}
	}
	return a
}

// targetOf is the name of what is probed; empty: nothing.
func targetOf(m *discovery.Member) string {
	if m.Target == nil {
		return ""
	}
	return m.Target.Name
}

// discoveryPage tells what was found for each target group and what became of it.
type discoveryPage struct {
	frame
	Groups []groupBox
	Only   string // the only group shown; "" all
}

type groupBox struct {
	Name    string
	Sources []sourceRow
	Lists   []memberList
}

type sourceRow struct {
	Mechanism, Answered, Err, ErrAge string
}

// memberList is the members of a group in one state.
type memberList struct {
	ID      string
	Word    string
	Count   int
	Open    bool
	Members []memberRow
	More    int
}

type memberRow struct {
	Target, Address, Reason string
	Discovered, Labels      []label
}

func (s *site) discovery(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	only := r.URL.Query().Get("group")
	page := discoveryPage{frame: s.frame("Discovery – llm_prober", Unknown, now), Only: scrub.Text(only, maxName)}
	for _, g := range s.groups() {
		if only == "" || g.Name == only {
			page.Groups = append(page.Groups, newGroupBox(&g, only != "", now))
		}
	}
	s.render(w, http.StatusOK, "discovery.html", page)
}

// stateWords tell what became of members.
func stateWords() map[discovery.State]string {
	return map[discovery.State]string{
		discovery.Active: "probed", discovery.Dropped: "dropped", discovery.Invalid: "no valid target", discovery.OverLimit: "over the limit",
	}
}

func newGroupBox(g *discovery.Group, alone bool, now time.Time) groupBox {
	box := groupBox{Name: g.Name}
	for _, s := range g.Sources {
		row := sourceRow{Mechanism: s.Mechanism, Err: s.Err}
		if !s.Answered.IsZero() {
			row.Answered = humanize.Span(now.Sub(s.Answered))
		}
		if s.Err != "" {
			row.ErrAge = humanize.Span(now.Sub(s.ErrAt))
		}
		box.Sources = append(box.Sources, row)
	}
	for _, state := range discovery.States() {
		list := memberList{ID: g.Name + "-" + string(state), Word: stateWords()[state], Count: g.Count(state)}
		list.Open = alone || state == discovery.Invalid || state == discovery.OverLimit
		for i := range g.Members {
			if m := &g.Members[i]; m.State == state && len(list.Members) < maxMembers {
				list.Members = append(list.Members, newMemberRow(m))
			}
		}
		list.More = list.Count - len(list.Members)
		box.Lists = append(box.Lists, list)
	}
	return box
}

func newMemberRow(m *discovery.Member) memberRow {
	return memberRow{
		Target: targetOf(m), Address: m.Discovered.Get("__address__"), Reason: m.Reason,
		Discovered: labelRows(m.Discovered), Labels: labelRows(m.Labels),
	}
}

func labelRows(set labels.Labels) (rows []label) {
	set.Range(func(l labels.Label) { rows = append(rows, label{l.Name, l.Value}) })
	return rows
}

// groupLine is a target group in brief, on the page of all targets.
type groupLine struct {
	Name   string
	Active bool // only its targets are shown
	Chips  []chip
	Note   string // what of it is not probed, and which of its sources fail
}

// groupLines counts the targets of each group by their state.
func groupLines(groups []discovery.Group, views []targetView, only string) []groupLine {
	of := make(map[string][]targetView)
	for _, v := range views {
		of[v.group] = append(of[v.group], v)
	}
	var lines []groupLine
	for i := range groups {
		g := &groups[i]
		line := groupLine{Name: g.Name, Active: g.Name == only, Chips: chips(of[g.Name], "")}
		var notes []string
		for _, s := range discovery.States() {
			if n := g.Count(s); n > 0 && s != discovery.Active {
				notes = append(notes, strconv.Itoa(n)+" "+stateWords()[s])
			}
		}
		for _, s := range g.Sources {
			switch {
			case s.Err != "":
				notes = append(notes, "its "+s.Mechanism+" discovery fails")
			case s.Answered.IsZero():
				notes = append(notes, "its "+s.Mechanism+" discovery has not answered yet")
			}
		}
		line.Note = strings.Join(notes, ", ")
		lines = append(lines, line)
	}
	return lines
}
