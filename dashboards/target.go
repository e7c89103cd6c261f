package dashboards

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/units"
)

const (
	ttft     = "llm_probe_time_to_first_token_seconds"
	itl      = "llm_probe_inter_token_latency_seconds"
	queue    = "llm_probe_server_queue_seconds"
	prefill  = "llm_probe_server_prefill_seconds"
	duration = "llm_probe_request_duration_seconds"
	series   = "{{target}} / {{workload}}"
)

// target follows the order in which one reads a benchmark: is the workload what we think it is, how long is the wait
// for the first token and where does it go, how smoothly does the answer stream, what does the server produce, and
// what is in its queue.
func target() *classic {
	d := empty("target", "Target", "One target from top to bottom: is the measurement sound, what is slow, since when, and is it the queue, the prefill, the decoding or the way there?", "6h").
		Annotation(moment("Server restart", "purple",
			highest("llm_server_start_time_seconds", ofTarget, byTarget)+" * 1000", "{{target}}: its process started")).
		Annotation(event("Version or model", "blue", newInfo(), "{{target}}: {{engine_type}} {{version}}, model {{model_name}}")).
		Annotation(event("Firing alert", "red", `ALERTS{alertstate="firing", alertname=~"LLM.+", job=~"$job", target=~"$target"}`, "{{alertname}} {{severity}} {{target}} {{workload}} {{slo}}"))
	for _, part := range []func(*classic) *classic{
		overview, soundness, firstToken, stream, output, saturation, wholeAnswer, identity,
	} {
		d = part(d)
	}
	return d
}

// newInfo has a value in the first minute in which a server shows a version or model that it did not show in the hour
// before. A server that is seen for the first time, or after an hour, is no change.
func newInfo() string {
	const by = "target, engine_type, version, model_name"
	now := fmt.Sprintf("group by (%s) (llm_server_info{%s})", by, ofTarget)
	before := fmt.Sprintf("max_over_time(llm_server_info{%s}[1h] offset 1m)", ofTarget)
	return fmt.Sprintf("(%s unless group by (%s) (%s))\nand on (target) group by (target) (%s)", now, by, before, before)
}

func overview(d *classic) *classic {
	size := func(title, unit, what, good string) about {
		return about{title: title, unit: unit, what: what, good: good, width: 4, height: 4}
	}
	return d.
		WithPanel(tile(size("State", units.Short,
			fmt.Sprintf("Down: the last %d probes failed. Silent: a probe waits for a token longer than 10 s and than the TTFT SLO allows. Failing: the last probe failed. Burning: a budget was spent faster than it comes in, over $window.", failuresOfOutage),
			"it reads “good”."),
			query{expr: state(ofWorkload), legend: "{{target}}"}).
			Mappings(states()).
			GraphMode(common.BigValueGraphModeNone).
			Thresholds(steps("green", from(burning, "yellow"), from(failing, "orange"), from(silent, "red")))).
		WithPanel(tile(size("Probes in the window", units.Short,
			"How many probes the percentiles below are made of: those that ended in $window, failed ones included.",
			"100 and more for a p95 to mean something, 1000 and more for a p99. If there are fewer, choose a longer window."),
			query{expr: increase("llm_probe_requests_total", ofWorkload, byWorkload, window), legend: series}).Decimals(0)).
		WithPanel(tile(size("TTFT, median", units.Seconds,
			"Half of the probes in $window waited no longer than this for the first token.",
			"well below the SLO's threshold, and as it was yesterday."),
			query{expr: quantile(0.5, ttft, ofWorkload, byWorkload, window), legend: series})).
		WithPanel(tile(size("ITL, median", units.Seconds,
			"Half of the gaps between tokens in $window were no longer than this.",
			"under 50 ms, which reads faster than people do, and as it was yesterday."),
			query{expr: quantile(0.5, itl, ofWorkload, byWorkload, window), legend: series})).
		WithPanel(tile(size("Server's output", "tok/s",
			"Tokens per second that the server generates for all its users, by its own count.",
			"it follows the demand, up to what the server can do."),
			query{expr: serverRate("llm_server_generation_tokens_total"), legend: "{{target}}"}).Decimals(0)).
		WithPanel(tile(size("Waiting now", units.Short,
			"Requests of all users that wait to be scheduled.",
			"0, or a short peak. A number that stays is a server at its limit: TTFT grows with it."),
			query{expr: serverGauge("llm_server_requests_waiting"), legend: "{{target}}"}).
			Thresholds(steps("green", from(1, "yellow"), from(20, "orange"))))
}

