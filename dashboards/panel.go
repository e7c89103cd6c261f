package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// about is what every panel has to tell a reader. The good sentence says what a healthy target looks like here.
type about struct {
	title, unit   string
	what, good    string
	width, height uint32
}

// query is one expression of a panel. A legend of "" leaves the naming to Grafana.
type query struct {
	expr, legend string
	exemplars    bool
}

// builder is what the builders of all panel types have in common.
type builder[B any] interface {
	cog.Builder[dashboard.Panel]
	Title(string) B
	Description(string) B
	Datasource(common.DataSourceRef) B
	Unit(string) B
	Span(uint32) B
	Height(uint32) B
	NoValue(string) B
	WithTarget(cog.Builder[variants.Dataquery]) B
}

// described gives a panel its texts, its size and its queries.
func described[B builder[B]](panel B, a about, queries ...cog.Builder[variants.Dataquery]) B {
	panel = panel.Title(a.title).
		Description(a.what + "\n\n**Good:** " + a.good).
		Datasource(source()).
		Unit(a.unit).
		Span(a.width).
		Height(a.height).
		NoValue("no data")
	for _, q := range queries {
		panel = panel.WithTarget(q)
	}
	return panel
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

// dataqueries are the queries of a panel, named A, B, C… in their order.
func dataqueries(queries []query, finish func(*prometheus.DataqueryBuilder) *prometheus.DataqueryBuilder) []cog.Builder[variants.Dataquery] {
	var all []cog.Builder[variants.Dataquery]
	for i, q := range queries {
		b := prometheus.NewDataqueryBuilder().Datasource(source()).RefId(refID(i)).Expr(q.expr).LegendFormat(q.legend)
		if q.exemplars {
			b = b.Exemplar(true)
		}
		all = append(all, finish(b))
	}
	return all
}

func refID(i int) string { return string(rune('A' + i)) }

func overTime(b *prometheus.DataqueryBuilder) *prometheus.DataqueryBuilder { return b.Range() }

func atOnce(b *prometheus.DataqueryBuilder) *prometheus.DataqueryBuilder { return b.Instant() }

func asHeatmap(b *prometheus.DataqueryBuilder) *prometheus.DataqueryBuilder {
	return b.Range().Format(prometheus.PromQueryFormatHeatmap)
}

func asTable(b *prometheus.DataqueryBuilder) *prometheus.DataqueryBuilder {
	return b.Instant().Format(prometheus.PromQueryFormatTable)
}

// lines is a panel of lines over time.
func lines(a about, queries ...query) *timeseries.PanelBuilder {
	return described(timeseries.NewPanelBuilder(), a, dataqueries(queries, overTime)...).
		Min(0).
		LineWidth(1.5).
		FillOpacity(0).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).
			DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).
			Sort(common.SortOrderDescending))
}

// areas is a panel of areas that add up.
func areas(a about, queries ...query) *timeseries.PanelBuilder {
	return lines(a, queries...).
		FillOpacity(60).
		LineWidth(0.5).
		Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
}

// bars is a panel of bars that add up, for things that are counted.
func bars(a about, queries ...query) *timeseries.PanelBuilder {
	return areas(a, queries...).
		DrawStyle(common.GraphDrawStyleBars).
		FillOpacity(80).
		LineWidth(0)
}

// tile is one number and its recent past.
func tile(a about, queries ...query) *stat.PanelBuilder {
	return described(stat.NewPanelBuilder(), a, dataqueries(queries, overTime)...).
		GraphMode(common.BigValueGraphModeArea).
		ColorMode(common.BigValueColorModeValue).
		Orientation(common.VizOrientationAuto).
		ReduceOptions(lastValue())
}

// lastValue takes the last value, also where it is none: a number from before an outage is no number of now.
func lastValue() *common.ReduceDataOptionsBuilder {
	return common.NewReduceDataOptionsBuilder().Calcs([]string{"last"}).Values(false)
}

// gauges is one bar a series.
func gauges(a about, queries ...query) *bargauge.PanelBuilder {
	return described(bargauge.NewPanelBuilder(), a, dataqueries(queries, atOnce)...).
		Orientation(common.VizOrientationHorizontal).
		DisplayMode(common.BarGaugeDisplayModeBasic).
		ReduceOptions(lastValue())
}

