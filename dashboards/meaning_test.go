package dashboards_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// labels is a set of label names. A nil one may hold anything.
type labels map[string]bool

func set(names ...string) labels {
	l := labels{}
	for _, name := range names {
		l[name] = true
	}
	return l
}

func (l labels) String() string { return strings.Join(slices.Sorted(maps.Keys(l)), ", ") }

// metrics are the labels of each series name that exists: the metrics of docs/metrics.md, which the code is held
// against, with the suffixes of their types; what the rules record; and what Prometheus and its client library add.
type metrics map[string]labels

var (
	documented = regexp.MustCompile("(?m)^\\| (`llm_.*?`.*?) \\| (\\w+) \\| (.*?) \\|")
	ticked     = regexp.MustCompile("`(\\w+)`")
	recorded   = regexp.MustCompile(`(?m)^\s*- record: (\S+)$`)
)

func knownMetrics(t *testing.T) metrics {
	t.Helper()
	known := metrics{}
	for _, row := range documented.FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		name := ticked.FindStringSubmatch(row[1])[1]
		own := set("job", "instance")
		switch {
		case strings.HasPrefix(name, "llm_probe_"):
			own["target"], own["workload"] = true, true
		case strings.HasPrefix(name, "llm_server_"):
			own["target"] = true
		}
		for _, label := range ticked.FindAllStringSubmatch(row[3], -1) {
			own[label[1]] = true
		}
		known.add(name, row[2], own)
	}
	if len(known) < 60 {
		t.Fatalf("docs/metrics.md names %d series only: its form has changed", len(known))
	}
	for _, match := range recorded.FindAllStringSubmatch(read(t, "../alerts/llm_prober_records.yml"), -1) {
		own := set("job", "target", "workload")
		if strings.HasPrefix(match[1], "target_workload_slo:") {
			own["slo"] = true
		}
		known[match[1]] = own
	}
	for _, name := range []string{
		"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "process_start_time_seconds",
		"go_goroutines", "go_memstats_heap_inuse_bytes", "up", "scrape_duration_seconds",
	} {
		known[name] = set("job", "instance")
	}
	known["ALERTS"] = nil
	return known
}

func (m metrics) add(name, kind string, own labels) {
	switch kind {
	case "histogram":
		bucket := maps.Clone(own)
		bucket["le"] = true
		m[name], m[name+"_bucket"], m[name+"_sum"], m[name+"_count"] = own, bucket, own, own
	case "summary":
		m[name+"_sum"], m[name+"_count"] = own, own
	default:
		m[name] = own
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExpressions works out which labels the answer to each expression has. It fails where an operation's sides have
// different ones, where a label or a metric does not exist, and where a legend, a table or an annotation's text
// names a label that the answer does not have.
func TestExpressions(t *testing.T) {
	known := knownMetrics(t)
	for _, b := range boards(t) {
		for _, p := range b.charts() {
			for _, q := range p.Targets {
				t.Run(fmt.Sprintf("%s/%s/%s", b.file, p.Title, q.RefID), func(t *testing.T) {
					answer, err := known.answer(parse(t, q.Expr))
					if err != nil {
						t.Fatalf("%v\n%s", err, q.Expr)
					}
					for _, name := range mentioned(q.LegendFormat) {
						if !answer[name] {
							t.Errorf("the legend %q names %s, the answer has %v", q.LegendFormat, name, answer)
						}
					}
					if p.Type == "table" {
						for name := range p.Transformations[1].Options.RenameByName {
							if !strings.HasPrefix(name, "Value") && !answer[name] {
								t.Errorf("a column shows %s, the answer has %v", name, answer)
							}
						}
					}
				})
			}
		}
		for _, a := range b.Annotations.List {
			t.Run(fmt.Sprintf("%s/%s", b.file, a.Name), func(t *testing.T) {
				answer, err := known.answer(parse(t, a.Expr))
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range mentioned(a.TextFormat) {
					if answer != nil && !answer[name] {
						t.Errorf("the text %q names %s, the answer has %v", a.TextFormat, name, answer)
					}
				}
			})
		}
	}
}

var mention = regexp.MustCompile(`\{\{(\w+)\}\}`)

func mentioned(format string) (names []string) {
	for _, match := range mention.FindAllStringSubmatch(format, -1) {
		names = append(names, match[1])
	}
	return names
}

// answer is the labels of an expression's answer.
func (m metrics) answer(expr parser.Expr) (labels, error) {
	switch e := expr.(type) {
	case *parser.ParenExpr:
		return m.answer(e.Expr)
	case *parser.MatrixSelector:
		return m.answer(e.VectorSelector)
	case *parser.SubqueryExpr:
		return m.answer(e.Expr)
	case *parser.NumberLiteral:
		return set(), nil
	case *parser.VectorSelector:
		return m.selected(e)
	case *parser.AggregateExpr:
		return m.aggregated(e)
	case *parser.Call:
		return m.called(e)
	case *parser.BinaryExpr:
		return m.joined(e)
	default:
		return nil, fmt.Errorf("%T is not expected in a dashboard", expr)
	}
}

func (m metrics) selected(s *parser.VectorSelector) (labels, error) {
	own, ok := m[s.Name]
	if !ok {
		return nil, fmt.Errorf("no metric %s", s.Name)
	}
	for _, matcher := range s.LabelMatchers {
		if own != nil && matcher.Name != "__name__" && !own[matcher.Name] {
			return nil, fmt.Errorf("%s has no label %s", s.Name, matcher.Name)
		}
	}
	return own, nil
}

func (m metrics) aggregated(a *parser.AggregateExpr) (labels, error) {
	inner, err := m.answer(a.Expr)
	if err != nil {
		return nil, err
	}
	if a.Without {
		return nil, fmt.Errorf("%v keeps labels that nobody knows here", a)
	}
	for _, name := range a.Grouping {
		if !inner[name] {
			return nil, fmt.Errorf("%v groups by %s of %v", a, name, inner)
		}
	}
	return set(a.Grouping...), nil
}

func (m metrics) called(c *parser.Call) (labels, error) {
	if len(c.Args) == 0 || c.Func.Name == "vector" {
		return set(), nil
	}
	// The only argument that is no number is the one whose labels stay.
	i := slices.IndexFunc(c.Args, func(e parser.Expr) bool { return e.Type() != parser.ValueTypeScalar })
	inner, err := m.answer(c.Args[i])
	if err != nil {
		return nil, err
	}
	if c.Func.Name == "histogram_quantile" {
		inner = maps.Clone(inner)
		delete(inner, "le")
	}
	return inner, nil
}

func (m metrics) joined(b *parser.BinaryExpr) (labels, error) {
	left, err := m.answer(b.LHS)
	if err != nil {
		return nil, err
	}
	right, err := m.answer(b.RHS)
	if err != nil {
		return nil, err
	}
	match := b.VectorMatching
	switch {
	case b.RHS.Type() == parser.ValueTypeScalar:
		return left, nil
	case b.LHS.Type() == parser.ValueTypeScalar:
		return right, nil
	case !match.On && maps.Equal(left, right):
		return left, nil
	case !match.On:
		return nil, fmt.Errorf("%s has %v on its left and %v on its right", b.Op, left, right)
	}
	for _, name := range match.MatchingLabels {
		if !left[name] || !right[name] {
			return nil, fmt.Errorf("%s on (%s): the left has %v, the right %v", b.Op, name, left, right)
		}
	}
	switch {
	case b.Op == parser.LOR:
		either := maps.Clone(left)
		maps.Copy(either, right)
		return either, nil
	case match.Card == parser.CardOneToOne && !b.Op.IsComparisonOperator() && len(match.MatchingLabels) != max(len(left), len(right)):
		return nil, fmt.Errorf("%s on (%v): %v and %v are not told apart by these", b.Op, match.MatchingLabels, left, right)
	default:
		return left, nil
	}
}

// TestAnswerFindsMistakes is the test of the test.
func TestAnswerFindsMistakes(t *testing.T) {
	known := metrics{"a": set("target", "reason"), "b": set("target", "instance"), "c": set("target")}
	for expr, want := range map[string]string{
		`a / b`: "on its left",
		`sum by (target) (a) / sum by (target, instance) (b)`:  "on its left",
		`sum by (target) (a) or sum by (target, instance) (b)`: "on its left",
		`sum by (pod) (a)`:                      "groups by pod",
		`a{pod="x"}`:                            "no label pod",
		`d`:                                     "no metric d",
		`sum without (reason) (a)`:              "nobody knows",
		`a / on (target) b`:                     "not told apart",
		`sum by (target) (a) and on (reason) a`: "on (reason)",
		`sum by (target) (a) / sum by (target) (b)`: "",
		`a / on (target) group_left () c`:           "",
	} {
		_, err := known.answer(parse(t, expr))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", expr, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got error %v, want one with %q", expr, err, want)
		}
	}
}

