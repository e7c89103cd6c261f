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

// costCase is one way of being fed.
type costCase struct {
	name    string
	streams int
	tokens  int
	lock    bool // each event is written when the one before was read
}

func costCases() []costCase {
	return []costCase{
		{"1 stream, the next event as soon as one was read", 1, 200_000, true},
		{"1 stream, as fast as the server can write", 1, 200_000, false},
		{"64 streams, as fast as the server can write", 64, 4_000, false},
	}
}

// cost compares the processor time of a token event in the prober with that in a bare reader.
func cost(o options) (string, error) {
	// A processor that is never idle is never sent to sleep: on a virtual machine waking it up costs more than the
	// event that it is woken for, and not the same twice.
	awake, err := child.Start("neighbour", child.ClientCPU, neighbourConfig{Idle: true})
	if err != nil {
		return "", err
	}
	defer awake.Kill()
	var t figures.Table
	t.Header("server", "prober, ns/event", "bare reader, ns/event", "ratio", "events/s seen by the prober")
	for _, c := range costCases() {
		var ours, bare, ratio, rate []float64
		for range o.runs {
			p, err := c.run("prober")
			if err != nil {
				return "", err
			}
			b, err := c.run("bare")
			if err != nil {
				return "", err
			}
			ours, bare = append(ours, perEvent(p)), append(bare, perEvent(b))
			ratio = append(ratio, perEvent(p)/perEvent(b))
			rate = append(rate, float64(p.Events)/p.Wall.Seconds())
		}
		t.Row(c.name, fmt.Sprintf("%.0f", figures.Median(ours)), fmt.Sprintf("%.0f", figures.Median(bare)),
			fmt.Sprintf("%.2f (%s)", figures.Median(ratio), each(ratio, "%.2f")), fmt.Sprintf("%.0f", figures.Median(rate)))
	}
	return t.String(), nil
}

func perEvent(r clientResult) float64 { return float64(r.CPU) / float64(r.Events) }

// run lets one client read what the server writes.
func (c costCase) run(client string) (r clientResult, err error) {
	ticket := ""
	if c.lock {
		file, remove, err := mock.NewTicket()
		if err != nil {
			return r, err
		}
		defer remove()
		ticket = file
	}
	server := mock.Config{Prompt: promptTokens, First: time.Millisecond, NoCount: true, Event: 250, Ticket: ticket}
	_, r, err = exchange(server, client, clientConfig{Streams: c.streams, Rounds: 1, Tokens: c.tokens, Kernel: true, Ticket: ticket, Profile: profileOf(client)}, nil)
	if err == nil && r.Events != c.streams*c.tokens {
		err = fmt.Errorf("%s saw %d events instead of %d", client, r.Events, c.streams*c.tokens)
	}
	return r, err
}

// exchange runs a server and a client, each on its own processor, and returns what both saw. prepare is given
// the client's process before the client begins.
func exchange(sc mock.Config, client string, cc clientConfig, prepare func(pid int) error) (map[string]mock.Account, clientResult, error) {
	var result clientResult
	server, err := child.Start("mock", child.ServerCPU, sc)
	if err != nil {
		return nil, result, err
	}
	defer server.Kill()
	cc.URL = server.Said
	c, err := child.Start(client, child.ClientCPU, cc)
	if err != nil {
		return nil, result, err
	}
	defer c.Kill()
	if prepare != nil {
		if err := prepare(c.PID()); err != nil {
			return nil, result, err
		}
	}
	if err := c.Finish(&result); err != nil {
		return nil, result, err
	}
	var accounts []mock.Account
	if err := server.Finish(&accounts); err != nil {
		return nil, result, err
	}
	ledger := map[string]mock.Account{}
	for _, a := range accounts {
		ledger[a.ID] = a
	}
	return ledger, result, nil
}

func each(values []float64, format string) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprintf(format, v)
	}
	return strings.Join(words, " ")
}
