package dashboards_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-jsonnet"
)

// TestMixin evaluates the mixin and finds the files in it.
func TestMixin(t *testing.T) {
	text, err := jsonnet.MakeVM().EvaluateAnonymousSnippet("mixin_test.jsonnet", `
		local mixin = import 'mixin.libsonnet';
		{
			titles: { [name]: mixin.grafanaDashboards[name].title for name in std.objectFieldsAll(mixin.grafanaDashboards) },
			alerts: std.length(mixin.prometheusAlerts.groups),
			records: std.length(mixin.prometheusRules.groups),
		}`)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Titles          map[string]string
		Alerts, Records int
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, b := range boards(t) {
		want = append(want, b.Title)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Values(got.Titles))); diff != "" {
		t.Errorf("dashboards of the mixin (-files +mixin):\n%s", diff)
	}
	if got.Alerts == 0 || got.Records == 0 {
		t.Errorf("the mixin has %d groups of alerts and %d of records", got.Alerts, got.Records)
	}
}