// density is a heatmap of a histogram's buckets.
func density(a about, metric, of string) *heatmap.PanelBuilder {
	q := query{expr: buckets(metric, of, scrapes), legend: "{{le}}"}
	return described(heatmap.NewPanelBuilder(), a, dataqueries([]query{q}, asHeatmap)...).
		Calculate(false).
		Color(heatmap.NewHeatmapColorOptionsBuilder().
			Mode(heatmap.HeatmapColorModeScheme).
			Scheme("Spectral").
			Scale(heatmap.HeatmapColorScaleExponential).
			Exponent(0.5).
			Steps(64)).
		FilterValues(heatmap.NewFilterValueRangeBuilder().Le(1e-9)).
		YAxis(heatmap.NewYAxisConfigBuilder().
			Unit(a.unit).
			AxisPlacement(common.AxisPlacementLeft)).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().
			Mode(common.TooltipDisplayModeSingle).
			YHistogram(true)).
		CellGap(1).
		ShowLegend()
}

// history is one line of coloured bars a series: when was it how?
func history(a about, queries ...query) *statetimeline.PanelBuilder {
	return described(statetimeline.NewPanelBuilder(), a, dataqueries(queries, overTime)...).
		ShowValue(common.VisibilityModeNever).
		MergeValues(true).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeSingle).
			Sort(common.SortOrderNone)).
		RowHeight(0.8).
		FillOpacity(80).
		LineWidth(0)
}

// column is one column of a table, with the expression that fills it. Its properties are those of Grafana's fields.
type column struct {
	title, expr string
	properties  []dashboard.DynamicConfigValue
}

// rows is a table with one row for each set of the key labels and one column for each expression.
func rows(a about, keys []column, columns ...column) *table.PanelBuilder {
	var queries []query
	index, names, hidden := map[string]any{}, map[string]any{}, map[string]any{"Time": true}
	for i, key := range keys {
		index[key.expr] = i
		names[key.expr] = key.title
	}
	for i, c := range columns {
		queries = append(queries, query{expr: c.expr})
		value := valueField(i, len(columns))
		index[value] = len(keys) + i
		names[value] = c.title
	}
	panel := described(table.NewPanelBuilder(), a, dataqueries(queries, asTable)...).
		WithTransformation(dashboard.DataTransformerConfig{Id: "merge", Options: map[string]any{}}).
		WithTransformation(dashboard.DataTransformerConfig{Id: "organize", Options: map[string]any{
			"excludeByName": hidden, "indexByName": index, "renameByName": names,
		}}).
		ShowHeader(true).
		Filterable(true)
	for _, c := range append(keys, columns...) {
		if len(c.properties) > 0 {
			panel = panel.OverrideByName(c.title, c.properties)
		}
	}
	return panel
}

// valueField is what Grafana calls the value of the query i of n.
func valueField(i, n int) string {
	if n == 1 {
		return "Value"
	}
	return "Value #" + refID(i)
}

func property(id string, value any) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: id, Value: value}
}

func unit(u string) dashboard.DynamicConfigValue { return property("unit", u) }

// steps are the colours of a value: the first from minus infinity on, each other one from its own value on.
func steps(first string, others ...dashboard.Threshold) *dashboard.ThresholdsConfigBuilder {
	return dashboard.NewThresholdsConfigBuilder().
		Mode(dashboard.ThresholdsModeAbsolute).
		Steps(append([]dashboard.Threshold{{Color: first}}, others...))
}

func from(value float64, color string) dashboard.Threshold {
	return dashboard.Threshold{Value: &value, Color: color}
}

// colored is a cell whose background tells how bad its value is.
func colored(first string, others ...dashboard.Threshold) []dashboard.DynamicConfigValue {
	config, err := steps(first, others...).Build()
	if err != nil { // a builder of constants
		panic(fmt.Sprintf("thresholds: %v", err))
	}
	return []dashboard.DynamicConfigValue{
		property("thresholds", config),
		property("custom.cellOptions", map[string]any{"type": "color-background", "mode": "basic"}),
	}
}

func paint(color string) []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{property("color", map[string]any{"mode": "fixed", "fixedColor": color})}
}

// limit is how a line is drawn that is no measurement but what one is held against.
func limit() []dashboard.DynamicConfigValue {
	return append(paint("red"),
		property("custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{8, 6}}),
		property("custom.lineWidth", 1),
		property("custom.fillOpacity", 0),
		property("custom.stacking", map[string]any{"mode": "none"}))
}

// dashed is how the shorter of two windows is drawn.
func dashed() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{property("custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{3, 3}})}
}

// text shows values from one number up to another as a word.
func text(low, high float64, word, color string, index int) dashboard.ValueMapping {
	return dashboard.ValueMapping{RangeMap: &dashboard.RangeMap{
		Type: dashboard.MappingTypeRangeToText,
		Options: dashboard.DashboardRangeMapOptions{
			From: &low, To: &high,
			Result: dashboard.ValueMappingResult{Text: &word, Color: &color, Index: cog.ToPtr(int32(index))},
		},
	}}
}
