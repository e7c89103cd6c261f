//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llm-prober/llm_prober/e2e/compare/mock"
)

// The processors of the two sides.
const (
	serverCPU = 0
	clientCPU = 1
)

// pace is what the mock does, and mockOutput how many tokens it is asked for.
var pace = mock.Config{Model: "tiny", Prompt: mockPrompt, First: 50 * time.Millisecond, Every: 10 * time.Millisecond}

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
	Withheld float64 // share of gaps that the client says it does not know
	InFlight float64 // mean number of streams that the server had, from the first to the last

	CPU, CPUStreaming float64 // seconds; of the whole client, and from the first request to the last token
	PeakMB            float64
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
	server, err := startMock(pace, serverCPU)
	if err != nil {
		return clientFigures{}, err
	}
	l.URL = server.url
	cost, err := runClient(ctx, c.command(o.programs, l), clientCPU)
	if err != nil {
		server.kill()
		return clientFigures{}, err
	}
	ledger, err := server.finish()
	if err != nil {
		return clientFigures{}, err
	}
	r, err := c.read(o.programs, l)
	if err != nil {
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
	truth := truthOf(served, r)
	f.TTFT, f.ServedTTFT = spreadOf(r.ttfts()), spreadOf(truth.ttfts())
	f.ITL, f.ServedITL = spreadOf(r.gaps()), spreadOf(truth.gaps())
	f.OwnITL = f.ServedITL
	if c.RoleToken {
		f.OwnITL = spreadOf(known(served, func(a mock.Account) []float64 { return gapsOf(append([]int64{a.Role}, a.Tokens...)) }))
	}
	all := len(known(r.Requests, func(r request) []float64 { return make([]float64, len(r.Gaps)) }))
	f.Withheld = 1 - float64(len(r.gaps()))/float64(all)
	from, to := served[0].Received, int64(0)
	busy := 0.0
	for _, a := range served {
		end := a.Tokens[len(a.Tokens)-1]
		from, to = min(from, a.Received), max(to, end)
		busy += float64(end - a.Received)
	}
	f.InFlight = busy / float64(to-from)
	f.CPUStreaming = cost.between(time.Unix(0, from), time.Unix(0, to))
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
		if !ok || len(a.Tokens) != len(one.Gaps)+1 {
			return nil, fmt.Errorf("request %q: the server sent %d tokens, the client saw %d", one.ID, len(a.Tokens), len(one.Gaps)+1)
		}
		served = append(served, a)
	}
	return served, nil
}

// truthOf is what the server knows of the requests. Where a client says of a single value that it does not know it,
// the truth leaves the same out.
func truthOf(served []mock.Account, r report) (truth report) {
	for i, a := range served {
		one := request{ID: a.ID, TTFT: float64(a.Tokens[0]-a.Received) / 1e6, Gaps: gapsOf(a.Tokens)}
		if r.Requests[0].ID != "" {
			if math.IsNaN(r.Requests[i].TTFT) {
				one.TTFT = math.NaN()
			}
			for j, gap := range r.Requests[i].Gaps {
				if math.IsNaN(gap) {
					one.Gaps[j] = math.NaN()
				}
			}
		}
		truth.Requests = append(truth.Requests, one)
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
