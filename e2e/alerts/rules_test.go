package alerts

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

const (
	recordsFile = "../../alerts/llm_prober_records.yml"
	alertsFile  = "../../alerts/llm_prober_alerts.yml"
	runbooks    = "../../docs/runbooks"
	runbookURL  = "https://github.com/llm-prober/llm_prober/blob/main/docs/runbooks/"
)

// rule is a rule of either kind, as it is in a file.
type rule struct {
	Record        string            `yaml:"record"`
	Alert         string            `yaml:"alert"`
	Expr          string            `yaml:"expr"`
	For           string            `yaml:"for"`
	KeepFiringFor string            `yaml:"keep_firing_for"`
	Labels        map[string]string `yaml:"labels"`
	Annotations   map[string]string `yaml:"annotations"`
}

// row tells apart the rules of one alert.
func (r rule) row() string {
	return r.Alert + r.Labels["long"] + r.Labels["latency"] + r.Labels["scope"]
}

func readRules(t *testing.T, file string) []rule {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var content struct {
		Groups []struct {
			Name     string `yaml:"name"`
			Interval string `yaml:"interval"`
			Rules    []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &content); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var all []rule
	for _, g := range content.Groups {
		if !strings.HasPrefix(g.Name, "llm_prober_") || len(g.Rules) == 0 {
			t.Errorf("%s: group %q has no rules or another's name", file, g.Name)
		}
		all = append(all, g.Rules...)
	}
	return all
}

// metricName matches what may be a metric of ours, or a record over some.
var metricName = regexp.MustCompile(`\b(target\w*:)?llm_\w+(:\w+)?`)

// names are the metrics that an expression or a template names. What stands in quotes in an expression is the value
// of a label; a template is read without its job names, which have no such form.
func names(text string) []string { return metricName.FindAllString(text, -1) }

func TestFormOfAlerts(t *testing.T) {
	for _, r := range readRules(t, alertsFile) {
		t.Run(r.row(), func(t *testing.T) {
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("severity %q", s)
			}
			if _, err := promDuration(r.For); err != nil {
				t.Errorf("for: %v", err)
			}
			for name, value := range r.Labels {
				// A value that changes would make a new alert of each evaluation.
				if strings.Contains(value, "{{") {
					t.Errorf("label %s is a template: %s", name, value)
				}
			}
			for _, name := range []string{"summary", "description"} {
				if !strings.Contains(r.Annotations[name], "{{ $labels.") && r.Alert != "LLMProberAbsent" {
					t.Errorf("%s names nothing of the alert: %q", name, r.Annotations[name])
				}
			}
			if got, want := r.Annotations["runbook_url"], runbookURL+r.Alert+".md"; got != want {
				t.Errorf("runbook_url %s, want %s", got, want)
			}
			// What concerns a prober or many targets has no labels of theirs.
			if by := regexp.MustCompile(` by \((?:cluster, )?job(?:, (?:group|instance))?\)`); strings.Contains(by.ReplaceAllString(r.Expr, ""), " by (") {
				t.Errorf("aggregates by, so labels of targets are lost: %s", r.Expr)
			}
		})
	}
}

// TestRunbooks holds that each alert has a page and each page an alert, and that a page answers what it has to.
func TestRunbooks(t *testing.T) {
	alerts := map[string]bool{}
	for _, r := range readRules(t, alertsFile) {
		alerts[r.Alert] = true
	}
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, file := range files {
		pages = append(pages, strings.TrimSuffix(filepath.Base(file), ".md"))
	}
	if want := slices.Sorted(maps.Keys(alerts)); !slices.Equal(pages, want) {
		t.Errorf("pages\n%v\nalerts\n%v", pages, want)
	}
	table, err := os.ReadFile("../../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(runbooks, page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, heading := range []string{"# " + page + "\n", "\n## What it means\n", "\n## What to look at\n", "\n## What to do\n", "\n## How to silence it\n"} {
			if !strings.Contains("\n"+string(text), heading) {
				t.Errorf("%s.md lacks %q", page, strings.TrimSpace(heading))
			}
		}
		if !strings.Contains(string(table), "runbooks/"+page+".md") {
			t.Errorf("docs/alerts.md does not link to %s.md", page)
		}
	}
}

// TestNamesOfRecords holds that every record that is read is written, and follows level:metric:operations.
func TestNamesOfRecords(t *testing.T) {
	form := regexp.MustCompile(`^target(_workload(_slo)?)?(_instance)?:llm_\w+:\w+$`)
	records := map[string]bool{}
	for _, r := range readRules(t, recordsFile) {
		if !form.MatchString(r.Record) {
			t.Errorf("record %s", r.Record)
		}
		if records[r.Record] {
			t.Errorf("%s is recorded twice", r.Record)
		}
		records[r.Record] = true
	}
	for _, r := range slices.Concat(readRules(t, recordsFile), readRules(t, alertsFile)) {
		for _, name := range recordsOf(r) {
			if !records[name] {
				t.Errorf("%s%s reads %s, which is not recorded", r.Alert, r.Record, name)
			}
		}
	}
}

// recordsOf are the records that a rule reads. Templates fill the window in, so a name may be all but that.
func recordsOf(r rule) (found []string) {
	for _, text := range append(slices.Collect(maps.Values(r.Annotations)), r.Expr) {
		for _, name := range names(text) {
			if strings.Contains(name, ":") {
				found = append(found, name)
			}
		}
	}
	return found
}

// TestWindows holds that the records of the eight windows differ in nothing but the window.
func TestWindows(t *testing.T) {
	byName := map[string]string{}
	for _, r := range readRules(t, recordsFile) {
		byName[r.Record] = r.Expr
	}
	for window, seconds := range map[string]int{"5m": 300, "30m": 1800, "2h": 7200, "6h": 21600, "1d": 86400, "3d": 259200, "30d": 2592000} {
		floor := fmt.Sprint(seconds / 4)
		if window == "30d" {
			floor = fmt.Sprint(seconds) // a budget is of the whole window
		}
		for _, record := range []string{"slo_bad_events:increase", "slo_events:increase", "slo_burn_rate:ratio"} {
			name := "target_workload_slo:llm_probe_" + record
			want := regexp.MustCompile(`\b900\b`).ReplaceAllString(strings.ReplaceAll(byName[name+"1h"], "1h", window), floor)
			if byName[name+window] != want {
				t.Errorf("%s%s:\n%s\nwant\n%s", name, window, byName[name+window], want)
			}
		}
	}
}

// promDuration reads a duration as Prometheus writes it.
func promDuration(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		d, err := time.ParseDuration(days + "h")
		return 24 * d, err
	}
	return time.ParseDuration(text)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
