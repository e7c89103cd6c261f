package collector

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/llm-prober/llm_prober/prober"
)

// documented is a metric as docs/metrics.md and the registries tell of it.
type documented struct {
	Type   string
	Labels []string // beyond target and workload, sorted
	Help   string
}

// docs/metrics.md lists every metric that there is, and none that there is not.
func TestDocumentedMetrics(t *testing.T) {
	inCode, inDocs := metricsInCode(t), metricsInDocs(t)
	// The relay registers its metrics on the target's registry when it runs; rows of those that none has
	// registered here are not judged.
	maps.DeleteFunc(inDocs, func(name string, _ documented) bool {
		_, registered := inCode[name]
		return strings.HasPrefix(name, "llm_server_") && !registered
	})
	if len(inDocs) < 35 {
		t.Fatalf("only %d metrics found in docs/metrics.md", len(inDocs))
	}
	if d := cmp.Diff(inCode, inDocs); d != "" {
		t.Errorf("docs/metrics.md differs from the code (-code +docs):\n%s", d)
	}
}

func metricsInCode(t *testing.T) map[string]documented {
	self := NewSelf()
	self.Reloaded(true)
	ts := NewTargets(only{self, "llm_prober_"})
	ts.Set([]*Target{completeTarget()})
	families, err := ts.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]documented)
	for _, f := range families {
		all[f.GetName()] = documented{
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

// metricsInDocs reads the rows | `name` | type | `label` `label` | help | absent |.
func metricsInDocs(t *testing.T) map[string]documented {
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(llm_[a-z_]+)` \\| ([a-z]+) \\| ([^|]*)\\| ([^|]+) \\| [^|]+ \\|$")
	all := make(map[string]documented)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if _, twice := all[m[1]]; twice {
			t.Errorf("%s is documented twice", m[1])
		}
		labels := append([]string{}, strings.Fields(strings.ReplaceAll(m[3], "`", " "))...)
		slices.Sort(labels)
		all[m[1]] = documented{Type: m[2], Labels: labels, Help: m[4]}
	}
	return all
}

// docs/definitions.md explains every reason, doubt and indicator, and names every metric of a probe that is
// measured or judged.
func TestDefinitions(t *testing.T) {
	text, err := os.ReadFile("../docs/definitions.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([a-z_0-9]+)` \\|")
	explained := make(map[string]int)
	ofProbes, _, _ := strings.Cut(string(text), "\n## Statistics of a sweep\n") // what follows is not about metrics
	for _, m := range row.FindAllStringSubmatch(ofProbes, -1) {
		explained[m[1]]++
	}
	want := make(map[string]int) // content_type is both a reason and a doubt
	for _, reason := range prober.Reasons() {
		want[string(reason)]++
	}
	for _, doubt := range prober.SuspectNames() {
		want[doubt]++
	}
	for _, indicator := range []Indicator{IndicatorTTFT, IndicatorDuration, IndicatorSuccess, IndicatorITLMax, IndicatorITLP95} {
		want[string(indicator)]++
	}
	if d := cmp.Diff(want, explained); d != "" {
		t.Errorf("rows of docs/definitions.md (-want +got):\n%s", d)
	}

	known := metricsInCode(t)
	for _, name := range regexp.MustCompile("llm_[a-z_]+").FindAllString(string(text), -1) {
		if _, ok := known[name]; !ok {
			t.Errorf("docs/definitions.md speaks of %s, which does not exist", name)
		}
	}
	for name, m := range known {
		if m.Type == "histogram" && !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/definitions.md does not say what feeds %s", name)
		}
	}
}
