//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

func evalscopeCommand(p programs, l load) *exec.Cmd {
	arguments := []string{
		"perf", "--model", l.Model, "--url", l.URL + "/v1/chat/completions", "--api", "openai",
		"--dataset", "random", "--tokenizer-path", l.Tokenizer,
		"--min-prompt-length", strconv.Itoa(l.Prompt), "--max-prompt-length", strconv.Itoa(l.Prompt), "--prefix-length", "0",
		"--min-tokens", strconv.Itoa(l.Output), "--max-tokens", strconv.Itoa(l.Output),
		"--number", strconv.Itoa(l.Requests), "--warmup-num", strconv.Itoa(l.Warmup), "--seed", strconv.Itoa(l.Seed),
		"--temperature", "0", "--total-timeout", "120", "--stream", "--extra-args", l.extraFields(),
		"--name", "run", "--outputs-dir", l.Dir, "--no-timestamp",
	}
	if l.Streams > 0 {
		arguments = append(arguments, "--parallel", strconv.Itoa(l.Streams), "--in-flight-task-multiplier", "1")
	} else {
		arguments = append(arguments, "--open-loop", "--rate", fmt.Sprintf("%g", l.Rate))
	}
	command := exec.Command(filepath.Join(p.evalscope, "venv", "bin", "evalscope"), arguments...)
	command.Env = offline()
	command.Dir = l.Dir
	return command
}

// evalscopeRows prints the requests that EvalScope has put into its database, as JSON. Go's library reads no SQLite.
const evalscopeRows = `
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute(
    "SELECT success, start_time, completed_time, first_chunk_latency, time_per_output_token, inter_token_latencies, completion_tokens FROM result")
json.dump([dict(zip(("success", "start", "end", "ttft", "tpot", "gaps", "tokens"), (*row[:5], json.loads(row[5]), row[6]))) for row in rows], sys.stdout)
`

// readEvalscope reads EvalScope's database, where it keeps what it saw of every request.
func readEvalscope(p programs, l load) (report, error) {
	databases, err := filepath.Glob(filepath.Join(l.Dir, "run", "*", "benchmark_data.db"))
	if err != nil || len(databases) != 1 {
		return report{}, fmt.Errorf("evalscope left %d databases: %w", len(databases), os.ErrNotExist)
	}
	command := exec.Command(filepath.Join(p.evalscope, "venv", "bin", "python"), "-c", evalscopeRows, databases[0])
	command.Stderr = os.Stderr
	data, err := command.Output()
	if err != nil {
		return report{}, fmt.Errorf("reading %s: %w", databases[0], err)
	}
	return parseEvalscope(data)
}

// parseEvalscope counts throughput as EvalScope does: from the first start to the last end.
func parseEvalscope(data []byte) (report, error) {
	var rows []struct {
		Success    int
		Start, End float64 // seconds
		TTFT, TPOT float64
		Gaps       []float64
		Tokens     int
	}
	if err := json.Unmarshal(data, &rows); err != nil {
		return report{}, fmt.Errorf("reading EvalScope's requests: %w", err)
	}
	var r report
	var first, last, tokens float64
	for _, row := range rows {
		if first == 0 || row.Start < first {
			first = row.Start
		}
		if row.Success == 0 {
			r.Failed++
			continue
		}
		last = max(last, row.End)
		tokens += float64(row.Tokens)
		one := request{TTFT: 1e3 * row.TTFT, TPOT: 1e3 * row.TPOT, Tokens: row.Tokens}
		for _, gap := range row.Gaps {
			one.Gaps = append(one.Gaps, 1e3*gap)
		}
		r.Requests = append(r.Requests, one)
	}
	r.Throughput = tokens / (last - first)
	return r, nil
}
