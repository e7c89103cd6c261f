package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

const ofOneSLO = "{{slo}} · " + series

// burn is a pair of windows that an alert reads, and the burn rate at which it fires: of the long window, once the
// short one agrees that it still goes on. The SRE workbook's numbers for a budget of 30 days.
type burn struct {
	long, short string
	rate        float64
	spends      string
}

// slo tells how much may still go wrong.
func slo() *classic {
	d := empty("slo", "SLO", "Does it hold its objectives? How much budget is left, how fast is it spent, and which minutes spent it.", "1d").
		WithVariable(listed("slo", "SLO", `job=~"$job", target=~"$target"`).Query(words(slosOfTarget)).Definition(slosOfTarget).Multi(true)).
		Annotation(event("Firing alert", "red", `ALERTS{alertstate="firing", alertname=~"LLM.+", job=~"$job", target=~"$target", slo=~"$slo"}`, "{{alertname}} {{severity}} {{target}} {{workload}} {{slo}}")).
		WithPanel(standing()).
		WithPanel(lines(about{
			title: "Error budget left", unit: units.PercentUnit, width: 24, height: 8,
			what: "Part of the budget of the last 30 days that is not spent. From the recording rules; it needs 30 days of retention: with less, the bad probes of days that are gone are forgotten.",
			good: "above zero, and falling no faster than it comes back. Below zero the objective is missed: what matters more than new features is stability.",
		}, query{expr: highest(budgetLeft, ofSLORecords, bySLO), legend: ofOneSLO}).
			Max(1).
			Thresholds(steps("red", from(0, "orange"), from(0.25, "green"))).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))).
		WithRow(row("How fast is the budget spent? Above its dashed line, and in both windows, an alert fires"))
	for _, b := range []burn{
		{"1h", "5m", 14.4, "2 % of the budget in an hour; it pages"},
		{"6h", "30m", 6, "5 % of the budget in six hours; it pages"},
		{"1d", "2h", 3, "10 % of the budget in a day; it opens a ticket"},
		{"3d", "6h", 1, "10 % of the budget in three days; it opens a ticket"},
	} {
		d = d.WithPanel(burnRates(b))
	}
	return d.
		WithRow(row("Which minutes spent it?")).
		WithPanel(history(about{
			title: "Bad probes over time", unit: units.PercentUnit, width: 16, height: 9,
			what: "Part of the probes that each SLO judged to be bad, as they came.",
			good: "green, with single specks. A long bar is one incident; specks at the same time on several targets have one cause.",
		}, query{expr: per(increase("llm_probe_slo_bad_events_total", ofSLO, bySLO, scrapes), increase("llm_probe_slo_events_total", ofSLO, bySLO, scrapes)), legend: ofOneSLO}).
			Thresholds(steps("green", from(0.001, "yellow"), from(0.5, "orange"), from(0.99, "red")))).
		WithPanel(gauges(about{
			title: "Bad minutes", unit: units.Short, width: 8, height: 9,
			what: "Minutes of the dashboard's time range in which at least one probe was bad.",
			good: "few, and not in a row.",
		}, query{expr: badMinutes(), legend: ofOneSLO}).
			Min(0).
			Decimals(0).
			Thresholds(steps("green", from(1, "yellow"), from(10, "orange"), from(60, "red"))))
}

const slosOfTarget = `label_values(llm_probe_slo_objective_ratio{job=~"$job", target=~"$target"}, slo)`

