package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

// prober tells whether the instrument may be believed.
func prober() *classic {
	d := empty("prober", "Prober", "Does the instrument measure itself well? Trouble here makes every other number doubtful.", "6h").
		Annotation(moment("Prober restart", "purple", fmt.Sprintf("process_start_time_seconds{%s} * 1000", ofProber), "{{instance}} started")).
		Annotation(moment("Configuration loaded", "blue", fmt.Sprintf("llm_prober_config_last_reload_success_timestamp_seconds{%s} * 1000", ofProber), "{{instance}} loaded its configuration"))
	for _, part := range []func(*classic) *classic{health, timing, relay, resources, cost} {
		d = part(d)
	}
	return d
}

func health(d *classic) *classic {
	size := func(title, unit, what, good string) about {
		return about{title: title, unit: unit, what: what, good: good, width: 6, height: 4}
	}
	yesNo := []dashboard.ValueMapping{text(0, 0.5, "no", "red", 0), text(0.5, 1, "yes", "green", 1)}
	return d.
		WithPanel(tile(size("Scraped", units.Short,
			"Whether Prometheus reaches every prober.",
			"“yes”. Else nothing here is news."),
			query{expr: "min(up{" + ofProber + "})", legend: "up"}).
			Mappings(yesNo).
			GraphMode(common.BigValueGraphModeNone)).
		WithPanel(tile(size("Configuration loaded", units.Short,
			"Whether the last load of the configuration worked on every prober.",
			"“yes”. After a bad file the old configuration stays in force and the log names the lines."),
			query{expr: "min(llm_prober_config_last_reload_successful{" + ofProber + "})", legend: "loaded"}).
			Mappings(yesNo).
			GraphMode(common.BigValueGraphModeNone)).
		WithPanel(tile(size("Missed probes", units.Short,
			"Probes that were due in $window and not sent, because as many as allowed were in flight.",
			"0. Missed ones mean that answers take longer than the cap allows for: a hang, or a timeout too long for the interval."),
			query{expr: "sum(increase(llm_probe_missed_total{" + ofWorkload + "}[" + window + "]))", legend: "missed"}).
			Decimals(0).
			Thresholds(steps("green", from(1, "orange")))).
		WithPanel(tile(size("Servers relayed", units.PercentUnit,
			"Part of the targets whose own metrics could be read at the last try.",
			"100 %. Without them queue and throughput are unknown, and a hang cannot be told from an overload."),
			query{expr: "avg(" + highest("llm_server_up", ofTarget, byTarget) + ")", legend: "relayed"}).
			Thresholds(steps("red", from(0.99, "green"))))
}

