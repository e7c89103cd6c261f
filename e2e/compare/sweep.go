//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

func sweepCommand(p programs, l load) *exec.Cmd {
	kind, levels := "concurrency", strconv.Itoa(l.Streams)
	if l.Streams == 0 {
		kind, levels = "rate", fmt.Sprintf("%g", l.Rate)
	}
	arguments := []string{
		"sweep", kind, l.URL, "--quiet", "--levels=" + levels, "--requests=" + strconv.Itoa(l.Requests), "--warmup=" + strconv.Itoa(l.Warmup),
		"--prompt-tokens=" + strconv.Itoa(l.Prompt), "--output-tokens=" + strconv.Itoa(l.Output), "--dir=" + filepath.Join(l.Dir, "run"),
	}
	if l.Streams == 0 {
		arguments = append(arguments, "--seed="+strconv.Itoa(l.Seed))
	}
	return exec.Command(p.probetool, arguments...)
}

// line is one request in requests.jsonl.
type line struct {
	ID          string    `json:"request_id"`
	Warmup      bool      `json:"warmup"`
	Reason      string    `json:"reason"`
	Abandoned   bool      `json:"abandoned"`
	Suspect     []string  `json:"suspect"`
	Sent        time.Time `json:"sent"`
	FirstToken  time.Time `json:"first_token"`
	LastToken   time.Time `json:"last_token"`
	Gaps        []float64 `json:"gaps_seconds"`
	FirstTokens int       `json:"first_tokens"`
	Tokens      int       `json:"output_tokens"`
}

// readSweep reads the requests of a results directory.
func readSweep(_ programs, l load) (report, error) {
	file, err := os.Open(filepath.Join(l.Dir, "run", "requests.jsonl"))
	if err != nil {
		return report{}, err
	}
	defer file.Close()
	return parseSweep(file)
}

func parseSweep(in io.Reader) (r report, err error) {
	var first, last time.Time
	tokens := 0
	for d := json.NewDecoder(bufio.NewReader(in)); ; {
		var row line
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return r, fmt.Errorf("reading requests.jsonl: %w", err)
		}
		switch {
		case row.Warmup:
			continue
		case row.Reason != "" || row.Abandoned:
			r.Failed++
			continue
		}
		if first.IsZero() || row.Sent.Before(first) {
			first = row.Sent
		}
		if row.LastToken.After(last) {
			last = row.LastToken
		}
		tokens += row.Tokens
		r.Requests = append(r.Requests, row.request())
	}
	r.Throughput = float64(tokens) / last.Sub(first).Seconds()
	return r, nil
}

// request has all that the line tells. What was read late is not left out: the statistics of a sweep are of all values.
func (l line) request() request {
	r := request{ID: l.ID, TTFT: millis(l.FirstToken.Sub(l.Sent)), TPOT: math.NaN(), Tokens: l.Tokens}
	if after := l.Tokens - l.FirstTokens; after > 0 {
		r.TPOT = millis(l.LastToken.Sub(l.FirstToken)) / float64(after)
	}
	for _, gap := range l.Gaps {
		r.Gaps = append(r.Gaps, 1e3*gap)
	}
	return r
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }
