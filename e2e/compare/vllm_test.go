//go:build linux

package main

import "testing"

func TestMetricsAreSummedOverLabels(t *testing.T) {
	got, err := parseMetrics([]byte("# HELP a b\n# TYPE a counter\na{x=\"1 2\",y=\"}\"} 3\na{x=\"3\"} 4.5\nb 1e3\n\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got["a"] != 7.5 || got["b"] != 1000 {
		t.Errorf("parsed as %v, want a=7.5 b=1000", got)
	}
	if _, err := parseMetrics([]byte("a{} no\n")); err == nil {
		t.Error("a value that is no number was read")
	}
}

// A client sent two requests of its own and measured ten. Whatever was counted before the second ended is not among
// the ten.
func TestWarmUpIsNotInTheServersAccount(t *testing.T) {
	page := func(count float64) map[string]float64 { return map[string]float64{answered: count} }
	pages := []map[string]float64{page(100), page(100), page(101), page(103), page(105)}
	if got := warm(pages, page(112), 10); got[answered] != 103 {
		t.Errorf("counted from %v on, want 103: the first page after 102", got[answered])
	}
	if got := warm(pages, page(120), 10); got[answered] != 105 {
		t.Errorf("counted from %v on, want the last page", got[answered])
	}
}

func TestVLLMTable(t *testing.T) {
	run := func(client string, ttft, itl, server float64) vllmFigures {
		return vllmFigures{
			Client: client, Load: "c=4", TTFT: spread{ttft + 1, ttft, 0}, ITL: spread{itl, itl, 0}, TPOT: spread{0, itl, 0}, Throughput: 100,
			ServerTTFT: server, ServerITL: 4, PromptTokens: 256,
		}
	}
	ours, slower := run("probetool sweep", 20, 4, 18), run("evalscope perf", 22, 3, 19)
	slower.Failed, slower.PromptTokens = 2, 255.5
	got := vllmTable([]vllmFigures{
		slower, ours,
		run("probetool sweep", 30, 5, 18), run("evalscope perf", 33, 6, 19),
		run("evalscope perf", 11, 2, 19), run("probetool sweep", 10, 3, 18),
	})
	const want = `| load | figure | probetool sweep | evalscope perf |
| --- | --- | --- | --- |
| c=4 | TTFT median, ms | 20.00 | 22.00 (1.100) |
| c=4 | ITL median, ms | 4.00 | 3.00 (0.750) |
| c=4 | TPOT median, ms | 4.00 | 3.00 (0.750) |
| c=4 | output, tok/s | 100.0 | 100.0 (1.000) |
| c=4 | TTFT mean, ms | 21.00 | 23.00 (1.095) |
| c=4 | TTFT mean by vLLM, ms | 18.00 | 19.00 (1.056) |
| c=4 | TTFT mean, less vLLM's, ms | 3.00 | 4.00 (1.333) |
| c=4 | ITL mean, ms | 4.00 | 3.00 (0.750) |
| c=4 | ITL mean by vLLM, ms | 4.00 | 4.00 (1.000) |
| c=4 | ITL mean, to vLLM's | 1.000 | 0.750 (0.750) |

Failed requests: 2. Prompt tokens a request, mean of each run: 255.50 to 256.00.
`
	if got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
}

// In three rounds each of three clients is the first once.
func TestRoundsRotate(t *testing.T) {
	o := options{clients: without(clients(), "vllm-bench")}
	for place := range o.clients {
		seen := map[string]bool{}
		for round := range 3 {
			seen[o.rotated(round)[place].Name] = true
		}
		if len(seen) != 3 {
			t.Errorf("place %d was taken by %v only", place, seen)
		}
	}
}
