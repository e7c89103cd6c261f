//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// vllmFigures is one run of one client against vLLM.
type vllmFigures struct {
	Client string
	Load   string

	TTFT, ITL, TPOT spread // milliseconds
	Throughput      float64
	Failed          int

	ServerTTFT, ServerITL float64 // milliseconds, means, by vLLM's own account of what was measured
	PromptTokens          float64 // a request, by the same
}

// vllmLoads are requests of 256 prompt and 64 output tokens, about a quarter of a minute of each load.
func vllmLoads(quick bool) []load {
	loads := []load{{Streams: 1, Requests: 60}, {Streams: 4, Requests: 160}, {Streams: 16, Requests: 320}, {Rate: 2, Requests: 60}, {Rate: 8, Requests: 200}}
	for i := range loads {
		loads[i].Prompt, loads[i].Output, loads[i].Warmup, loads[i].Usage = 256, 64, 5, true
		if quick {
			loads[i].Requests = max(5, loads[i].Streams)
		}
	}
	return loads
}

// compareVLLM runs the clients against a real vLLM, one after another at each load.
func compareVLLM(ctx context.Context, o options) (string, error) {
	server, err := startVLLM(ctx, o)
	if err != nil {
		return "", err
	}
	defer server.stop()
	model, err := server.model(ctx)
	if err != nil {
		return "", err
	}
	template, err := server.templateTokens(ctx)
	if err != nil {
		return "", err
	}
	o.clients = without(o.clients, "vllm-bench")
	var all []vllmFigures
	for _, l := range vllmLoads(o.quick) {
		if !o.wants(l) {
			continue
		}
		l.URL, l.Model, l.Tokenizer, l.Template = server.url, model, o.vllm+"/tiny", template
		for round := range o.rounds {
			for i, c := range o.rotated(round) {
				l.Seed = 1 + round*len(o.clients) + i // no prompt comes twice
				figures, err := once(o, c, l, round, func(dir string) (vllmFigures, error) {
					l.Dir = dir
					return againstVLLM(ctx, o, c, l, server)
				})
				if err != nil {
					return "", err
				}
				all = append(all, figures)
			}
		}
	}
	return vllmTable(all), nil
}

// againstVLLM is one run of one client.
func againstVLLM(ctx context.Context, o options, c client, l load, server *vllm) (vllmFigures, error) {
	watch := server.watch(ctx, l.Warmup+fewRequests)
	r, _, err := c.run(ctx, o.programs, l)
	pages, failed := watch()
	if err := errors.Join(err, failed); err != nil {
		return vllmFigures{}, err
	}
	time.Sleep(200 * time.Millisecond) // the last request is counted a moment after its end
	after, err := server.metrics(ctx)
	if err != nil {
		return vllmFigures{}, err
	}
	before := warm(pages, after, l.Requests)
	for _, one := range r.Requests {
		if one.Tokens != l.Output {
			return vllmFigures{}, fmt.Errorf("an answer of %d tokens, want %d", one.Tokens, l.Output)
		}
	}
	grown := func(name string) float64 { return after[name] - before[name] }
	average := func(name string) float64 { return grown(name+"_sum") / grown(name+"_count") }
	return vllmFigures{
		Client: c.Name, Load: l.name(),
		TTFT: spreadOf(r.ttfts()), ITL: spreadOf(r.gaps()), TPOT: spreadOf(r.tpots()), Throughput: r.Throughput,
		Failed:       r.Failed,
		ServerTTFT:   1e3 * average("vllm:time_to_first_token_seconds"),
		ServerITL:    1e3 * average("vllm:inter_token_latency_seconds"),
		PromptTokens: average("vllm:request_prompt_tokens"),
	}, nil
}

// fewRequests is more than a client sends beside its warm-up and what it measures.
const fewRequests = 4

const answered = "vllm:time_to_first_token_seconds_count"

// warm picks, of the pages that were seen while a client ran, the first after which only what it measures, n
// requests or a few less, was still to come.
func warm(pages []map[string]float64, after map[string]float64, n int) map[string]float64 {
	for _, page := range pages {
		if after[answered]-page[answered] <= float64(n) {
			return page
		}
	}
	return pages[len(pages)-1]
}

func without(from []client, name string) (rest []client) {
	for _, c := range from {
		if c.Name != name {
			rest = append(rest, c)
		}
	}
	return rest
}
