//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/mock"
)

// pace is what the mock does, and mockOutput how many tokens it is asked for.
var pace = mock.Config{Model: "tiny", Prompt: mockPrompt, First: 50 * time.Millisecond, Every: 10 * time.Millisecond, Record: true}

const (
	mockPrompt = 32
	mockOutput = 100
)

// clientFigures is one run of one client against the mock.
type clientFigures struct {
	Client  string
	Streams int

	TTFT, ServedTTFT spread // milliseconds
	ITL, ServedITL   spread
	// OwnITL is what was served if the chunk that opens a chat counts as a token, where the client does so.
	OwnITL spread

	Failed   int
	InFlight float64 // mean number of streams that the server had, from the first to the last

	CPU, CPURunning float64 // seconds; of the whole client, and from the first request on
	PeakMB          float64
}

// compareClients runs the clients against the mock.
func compareClients(ctx context.Context, o options) (string, error) {
	var all []clientFigures
	for _, streams := range []int{1, 50, 256, 512} {
		l := load{
			Model: pace.Model, Tokenizer: o.vllm + "/tiny", Streams: streams, Warmup: 5, Requests: max(30, 3*streams),
			Prompt: mockPrompt, Output: mockOutput,
		}
		if o.quick {
			l.Requests = max(3, streams)
		}
		if !o.wants(l) {
			continue
		}
		for round := range o.rounds {
			for _, c := range o.rotated(round) {
				l.Seed = 1 + round
				figures, err := once(o, c, l, round, func(dir string) (clientFigures, error) {
					l.Dir = dir
					return againstMock(ctx, o, c, l)
				})
				if err != nil {
					return "", err
				}
				all = append(all, figures)
			}
		}
	}
	return clientTables(all), nil
}

// againstMock is one run of one client, with a server of its own.
func againstMock(ctx context.Context, o options, c client, l load) (clientFigures, error) {
	server, err := child.Start("mock", child.ServerCPU, pace)
	if err != nil {
		return clientFigures{}, err
	}
	l.URL = server.Said
	r, cost, err := c.run(ctx, o.programs, l, child.ClientCPU)
	if err != nil {
		server.Kill()
		return clientFigures{}, err
	}
	var ledger []mock.Account
	if err := server.Finish(&ledger); err != nil {
		return clientFigures{}, err
	}
	return judge(c, l, r, ledger, cost)
}

// judge compares what a client reports with what it was served.
func judge(c client, l load, r report, ledger []mock.Account, cost usage) (clientFigures, error) {
	served, err := measuredOf(ledger, r, l.Requests)
	if err != nil {
		return clientFigures{}, err
	}
	f := clientFigures{Client: c.Name, Streams: l.Streams, Failed: r.Failed, CPU: cost.CPU, PeakMB: cost.PeakMB}
	whole := truthOf(served)
	f.TTFT, f.ServedTTFT = spreadOf(r.ttfts()), spreadOf(whole.ttfts())
	f.ITL, f.ServedITL = spreadOf(r.gaps()), spreadOf(whole.gaps())
	f.OwnITL = f.ServedITL
	if c.RoleToken {
		f.OwnITL = spreadOf(known(served, func(a mock.Account) []float64 { return gapsOf(append([]int64{a.Role}, a.Writes...)) }))
	}
	from, to := served[0].Received, int64(0)
	busy := 0.0
	for _, a := range served {
		end := a.Writes[len(a.Writes)-1]
		from, to = min(from, a.Received), max(to, end)
		busy += float64(end - a.Received)
	}
	f.InFlight = busy / float64(to-from)
	f.CPURunning = cost.since(time.Unix(0, from))
	return f, nil
}

// measuredOf picks the requests that a report is about: by their ids or, where the client does not name them, the
// last n that came. What a client sends to see whether the server is there, and its warm-up, come before.
func measuredOf(ledger []mock.Account, r report, n int) ([]mock.Account, error) {
	if len(r.Requests) == 0 {
		return nil, errors.New("no request succeeded")
	}
	if r.Requests[0].ID == "" {
		slices.SortFunc(ledger, func(a, b mock.Account) int { return cmp.Compare(a.Received, b.Received) })
		if len(ledger) < n {
			return nil, fmt.Errorf("the server streamed %d answers, want %d", len(ledger), n)
		}
		return ledger[len(ledger)-n:], nil
	}
	byID := map[string]mock.Account{}
	for _, a := range ledger {
		byID[a.ID] = a
	}
	var served []mock.Account
	for _, one := range r.Requests {
		a, ok := byID[one.ID]
		if !ok || len(a.Writes) != len(one.Gaps)+1 {
			return nil, fmt.Errorf("request %q: the server sent %d tokens, the client saw %d", one.ID, len(a.Writes), len(one.Gaps)+1)
		}
		served = append(served, a)
	}
	return served, nil
}

// truthOf is what the server knows of requests.
func truthOf(served []mock.Account) (truth report) {
	for _, a := range served {
		truth.Requests = append(truth.Requests, request{ID: a.ID, TTFT: float64(a.Writes[0]-a.Received) / 1e6, Gaps: gapsOf(a.Writes)})
	}
	return truth
}

// gapsOf are the milliseconds between neighbours.
func gapsOf(times []int64) (gaps []float64) {
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, float64(times[i]-times[i-1])/1e6)
	}
	return gaps
}
