// Package metricdoc reads docs/metrics.md, so that tests can hold it against the metrics that there are.
package metricdoc

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// Metric is a metric as docs/metrics.md and the registries tell of it.
type Metric struct {
	Type   string
	Labels []string // beyond target and workload, sorted
	Help   string
}

// Read reads the rows | `name` | type | `label` `label` | help | absent | of the page. Root is the repository's.
func Read(t testing.TB, root string) map[string]Metric {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(llm_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*)\\| ([^|]+) \\| [^|]+ \\|$")
	all := make(map[string]Metric)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := all[m[1]]; twice {
			t.Errorf("%s is documented twice", m[1])
		}
		labels := append([]string{}, strings.Fields(strings.ReplaceAll(m[3], "`", " "))...)
		slices.Sort(labels)
		all[m[1]] = Metric{Type: m[2], Labels: labels, Help: m[4]}
	}
	if len(all) < 35 {
		t.Fatalf("only %d metrics found in docs/metrics.md", len(all))
	}
	return all
}

// Of tells of gathered metrics what the page tells of them.
func Of(families []*dto.MetricFamily) map[string]Metric {
	all := make(map[string]Metric)
	for _, f := range families {
		all[f.GetName()] = Metric{
			Type:   strings.ToLower(f.GetType().String()),
			Labels: ownLabels(f.GetMetric()[0]),
			Help:   f.GetHelp(),
		}
	}
	return all
}

func ownLabels(m *dto.Metric) []string {
	labels := []string{}
	for _, l := range m.GetLabel() {
		if l.GetName() != "target" && l.GetName() != "workload" {
			labels = append(labels, l.GetName())
		}
	}
	slices.Sort(labels)
	return labels
}
