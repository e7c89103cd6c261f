//go:build linux

package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/llm-prober/llm_prober/e2e/figures"
)

// sample copies what a client once wrote into a run's directory.
func sample(t *testing.T, from, to string) load {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", from))
	if err != nil {
		t.Fatal(err)
	}
	l := load{Dir: t.TempDir()}
	to = filepath.Join(l.Dir, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return l
}

// summary is what a client itself says of the requests in its sample; none where it says nothing.
type summary struct{ ttft, tpot, itl, throughput float64 }

// What is read of a client's requests gives the means that the client reports of them.
func TestWhatIsReadGivesTheClientsOwnMeans(t *testing.T) {
	for name, test := range map[string]struct {
		read func(t *testing.T) (report, error)
		want summary
		to   float64
	}{
		"vllm bench serve": {
			func(t *testing.T) (report, error) {
				return readBench(programs{}, sample(t, "bench-python.json", benchResult))
			},
			summary{55.65135399956489, 9.896101666830267, 6.5974011112201785, 59.93581433694148},
			1e-9,
		},
		"vllm-bench": {
			func(t *testing.T) (report, error) {
				return readBench(programs{}, sample(t, "bench-rust.json", benchResult))
			},
			summary{50.51920133333334, 10.210572333333332, 6.794785555555555, 63.48837288047594},
			1e-9,
		},
		"evalscope perf": { // it rounds
			func(t *testing.T) (report, error) {
				data, err := os.ReadFile("testdata/evalscope.json")
				if err != nil {
					t.Fatal(err)
				}
				return parseEvalscope(data)
			},
			summary{52.83, 10.02, 6.63, 61.4649},
			1e-3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := test.read(t)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Requests) != 3 || r.Failed != 0 {
				t.Fatalf("%d requests and %d failures, want 3 and 0", len(r.Requests), r.Failed)
			}
			for i, one := range r.Requests {
				if one.Tokens != 3 || len(one.Gaps) != 3 {
					t.Errorf("request %d: %d tokens and %d gaps, want 3 and, since the role chunk counts, 3", i, one.Tokens, len(one.Gaps))
				}
			}
			got := summary{figures.Mean(r.ttfts()), figures.Mean(r.tpots()), figures.Mean(r.gaps()), r.Throughput}
			for what, pair := range map[string][2]float64{
				"TTFT": {got.ttft, test.want.ttft}, "TPOT": {got.tpot, test.want.tpot},
				"ITL": {got.itl, test.want.itl}, "throughput": {got.throughput, test.want.throughput},
			} {
				if !near(pair[0], pair[1], test.to) {
					t.Errorf("%s: mean %v, the client says %v", what, pair[0], pair[1])
				}
			}
		})
	}
}

func TestSweepRequestsLeaveNothingOut(t *testing.T) {
	r, err := readSweep(programs{}, sample(t, "requests.jsonl", "run/requests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := []request{
		{"a", 50.5, 10, []float64{10, 10, 10}, 4},
		{"b", 52, 31.0 / 3, []float64{9, 12, 10}, 4},   // event 2 may have come earlier
		{"c", 51, 28.1 / 3, []float64{10, 10, 8.1}, 4}, // so may event 3, the last; and the request may have left later
	}
	if len(r.Requests) != len(want) || r.Failed != 1 {
		t.Fatalf("%d requests and %d failures, want %d and 1; warm-up is neither", len(r.Requests), r.Failed, len(want))
	}
	for i, got := range r.Requests {
		if got.ID != want[i].ID || got.Tokens != want[i].Tokens || !near(got.TTFT, want[i].TTFT, 1e-9) || !near(got.TPOT, want[i].TPOT, 1e-9) {
			t.Errorf("request %d is %+v, want %+v", i, got, want[i])
		}
		for j, gap := range got.Gaps {
			if !near(gap, want[i].Gaps[j], 1e-9) {
				t.Errorf("request %s, gap %d: %v, want %v", got.ID, j, gap, want[i].Gaps[j])
			}
		}
	}
	// Twelve tokens from the first request at 10.0001 s to the last token at 10.1601 s.
	if !near(r.Throughput, 12/0.16, 1e-9) {
		t.Errorf("throughput %v tokens a second, want 75", r.Throughput)
	}
}

func TestBenchResultsThatDoNotAddUpAreRefused(t *testing.T) {
	l := load{Dir: t.TempDir()}
	for name, text := range map[string]string{
		"empty":           `{}`,
		"no tokens":       `{"ttfts":[1],"itls":[[1]],"latencies":[1],"errors":[""]}`,
		"no JSON":         `no`,
		"one error short": `{"ttfts":[1,1],"itls":[[1],[1]],"latencies":[1,1],"output_lens":[2,2],"errors":[""]}`,
	} {
		if err := os.WriteFile(filepath.Join(l.Dir, benchResult), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if r, err := readBench(programs{}, l); err == nil {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
}

// near compares by a share of the wanted value; NaN is near NaN.
func near(got, want, share float64) bool {
	return math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= share*math.Abs(want)
}
