package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const (
	tag = "llm-prober"

	// schemaVersion is lower than what the SDK writes: Grafana migrates an older one up when it loads it, from
	// Grafana 10 on, and migrates nothing down.
	schemaVersion = 39

	// describes is the metric that every target has from the start, for the variables to list.
	describes = "llm_probe_interval_seconds"
)

// classic is a dashboard in the form that every Grafana since 10 imports. The SDK prefers the newest form, which only
// Grafana 13 knows.
//
//lint:ignore SA1019 on purpose
type classic = dashboard.DashboardBuilder

// Files are the committed files by name: the JSON of each dashboard.
func Files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, build := range map[string]func() *classic{
		"fleet.json":  fleet,
		"target.json": target,
		"slo.json":    slo,
		"prober.json": prober,
	} {
		d, err := build().Build()
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", name, err)
		}
		if files[name], err = encode(d); err != nil {
			return nil, fmt.Errorf("encoding %s: %w", name, err)
		}
	}
	return files, nil
}

// encode adds what the SDK does not set, takes away that it hides links and switches of annotations in a menu, and
// leaves < and > readable.
//
//lint:ignore SA1019 the type that a classic dashboard is built to
func encode(d dashboard.Dashboard) ([]byte, error) {
	d.SchemaVersion = schemaVersion
	for i, p := range d.Panels {
		id := uint32(i + 1)
		if p.RowPanel != nil {
			p.RowPanel.Id = id
		} else {
			p.Panel.Id = &id
		}
	}
	for i := range d.Links {
		d.Links[i].Placement = nil
	}
	for i := range d.Annotations.List {
		d.Annotations.List[i].Placement = nil
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(d)
	return b.Bytes(), err
}

// uid is the stable address of a dashboard.
func uid(name string) string { return tag + "-" + name }

// empty is a dashboard without panels: its variables, its links and what it says of itself.
func empty(name, title, description, since string) *classic {
	//lint:ignore SA1019 the constructor of a classic dashboard
	return dashboard.NewDashboardBuilder("LLM prober / "+title).
		Uid(uid(name)).
		Description(description).
		Tags([]string{tag}).
		Readonly().
		Timezone("browser").
		Time("now-"+since, "now").
		Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Link(dashboard.NewDashboardLinkBuilder("LLM prober").
			Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{tag}).
			IncludeVars(true).
			KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").
			Label("Data source").
			Type("prometheus")).
		WithVariable(listed("job", "Job", "").Multi(true)).
		WithVariable(listed("instance", "Instance", `job=~"$job"`).Multi(true)).
		WithVariable(listed("target", "Target", `job=~"$job"`)).
		WithVariable(listed("workload", "Workload", `job=~"$job", target=~"$target"`).Multi(true)).
		WithVariable(dashboard.NewCustomVariableBuilder("window").
			Label("Window").
			Description("What a probe's number is taken over. A p95 wants 100 probes and more, a p99 a thousand.").
			Values(words("15m,1h,6h,1d")).
			Options([]dashboard.VariableOption{option("15m", false), option("1h", true), option("6h", false), option("1d", false)}).
			Current(option("1h", true)))
}

// listed is a variable with the values that one label of our own metric has.
func listed(name, label, of string) *dashboard.QueryVariableBuilder {
	q := fmt.Sprintf("label_values(%s, %s)", strings.TrimSuffix(describes+"{"+of+"}", "{}"), name)
	return dashboard.NewQueryVariableBuilder(name).
		Label(label).
		Datasource(source()).
		Query(words(q)).
		Definition(q).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortNaturalAsc).
		IncludeAll(true).
		AllValue(".+").
		Current(dashboard.VariableOption{
			Selected: cog.ToPtr(true),
			Text:     dashboard.StringOrArrayOfString{String: cog.ToPtr("All")},
			Value:    dashboard.StringOrArrayOfString{String: cog.ToPtr("$__all")},
		})
}

func words(s string) dashboard.StringOrMap { return dashboard.StringOrMap{String: &s} }

func option(value string, selected bool) dashboard.VariableOption {
	s := dashboard.StringOrArrayOfString{String: &value}
	return dashboard.VariableOption{Selected: &selected, Text: s, Value: s}
}

// row is a heading.
func row(title string) *dashboard.RowBuilder { return dashboard.NewRowBuilder(title) }

// link leads to another dashboard and takes the variables along that the reader did not choose by the click.
func link(name, query string) string {
	return fmt.Sprintf("/d/%s?%s&${datasource:queryparam}&${job:queryparam}&${instance:queryparam}&${window:queryparam}&${__url_time_range}", uid(name), query)
}

// linked makes the cells of a column links to another dashboard, for the target in the same row.
func linked(title, url string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{property("links", []map[string]any{{"title": title, "url": url}})}
}

// event marks the times at which an expression has a value.
func event(name, color, expr, text string) *dashboard.AnnotationQueryBuilder {
	return dashboard.NewAnnotationQueryBuilder().
		Name(name).
		Datasource(source()).
		Enable(true).
		IconColor(color).
		Expr(expr).
		TitleFormat(name).
		TextFormat(text).
		Step("60s")
}

// moment marks the time, in milliseconds, that the values of an expression are.
func moment(name, color, expr, text string) *dashboard.AnnotationQueryBuilder {
	return event(name, color, expr, text).UseValueForTime(true)
}
