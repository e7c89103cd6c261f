package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

//go:embed templates
var templates embed.FS

// frame is what every page has.
type frame struct {
	Title   string
	Colours template.CSS
	Style   template.CSS
	Chart   template.CSS
	Script  template.JS
	Tool    string
}

func newFrame(title, tool string) (frame, error) {
	f := frame{Title: title, Colours: template.CSS(chart.PageColours()), Chart: template.CSS(chart.ChartCSS), Tool: clean(tool)}
	style, err := templates.ReadFile("templates/page.css")
	if err != nil {
		return f, err
	}
	script, err := templates.ReadFile("templates/page.js")
	f.Style, f.Script = template.CSS(style), template.JS(script)
	return f, err
}

// render writes a page by its template.
func render(w io.Writer, name string, page any) error {
	t, err := template.ParseFS(templates, "templates/*.html")
	if err != nil {
		return err
	}
	return t.ExecuteTemplate(w, name, page)
}

// runPage is the page of a run.
type runPage struct {
	frame
	Heading  string
	About    []string // in a line: server, when, how much
	Virtual  string
	Alerts   []string
	Verdicts []verdict
	Ceilings []ceiling // of many curves, instead of verdicts
	Changes  []change  // along curves of lengths
	Doubted  []finding
	Trusted  string
	Checks   []check
	Failures []failure
	Table    levelTable
	Sections []section
	Measured measured
}

// section is charts under a heading.
type section struct {
	ID, Nav, Title, Text string
	Charts               []*chart.Chart
	Heats                []heat
}

// newRunPage puts together the page of a run and all its charts.
func newRunPage(run *experiment.Run, summary *experiment.Summary) (*runPage, error) {
	families := families(summary)
	all := levelsOf(run, summary)
	p := &runPage{Heading: heading(families, summary.Levels), About: about(run, summary)}
	if model := clean(run.Facts.Model); model != "" {
		p.Heading += " · " + model
	}
	var err error
	if p.frame, err = newFrame(p.Heading, run.Facts.Tool); err != nil {
		return nil, err
	}
	p.Virtual = clean(run.Facts.Virtual)
	p.Alerts = alerts(run)
	p.Verdicts, p.Ceilings = verdicts(summary)
	p.Changes = changes(families, summary.Levels)
	p.Doubted, p.Trusted = trust(summary.Levels)
	p.Checks = checks(summary.Levels)
	p.Failures = failures(run, summary.Levels)
	p.Table = newLevelTable(summary, len(run.Plan.SLOs) > 0)
	p.Sections = sections(run, summary, families, all)
	p.Measured = newMeasured(run, summary.Levels)
	return p, nil
}

func sections(run *experiment.Run, summary *experiment.Summary, families []family, all []level) []section {
	d := curves{run.Plan.SLOs}
	var list []section
	for i := range families {
		f := &families[i]
		s := section{ID: f.kind + f.suffix(), Nav: f.title, Title: f.title, Text: f.explain(), Charts: d.charts(f)}
		if len(f.curves) > 1 {
			s.Title += ", one line each: " + f.curves[0].name + " … " + f.curves[len(f.curves)-1].name + " tokens"
			s.Heats = heats(f)
		}
		list = append(list, s)
	}
	name := namesOf(summary.Levels)
	if charts := queueCharts(all, name); len(charts) > 0 {
		list = append(list, section{
			ID: "queue", Nav: "Queue", Title: "Queue over time", Charts: charts,
			Text: "What the server said of itself once a second. Above what it can serve the queue grows for as long as requests come, " +
				"and with it the wait for the first token; the shaded time is what it took to answer what was left.",
		})
	}
	if charts := stripCharts(all, name); len(charts) > 0 {
		list = append(list, section{
			ID: "requests", Nav: "Requests", Title: "Requests over time", Charts: charts,
			Text: "A dot for each request, where it was started and as high as its TTFT: a slope on the left is warming up, a rising line a growing queue, a cross a failure.",
		})
	}
	return list
}

func heading(families []family, levels []experiment.LevelSummary) string {
	names := map[string]string{"load": "Concurrency sweep", "rate": "Arrival-rate sweep", "prompt": "Prompt-length sweep", "output": "Output-length sweep"}
	var parts []string
	for _, f := range families {
		name := names[f.kind]
		if len(f.curves) > 1 {
			name = "Grid of " + strings.TrimSuffix(f.axis, " (concurrency)") + " and lengths"
		}
		if !slices.Contains(parts, name) {
			parts = append(parts, name)
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ")
	case len(levels) == 1:
		return levels[0].Level.String()
	}
	return humanize.Count(len(levels), "level")
}

// explain says how to read a family's charts.
func (f *family) explain() string {
	shape := f.first().Shape()
	switch f.kind {
	case "load":
		return "An answer's end sends the next request, so a slow server is sent fewer of them. Once throughput levels off, more requests in flight mostly wait." + only1(f, " Every request: "+shape+" tokens.")
	case "rate":
		return "Requests are sent when they are due, whatever became of those before. TTFT from schedule counts from when a request was due: if it is higher than TTFT, something held requests back before they were sent." + only1(f, " Every request: "+shape+" tokens.")
	case "prompt":
		return "A longer prompt is more prefill before the first token, and more of it between the tokens of others." + only1(f, fmt.Sprintf(" Load %s, %d output tokens.", f.first().Load(), f.first().OutputTokens))
	}
	return "A longer answer is more decoding, over which the prompt's cost is spread: throughput rises though the server is no faster." + only1(f, fmt.Sprintf(" Load %s, %d prompt tokens.", f.first().Load(), f.first().PromptTokens))
}

func only1(f *family, text string) string {
	if len(f.curves) > 1 {
		return ""
	}
	return text
}

// about says in a line what was measured.
func about(run *experiment.Run, summary *experiment.Summary) []string {
	var parts []string
	add := func(s string) {
		if s = strings.TrimSpace(clean(s)); s != "" {
			parts = append(parts, s)
		}
	}
	add(run.Facts.Engine + " " + run.Facts.Version)
	if run.Facts.URL != "" {
		add(cleanURL(run.Facts.URL))
	}
	virtual := ""
	if run.Facts.Virtual != "" {
		virtual = " of virtual time"
	} else if !run.Facts.Began.IsZero() {
		add(run.Facts.Began.UTC().Format("2006-01-02 15:04 UTC"))
	}
	if took := run.Facts.Ended.Sub(run.Facts.Began); !run.Facts.Ended.IsZero() && took > 0 {
		add("took " + humanize.Span(took.Round(time.Second)) + virtual)
	}
	n := 0
	for i := range summary.Levels {
		n += summary.Levels[i].Requests
	}
	add(humanize.Count(n, "request"))
	return parts
}

// alerts says what makes the run less than it was meant to be.
func alerts(run *experiment.Run) []string {
	var all []string
	if left := run.Left; !left.None() {
		all = append(all, clean(left.String())+".")
	}
	for i, l := range run.Levels {
		if l.Cut != "" && i < len(run.Plan.Levels) {
			all = append(all, fmt.Sprintf("%s was cut short: %s.", run.Plan.Levels[i], clean(l.Cut)))
		}
	}
	if missing := len(run.Plan.Levels) - len(run.Levels); missing > 0 {
		var names []string
		for _, l := range run.Plan.Levels[len(run.Levels):] {
			names = append(names, l.String())
		}
		all = append(all, fmt.Sprintf("%s not begun: %s.", humanize.Count(missing, "level"), clean(strings.Join(names, " · "))))
	}
	return all
}
