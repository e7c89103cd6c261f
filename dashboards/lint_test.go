package dashboards_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// finding is something that a rule does not like: where, and what exactly.
type finding struct{ where, what string }

// rule is one rule of Grafana's dashboard-linter, under its name there. The linter itself is not to be had as a Go
// module.
type rule struct {
	name  string
	check func(t *testing.T, b board) []finding
}

func rules() []rule {
	return []rule{
		{"template-datasource-rule", templateDatasource},
		{"template-job-rule", templateFor("job", "Job")},
		{"template-instance-rule", templateFor("instance", "Instance")},
		{"template-label-promql-rule", templateQuery},
		{"template-on-time-change-reload-rule", templateReload},
		{"panel-datasource-rule", panelDatasource},
		{"panel-title-description-rule", panelTexts},
		{"panel-units-rule", panelUnits},
		{"panel-no-targets-rule", panelTargets},
		{"target-promql-rule", eachTarget(func(t *testing.T, q target) []string { parse(t, q.Expr); return nil })},
		{"target-rate-interval-rule", eachTarget(rateInterval)},
		{"target-job-rule", eachTarget(matches("job"))},
		{"target-instance-rule", eachTarget(matches("instance"))},
		{"target-counter-agg-rule", eachTarget(bareCounters)},
		{"uneditable-dashboard-rule", uneditable},
		{"target-logql-rule", noLogQL},
		{"target-logql-auto-rule", noLogQL},
	}
}

// exception is what is found and is right all the same.
type exception struct {
	rule   string
	what   *regexp.Regexp
	reason string
}

func exceptions() []exception {
	return []exception{
		{
			"target-rate-interval-rule", regexp.MustCompile(`^rate\(llm_probe_\w+\[\$window\]\)$`),
			"probes are rare: the rate interval would hold four, and a percentile of four says nothing",
		},
		{
			"target-instance-rule", regexp.MustCompile(`^target_workload_slo:llm_probe_slo_\w+:\w+$`),
			"recorded without instance: the rules join the replicas of a prober",
		},
		{
			"target-counter-agg-rule", regexp.MustCompile(`^llm_probe_slo_bad_events_total$`),
			"the minutes in which it rose, by its difference to a minute ago: a rate over a minute needs two scrapes in it",
		},
	}
}

// TestLint holds every dashboard against the linter's rules.
func TestLint(t *testing.T) {
	used := map[int]bool{}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, b := range boards(t) {
				for _, f := range r.check(t, b) {
					i := slices.IndexFunc(exceptions(), func(e exception) bool { return e.rule == r.name && e.what.MatchString(f.what) })
					if i < 0 {
						t.Errorf("%s, %s: %s", b.file, f.where, f.what)
					}
					used[i] = true
				}
			}
		})
	}
	for i, e := range exceptions() {
		if !used[i] {
			t.Errorf("nothing needs the exception %s %s", e.rule, e.what)
		}
	}
}

func (b board) variable(name string) variable {
	for _, v := range b.Templating.List {
		if v.Name == name {
			return v
		}
	}
	return variable{}
}

func templateDatasource(_ *testing.T, b board) []finding {
	v := b.variable("datasource")
	if v.Type != "datasource" || v.Query != "prometheus" || v.Label != "Data source" {
		return []finding{{"variables", fmt.Sprintf("the data source is %+v", v)}}
	}
	return nil
}

