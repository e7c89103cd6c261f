//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// vllm is a real vLLM with the tiny model.
type vllm struct {
	url     string
	command *exec.Cmd // nil if it is not ours to end
	log     string
	ended   chan struct{}
}

const (
	vllmPort       = 8100
	vllmStartLimit = 5 * time.Minute
)

// startVLLM starts one and waits until it is healthy. No prefix cache, as in the article: whatever a client sends
// twice is computed twice.
func startVLLM(ctx context.Context, o options) (*vllm, error) {
	if o.url != "" {
		return &vllm{url: strings.TrimSuffix(o.url, "/")}, nil
	}
	v := &vllm{url: fmt.Sprintf("http://127.0.0.1:%d", vllmPort), log: filepath.Join(o.dir, "vllm.log"), ended: make(chan struct{})}
	serve, err := filepath.Abs(filepath.Join(o.root, "e2e", "vllm", "serve.sh"))
	if err != nil {
		return nil, err
	}
	log, err := os.Create(v.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	v.command = exec.Command(serve, strconv.Itoa(vllmPort), "--no-enable-prefix-caching", "--max-num-seqs", "64")
	v.command.Stdout, v.command.Stderr = log, log
	v.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := v.command.Start(); err != nil {
		return nil, fmt.Errorf("starting vLLM: %w", err)
	}
	go func() {
		_ = v.command.Wait() // how it ended is for its log to tell
		close(v.ended)
	}()
	if err := v.wait(ctx); err != nil {
		v.stop()
		return nil, fmt.Errorf("%w: see %s", err, v.log)
	}
	return v, nil
}

func (v *vllm) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, vllmStartLimit)
	defer cancel()
	for {
		if _, err := v.get(ctx, "/health"); err == nil {
			return nil
		}
		select {
		case <-v.ended:
			return errors.New("vLLM ended at its start")
		case <-ctx.Done():
			return fmt.Errorf("vLLM is not healthy: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// stop ends the server and all its processes.
func (v *vllm) stop() {
	if v.command == nil {
		return
	}
	_ = syscall.Kill(-v.command.Process.Pid, syscall.SIGTERM)
	select {
	case <-v.ended:
	case <-time.After(20 * time.Second):
	}
	_ = syscall.Kill(-v.command.Process.Pid, syscall.SIGKILL)
	<-v.ended
}

func (v *vllm) get(ctx context.Context, path string) ([]byte, error) {
	return v.do(ctx, http.MethodGet, path, nil)
}

func (v *vllm) do(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, v.url+path, body)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, response.Status)
	}
	return answer, nil
}

// model is the first that the server lists.
func (v *vllm) model(ctx context.Context) (string, error) {
	answer, err := v.get(ctx, "/v1/models")
	if err != nil {
		return "", err
	}
	var models struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(answer, &models); err != nil {
		return "", fmt.Errorf("/v1/models: %w", err)
	}
	if len(models.Data) == 0 {
		return "", errors.New("/v1/models: none")
	}
	return models.Data[0].ID, nil
}

// templateTokens is how many tokens the chat template adds to a message.
func (v *vllm) templateTokens(ctx context.Context) (int, error) {
	count := func(body string) (int, error) {
		answer, err := v.do(ctx, http.MethodPost, "/tokenize", strings.NewReader(body))
		if err != nil {
			return 0, err
		}
		var tokens struct{ Count int }
		return tokens.Count, json.Unmarshal(answer, &tokens)
	}
	whole, err := count(`{"messages":[{"role":"user","content":"word"}]}`)
	if err != nil {
		return 0, err
	}
	word, err := count(`{"prompt":"word","add_special_tokens":false}`)
	return whole - word, err
}

// watch looks at the server's metrics ten times a second, until it has begun to answer so many more requests or until
// it is told to stop, and returns what it saw. It does not disturb what comes after.
func (v *vllm) watch(ctx context.Context, requests int) (stop func() (pages []map[string]float64, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	var pages []map[string]float64
	seen := make(chan error, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			page, err := v.metrics(context.WithoutCancel(ctx))
			if err != nil {
				seen <- err
				return
			}
			pages = append(pages, page)
			if page[answered]-pages[0][answered] >= float64(requests) {
				seen <- nil
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				seen <- nil
				return
			}
		}
	}()
	return func() ([]map[string]float64, error) {
		cancel()
		err := <-seen
		return pages, err
	}
}

// metrics is the server's own page: its values summed over all labels.
func (v *vllm) metrics(ctx context.Context) (map[string]float64, error) {
	page, err := v.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(page)
}

func parseMetrics(page []byte) (map[string]float64, error) {
	values := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(page)); lines.Scan(); {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[end+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %q: %w", line, err)
		}
		name, _, _ := strings.Cut(line[:end], "{")
		values[name] += value
	}
	return values, nil
}
