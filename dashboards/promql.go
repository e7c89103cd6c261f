package dashboards

import (
	"fmt"
	"strings"
)

// Matchers of the dashboards' variables; every selector has one of them. None depends on a label that other exporters
// share, and instance is matched but never grouped by, so that a panel lives through a new address of the prober.
const (
	ofProber   = `job=~"$job", instance=~"$instance"`
	ofTarget   = ofProber + `, target=~"$target"`
	ofWorkload = ofTarget + `, workload=~"$workload"`
	ofSLO      = ofWorkload + `, slo=~"$slo"`
)

const (
	// window is the window of everything that comes from probes. At one probe in 15 seconds an hour holds 240 of
	// them, which is what a p95 needs; Grafana's own rate interval would hold four.
	window = "$window"
	// scrapes is the window of the server's own counters, and of the live view of a heatmap.
	scrapes = "$__rate_interval"
)

// Labels that are kept.
const (
	byTarget   = "target"
	byWorkload = "target, workload"
	bySLO      = "target, workload, slo"
)

// enoughForP99 is how many probes a window has to hold before its p99 is shown: ten of them lie above it.
const enoughForP99 = 1000

// rate is the increase per second of a counter over w, summed by the labels.
func rate(metric, of, by, w string) string {
	return fmt.Sprintf("sum by (%s) (rate(%s{%s}[%s]))", by, metric, of, w)
}

// increase is the increase of a counter over w, summed by the labels.
func increase(metric, of, by, w string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s{%s}[%s]))", by, metric, of, w)
}

// highest is the highest value of a gauge by the labels: two replicas of the prober tell of the same target.
func highest(metric, of, by string) string {
	return fmt.Sprintf("max by (%s) (%s{%s})", by, metric, of)
}

// either is the first operand where it has a value, else the second.
func either(first, second string) string {
	return first + "\nor\n" + second
}

func quoted(expr string) string { return "(" + expr + ")" }

// The functions below read a histogram that Prometheus stores as a native one, else its classic series. Where both are
// stored the native one is read: it is exact to 5 %.

// quantile is the q-quantile of a histogram over w.
func quantile(q float64, metric, of, by, w string) string {
	return either(
		fmt.Sprintf("histogram_quantile(%g, %s)", q, rate(metric, of, by, w)),
		fmt.Sprintf("histogram_quantile(%g, %s)", q, rate(metric+"_bucket", of, leAnd(by), w)),
	)
}

// count is how many observations a histogram had in w.
func count(metric, of, by, w string) string {
	return quoted(either("histogram_count("+increase(metric, of, by, w)+")", increase(metric+"_count", of, by, w)))
}

// total is the sum of the observations that a histogram had in w.
func total(metric, of, by, w string) string {
	return quoted(either("histogram_sum("+increase(metric, of, by, w)+")", increase(metric+"_sum", of, by, w)))
}

// mean is the mean of a histogram's observations in w; nothing if there were none.
func mean(metric, of, by, w string) string {
	return per(total(metric, of, by, w), count(metric, of, by, w))
}

// buckets is how many observations fell into each bucket of a histogram in w, in the form of a heatmap. Either all
// of the answer is native or all of it is classic, for which "or on ()" sees.
func buckets(metric, of, w string) string {
	return fmt.Sprintf("sum (increase(%s{%s}[%s]))\nor on ()\n%s", metric, of, w, increase(metric+"_bucket", of, "le", w))
}

func leAnd(by string) string { return "le, " + by }

// per is a ratio that is absent, not NaN, where nothing is below the line.
func per(above, below string) string {
	return above + "\n/ (" + below + " > 0)"
}

// serverMean is the mean of one of the server's own summaries in w, over all its requests.
func serverMean(metric, w string) string {
	return per(increase(metric+"_sum", ofTarget, byTarget, w), increase(metric+"_count", ofTarget, byTarget, w))
}

// serverGauge is a gauge of the server, summed over its engines and models.
func serverGauge(metric string) string {
	return fmt.Sprintf("sum by (target) (%s)", highest(metric, ofTarget, "target, engine, model_name"))
}

// serverRate is the rate of one of the server's counters, summed over its engines and models. Replicas of the prober
// relay the same counter: their highest counts, not their sum.
func serverRate(metric string) string {
	return fmt.Sprintf("sum by (target) (max by (target, engine, model_name) (rate(%s{%s}[%s])))", metric, ofTarget, scrapes)
}

// badShare is the part of an SLO's events in w that were bad.
func badShare(of, w string) string {
	return per(increase("llm_probe_slo_bad_events_total", of, bySLO, w), increase("llm_probe_slo_events_total", of, bySLO, w))
}

// burnRate is how many times faster than allowed an SLO's budget was spent in w.
func burnRate(of, w string) string {
	return badShare(of, w) + "\n/ (1 - " + highest("llm_probe_slo_objective_ratio", of, bySLO) + ")"
}

// States of a target, in the order in which they are trouble.
const (
	good = iota
	burning
	failing
	silent
	down
)

// failuresOfOutage is how many probes in a row have to fail before a target counts as down.
const failuresOfOutage = 3

// state is the state of each target as a number: the first of the conditions that holds, and 0 where none does.
// How much silence is too much is told by the largest TTFT that a user was promised, as in the alerts: at least 10 s.
func state(of string) string {
	failures := highest("llm_probe_consecutive_failures", of, byTarget)
	silence := highest("llm_probe_silence_seconds", of, byTarget)
	interval := highest("llm_probe_interval_seconds", of, byTarget)
	patience := fmt.Sprintf("clamp_min(%s or %s * 0, 10)", "max by (target) (llm_probe_slo_threshold_seconds{"+of+ofTTFT+"})", interval)
	return strings.Join([]string{
		fmt.Sprintf("(%s >= %d) * 0 + %d", failures, failuresOfOutage, down),
		fmt.Sprintf("(%s > %s) * 0 + %d", silence, patience, silent),
		fmt.Sprintf("(%s > 0) * 0 + %d", failures, failing),
		fmt.Sprintf("(max by (target) (%s) > 1) * 0 + %d", burnRate(of, window), burning),
		fmt.Sprintf("%s * 0", interval),
	}, "\nor\n")
}

// Thresholds of the SLOs that judge the TTFT or the gaps.
const (
	ofTTFT = `, indicator="ttft"`
	ofITL  = `, indicator=~"itl_.+"`
)

// Nothing that needs more than six hours of samples is computed by a dashboard: at a refresh every 30 seconds that is
// too much for a fleet. It is read from the recording rules of ../alerts/llm_prober_records.yml instead.
const (
	budgetLeft     = "target_workload_slo:llm_probe_slo_error_budget_remaining:ratio30d"
	budgetCoverage = "target_workload_slo:llm_probe_slo_events:coverage30d"
	recordedBurn   = "target_workload_slo:llm_probe_slo_burn_rate:ratio" // and the window

	// The rules have joined the instances.
	ofWorkloadRecords = `job=~"$job", target=~"$target", workload=~"$workload"`
	ofSLORecords      = ofWorkloadRecords + `, slo=~"$slo"`
)