// TestReplicasAreJoined: two probers may watch the same target, and a prober may come back at another address. What
// they say of a target is never kept apart by instance, and what they relay of a server is not added up.
func TestReplicasAreJoined(t *testing.T) {
	for _, b := range boards(t) {
		for _, p := range b.charts() {
			for _, q := range p.Targets {
				for s, path := range selectors(t, q.Expr) {
					ofServer := strings.HasPrefix(s.Name, "llm_server_")
					if !ofServer && !strings.HasPrefix(s.Name, "llm_probe_") {
						continue
					}
					inner, ok := innermost(path)
					if !ok {
						t.Errorf("%s, %s %s: %s is not aggregated", b.file, p.Title, q.RefID, s.Name)
						continue
					}
					if slices.Contains(inner.Grouping, "instance") {
						t.Errorf("%s, %s %s: %s is grouped by instance", b.file, p.Title, q.RefID, s.Name)
					}
					if ofServer && inner.Op == parser.SUM && strings.HasSuffix(s.Name, "_tokens_total") {
						t.Errorf("%s, %s %s: %s is added up over probers", b.file, p.Title, q.RefID, s.Name)
					}
				}
			}
		}
	}
}

// innermost is the aggregation that is nearest to a selector.
func innermost(path []parser.Node) (*parser.AggregateExpr, bool) {
	for _, node := range slices.Backward(path) {
		if a, ok := node.(*parser.AggregateExpr); ok {
			return a, true
		}
	}
	return nil, false
}

// TestEveryMetricIsUsed: a metric that no panel and no rule reads is cost without use.
func TestEveryMetricIsUsed(t *testing.T) {
	var text strings.Builder
	for _, b := range boards(t) {
		text.Write(b.raw)
	}
	for _, path := range []string{"../alerts/llm_prober_alerts.yml", "../alerts/llm_prober_records.yml"} {
		text.WriteString(read(t, path))
	}
	for _, row := range documented.FindAllStringSubmatch(read(t, "../docs/metrics.md"), -1) {
		name := ticked.FindStringSubmatch(row[1])[1]
		if !regexp.MustCompile(`\b` + name + `(_bucket|_sum|_count)?\b`).MatchString(text.String()) {
			t.Errorf("nothing reads %s", name)
		}
	}
}