func soundness(d *classic) *classic {
	failed := increase("llm_probe_request_failures_total", ofWorkload, byWorkload, scrapes)
	ended := increase("llm_probe_requests_total", ofWorkload, byWorkload, window)
	return d.
		WithRow(row("Is the workload what we think it is?")).
		WithPanel(bars(about{
			title: "Probes by outcome", unit: units.Short, width: 8, height: 8,
			what: "Probes that ended, by how: succeeded, or failed for which reason. A failed probe enters no latency below, so many failures make latencies look better than they are.",
			good: "only “succeeded”, and bars of even height.",
		},
			query{expr: increase("llm_probe_requests_total", ofWorkload, byWorkload, scrapes) + "\n- " + failed, legend: "succeeded · " + series},
			query{expr: increase("llm_probe_request_failures_total", ofWorkload, byWorkload+", reason", scrapes) + " > 0", legend: "{{reason}} · " + series},
		).OverrideByRegexp("/^succeeded/", paint("green"))).
		WithPanel(lines(about{
			title: "Tokens of a probe", unit: units.Short, width: 8, height: 8,
			what: "Mean length of prompt and answer of the probes that succeeded, over $window, by the server's count where it gives one, and the number of events the answer came in.",
			good: "flat, at the lengths that the workload asks for. Fewer events than tokens: several tokens come at once, and a gap stands for several. A bump at a failure: what the failed probe had got is in it too.",
		},
			query{expr: per(increase("llm_probe_prompt_tokens_total", ofWorkload, byWorkload, window), successes()), legend: "prompt · " + series},
			query{expr: per(increase("llm_probe_output_tokens_total", ofWorkload, byWorkload, window), successes()), legend: "answer · " + series},
			query{expr: per(increase("llm_probe_stream_events_total", ofWorkload, byWorkload, window), successes()), legend: "events · " + series},
		)).
		WithPanel(lines(about{
			title: "Suspect probes", unit: units.PercentUnit, width: 8, height: 8,
			what: "Part of the probes in $window that succeeded but whose shape or measurement is off, by reason, and the part of the prompt tokens that came from the server's cache.",
			good: "nothing but zeros. prompt_length and short_output: another workload was measured. cached_prompt: prefill looks faster than it is. coalesced: something between buffers.",
		},
			query{expr: per(increase("llm_probe_suspect_total", ofWorkload, byWorkload, window), ended), legend: "any · " + series},
			query{expr: "(" + increase("llm_probe_suspect_total", ofWorkload, byWorkload+", reason", window) + " > 0)\n/ on (target, workload) group_left () " + ended, legend: "{{reason}} · " + series},
			query{expr: per(increase("llm_probe_cached_prompt_tokens_total", ofWorkload, byWorkload, window), increase("llm_probe_prompt_tokens_total", ofWorkload, byWorkload, window)), legend: "cached tokens · " + series},
		))
}

// successes is how many probes succeeded in the window.
func successes() string {
	return quoted(increase("llm_probe_requests_total", ofWorkload, byWorkload, window) + "\n- " + increase("llm_probe_request_failures_total", ofWorkload, byWorkload, window))
}

// firstToken shows how long the wait is and where it goes. Means add up and percentiles do not, so the parts are means.
func firstToken(d *classic) *classic {
	accounted := quoted(count(queue, ofWorkload, byTarget, window) + " > 0")
	serverQueue, serverPrefill := serverMean("llm_server_queue_time_seconds", window), serverMean("llm_server_prefill_time_seconds", window)
	meanTTFT := func(by string) string { return quoted(mean(ttft, ofWorkload, by, window)) }
	return d.
		WithRow(row("How long until the first token, and where does the time go?")).
		WithPanel(density(about{
			title: "TTFT, every probe", unit: units.Seconds, width: 12, height: 9,
			what: "Where the time to first token of the probes lay. Live: not over $window but as they come.",
			good: "one narrow band. Two bands are two kinds of waiting, for example with and without a queue; a band that climbs is a queue that grows.",
		}, ttft, ofWorkload)).
		WithPanel(lines(about{
			title: "TTFT, percentiles", unit: units.Seconds, width: 12, height: 9,
			what: fmt.Sprintf("Time to first token over $window: half, 95 %% and 99 %% of the probes waited no longer. p99 shows with %d probes in the window and more; the tile on top has the count. Dashed: the SLO, of which the name contains “ttft”.", enoughForP99),
			good: "p95 below the dashed line, and p50 as it was yesterday. p95 alone rising: some requests meet a queue or a long prompt; both rising: all do.",
		}, append(percentiles(ttft, true), slos(ofTTFT))...).
			OverrideByRegexp("/^p50/", paint("green")).
			OverrideByRegexp("/^p95/", paint("yellow")).
			OverrideByRegexp("/^p99/", paint("orange")).
			OverrideByRegexp("/^SLO/", limit())).
		WithPanel(areas(about{
			title: "Where TTFT goes", unit: units.Seconds, width: 16, height: 9,
			what: "Mean time to first token over $window in its parts. Queue and prefill: what the server says of each probe. Outside the engine is the rest: network, gateway, HTTP, tokenizer. " +
				"Where the server says nothing of single requests, the parts are its own means over all its users' requests, so labelled; their prompts have other lengths.",
			good: "mostly prefill. A thick queue: too many requests, or too few may run at once. Thick prefill: longer prompts, or prefills that wait for decodes. Thick outside: the way there, or a busy front end.",
		},
			query{expr: mean(queue, ofWorkload, byWorkload, window), legend: "queue · " + series},
			query{expr: mean(prefill, ofWorkload, byWorkload, window), legend: "prefill · " + series},
			query{expr: "clamp_min(" + meanTTFT(byWorkload) + "\n- " + quoted(mean(queue, ofWorkload, byWorkload, window)) + "\n- " + quoted(mean(prefill, ofWorkload, byWorkload, window)) + ", 0)", legend: "outside the engine · " + series},
			query{expr: serverQueue + "\nunless " + accounted, legend: "queue (server's own mean, all requests) · {{target}}"},
			query{expr: serverPrefill + "\nunless " + accounted, legend: "prefill (server's own mean, all requests) · {{target}}"},
			query{expr: "clamp_min(" + meanTTFT(byTarget) + "\n- " + quoted(serverQueue) + "\n- " + quoted(serverPrefill) + ", 0)\nunless " + accounted, legend: "rest of the probes' TTFT · {{target}}"},
		).
			OverrideByRegexp("/^queue/", paint("orange")).
			OverrideByRegexp("/^prefill/", paint("blue")).
			OverrideByRegexp("/^(outside|rest)/", paint("purple"))).
		WithPanel(lines(about{
			title: "The way there, and TTFT as others see it", unit: units.Seconds, width: 8, height: 9,
			what: "Connect: p95 of DNS, TCP and TLS, which TTFT leaves out. Server's own: its mean TTFT over all its users' requests, without the network. First answer: the median for a model that reasons first.",
			good: "connect is a few milliseconds and flat. The server's own mean moves with the probes' TTFT; where only the probes' rises, look between the prober and the server.",
		},
			query{expr: quantile(0.95, "llm_probe_connect_duration_seconds", ofWorkload, byWorkload, window), legend: "connect p95 · " + series},
			query{expr: serverMean("llm_server_time_to_first_token_seconds", scrapes), legend: "server's own mean TTFT · {{target}}"},
			query{expr: quoted(quantile(0.5, "llm_probe_time_to_first_answer_seconds", ofWorkload, byWorkload, window)) + " > 0", legend: "first answer p50 · " + series},
		))
}

func stream(d *classic) *classic {
	return d.
		WithRow(row("How smoothly does the answer stream?")).
		WithPanel(density(about{
			title: "ITL, every gap", unit: units.Seconds, width: 12, height: 9,
			what: "Where the gaps between two token events of the probes lay. Live: not over $window but as they come.",
			good: "one narrow band. A second band above it: decodes that wait for other requests' prefills. A band near zero: something buffers, or several tokens are made at once.",
		}, itl, ofWorkload)).
		WithPanel(lines(about{
			title: "ITL, percentiles", unit: units.Seconds, width: 12, height: 9,
			what: "Gaps between two token events over $window: half, 95 % and 99 % of the gaps were no longer. These are shares of gaps, not of requests. Dashed: the SLO, of which the name contains “itl”.",
			good: "p50 flat and p95 below the dashed line. p95 far above p50: long pauses between quick tokens, as prefills of others make them.",
		}, append(percentiles(itl, false), slos(ofITL))...).
			OverrideByRegexp("/^p50/", paint("green")).
			OverrideByRegexp("/^p95/", paint("yellow")).
			OverrideByRegexp("/^p99/", paint("orange")).
			OverrideByRegexp("/^SLO/", limit()))
}

// percentiles are p50 and p95 of a histogram, and p99 where the window holds enough probes.
func percentiles(metric string, exemplars bool) []query {
	enough := fmt.Sprintf("\nand on (target, workload) (%s >= %d)", increase("llm_probe_requests_total", ofWorkload, byWorkload, window), enoughForP99)
	return []query{
		{expr: quantile(0.5, metric, ofWorkload, byWorkload, window), legend: "p50 · " + series},
		{expr: quantile(0.95, metric, ofWorkload, byWorkload, window), legend: "p95 · " + series, exemplars: exemplars},
		{expr: quoted(quantile(0.99, metric, ofWorkload, byWorkload, window)) + enough, legend: "p99 · " + series},
	}
}

// slos are the thresholds of the SLOs that the matcher names.
func slos(named string) query {
	return query{expr: highest("llm_probe_slo_threshold_seconds", ofWorkload+named, bySLO), legend: "SLO {{slo}} · " + series}
}

// output keeps apart what the server makes for all and what one user gets: the first rises with load, the second falls.
func output(d *classic) *classic {
	// A probe whose reader was late has tokens and no duration: so it is mean tokens over mean duration.
	tokens := quoted(per(increase("llm_probe_output_tokens_total", ofWorkload, byWorkload, window), successes()))
	return d.
		WithRow(row("What does the server produce, and what does one user get of it?")).
		WithPanel(lines(about{
			title: "Throughput of the server", unit: "tok/s", width: 12, height: 8,
			what: "Tokens per second over all users, by the server's own counters: generated, and read as prompts.",
			good: "it follows the demand. Generated tokens that no longer rise while requests wait: that is the ceiling. A fall to zero with requests running: a hang.",
		},
			query{expr: serverRate("llm_server_generation_tokens_total"), legend: "generated · {{target}}"},
			query{expr: serverRate("llm_server_prompt_tokens_total"), legend: "prompts · {{target}}"},
		)).
		WithPanel(lines(about{
			title: "Speed of one stream", unit: "tok/s", width: 12, height: 8,
			what: "Tokens per second that a single probe gets, mean over $window: while its answer streams, and with the wait for the first token included.",
			good: "above 20 tok/s, which is faster than people read, and flat. It falls as the server works on more requests at once, even while the throughput of the server rises.",
		},
			query{expr: "1 / " + quoted(mean("llm_probe_time_per_output_token_seconds", ofWorkload, byWorkload, window)), legend: "while streaming · " + series},
			query{expr: tokens + "\n/ " + quoted(mean(duration, ofWorkload, byWorkload, window)), legend: "with the wait · " + series},
		))
}

func saturation(d *classic) *classic {
	peak := func(metric string) string { return quantile(1, metric, ofTarget, byTarget, scrapes) }
	return d.
		WithRow(row("Is the server full?")).
		WithPanel(lines(about{
			title: "Running and waiting", unit: units.Short, width: 12, height: 9,
			what: "Requests of all users that the server works on, and that wait. Peaks come from one sample a second and show what happened between two scrapes; a peak is the upper end of its bucket.",
			good: "waiting at 0 with short peaks. Running that stays at one number while waiting grows: the server's limit is reached, and TTFT grows with the queue.",
		},
			query{expr: serverGauge("llm_server_requests_running"), legend: "running · {{target}}"},
			query{expr: serverGauge("llm_server_requests_waiting"), legend: "waiting · {{target}}"},
			query{expr: peak("llm_server_requests_running_sampled"), legend: "running, peak up to · {{target}}"},
			query{expr: peak("llm_server_requests_waiting_sampled"), legend: "waiting, peak up to · {{target}}"},
		).
			OverrideByRegexp("/^running/", paint("blue")).
			OverrideByRegexp("/^waiting/", paint("orange")).
			OverrideByRegexp("/peak/", dashed())).
		WithPanel(lines(about{
			title: "KV cache", unit: units.PercentUnit, width: 6, height: 9,
			what: "Part of the KV cache in use, of the engine that is fullest, and the part of looked-up prompt tokens that were found in the prefix cache.",
			good: "below 90 %. Near 100 %, requests wait although fewer run than may, and running ones are put back.",
		},
			query{expr: highest("llm_server_kv_cache_usage_ratio", ofTarget, byTarget), legend: "in use · {{target}}"},
			query{expr: per(serverRate("llm_server_prefix_cache_hits_total"), serverRate("llm_server_prefix_cache_queries_total")), legend: "prefix found · {{target}}"},
		).Max(1)).
		WithPanel(bars(about{
			title: "Preemptions", unit: units.Short, width: 6, height: 9,
			what: "Running requests that were put back into the queue for want of KV cache, and have to be prefilled again.",
			good: "none. Each costs its user a pause and the server a second prefill.",
		}, query{expr: "sum by (target) (max by (target, engine, model_name) (increase(llm_server_preemptions_total{" + ofTarget + "}[" + scrapes + "])))", legend: "{{target}}"}))
}

func wholeAnswer(d *classic) *classic {
	return d.
		WithRow(row("The whole answer, and what is in flight")).
		WithPanel(lines(about{
			title: "Duration of a probe", unit: units.Seconds, width: 8, height: 8,
			what: "From the first byte of the request to the last token, over $window.",
			good: "flat. It is TTFT plus the answer's length times TPOT: see which of the two moved.",
		},
			query{expr: quantile(0.5, duration, ofWorkload, byWorkload, window), legend: "p50 · " + series},
			query{expr: quantile(0.95, duration, ofWorkload, byWorkload, window), legend: "p95 · " + series, exemplars: true},
		).
			OverrideByRegexp("/^p50/", paint("green")).
			OverrideByRegexp("/^p95/", paint("yellow"))).
		WithPanel(lines(about{
			title: "TPOT", unit: units.Seconds, width: 8, height: 8,
			what: "Time per output token after the first, one number a probe, over $window. Unlike ITL, a long pause in one answer moves it only a little.",
			good: "flat, and near the ITL's median. Below it: several tokens come in one event.",
		},
			query{expr: quantile(0.5, "llm_probe_time_per_output_token_seconds", ofWorkload, byWorkload, window), legend: "p50 · " + series},
			query{expr: quantile(0.95, "llm_probe_time_per_output_token_seconds", ofWorkload, byWorkload, window), legend: "p95 · " + series},
		).
			OverrideByRegexp("/^p50/", paint("green")).
			OverrideByRegexp("/^p95/", paint("yellow"))).
		WithPanel(lines(about{
			title: "Silence", unit: units.Seconds, width: 8, height: 8,
			what: "How long the probe that waits longest has waited for its next token, and the age of the oldest probe in flight.",
			good: "silence at most the TTFT. Age may be high where answers are long; silence that climbs with the clock is a hang.",
		},
			query{expr: highest("llm_probe_silence_seconds", ofWorkload, byWorkload), legend: "silence · " + series},
			query{expr: highest("llm_probe_oldest_in_flight_seconds", ofWorkload, byWorkload), legend: "oldest · " + series},
		))
}

func identity(d *classic) *classic {
	return d.
		WithRow(row("What was measured?")).
		WithPanel(rows(about{
			title: "Workloads", unit: units.Short, width: 12, height: 6,
			what: "The shape of the probes: what they ask for, and of which model.",
			good: "it is what you think it is. Numbers of two shapes cannot be compared.",
		},
			[]column{{"Target", "target", nil}, {"Workload", "workload", nil}, {"API", "api", nil}, {"Prompt tokens", "prompt_tokens", nil}, {"Output tokens", "output_tokens", nil}, {"Model", "model", nil}},
			column{"Known", highest("llm_probe_workload_info", ofWorkload, "target, workload, api, prompt_tokens, output_tokens, model"), hiddenColumn()},
		)).
		WithPanel(rows(about{
			title: "Servers", unit: units.Short, width: 12, height: 6,
			what: "What each server says of itself.",
			good: "one row a target, with the version and the model that you meant to run. Two rows: two servers behind one address, or a change in the last minutes.",
		},
			[]column{{"Target", "target", nil}, {"Engine", "engine_type", nil}, {"Version", "version", nil}, {"Model", "model_name", nil}, {"Cache type", "cache_dtype", nil}, {"Prefix caching", "prefix_caching", nil}, {"Block size", "block_size", nil}, {"KV cache tokens", "kv_cache_tokens", nil}},
			column{"Known", highest("llm_server_info", ofTarget, "target, engine_type, version, model_name, cache_dtype, prefix_caching, block_size, kv_cache_tokens"), hiddenColumn()},
		))
}

// hiddenColumn hides a column that is always 1.
func hiddenColumn() []dashboard.DynamicConfigValue {
	return []dashboard.DynamicConfigValue{property("custom.hidden", true)}
}
