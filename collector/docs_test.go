package collector

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/internal/metricdoc"
	"github.com/llm-prober/llm_prober/prober"
)

// docs/metrics.md lists every metric of probes and of the exporter itself, and none that there is not.
func TestDocumentedMetrics(t *testing.T) {
	inCode, inDocs := metricsInCode(t), metricdoc.Read(t, "..")
	maps.DeleteFunc(inDocs, func(name string, _ metricdoc.Metric) bool { // held by the packages that have them
		return strings.HasPrefix(name, "llm_server_") || name == "llm_prober_discovered_targets"
	})
	if d := cmp.Diff(inCode, inDocs); d != "" {
		t.Errorf("docs/metrics.md differs from the code (-code +docs):\n%s", d)
	}
}

func metricsInCode(t *testing.T) map[string]metricdoc.Metric {
	self := NewSelf()
	self.Reloaded(true)
	ts := NewTargets(only{self, "llm_prober_"})
	ts.Set([]*Target{completeTarget(histogram.Both)})
	families, err := ts.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return metricdoc.Of(families)
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