func timing(d *classic) *classic {
	late := func(title, metric, what, good string) *timeseries.PanelBuilder {
		return lines(about{title: title, unit: units.Seconds, width: 8, height: 8, what: what, good: good},
			query{expr: quantile(0.5, metric, ofWorkload, byTarget, window), legend: "p50 · {{target}}"},
			query{expr: quantile(0.99, metric, ofWorkload, byTarget, window), legend: "p99 · {{target}}"})
	}
	return d.
		WithRow(row("Does it send and read in time?")).
		WithPanel(late("Start delay", "llm_probe_start_delay_seconds",
			"How much later than due probes started, over $window.",
			"p99 under 10 ms. More: the prober's machine is too busy, and its load is not the one that was asked for.")).
		WithPanel(late("Read delay", "llm_probe_read_delay_seconds",
			"How long tokens lay in the kernel before they were read, at worst in each probe. The kernel's time stamps make up for it.",
			"p99 under 10 ms. When it reaches the ITL, some latencies are not known well enough and are withheld.")).
		WithPanel(bars(about{
			title: "Missed, late and warm-up", unit: units.Short, width: 8, height: 8,
			what: "Probes that were not sent because too many were in flight, whose reader was too late to measure, or that only warmed a server up.",
			good: "nothing. Warm-ups come in a small group at the start and after each restart of a server.",
		},
			query{expr: increase("llm_probe_missed_total", ofWorkload, byTarget, scrapes), legend: "missed · {{target}}"},
			query{expr: increase("llm_probe_suspect_total", ofWorkload+`, reason="reader_late"`, byTarget, scrapes), legend: "reader late · {{target}}"},
			query{expr: increase("llm_probe_warmup_requests_total", ofWorkload, byTarget, scrapes), legend: "warm-up · {{target}}"},
		)).
		WithPanel(bars(about{
			title: "Withheld and not judged", unit: units.Short, width: 24, height: 8,
			what: "Latencies that were not recorded, and probes that an SLO could not judge, because the prober read too late to know them to 1 ms or 2 %.",
			good: "nothing, or a few ITL samples. More: the prober needs more CPU; its histograms have gaps where it was starved.",
		},
			query{expr: increase("llm_probe_samples_withheld_total", ofWorkload, "target, metric", scrapes), legend: "{{metric}} · {{target}}"},
			query{expr: increase("llm_probe_slo_unjudged_total", ofWorkload, "target, slo", scrapes), legend: "not judged: {{slo}} · {{target}}"},
		)).
		WithPanel(lines(about{
			title: "In flight", unit: units.Short, width: 12, height: 8,
			what: "Probes that have started and not ended.",
			good: "about duration over interval: 0 or 1 for short answers. A climb is a server that no longer answers.",
		}, query{expr: sum("llm_probe_in_flight", ofWorkload, byTarget, ""), legend: "{{target}}"})).
		WithPanel(lines(about{
			title: "Success of the last probe", unit: units.Short, width: 12, height: 8,
			what: "1 if the last probe that ended succeeded, for every workload of the target. Do not alert on it: it stays 1 in a hang.",
			good: "1.",
		}, query{expr: "min by (target) (llm_probe_up{" + ofWorkload + "})", legend: "{{target}}"}).Max(1)).
		WithPanel(lines(about{
			title: "Members of target groups", unit: units.Short, width: 24, height: 8,
			what: "What service discovery has found for each group, by what became of it. Of several probers the one that sees most.",
			good: "as many active ones as there are servers, and none that are invalid or over the limit: the log says why.",
		}, query{expr: "max by (group, state) (llm_prober_discovered_targets{" + ofProber + "})", legend: "{{group}} · {{state}}"}))
}

func relay(d *classic) *classic {
	return d.
		WithRow(row("Does it see the servers' own metrics?")).
		WithPanel(lines(about{
			title: "Age of the servers' numbers", unit: units.Seconds, width: 8, height: 8,
			what: "Time since the last scrape of the server's own metrics that worked, and, dotted, since any of them changed.",
			good: "the age is below twice the relay interval. Numbers without a change: an idle server, or one that hangs while its /metrics still answers; silence tells which.",
		},
			query{expr: age("llm_server_last_scrape_timestamp_seconds"), legend: "scraped · {{target}}"},
			query{expr: age("llm_server_last_change_timestamp_seconds"), legend: "changed · {{target}}"},
		).OverrideByRegexp("/^changed/", dashed())).
		WithPanel(bars(about{
			title: "Failed scrapes of the servers", unit: units.Short, width: 8, height: 8,
			what: "Scrapes of the server's own metrics that failed, by reason, and samples that were not relayed.",
			good: "nothing. several_servers: a load balancer answers for more than one, so give each its own target or metrics_url.",
		},
			query{expr: increase("llm_server_scrape_failures_total", ofTarget, "target, reason", scrapes) + " > 0", legend: "{{reason}} · {{target}}"},
			query{expr: increase("llm_server_dropped_samples_total", ofTarget, byTarget, scrapes), legend: "dropped samples · {{target}}"},
		)).
		WithPanel(history(about{
			title: "Health of the servers", unit: units.Short, width: 8, height: 8,
			what: "What the server's /health says. A hung vLLM still says that it is well.",
			good: "green. Red: the engine is dead, and says so.",
		}, query{expr: "min by (target) (llm_server_healthy{" + ofTarget + "})", legend: "{{target}}"}).
			Mappings([]dashboard.ValueMapping{text(0, 0, "unhealthy", "red", 0), text(1, 1, "healthy", "green", 1)}).
			Thresholds(steps("red", from(1, "green")))).
		WithPanel(rows(about{
			title: "Metrics that a server lacks", unit: units.Short, width: 24, height: 5,
			what: "Metrics that this kind of server should show and does not. Often a renamed metric of a new version.",
			good: "no rows.",
		},
			[]column{{"Target", "target", nil}, {"Metric", "metric", nil}},
			column{"Missing", highest("llm_server_metric_missing", ofTarget, "target, metric") + " > 0", hiddenColumn()},
		))
}

