//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
)

// load is one run of a client: what it is asked to do, and where it may write.
type load struct {
	URL       string // of the server, without a path
	Model     string
	Tokenizer string // directory with the model's tokenizer
	Dir       string // empty, the run's own

	Streams int     // in flight at any time, of a closed loop
	Rate    float64 // Poisson arrivals a second, of an open one

	Warmup   int // requests that are not measured
	Requests int
	Prompt   int  // tokens, with what the chat template adds
	Template int  // of these are the template's
	Output   int  // tokens
	Usage    bool // ask for the count of tokens in every event, as probetool does
	Seed     int
}

// name is the load as the tables name it.
func (l load) name() string {
	if l.Streams > 0 {
		return fmt.Sprintf("c=%d", l.Streams)
	}
	return fmt.Sprintf("%g/s", l.Rate)
}

// request is one request as a client measured it, in milliseconds. NaN: it does not say.
type request struct {
	ID     string // X-Request-Id; empty where the client's results do not name it
	TTFT   float64
	TPOT   float64
	Gaps   []float64
	Tokens int
}

// report is what a client measured.
type report struct {
	Requests   []request // those that succeeded
	Failed     int
	Throughput float64 // output tokens a second, as the client counts it
}

func (r report) ttfts() []float64 {
	return known(r.Requests, func(r request) []float64 { return []float64{r.TTFT} })
}

func (r report) tpots() []float64 {
	return known(r.Requests, func(r request) []float64 { return []float64{r.TPOT} })
}

func (r report) gaps() []float64 {
	return known(r.Requests, func(r request) []float64 { return r.Gaps })
}

// known pools what is known of all requests.
func known[R any](requests []R, of func(R) []float64) (values []float64) {
	for _, r := range requests {
		for _, v := range of(r) {
			if !math.IsNaN(v) {
				values = append(values, v)
			}
		}
	}
	return values
}

// client is a program that benchmarks a server.
type client struct {
	Name      string
	RoleToken bool // it takes the chunk that opens a chat for a token
	doubts    int  // exit status with which it says that its figures are to be doubted; 0: it never does
	command   func(programs, load) *exec.Cmd
	read      func(programs, load) (report, error)
}

// run runs the client and reads what it measured.
func (c client) run(ctx context.Context, p programs, l load, cpus ...int) (report, usage, error) {
	cost, err := runClient(ctx, c.command(p, l), cpus...)
	var exit *exec.ExitError
	if err != nil && !(c.doubts != 0 && errors.As(err, &exit) && exit.ExitCode() == c.doubts) {
		return report{}, cost, err
	}
	r, failed := c.read(p, l)
	if failed != nil {
		return r, cost, errors.Join(failed, err)
	}
	if n := len(r.Requests) + r.Failed; n != l.Requests {
		return r, cost, errors.Join(fmt.Errorf("it reports %d requests, want %d", n, l.Requests), err)
	}
	return r, cost, nil
}

// clients are those that are compared; ours is the first.
func clients() []client {
	return []client{
		{"probetool sweep", false, 1, sweepCommand, readSweep},
		{"vllm-bench", true, 0, rustBenchCommand, readBench},
		{"vllm bench serve", true, 0, vllmBenchCommand, readBench},
		{"evalscope perf", true, 0, evalscopeCommand, readEvalscope},
	}
}

// programs are where setup.sh has put the clients.
type programs struct {
	probetool string // binary
	vllm      string // directory with venv/ and tiny/
	evalscope string // directory with venv/
	vllmBench string // directory with bin/; empty if it is not there
}

// findPrograms looks for the clients. vllm-bench may be missing: it is in no registry.
func findPrograms(probetool string) (programs, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return programs{}, err
	}
	cache := filepath.Join(home, ".cache", "llm_prober")
	p := programs{probetool, filepath.Join(cache, "vllm"), filepath.Join(cache, "evalscope"), filepath.Join(cache, "vllm-bench")}
	for _, needed := range []string{p.vllm + "/venv/bin/vllm", p.vllm + "/tiny/tokenizer.json", p.evalscope + "/venv/bin/evalscope"} {
		if _, err := os.Stat(needed); err != nil {
			return p, fmt.Errorf("%w: run e2e/compare/setup.sh first", err)
		}
	}
	if _, err := os.Stat(p.vllmBench + "/bin/vllm-bench"); err != nil {
		p.vllmBench = ""
	}
	return p, nil
}

// offline keeps the Python programs from calling home.
func offline() []string {
	return append(os.Environ(), "HF_HUB_OFFLINE=1", "VLLM_CPU_CI_ENV=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "NO_PROXY=*")
}

// extraFields are what the rivals are told to put into their requests beside their own, so that the server does the
// same work for each.
func (l load) extraFields() string {
	fields := map[string]any{
		"ignore_eos": true, "min_tokens": l.Output, "temperature": 0,
		"chat_template_kwargs": map[string]any{"enable_thinking": false},
	}
	if l.Usage {
		fields["stream_options"] = map[string]any{"include_usage": true, "continuous_usage_stats": true}
	}
	text, _ := json.Marshal(fields)
	return string(text)
}
