//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// benchResult is the file that `vllm bench serve` writes.
const benchResult = "bench.json"

func vllmBenchCommand(p programs, l load) *exec.Cmd {
	return benchCommand(p, l, filepath.Join(p.vllm, "venv", "bin", "vllm"), "bench", "serve")
}

// rustBenchCommand runs the port of the same to Rust, which takes the same options and writes the same file.
func rustBenchCommand(p programs, l load) *exec.Cmd {
	return benchCommand(p, l, filepath.Join(p.vllmBench, "bin", "vllm-bench"))
}

func benchCommand(p programs, l load, program string, arguments ...string) *exec.Cmd {
	arguments = append(arguments, "--backend=openai-chat", "--endpoint=/v1/chat/completions", "--base-url="+l.URL,
		"--model="+l.Model, "--tokenizer="+l.Tokenizer, "--dataset-name=random",
		// It does not count what the chat template adds.
		"--random-input-len="+strconv.Itoa(l.Prompt-l.Template), "--random-output-len="+strconv.Itoa(l.Output),
		"--num-prompts="+strconv.Itoa(l.Requests), "--num-warmups="+strconv.Itoa(l.Warmup), "--seed="+strconv.Itoa(l.Seed),
		"--extra-body="+l.extraFields(), "--save-result", "--save-detailed",
		"--result-dir="+l.Dir, "--result-filename="+benchResult, "--disable-tqdm")
	if l.Streams > 0 {
		arguments = append(arguments, "--max-concurrency="+strconv.Itoa(l.Streams))
	} else {
		arguments = append(arguments, fmt.Sprintf("--request-rate=%g", l.Rate))
	}
	command := exec.Command(program, arguments...)
	command.Env = offline()
	return command
}

// readBench reads what either of the two wrote. Its latencies are in seconds.
func readBench(_ programs, l load) (report, error) {
	data, err := os.ReadFile(filepath.Join(l.Dir, benchResult))
	if err != nil {
		return report{}, err
	}
	var result struct {
		Throughput float64     `json:"output_throughput"`
		TTFTs      []float64   `json:"ttfts"`
		ITLs       [][]float64 `json:"itls"`
		Latencies  []float64   `json:"latencies"`
		Tokens     []int       `json:"output_lens"`
		Errors     []string    `json:"errors"`
	}
	if err := json.Unmarshal(data, &result); err != nil {
		return report{}, fmt.Errorf("reading %s: %w", benchResult, err)
	}
	n := len(result.TTFTs)
	if n == 0 || len(result.ITLs) != n || len(result.Latencies) != n || len(result.Tokens) != n || len(result.Errors) != n {
		return report{}, errors.New(benchResult + " has not the same number of everything")
	}
	r := report{Throughput: result.Throughput}
	for i, ttft := range result.TTFTs {
		if result.Errors[i] != "" {
			r.Failed++
			continue
		}
		one := request{TTFT: 1e3 * ttft, TPOT: math.NaN(), Tokens: result.Tokens[i]}
		if one.Tokens > 1 {
			one.TPOT = 1e3 * (result.Latencies[i] - ttft) / float64(one.Tokens-1)
		}
		for _, gap := range result.ITLs[i] {
			one.Gaps = append(one.Gaps, 1e3*gap)
		}
		r.Requests = append(r.Requests, one)
	}
	return r, nil
}
