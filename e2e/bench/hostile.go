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
	"time"

	"golang.org/x/sys/unix"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/internal/hostile"
)

// hostileBeside is how many healthy targets are probed beside the hostile ones.
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
	runs := map[string][]hostile.Server{"none": nil, "each": hostile.OneOfEachKind(), "all": hostile.Servers()}
	var t, each figures.Table
	t.Header("hostile targets", "healthy: probes", "failed, missed", "samples withheld", "`reader_late`", "start delay p50 / p99, ms", "hostile: probes", "without an ending",
		"CPU, s per minute: daemon", "healthy server", "hostile servers", "RSS / peak, MB", "end after SIGTERM, s")
	for _, name := range strings.Split(o.beside, ",") {
		beside, ok := runs[name]
		if !ok {
			return "", fmt.Errorf("hostile targets %q: want none, each or all", name)
		}
		beside = slices.DeleteFunc(beside, func(s hostile.Server) bool {
			return !strings.Contains(s.Name, o.kinds) && !strings.Contains(s.Kind, o.kinds)
		})
		w, err := hostileRun(o, dir, binary, page, beside)
		if err != nil {
			return "", fmt.Errorf("beside %d hostile targets: %w", len(beside), err)
		}
		t.Row(hostileCells(o, w, len(beside))...)
		if beside == nil {
			continue
		}
		each = figures.Table{} // of the last
		each.Header("hostile target", "kind", "probes", "reads of its metrics page", "as the table of tests has it")
		for i, s := range beside {
			each.Row(hostileRow(w.text[0], fmt.Sprintf("hostile-%04d", i), s)...)
		}
	}
	return t.String() + "\n" + each.String(), nil
}

// hostileWatched is what was seen of a daemon and of the servers that it probed.
type hostileWatched struct {
	watched
	healthy, foes time.Duration // processor time while it was watched
}

// hostileRun watches one daemon.
func hostileRun(o options, dir, binary, page string, beside []hostile.Server) (w hostileWatched, err error) {
	healthy, err := child.Start("mock", child.ServerCPU, mock.Config{Prompt: promptTokens, First: paceFirst, Every: paceEvery, Page: page})
	if err != nil {
		return w, err
	}
	defer healthy.Kill()
	servers := []*child.Child{healthy}
	config := scaleConfig(healthy.Said, hostileBeside, histogram.Both)
	if len(beside) > 0 {
		var names []string
		for _, s := range beside {
			names = append(names, s.Name)
		}
		foes, err := child.Start("hostile", child.ServerCPU, names)
		if err != nil {
			return w, err
		}
		defer foes.Kill()
		servers = append(servers, foes)
		for i, address := range strings.Fields(foes.Said) {
			config = append(config, beside[i].Target(fmt.Sprintf("hostile-%04d", i), address, "timeout: 10s, stall_timeout: 5s, relay_interval: 5s")...)
		}
	}
	var spent [2][2]time.Duration // before and after, of both servers
	w.watched, err = watch(dir, binary, config, o.hostile, func(moment int, _ string) error {
		for i, s := range servers {
			p, err := readProcess(s.PID())
			if err != nil {
				return err
			}
			spent[moment][i] = p.cpu
		}
		return nil
	})
	w.healthy, w.foes = spent[1][0]-spent[0][0], spent[1][1]-spent[0][1]
	return w, err
}

// hostileRole serves hostile servers by their names, and tells their addresses in order. They get what the healthy
// server on the same processor leaves: else it would be late, and the prober blamed for it.
func hostileRole(config json.RawMessage, ready func(string)) (any, error) {
	var names []string
	if err := json.Unmarshal(config, &names); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if err := yieldProcessor(); err != nil {
		return nil, err
	}
	servers := map[string]hostile.Server{}
	for _, s := range hostile.Servers() {
		servers[s.Name] = s
	}
	var addresses []string
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer hostile.Serve(l, servers[name]).Close()
		addresses = append(addresses, l.Addr().String())
	}
	ready(strings.Join(addresses, " "))
	return nil, nil
}

// yieldProcessor makes all threads of this process take only what no one else wants. Threads that they start inherit it.
// The lowest niceness would not do: the healthy server would wait for up to 3 ms whenever it wakes.
func yieldProcessor() error {
	idle := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			return err
		}
		if err := unix.SchedSetAttr(id, idle, 0); err != nil {
			return fmt.Errorf("making thread %d an idle task: %w", id, err)
		}
	}
	return nil
}

// hostileCells are the figures of one run.
func hostileCells(o options, w hostileWatched, targets int) []string {
	last := w.text[0]
	since := func(name string) float64 { return last.sum(name) - w.first.sum(name) }
	withheld, recorded := since("llm_probe_samples_withheld_total"+healthyLabel), 0.0
	for _, histogram := range []string{"time_to_first_token", "inter_token_latency", "time_per_output_token", "request_duration"} {
		recorded += since("llm_probe_" + histogram + "_seconds_count" + healthyLabel)
	}
	perMinute := func(cpu time.Duration) string { return fmt.Sprintf("%.1f", cpu.Seconds()*60/o.hostile.Seconds()) }
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
		perMinute(w.after.cpu - w.before.cpu), perMinute(w.healthy), perMinute(w.foes),
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
	return []string{s.Name, s.Kind, strings.Join(probes, ", "), strings.Join(scrapes, ", "), said}
}
