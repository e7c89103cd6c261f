package discovery

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/llm-prober/llm_prober/internal/metricdoc"
)

func TestMetrics(t *testing.T) {
	c := NewCollector(func() []Group {
		return []Group{{Name: "a", Members: []Member{{State: Active}, {State: Active}, {State: Invalid}}, Unlisted: 3}, {Name: "b"}}
	})
	const name = "llm_prober_discovered_targets"
	want := `
# HELP llm_prober_discovered_targets Members of a target group: those that are probed (active), and those that are not.
# TYPE llm_prober_discovered_targets gauge
llm_prober_discovered_targets{group="a",state="active"} 2
llm_prober_discovered_targets{group="a",state="dropped"} 0
llm_prober_discovered_targets{group="a",state="invalid"} 1
llm_prober_discovered_targets{group="a",state="over_limit"} 3
llm_prober_discovered_targets{group="b",state="active"} 0
llm_prober_discovered_targets{group="b",state="dropped"} 0
llm_prober_discovered_targets{group="b",state="invalid"} 0
llm_prober_discovered_targets{group="b",state="over_limit"} 0
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(metricdoc.Of(families)[name], metricdoc.Read(t, "../..")[name]); d != "" {
		t.Errorf("docs/metrics.md differs from the code (-code +docs):\n%s", d)
	}
}
