//go:build vllm

package vllm

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 5 * time.Minute // of a server; 20 to 60 s on an idle machine
	lifeLimit  = "30m"           // of a server, even if the test is killed; as timeout(1) takes it
)

// server is a vLLM of the test's own.
type server struct {
	port    int
	url     string
	options []string

	cmd     *exec.Cmd
	exited  chan struct{}
	logPath string
}

// startServer starts a vLLM with options of `vllm serve` and waits until it is healthy. It ends with the test.
func startServer(t *testing.T, options ...string) *server {
	t.Helper()
	port := freePort(t)
	s := &server{port: port, url: fmt.Sprintf("http://127.0.0.1:%d", port), options: options}
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	return s
}

// freePort finds a port of a small range, so that whatever is left of a test can be found.
func freePort(t *testing.T) int {
	t.Helper()
	for port := 8100; port <= 8110; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port from 8100 to 8110 is free")
	return 0
}

// start starts the server, also a second time after it has died.
func (s *server) start(t *testing.T) {
	t.Helper()
	logFile, err := os.Create(filepath.Join(t.TempDir(), "vllm.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	// timeout(1) makes a process group of its own, which is ended as a whole.
	args := append([]string{"--kill-after=30s", lifeLimit, "./serve.sh", strconv.Itoa(s.port)}, s.options...)
	s.cmd = exec.Command("timeout", args...)
	s.cmd.Stdout, s.cmd.Stderr = logFile, logFile
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	s.logPath, s.exited = logFile.Name(), make(chan struct{})
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		_ = cmd.Wait() // how it ended is for its log to tell
		close(exited)
	}(s.cmd, s.exited)
	began := time.Now()
	for s.status("/health") != http.StatusOK {
		select {
		case <-s.exited:
			t.Fatalf("vLLM ended at its start:\n%s", s.logTail())
		case <-time.After(time.Second):
		}
		if time.Since(began) > startLimit {
			t.Fatalf("vLLM is not healthy after %s:\n%s", startLimit, s.logTail())
		}
	}
	t.Logf("vLLM %s is healthy after %s", strings.Join(s.options, " "), time.Since(began).Round(time.Second))
}

// stop ends the server and all its processes, whatever state they are in.
func (s *server) stop(t *testing.T) {
	group := -s.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGCONT) // a stopped process cannot end
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(20 * time.Second):
		t.Log("vLLM does not end by itself")
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-s.exited
}

func (s *server) logTail() string {
	data, _ := os.ReadFile(s.logPath)
	return string(data[max(0, len(data)-3000):])
}

// status is the HTTP status of a page of the server; 0 if none came.
func (s *server) status(path string) int {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get(s.url + path)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// engine lists the processes of the server that compute.
func (s *server) engine(t *testing.T) []int {
	t.Helper()
	var pids []int
	for _, pid := range descendants(t, s.cmd.Process.Pid) {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.HasPrefix(name, []byte("VLLM::EngineCore")) || bytes.HasPrefix(name, []byte("VLLM::Worker")) {
			pids = append(pids, pid)
		}
	}
	if len(pids) < 2 {
		t.Fatalf("the engine has processes %v, want EngineCore and at least one Worker", pids)
	}
	return pids
}

// signalEngine sends a signal to all processes of the engine.
func (s *server) signalEngine(t *testing.T, sig syscall.Signal) {
	t.Helper()
	for _, pid := range s.engine(t) {
		if err := syscall.Kill(pid, sig); err != nil && err != syscall.ESRCH {
			t.Fatalf("sending %s to process %d of the engine: %v", sig, pid, err)
		}
	}
}

// descendants lists the children of a process, their children, and so on.
func descendants(t *testing.T, root int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	children := map[int][]int{}
	for _, stat := range stats {
		data, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		// "pid (name) state ppid …", and the name may have anything in it.
		fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(stat)))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
	}
	all := slices.Clone(children[root])
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

// metrics is the server's own page.
func (s *server) metrics(t *testing.T) page {
	t.Helper()
	return getPage(t, s.url+"/metrics")
}

// templateTokens is how many tokens the chat template adds to a message.
func (s *server) templateTokens(t *testing.T) int {
	t.Helper()
	count := func(body string) int {
		var answer struct{ Count int }
		postJSON(t, s.url+"/tokenize", body, &answer)
		return answer.Count
	}
	return count(`{"messages":[{"role":"user","content":"word"}]}`) - count(`{"prompt":"word","add_special_tokens":false}`)
}

// virtualEnv is where setup.sh has put vLLM.
func virtualEnv(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("LLM_PROBER_VLLM_DIR"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, ".cache", "llm_prober", "vllm")
}

// eventually waits until a condition holds, and fails if it does not within a limit.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}
