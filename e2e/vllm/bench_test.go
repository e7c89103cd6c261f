//go:build vllm

package vllm

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// measured is what a client measured of requests of one shape, and what the server says of the same requests.
type measured struct {
	ttfts, gaps []float64 // seconds
	server      growth    // of the server's own metrics
}

func (m measured) ttft(p float64) time.Duration { return seconds(quantile(m.ttfts, p)) }
func (m measured) itl(p float64) time.Duration  { return seconds(quantile(m.gaps, p)) }
func (m measured) meanTTFT() time.Duration      { return seconds(mean(m.ttfts)) }
func (m measured) meanITL() time.Duration       { return seconds(mean(m.gaps)) }

func (m measured) serverTTFT() time.Duration {
	return m.server.mean("vllm:time_to_first_token_seconds")
}

func (m measured) serverITL() time.Duration { return m.server.mean("vllm:inter_token_latency_seconds") }

// and pools the measurements of two runs.
func (m measured) and(other measured) measured {
	sum := func(g, h growth) growth {
		pooled := page{}
		for series, value := range g.after {
			pooled[series] = value - g.before[series] + h.after[series] - h.before[series]
		}
		none := page{}
		for series := range pooled {
			none[series] = 0
		}
		return growth{none, pooled}
	}
	return measured{slices.Concat(m.ttfts, other.ttfts), slices.Concat(m.gaps, other.gaps), sum(m.server, other.server)}
}

// vllmBench runs `vllm bench serve` with requests of the same shape and the same fields as the prober's, one a
// second.
func vllmBench(t *testing.T, s *server, promptTokens, outputTokens, requests int) measured {
	t.Helper()
	dir := virtualEnv(t)
	out := filepath.Join(t.TempDir(), "bench.json")
	extra := fmt.Sprintf(`{"min_tokens":%d,"seed":42,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, outputTokens)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "venv", "bin", "vllm"), "bench", "serve",
		"--backend=openai-chat", "--endpoint=/v1/chat/completions", "--base-url="+s.url, "--model=tiny", "--tokenizer=./tiny",
		"--dataset-name=random", "--random-output-len", fmt.Sprint(outputTokens),
		// It does not count what the chat template adds.
		"--random-input-len", fmt.Sprint(promptTokens-s.templateTokens(t)),
		"--num-prompts", fmt.Sprint(requests), "--request-rate=1", "--burstiness=1e6", // constant
		// Another seed each time: the same prompts would be in the prefix cache.
		"--seed", fmt.Sprint(rand.IntN(1<<30)),
		"--ignore-eos", "--temperature=0", "--extra-body", extra,
		"--save-result", "--save-detailed", "--result-dir="+filepath.Dir(out), "--result-filename="+filepath.Base(out), "--disable-tqdm")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "VLLM_CPU_CI_ENV=1", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1")
	before := s.metrics(t)
	if log, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("vllm bench serve: %v\n%s", err, log[max(0, len(log)-3000):])
	}
	after := s.metrics(t)
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Completed int
		TTFTs     []float64   `json:"ttfts"`
		ITLs      [][]float64 `json:"itls"`
		Prompts   int         `json:"total_input_tokens"`
		Outputs   int         `json:"total_output_tokens"`
	}
	if err := json.Unmarshal(data, &report); err != nil {
		t.Fatalf("reading what vllm bench serve wrote: %v", err)
	}
	if report.Completed != requests || report.Outputs != requests*outputTokens {
		t.Fatalf("vllm bench serve completed %d requests with %d tokens, want %d with %d", report.Completed, report.Outputs, requests, requests*outputTokens)
	}
	// Its prompts are decoded and encoded again, and lose or win a token now and then.
	if off := float64(report.Prompts)/float64(requests*promptTokens) - 1; off > 0.01 || off < -0.01 {
		t.Fatalf("vllm bench serve sent %d prompt tokens, want %d", report.Prompts, requests*promptTokens)
	}
	return measured{report.TTFTs, slices.Concat(report.ITLs...), growth{before, after}}
}

// quantile interpolates between the nearest values, as numpy and so vLLM's benchmark does.
func quantile(values []float64, p float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	at := p * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
