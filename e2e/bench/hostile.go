//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
	"github.com/llm-prober/llm_prober/internal/hostile"
)

// hostileBeside is how many healthy targets are probed beside one hostile of each kind.
const hostileBeside = 100

// healthyLabel and hostileLabel begin the labels of the two sorts of targets, for sums and quantiles.
const (
	healthyLabel = `{target="target-`
	hostileLabel = `{target="hostile-`
)

// hostileTargets runs the daemon with a hundred healthy targets, alone and beside hostile ones.
func hostileTargets(o options) (string, error) {
	dir, binary, page, err := prepareDaemon(o)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	servers := slices.DeleteFunc(hostile.Servers(), func(s hostile.Server) bool { return !strings.Contains(s.Name, o.kinds) })
	var t, each figures.Table
	t.Header("hostile targets", "healthy: probes", "failed, missed", "samples withheld", "`reader_late`", "start delay p50 / p99, ms", "hostile: probes", "without an ending",
		"CPU, s per minute", "RSS / peak, MB", "end after SIGTERM, s")
	for _, beside := range [][]hostile.Server{nil, servers} {
		w, err := hostileRun(o, dir, binary, page, beside)
		if err != nil {
			return "", fmt.Errorf("beside %d hostile targets: %w", len(beside), err)
		}
		t.Row(hostileCells(o, w, len(beside))...)
		if beside != nil {
			each.Header("hostile target", "probes", "reads of its metrics page", "as the table of tests has it")
			for i, s := range beside {
				each.Row(hostileRow(w.text[0], fmt.Sprintf("hostile-%04d", i), s)...)
			}
		}
	}
	return t.String() + "\n" + each.String(), nil
}

// hostileRun watches one daemon.
func hostileRun(o options, dir, binary, page string, beside []hostile.Server) (w watched, err error) {
	healthy, err := child.Start("mock", child.ServerCPU, mock.Config{Prompt: promptTokens, First: paceFirst, Every: paceEvery, Page: page})
	if err != nil {
		return w, err
	}
	defer healthy.Kill()
	config := scaleConfig(healthy.Said, hostileBeside)
	if len(beside) > 0 {
		foes, err := child.Start("hostile", child.ServerCPU, o.kinds)
		if err != nil {
			return w, err
		}
		defer foes.Kill()
		for i, address := range strings.Fields(foes.Said) {
			config = append(config, beside[i].Target(fmt.Sprintf("hostile-%04d", i), address, "timeout: 10s, stall_timeout: 5s, relay_interval: 5s")...)
		}
	}
	return watch(dir, binary, config, o.hostile)
}

// hostileRole serves the hostile servers whose names contain a text, and tells their addresses in order.
func hostileRole(config json.RawMessage, ready func(string)) (any, error) {
	var kinds string
	if err := json.Unmarshal(config, &kinds); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	var addresses []string
	for _, s := range hostile.Servers() {
		if !strings.Contains(s.Name, kinds) {
			continue
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer hostile.Serve(l, s).Close()
		addresses = append(addresses, l.Addr().String())
	}
	ready(strings.Join(addresses, " "))
	return nil, nil
}

// hostileCells are the figures of one run.
func hostileCells(o options, w watched, targets int) []string {
	last := w.text[0]
	since := func(name string) float64 { return last.sum(name) - w.first.sum(name) }
	withheld, recorded := since("llm_probe_samples_withheld_total"+healthyLabel), 0.0
	for _, histogram := range []string{"time_to_first_token", "inter_token_latency", "time_per_output_token", "request_duration"} {
		recorded += since("llm_probe_" + histogram + "_seconds_count" + healthyLabel)
	}
	begun := last.sum("llm_probe_start_delay_seconds_count" + hostileLabel)
	ended := last.sum("llm_probe_requests_total" + hostileLabel)
	return []string{
		fmt.Sprint(targets),
		fmt.Sprintf("%.0f", since("llm_probe_requests_total"+healthyLabel)),
		fmt.Sprintf("%.0f, %.0f", since("llm_probe_request_failures_total"+healthyLabel), since("llm_probe_missed_total"+healthyLabel)),
		fmt.Sprintf("%.2f %%", 100*withheld/(withheld+recorded)),
		fmt.Sprintf("%.1f %%", 100*since(`llm_probe_suspect_total{reason="reader_late",site=`)/since("llm_probe_requests_total"+healthyLabel)), // hostile ones have no site
		fmt.Sprintf("%.2f / %.2f", 1000*last.quantile(w.first, "llm_probe_start_delay_seconds"+healthyLabel, 0.5), 1000*last.quantile(w.first, "llm_probe_start_delay_seconds"+healthyLabel, 0.99)),
		fmt.Sprintf("%.0f", ended),
		fmt.Sprintf("%.0f", begun-ended-last.sum("llm_probe_in_flight"+hostileLabel)),
		fmt.Sprintf("%.1f", (w.after.cpu-w.before.cpu).Seconds()*60/o.hostile.Seconds()),
		fmt.Sprintf("%.0f / %.0f", w.after.rss, w.end.peak),
		fmt.Sprintf("%.2f", w.stopped.Seconds()),
	}
}

// hostileRow is how the probes and scrapes of one target ended.
func hostileRow(last scraped, target string, s hostile.Server) []string {
	label := fmt.Sprintf("target=%q", target)
	endings := func(name string) (list []string, sum float64) {
		last.each(name, func(line string, value float64) {
			if _, reason, found := strings.Cut(line, `reason="`); found && value > 0 && strings.Contains(line, label) {
				reason, _, _ = strings.Cut(reason, `"`)
				list = append(list, reason+" "+strconv.FormatFloat(value, 'f', 0, 64))
				sum += value
			}
		})
		return list, sum
	}
	probes, failed := endings("llm_probe_request_failures_total")
	if good := last.sum("llm_probe_requests_total{"+label) - failed; good > 0 {
		probes = append(probes, fmt.Sprintf("%s %.0f", hostile.OK, good))
	}
	scrapes, _ := endings("llm_server_scrape_failures_total")
	if last.sum("llm_server_up{"+label) > 0 {
		scrapes = append(scrapes, "up")
	}
	expected := true
	for _, ending := range probes {
		reason, _, _ := strings.Cut(ending, " ")
		expected = expected && slices.Contains(s.Probes, reason)
	}
	said := "yes"
	if !expected || len(probes) == 0 {
		said = "**no**: " + strings.Join(s.Probes, ", ")
	}
	return []string{s.Name, strings.Join(probes, ", "), strings.Join(scrapes, ", "), said}
}