// standing is one row an SLO, the one with the least budget on top.
func standing() *table.PanelBuilder {
	record := func(name string) string { return highest(name, ofSLORecords, bySLO) }
	burning := func() []dashboard.DynamicConfigValue {
		return append(colored("transparent", from(1, "yellow"), from(6, "orange"), from(14.4, "red")), property("decimals", 2))
	}
	share := func(decimals int) []dashboard.DynamicConfigValue {
		return []dashboard.DynamicConfigValue{unit(units.PercentUnit), property("decimals", decimals)}
	}
	return rows(
		about{
			title: "Where each SLO stands", unit: units.Short, width: 24, height: 9,
			what: "Probes and bad: in $window. Burn rate 1 spends exactly the budget. Burn rate of 3 days and budget left are from the recording rules; known is the part of the 30 days that there is data for, below which the budget left is a guess.",
			good: "burn rates below 1 and a budget above zero.",
		},
		[]column{
			{"Target", "target", linked("What is slow at ${__value.text}", link("target", "var-target=${__value.text}"))},
			{"Workload", "workload", nil},
			{"SLO", "slo", nil},
		},
		column{"Objective", highest("llm_probe_slo_objective_ratio", ofSLO, bySLO), share(2)},
		column{"Threshold", highest("llm_probe_slo_threshold_seconds", ofSLO, bySLO), []dashboard.DynamicConfigValue{unit(units.Seconds)}},
		column{"Probes", increase("llm_probe_slo_events_total", ofSLO, bySLO, window), []dashboard.DynamicConfigValue{property("decimals", 0)}},
		column{"Bad", increase("llm_probe_slo_bad_events_total", ofSLO, bySLO, window), []dashboard.DynamicConfigValue{property("decimals", 0)}},
		column{"Burn rate 1h", burnRate(ofSLO, "1h"), burning()},
		column{"Burn rate 6h", burnRate(ofSLO, "6h"), burning()},
		column{"Burn rate 3d", record(recordedBurn + "3d"), burning()},
		column{"Budget left", record(budgetLeft), append(colored("red", from(0, "orange"), from(0.25, "green")), share(1)...)},
		column{"Known", record(budgetCoverage), share(0)},
	).SortBy([]cog.Builder[common.TableSortByFieldState]{common.NewTableSortByFieldStateBuilder().DisplayName("Budget left").Desc(false)})
}

// burnRates are the two windows of an alert and its line. The slow ones come from the recording rules.
func burnRates(b burn) *timeseries.PanelBuilder {
	read := func(w string) string { return burnRate(ofSLO, w) }
	origin := ""
	if b.rate < 6 {
		read = func(w string) string { return highest(recordedBurn+w, ofSLORecords, bySLO) }
		origin = " From the recording rules, which know how young a prober is."
	}
	return lines(about{
		title: fmt.Sprintf("Burn rate over %s and %s, line at %g", b.long, b.short, b.rate), unit: "x", width: 12, height: 8,
		what: fmt.Sprintf("How many times faster than allowed the budget is spent: over %s, and dotted over %s. Both above %g: %s.%s", b.long, b.short, b.rate, b.spends, origin),
		good: "below 1, which is what the objective allows, and far below the line.",
	},
		query{expr: read(b.long), legend: b.long + " · " + ofOneSLO},
		query{expr: read(b.short), legend: b.short + " · " + ofOneSLO},
	).
		OverrideByRegexp("/^"+b.short+"/", dashed()).
		AxisSoftMax(b.rate * 1.2).
		Thresholds(steps("green", from(b.rate, "red"))).
		ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed)).
		ColorScheme(dashboard.NewFieldColorBuilder().Mode(dashboard.FieldColorModeIdPaletteClassic))
}

// badMinutes counts the minutes in which the counter of bad probes rose. The difference to a minute ago needs one
// sample in five minutes; an increase over a minute would need two in one.
func badMinutes() string {
	const bad = "llm_probe_slo_bad_events_total"
	return fmt.Sprintf("count_over_time((%s\n> %s)[$__range:1m]) or %s * 0",
		sum(bad, ofSLO, bySLO, ""), sum(bad, ofSLO, bySLO, " offset 1m"), highest("llm_probe_slo_objective_ratio", ofSLO, bySLO))
}

func sum(metric, of, by, offset string) string {
	return fmt.Sprintf("sum by (%s) (%s{%s}%s)", by, metric, of, offset)
}