// age is how old a time was when Prometheus scraped it, however long ago that is.
func age(metric string) string {
	return fmt.Sprintf("max by (target) (timestamp(%[1]s{%[2]s}) - %[1]s{%[2]s})", metric, ofTarget)
}

func resources(d *classic) *classic {
	each := func(metric string) string { return fmt.Sprintf("max by (job, instance) (%s{%s})", metric, ofProber) }
	return d.
		WithRow(row("What does it need?")).
		WithPanel(lines(about{
			title: "Memory", unit: units.BytesIEC, width: 6, height: 8,
			what: "Resident memory of each prober, and what of it is Go's heap.",
			good: "flat: about 20 MB for one target, and below 80 MB for a hundred. A slope that lasts for days is a leak.",
		},
			query{expr: each("process_resident_memory_bytes"), legend: "resident · {{instance}}"},
			query{expr: each("go_memstats_heap_inuse_bytes"), legend: "heap · {{instance}}"},
		)).
		WithPanel(lines(about{
			title: "CPU", unit: units.PercentUnit, width: 6, height: 8,
			what: "Part of one core that each prober uses.",
			good: "a few percent. Near 100 % of what it may have, start and read delay grow.",
		}, query{expr: fmt.Sprintf("max by (job, instance) (rate(process_cpu_seconds_total{%s}[%s]))", ofProber, scrapes), legend: "{{instance}}"})).
		WithPanel(lines(about{
			title: "Goroutines and files", unit: units.Short, width: 6, height: 8,
			what: "Goroutines and open file descriptors of each prober.",
			good: "flat. They rise with the probes in flight and fall with them.",
		},
			query{expr: each("go_goroutines"), legend: "goroutines · {{instance}}"},
			query{expr: each("process_open_fds"), legend: "files · {{instance}}"},
		)).
		WithPanel(lines(about{
			title: "Scrape of the prober", unit: units.Seconds, width: 6, height: 8,
			what: "How long Prometheus takes to scrape each prober.",
			good: "far below the scrape timeout, which is 10 s by default.",
		}, query{expr: each("scrape_duration_seconds"), legend: "{{instance}}"}))
}

func cost(d *classic) *classic {
	return d.
		WithRow(row("What does it cost the servers, and what is it?")).
		WithPanel(lines(about{
			title: "Tokens of the probes", unit: "tok/s", width: 12, height: 8,
			what: "Prompt and output tokens per second that the probes ask of each server. At a fixed rate this is cost, not capacity.",
			good: "flat, and small next to the server's own throughput.",
		},
			query{expr: rate("llm_probe_prompt_tokens_total", ofWorkload, byTarget, window), legend: "prompts · {{target}}"},
			query{expr: rate("llm_probe_output_tokens_total", ofWorkload, byTarget, window), legend: "answers · {{target}}"},
		)).
		WithPanel(lines(about{
			title: "Certificates", unit: units.Seconds, width: 12, height: 8,
			what: "Time until the certificate that a server shows expires. Empty where no target has TLS.",
			good: "weeks.",
		}, query{expr: "min by (target) (llm_probe_tls_certificate_expiry_timestamp_seconds{" + ofWorkload + "}) - time()", legend: "{{target}}"})).
		WithPanel(rows(about{
			title: "Builds", unit: units.Short, width: 24, height: 5,
			what: "Which version of the prober runs where.",
			good: "the same version everywhere.",
		},
			[]column{{"Job", "job", nil}, {"Instance", "instance", nil}, {"Version", "version", nil}, {"Revision", "revision", nil}, {"Go", "goversion", nil}},
			column{"Known", highest("llm_prober_build_info", ofProber, "job, instance, version, revision, goversion"), hiddenColumn()},
		))
}