func templateFor(name, label string) func(*testing.T, board) []finding {
	return func(_ *testing.T, b board) []finding {
		v := b.variable(name)
		if v.Type != "query" || !v.Multi || v.AllValue != ".+" || v.Label != label || *v.Datasource != ours {
			return []finding{{"variables", fmt.Sprintf("%s is %+v", name, v)}}
		}
		return nil
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

func templateQuery(t *testing.T, b board) (found []finding) {
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := labelValues.FindStringSubmatch(v.Query)
		if parts == nil || v.Definition != v.Query {
			found = append(found, finding{v.Name, v.Query})
			continue
		}
		if _, ok := parse(t, parts[1]).(*parser.VectorSelector); !ok {
			found = append(found, finding{v.Name, v.Query})
		}
	}
	return found
}

func templateReload(_ *testing.T, b board) (found []finding) {
	for _, v := range b.Templating.List {
		if v.Type == "query" && v.Refresh != 2 {
			found = append(found, finding{v.Name, fmt.Sprintf("refresh is %d", v.Refresh)})
		}
	}
	return found
}

var ours = datasource{"prometheus", "${datasource}"}

func panelDatasource(_ *testing.T, b board) (found []finding) {
	for _, p := range b.charts() {
		if p.Datasource == nil || *p.Datasource != ours {
			found = append(found, finding{p.Title, fmt.Sprintf("data source %+v", p.Datasource)})
		}
	}
	return found
}

func panelTexts(_ *testing.T, b board) (found []finding) {
	for _, p := range b.charts() {
		if p.Title == "" || p.Description == "" {
			found = append(found, finding{p.Title, "title or description is missing"})
		}
	}
	return found
}

func panelUnits(_ *testing.T, b board) (found []finding) {
	for _, p := range b.charts() {
		if p.FieldConfig.Defaults.Unit == "" {
			found = append(found, finding{p.Title, "no unit"})
		}
	}
	return found
}

func panelTargets(_ *testing.T, b board) (found []finding) {
	for _, p := range b.charts() {
		if len(p.Targets) == 0 {
			found = append(found, finding{p.Title, "no targets"})
		}
	}
	return found
}

// eachTarget makes a check of one query one of a dashboard.
func eachTarget(check func(*testing.T, target) []string) func(*testing.T, board) []finding {
	return func(t *testing.T, b board) (found []finding) {
		for _, p := range b.charts() {
			for _, q := range p.Targets {
				for _, what := range check(t, q) {
					found = append(found, finding{p.Title + " " + q.RefID, what})
				}
			}
		}
		return found
	}
}

// rateInterval finds rates over another window than Grafana's own.
func rateInterval(t *testing.T, q target) (found []string) {
	parser.Inspect(parse(t, q.Expr), func(node parser.Node, _ []parser.Node) error {
		call, ok := node.(*parser.Call)
		if !ok || call.Func.Name != "rate" && call.Func.Name != "irate" {
			return nil
		}
		selector := call.Args[0].(*parser.MatrixSelector)
		window := selector.Range.String()
		for name, stand := range windows() {
			if parse(t, "x["+stand+"]").(*parser.MatrixSelector).Range == selector.Range {
				window = name
			}
		}
		if window != "$__rate_interval" {
			found = append(found, fmt.Sprintf("%s(%s[%s])", call.Func.Name, selector.VectorSelector.(*parser.VectorSelector).Name, window))
		}
		return nil
	})
	return found
}

// selectors are all selectors of an expression, each with its ancestors.
func selectors(t *testing.T, expr string) map[*parser.VectorSelector][]parser.Node {
	t.Helper()
	all := map[*parser.VectorSelector][]parser.Node{}
	parser.Inspect(parse(t, expr), func(node parser.Node, path []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			all[s] = slices.Clone(path)
		}
		return nil
	})
	return all
}

// matches finds selectors without label=~"$label".
func matches(label string) func(*testing.T, target) []string {
	return func(t *testing.T, q target) (found []string) {
		for s := range selectors(t, q.Expr) {
			if !strings.Contains(s.String(), label+`=~"$`+label+`"`) {
				found = append(found, s.Name)
			}
		}
		return found
	}
}

// bareCounters finds counters that are not inside of a rate or an increase.
func bareCounters(t *testing.T, q target) (found []string) {
	for s, path := range selectors(t, q.Expr) {
		aggregated := slices.ContainsFunc(path, func(n parser.Node) bool {
			call, ok := n.(*parser.Call)
			return ok && slices.Contains([]string{"rate", "irate", "increase"}, call.Func.Name)
		})
		if strings.HasSuffix(s.Name, "_total") && !aggregated {
			found = append(found, s.Name)
		}
	}
	return found
}

func uneditable(_ *testing.T, b board) []finding {
	if b.Editable == nil || *b.Editable {
		return []finding{{"dashboard", "it can be edited"}}
	}
	return nil
}

func noLogQL(_ *testing.T, b board) []finding {
	if strings.Contains(string(b.raw), `"loki"`) {
		return []finding{{"dashboard", "it asks Loki"}}
	}
	return nil
}
