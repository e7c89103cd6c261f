//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
)

// throttleCase is one way to starve the prober.
type throttleCase struct {
	name      string
	share     float64 // of one processor
	neighbour bool    // a process in the same control group that uses up all it gets
	streams   int     // at once
	every     time.Duration
	tokens    int
	trail     time.Duration // between the last token and usage
	event     int           // bytes; 0: about 330
	segment   int           // bytes; 0: those of the loopback
}

func throttleCases() []throttleCase {
	const ms = time.Millisecond
	return []throttleCase{
		{name: "not throttled", share: 1, streams: 50, every: 10 * ms, tokens: 100},
		{name: "throttled", share: 0.1, streams: 50, every: 10 * ms, tokens: 100},
		{name: "with a busy neighbour", share: 0.1, neighbour: true, streams: 20, every: 20 * ms, tokens: 50},
		{name: "a token every 230 ms", share: 0.1, neighbour: true, streams: 50, every: 230 * ms, tokens: 8},
		{name: "one token", share: 0.1, neighbour: true, streams: 5, every: 10 * ms, tokens: 1},
		{name: "usage 20 ms after the last token", share: 0.1, neighbour: true, streams: 50, every: 130 * ms, tokens: 8, trail: 20 * ms},
		{name: "events of 800 bytes, segments of 1,448", share: 0.1, neighbour: true, streams: 50, every: 90 * ms, tokens: 10, event: 800, segment: 1448},
		{name: "events of 6,000 bytes", share: 0.1, neighbour: true, streams: 50, every: 90 * ms, tokens: 10, event: 6000},
	}
}

// throttle starves the prober and looks for wrong samples among those that it records.
func throttle(o options) (string, error) {
	var t figures.Table
	t.Header("case", "streams, ITL", "share of a core", "periods throttled", "probes", "failed", "`reader_late`", "TTFT recorded", "ITL recorded",
		"wrong by over 2 ms", "worst TTFT error, ms", "worst ITL error, ms", "truth outside its bounds", "worst by, ms")
	for _, c := range throttleCases() {
		if !strings.Contains(c.name, o.cases) {
			continue
		}
		var all comparison
		var sum cpuStat
		for range o.runs {
			one, stat, err := c.run()
			if err != nil {
				return "", err
			}
			all.join(one)
			sum.throttled += stat.throttled
			sum.periods += stat.periods
		}
		t.Row(c.cells(all, sum)...)
	}
	return t.String(), nil
}

// cells are the sums of all runs.
func (c throttleCase) cells(all comparison, stat cpuStat) []string {
	recorded := func(s samples) string {
		if len(s.served) == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f %% of %d", s.share(), len(s.served))
	}
	bad := 0
	for _, s := range all.of {
		bad += over(s.errors, wrong)
	}
	outside, samples, far := all.outside()
	return []string{
		c.name, fmt.Sprintf("%d, %v", c.streams, c.every), fmt.Sprintf("%.0f %%", 100*c.share), fmt.Sprintf("%d of %d", stat.throttled, stat.periods),
		fmt.Sprint(all.probes), fmt.Sprint(all.failed), fmt.Sprintf("%.1f %%", all.lateShare()), recorded(all.of[ttft]), recorded(all.of[itl]),
		fmt.Sprint(bad), fmt.Sprintf("%.2f", worst(all.of[ttft].errors)), fmt.Sprintf("%.2f", worst(all.of[itl].errors)),
		fmt.Sprintf("%d of %d", outside, samples), fmt.Sprintf("%.2f", far),
	}
}

// run starves one client.
func (c throttleCase) run() (comparison, cpuStat, error) {
	group, err := newCPUGroup(c.share)
	if err != nil {
		return comparison{}, cpuStat{}, err
	}
	defer group.remove()
	if c.neighbour {
		n, err := child.Start("neighbour", child.ClientCPU, neighbourConfig{})
		if err != nil {
			return comparison{}, cpuStat{}, err
		}
		defer n.Kill()
		if err := group.add(n.PID()); err != nil {
			return comparison{}, cpuStat{}, err
		}
	}
	length := paceFirst + time.Duration(c.tokens)*c.every + c.trail
	stagger := length / time.Duration(c.streams)
	server := mock.Config{Prompt: promptTokens, First: paceFirst, Every: c.every, Trail: c.trail, Record: true, Event: c.event}
	client := clientConfig{
		Streams: int(5 * time.Second / stagger), Rounds: 1, Stagger: stagger, Tokens: c.tokens, Kernel: true, Segment: c.segment,
	}
	ledger, result, err := exchange(server, "prober", client, group.add)
	if err != nil {
		return comparison{}, cpuStat{}, err
	}
	stat, err := group.stat()
	if err != nil {
		return comparison{}, cpuStat{}, err
	}
	compared, err := compareWith(ledger, result)
	return compared, stat, err
}
