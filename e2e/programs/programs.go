// Package programs runs the real programs that the tests beside it need: daemon and tool as they are in the checkout,
// Prometheus, promtool, Alertmanager.
package programs

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// root is the checkout, seen from the folder of a test.
const root = "../.."

// Tool is the path of what e2e/tools.sh has built.
func Tool(t testing.TB, name string) string {
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

// Prober builds the daemon into a folder and returns its path.
func Prober(t testing.TB, folder string) string { return build(t, folder, "llm_prober") }

// Probetool does the same with the command line tool.
func Probetool(t testing.TB, folder string) string { return build(t, folder, "probetool") }

func build(t testing.TB, folder, name string) string {
	t.Helper()
	binary := filepath.Join(folder, name)
	Run(t, root, "go", "build", "-o", binary, "./cmd/"+name)
	return binary
}

// Run runs a command in a folder to its end.
func Run(t testing.TB, folder, name string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...)
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(name), arguments, err, output)
	}
}

// Start runs a command in a folder until the test ends. If the test fails, the end of its output is shown.
func Start(t testing.TB, folder, name string, arguments ...string) {
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

// Prometheus runs one on a configuration, in a folder, and returns its URL.
func Prometheus(t testing.TB, folder, config string, flags ...string) string {
	t.Helper()
	address := FreeAddress(t)
	Write(t, filepath.Join(folder, "prometheus.yml"), config)
	Start(t, folder, Tool(t, "prometheus"), append(flags, "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+address)...)
	Until(t, time.Minute, "Prometheus", Answers("http://"+address+"/-/ready"))
	return "http://" + address
}

// FreeAddress is an address on the loopback on which nobody listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Write writes a file.
func Write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Until waits for something to become true.
func Until(t testing.TB, patience time.Duration, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !isSo(); {
		if time.Now().After(deadline) {
			t.Fatalf("no %s after %v", what, patience)
		}
		Pause(t, 100*time.Millisecond)
	}
}

// Answers tells whether a page is there.
func Answers(url string) func() bool {
	return func() bool {
		response, err := http.Get(url)
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	}
}

// Pause lets real time pass: the programs live in it.
func Pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}
