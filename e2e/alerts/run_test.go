package alerts

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// tool is the path of what e2e/tools.sh has built.
func tool(t *testing.T, name string) string {
	t.Helper()
	folder := os.Getenv("LLM_PROBER_TOOLS")
	if folder == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		folder = filepath.Join(home, ".cache", "llm_prober", "tools")
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run e2e/tools.sh first", err)
	}
	return path
}

// run runs a command in a folder to its end.
func run(t *testing.T, folder, name string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(name), arguments, err, output)
	}
}

// start runs a command in a folder until the test ends.
func start(t *testing.T, folder, name string, arguments ...string) {
	t.Helper()
	var output bytes.Buffer
	command := exec.Command(name, arguments...)
	command.Dir, command.Stdout, command.Stderr = folder, &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		command.Process.Signal(syscall.SIGTERM)
		command.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), output.Bytes()[max(0, output.Len()-2000):])
		}
	})
}

// build compiles the daemon as it is in the checkout.
func build(t *testing.T, folder string) string {
	t.Helper()
	binary := filepath.Join(folder, "llm_prober")
	run(t, "../..", "go", "build", "-o", binary, "./cmd/llm_prober")
	return binary
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// until waits for something to become true.
func until(t *testing.T, patience time.Duration, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after %v", what, patience)
		}
		pause(t, 100*time.Millisecond)
	}
}

// answers tells whether a page is there.
func answers(url string) func() bool {
	return func() bool {
		response, err := http.Get(url)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
}

// pause lets real time pass: Prometheus, Alertmanager and the daemon live in it.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// startPrometheus runs one on a configuration, in a folder, and returns its address.
func startPrometheus(t *testing.T, folder, config string, flags ...string) string {
	t.Helper()
	address := freeAddress(t)
	write(t, filepath.Join(folder, "prometheus.yml"), config)
	start(t, folder, tool(t, "prometheus"), append(flags, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)...)
	until(t, time.Minute, "Prometheus", answers(fmt.Sprintf("http://%s/-/ready", address)))
	return "http://" + address
}
