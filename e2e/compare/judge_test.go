//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/mock"
)

const ms = int64(time.Millisecond)

// served is a request that came at a time and was answered with three tokens, the role 1 ms before the first.
func served(id string, at, ttft, gap int64) mock.Account {
	first := at + ttft
	return mock.Account{ID: id, Received: at * ms, Role: (first - 1) * ms, Writes: []int64{first * ms, (first + gap) * ms, (first + 2*gap) * ms}}
}

// A rival says nothing of single requests: the last that came are those it measured.
func TestJudgeAClientThatCountsTheRoleChunk(t *testing.T) {
	ledger := []mock.Account{served("", 3000, 60, 20), served("", 0, 500, 500), served("", 2000, 50, 10)} // in the order of their ends
	r := report{Requests: []request{{TTFT: 52, Gaps: []float64{0, 10, 10}}, {TTFT: 64, Gaps: []float64{0, 20, 20}}}}
	cost := usage{CPU: 3, PeakMB: 7, looks: []look{{at: time.UnixMilli(2000), cpu: 1}, {at: time.UnixMilli(3100), cpu: 2}}}
	f, err := judge(client{Name: "rival", RoleToken: true}, load{Streams: 1, Requests: 2, Output: 3}, r, ledger, cost)
	if err != nil {
		t.Fatal(err)
	}
	want := clientFigures{
		Client: "rival", Streams: 1,
		TTFT: spread{58, 52, 64}, ServedTTFT: spread{55, 50, 60},
		ITL: spread{10, 10, 20}, ServedITL: spread{15, 10, 20}, OwnITL: spread{62.0 / 6, 10, 20},
		// 70 and 100 ms of streams within 1100 ms.
		InFlight: 170.0 / 1100, CPU: 3, CPURunning: 2, PeakMB: 7,
	}
	if f != want {
		t.Errorf("judged\n%+v, want\n%+v", f, want)
	}
}

// Ours names its requests.
func TestJudgeAClientThatNamesItsRequests(t *testing.T) {
	ledger := []mock.Account{served("warm", 0, 500, 500), served("a", 2000, 50, 10), served("b", 2000, 90, 40)}
	r := report{Failed: 1, Requests: []request{{ID: "b", TTFT: 91, Gaps: []float64{41, 40}}, {ID: "a", TTFT: 51, Gaps: []float64{10, 10}}}}
	f, err := judge(client{Name: "ours"}, load{Streams: 2, Requests: 3, Output: 3}, r, ledger, usage{})
	if err != nil {
		t.Fatal(err)
	}
	want := clientFigures{
		Client: "ours", Streams: 2, Failed: 1,
		TTFT: spread{71, 51, 91}, ServedTTFT: spread{70, 50, 90},
		ITL: spread{25.25, 10, 41}, ServedITL: spread{25, 10, 40}, OwnITL: spread{25, 10, 40},
		InFlight: 240.0 / 170,
	}
	if f != want {
		t.Errorf("judged\n%+v, want\n%+v", f, want)
	}
}

func TestJudgeRefusesWhatDoesNotFit(t *testing.T) {
	ledger := []mock.Account{served("a", 0, 50, 10)}
	for name, r := range map[string]report{
		"nothing succeeded":    {Failed: 1},
		"unknown to server":    {Requests: []request{{ID: "b", Gaps: []float64{1, 1}}}},
		"a token is missing":   {Requests: []request{{ID: "a", Gaps: []float64{1}}}},
		"too few were served":  {Requests: []request{{TTFT: 1}, {TTFT: 1}}},
		"one of two not known": {Requests: []request{{ID: "a", Gaps: []float64{1, 1}}, {ID: "b", Gaps: []float64{1, 1}}}},
	} {
		if f, err := judge(client{}, load{Requests: 2, Output: 3}, r, ledger, usage{}); err == nil {
			t.Errorf("%s: judged as %+v", name, f)
		}
	}
}

func TestClientTables(t *testing.T) {
	run := func(client string, error, cpu float64) clientFigures {
		return clientFigures{
			Client: client, Streams: 50, TTFT: spread{50 + error, 50, 60 - error}, ServedTTFT: spread{50, 50, 60},
			ITL: spread{9.9, 10, 11}, ServedITL: spread{10, 10, 11}, OwnITL: spread{9.9, 10, 11}, CPU: cpu, CPURunning: 1, PeakMB: 20, InFlight: 49.7,
		}
	}
	text := clientTables([]clientFigures{
		run("evalscope perf", 30, 9), run("probetool sweep", 0.01, 0.5),
		run("probetool sweep", 0.02, 0.6), run("evalscope perf", 20, 8),
		run("evalscope perf", 40, 7), run("probetool sweep", 0.03, 0.7),
	})
	const want = `Time to first token, ms:

| streams | client | TTFT served, mean / p99 | reported, mean / p99 | error of mean | error of p99 | of mean, to ours | of p99, to ours |
| --- | --- | --- | --- | --- | --- | --- | --- |
| 50 | probetool sweep | 50.0 / 60.0 | 50.0 / 60.0 | +0.020 | -0.020 | 1.00 | 1.00 |
| 50 | evalscope perf | 50.0 / 60.0 | 80.0 / 30.0 | +30.000 | -30.000 | 1500 | 1500 |

Inter-token latency, ms:

| streams | client | ITL served, mean / p50 / p99 | reported, mean / p50 / p99 | error of mean | error of p50 | error of p99 | error of mean, a role chunk counted as a token | failed requests |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 50 | probetool sweep | 10.00 / 10.00 / 11.00 | 9.90 / 10.00 / 11.00 | -0.100 | +0.000 | +0.000 | +0.000 | 0 |
| 50 | evalscope perf | 10.00 / 10.00 / 11.00 | 9.90 / 10.00 / 11.00 | -0.100 | +0.000 | +0.000 | +0.000 | 0 |

Cost:

| streams | client | streams in flight, mean | CPU, s | from the first request on, s | peak MB | CPU, to ours | from the first request on, to ours | MB, to ours |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| 50 | probetool sweep | 50 | 0.60 | 1.00 | 20 | 1.00 | 1.00 | 1.00 |
| 50 | evalscope perf | 50 | 8.00 | 1.00 | 20 | 13 | 1.00 | 1.00 |
`
	if text != want {
		t.Errorf("the tables are\n%s\nwant\n%s", text, want)
	}
}
