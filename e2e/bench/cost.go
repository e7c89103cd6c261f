//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
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
	awake, err := startChild("neighbour", clientCPU, neighbourConfig{Idle: true})
	if err != nil {
		return "", err
	}
	defer awake.kill()
	var t table
	t.header("server", "prober, ns/event", "bare reader, ns/event", "ratio", "events/s seen by the prober")
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
		t.row(c.name, fmt.Sprintf("%.0f", median(ours)), fmt.Sprintf("%.0f", median(bare)),
			fmt.Sprintf("%.2f (%s)", median(ratio), each(ratio, "%.2f")), fmt.Sprintf("%.0f", median(rate)))
	}
	return t.String(), nil
}

func perEvent(r clientResult) float64 { return float64(r.CPU) / float64(r.Events) }

// run lets one client read what the server writes.
func (c costCase) run(client string) (r clientResult, err error) {
	ticket := ""
	if c.lock {
		file, remove, err := newTicket()
		if err != nil {
			return r, err
		}
		defer remove()
		ticket = file
	}
	server := serverConfig{First: time.Millisecond, Tokens: c.tokens, Event: 250, Ticket: ticket}
	_, r, err = exchange(server, client, clientConfig{Streams: c.streams, Rounds: 1, Tokens: c.tokens, Kernel: true, Ticket: ticket, Profile: profileOf(client)}, nil)
	if err == nil && r.Events != c.streams*c.tokens {
		err = fmt.Errorf("%s saw %d events instead of %d", client, r.Events, c.streams*c.tokens)
	}
	return r, err
}

// exchange runs a server and a client, each on its own processor, and returns what both saw. prepare is given
// the client's process before the client begins.
func exchange(sc serverConfig, client string, cc clientConfig, prepare func(pid int) error) (map[string]account, clientResult, error) {
	var ledger map[string]account
	var result clientResult
	server, err := startChild("server", serverCPU, sc)
	if err != nil {
		return nil, result, err
	}
	defer server.kill()
	cc.URL = server.said
	c, err := startChild(client, clientCPU, cc)
	if err != nil {
		return nil, result, err
	}
	defer c.kill()
	if prepare != nil {
		if err := prepare(c.command.Process.Pid); err != nil {
			return nil, result, err
		}
	}
	if err := c.finish(&result); err != nil {
		return nil, result, err
	}
	return ledger, result, server.finish(&ledger)
}

func each(values []float64, format string) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprintf(format, v)
	}
	return strings.Join(words, " ")
}
