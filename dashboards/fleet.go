package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// fleet has one row a target, the worst on top.
func fleet() *classic {
	return empty("fleet", "Fleet", "Every target in one row, sorted by trouble. Click a target for what is slow there and where the time goes.", "6h").
		WithPanel(tile(about{
			title: "Targets", unit: units.Short, width: 6, height: 4,
			what: "How many targets are probed.",
			good: "as many as the configuration names. One that went missing has no row below.",
		}, query{expr: "count(" + highest(describes, ofWorkload, byTarget) + ")", legend: "targets"})).
		WithPanel(tile(about{
			title: "Down or silent", unit: units.Short, width: 6, height: 4,
			what: fmt.Sprintf("Targets whose last %d probes failed, or where a probe waits for a token longer than 10 s and longer than the TTFT SLO allows.", failuresOfOutage),
			good: "0.",
		}, query{expr: fmt.Sprintf("count(%s >= %d) or vector(0)", quoted(state(ofWorkload)), silent), legend: "targets"}).
			Thresholds(steps("green", from(1, "red")))).
		WithPanel(tile(about{
			title: "Failed probes", unit: units.PercentUnit, width: 6, height: 4,
			what: "Part of all probes in $window that failed, over all targets.",
			good: "well under the part that the success SLO allows; a failure now and then is normal.",
		}, query{
			expr:   per(totalIncrease("llm_probe_request_failures_total"), totalIncrease("llm_probe_requests_total")),
			legend: "failed",
		}).Thresholds(steps("green", from(0.005, "orange"), from(0.05, "red")))).
		WithPanel(tile(about{
			title: "Output of all servers", unit: "tok/s", width: 6, height: 4,
			what: "Tokens per second that all servers generate for all their users, by their own count.",
			good: "it follows the demand. A fall while requests wait is trouble; a fall without a queue is a quiet hour.",
		}, query{expr: "sum(" + serverRate("llm_server_generation_tokens_total") + ")", legend: "output"}).Decimals(0)).
		WithPanel(troubles()).
		WithPanel(history(about{
			title: "States", unit: units.Short, width: 24, height: 7,
			what: "Each target's state over time. Burning: an SLO's budget was spent faster than it comes in, over $window.",
			good: "all green. The same change of colour on several targets at once points at what they share: network, gateway, or this prober.",
		}, query{expr: state(ofWorkload), legend: "{{target}}"}).
			Mappings(states()).
			Thresholds(steps("green", from(burning, "yellow"), from(failing, "orange"), from(silent, "red")))).
		WithPanel(lines(about{
			title: "TTFT, median", unit: units.Seconds, width: 12, height: 8,
			what: "Median time to first token of each target and workload over $window.",
			good: "flat and parallel lines. A line that leaves the others is one server's own affair.",
		}, query{expr: quantile(0.5, ttft, ofWorkload, byWorkload, window), legend: "{{target}} / {{workload}}"})).
		WithPanel(lines(about{
			title: "ITL, median", unit: units.Seconds, width: 12, height: 8,
			what: "Median gap between two tokens of each target and workload over $window.",
			good: "flat. It rises with the number of requests that a server works on at once; under 50 ms reads faster than people do.",
		}, query{expr: quantile(0.5, itl, ofWorkload, byWorkload, window), legend: "{{target}} / {{workload}}"}))
}

func totalIncrease(metric string) string {
	return fmt.Sprintf("sum(increase(%s{%s}[%s]))", metric, ofWorkload, window)
}

// troubles is the table of the fleet. Two targets in the same state are sorted by how fast they spend their budget:
// that is the fraction of the state's number.
func troubles() *table.PanelBuilder {
	burn := "max by (target) (" + burnRate(ofWorkload, window) + ")"
	sorted := fmt.Sprintf("%s + on (target) (clamp_max(%s, 99) / 100 or on (target) %s * 0)",
		quoted(state(ofWorkload)), burn, highest(describes, ofWorkload, byTarget))
	return rows(
		about{
			title: "Targets, the worst first", unit: units.Short, width: 24, height: 10,
			what: "Probes: over $window. Output and waiting: the server's own numbers, for all its users. Budget left: of the worst SLO, over 30 days; needs the recording rules, and 30 days of data to be exact.",
			good: "every state reads “good”, nothing waits, and every budget is above zero.",
		},
		[]column{{"Target", "target", append(
			linked("What is slow at ${__value.text}, and where the time goes", link("target", "var-target=${__value.text}")),
			property("custom.minWidth", 160),
		)}},
		column{"State", sorted, append(
			colored("green", from(burning, "yellow"), from(failing, "orange"), from(silent, "red")),
			property("mappings", states()),
		)},
		column{"TTFT p50", quantile(0.5, ttft, ofWorkload, byTarget, window), []dashboard.DynamicConfigValue{unit(units.Seconds)}},
		column{"TTFT p95", quantile(0.95, ttft, ofWorkload, byTarget, window), []dashboard.DynamicConfigValue{unit(units.Seconds)}},
		column{"ITL p50", quantile(0.5, itl, ofWorkload, byTarget, window), []dashboard.DynamicConfigValue{unit(units.Seconds)}},
		column{"ITL p95", quantile(0.95, itl, ofWorkload, byTarget, window), []dashboard.DynamicConfigValue{unit(units.Seconds)}},
		column{"Output", serverRate("llm_server_generation_tokens_total"), []dashboard.DynamicConfigValue{unit("tok/s"), property("decimals", 0)}},
		column{"Waiting", serverGauge("llm_server_requests_waiting"), colored("transparent", from(1, "yellow"), from(20, "orange"))},
		column{"Burn rate", burn, append(colored("transparent", from(1, "yellow"), from(6, "orange"), from(14.4, "red")), property("decimals", 1))},
		column{"Budget left", fmt.Sprintf("min by (target) (%s{%s})", budgetLeft, ofWorkloadRecords), append(
			colored("red", from(0, "orange"), from(0.25, "transparent")), unit(units.PercentUnit))},
		column{"Probes", increase("llm_probe_requests_total", ofWorkload, byTarget, window), []dashboard.DynamicConfigValue{property("decimals", 0)}},
		column{"Last success", "time() - " + highest("llm_probe_last_success_timestamp_seconds", ofWorkload, byTarget), []dashboard.DynamicConfigValue{unit(units.Seconds), property("decimals", 0)}},
	).SortBy(sortedBy("State"))
}

func states() []dashboard.ValueMapping {
	return []dashboard.ValueMapping{
		text(good, 0.999, "good", "green", 0),
		text(burning, 1.999, "burning", "yellow", 1),
		text(failing, 2.999, "failing", "orange", 2),
		text(silent, 3.999, "silent", "red", 3),
		text(down, 4.999, "down", "red", 4),
	}
}

func sortedBy(title string) []cog.Builder[common.TableSortByFieldState] {
	return []cog.Builder[common.TableSortByFieldState]{common.NewTableSortByFieldStateBuilder().DisplayName(title).Desc(true)}
}
