package alerts

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

// inhibition is an inhibit rule of the example's Alertmanager.
type inhibition struct {
	Source []string `yaml:"source_matchers"`
	Target []string `yaml:"target_matchers"`
	Equal  []string `yaml:"equal"`
}

// matches tells whether the matchers of one side take an alert. Only = and =~ are in use.
func matches(t *testing.T, matchers []string, r rule) bool {
	t.Helper()
	form := regexp.MustCompile(`^(\w+)(=~?)"([^"]*)"$`)
	for _, m := range matchers {
		parts := form.FindStringSubmatch(m)
		if parts == nil {
			t.Fatalf("matcher %q", m)
		}
		value := r.Labels[parts[1]]
		if parts[1] == "alertname" {
			value = r.Alert
		}
		pattern := regexp.QuoteMeta(parts[3])
		if parts[2] == "=~" {
			pattern = parts[3]
		}
		if !regexp.MustCompile("^(?:" + pattern + ")$").MatchString(value) {
			return false
		}
	}
	return true
}

// outlives is how long an alert may go on firing after all is well: what its windows remember, then keep_firing_for.
// A page about a budget is not begun by what an outage left in its short window; see
// TestNoPageAboutTheBudgetOfAnOutage.
func outlives(t *testing.T, r rule) time.Duration {
	t.Helper()
	memory := map[string]time.Duration{
		"LLMServerPartialHang": 5 * time.Minute, // the last third of a quarter of an hour
		"LLMServerHang":        0,               // llm_probe_unanswered_seconds falls with the first token
		"LLMServerOutage":      0,
		"LLMFleetOutage":       0,
	}
	m, known := memory[r.Alert]
	if !known {
		t.Fatalf("nobody says what %s remembers", r.Alert)
	}
	return m + duration(t, r.KeepFiringFor)
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	if text == "" {
		return 0
	}
	d, err := promDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestInhibitionOutlastsWhatItHolds holds that an alert that holds a page back is kept for longer than that page goes
// on once all is well: else the page is sent after the recovery.
func TestInhibitionOutlastsWhatItHolds(t *testing.T) {
	var example struct {
		Rules []inhibition `yaml:"inhibit_rules"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../examples/alertmanager.yml")), &example); err != nil {
		t.Fatal(err)
	}
	rules, pairs := readRules(t, alertsFile), 0
	for _, inhibit := range example.Rules {
		for _, source := range rules {
			for _, target := range rules {
				if !matches(t, inhibit.Source, source) || !matches(t, inhibit.Target, target) ||
					target.Labels["severity"] != "critical" || target.Alert == "LLMErrorBudgetBurn" {
					continue
				}
				pairs++
				keep := duration(t, source.KeepFiringFor)
				if source.row() == target.row() {
					t.Errorf("%s holds itself back", source.row())
				}
				// Both end at about the same time; Fleet and Isolated end when most targets are back, the last later.
				slack := time.Duration(0)
				if strings.HasPrefix(source.Alert, "LLMServer") {
					slack = outlives(t, target) - duration(t, target.KeepFiringFor) + time.Minute // evaluations, messages
				}
				if least := duration(t, target.KeepFiringFor) + slack; keep < least {
					t.Errorf("%s is kept for %v, but %s, which it holds back, goes on for %v", source.row(), keep, target.row(), least)
				}
			}
		}
	}
	if pairs < 8 {
		t.Errorf("only %d pages are held back by anything", pairs)
	}
}

// TestNoPageAboutTheBudgetOfAnOutage holds that a page about a budget looks back for outages that were told as far as
// its short window reaches: the outage's own keep_firing_for and the range over ALERTS together.
func TestNoPageAboutTheBudgetOfAnOutage(t *testing.T) {
	rules := readRules(t, alertsFile)
	kept := map[string]time.Duration{}
	for _, r := range rules {
		kept[r.Alert] = duration(t, r.KeepFiringFor)
	}
	told := regexp.MustCompile(`ALERTS\{alertname=~"LLMServer\(([A-Za-z|]+)\)", alertstate="firing"\}\[(\w+)\]`)
	fresh := regexp.MustCompile(`ALERTS\{alertname="LLMServerNeverWorked"\}\[(\w+)\]`)
	rows := 0
	for _, r := range rules {
		if r.Alert != "LLMErrorBudgetBurn" || r.Labels["severity"] != "critical" {
			continue
		}
		rows++
		short := duration(t, r.Labels["short"])
		back, ofNew := told.FindStringSubmatch(r.Expr), fresh.FindStringSubmatch(r.Expr)
		if back == nil || ofNew == nil {
			t.Errorf("%s does not look back for outages: %s", r.row(), r.Expr)
			continue
		}
		for _, name := range strings.Split(back[1], "|") {
			keep, known := kept["LLMServer"+name]
			if reach := keep + duration(t, back[2]); !known || reach < short {
				t.Errorf("%s looks back for LLMServer%s by %v, but remembers %v", r.row(), name, reach, short)
			}
		}
		if reach := duration(t, ofNew[1]); reach < short { // it may only have been pending, so nothing keeps it
			t.Errorf("%s looks back for new servers by %v, but remembers %v", r.row(), reach, short)
		}
	}
	if rows != 3 {
		t.Errorf("%d rows page", rows)
	}
}
