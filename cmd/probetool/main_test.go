package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files anew")

// outcome runs a command line within the test.
func outcome(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func testdata(name string) string {
	return filepath.Join("..", "..", "internal", "config", "testdata", name)
}

func TestCheckConfig(t *testing.T) {
	valid, ten := testdata("valid.yml"), testdata("invalid-ten-mistakes.yml")
	told, err := os.ReadFile(testdata("invalid-ten-mistakes.err"))
	if err != nil {
		t.Fatal(err)
	}
	mistakes := strings.ReplaceAll(string(told), "config.yml", ten)
	describes := "warning: " + valid + ":28: targets[0].http_client_config.authorization.credentials_file: open " + testdata("key.txt") + ": no such file or directory; until the file is there, probes of the target fail as auth\n" +
		valid + ": valid; 1 target, 1 probed workload, 3 SLOs; 720 requests and 460,800 tokens an hour\n" // 720·(512+128)
	for _, c := range []struct {
		name           string
		files          []string
		code           int
		stdout, stderr string
	}{
		{"valid", []string{valid}, exitOK, describes, ""},
		{"ten mistakes", []string{ten}, exitUsage, "", mistakes},
		{"one of two is bad", []string{ten, valid}, exitUsage, describes, mistakes},
		{"missing", []string{"nope.yml"}, exitUsage, "", "reading the configuration: open nope.yml: no such file or directory\n"},
		{"a folder", []string{"."}, exitUsage, "", "reading the configuration: read .: is a directory\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := outcome(t.Context(), append([]string{"check-config"}, c.files...)...)
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if d := cmp.Diff(c.stdout, stdout); d != "" {
				t.Errorf("stdout (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.stderr, stderr); d != "" {
				t.Errorf("stderr (-want +got):\n%s", d)
			}
		})
	}
}

// Files that hang are told of, not waited for, and with --connect no longer than a probe lasts.
func TestCheckConfigOpensNoPipe(t *testing.T) {
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "config.yml")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { // who was left behind at the pipe goes on
		other, err := os.OpenFile(pipe, os.O_RDWR, 0)
		if err := errors.Join(err, os.Remove(pipe), other.Close()); err != nil {
			t.Error(err)
		}
	})
	text := "global: {timeout: 1s, stall_timeout: 1s}\ntargets: [{url: 'http://127.0.0.1:9', model: m, http_client_config: {authorization: {credentials_file: " + pipe + "}, tls_config: {ca_file: " + pipe + "}}}]"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
	}{{[]string{"check-config", file}, exitOK}, {[]string{"check-config", "--connect", file}, exitFailed}} {
		code, stdout, stderr := outcome(t.Context(), c.args...)
		if code != c.code || !strings.Contains(stdout, pipe+" is not a regular file") {
			t.Errorf("%q ends with %d, prints %q, %q", c.args, code, stdout, stderr)
		}
	}
}

// What is wrong with the command line names the flags of this tool.
func TestBadUsage(t *testing.T) {
	two := filepath.Join(t.TempDir(), "two.yml")
	if err := os.WriteFile(two, []byte("targets: [{name: chat, url: 'http://h'}, {name: embed, url: 'http://i'}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"check-config", "probetool: required argument 'file' not provided\nSee probetool --help.\n"},
		{"probe", "probetool: give the URL of a server, or --config.file for one of a configuration\n"},
		{"probe http://h --config.file=f", "probetool: give the URL of a server, or --config.file for one of a configuration\n"},
		{"probe http://h --target=a", "--target: names one of a configuration file: give --config.file too\n"},
		{"probe http://h --workload=a", "--workload: names one of a configuration file: give --config.file too\n"},
		{"probe --config.file=nope.yml", "reading the configuration: open nope.yml: no such file or directory\n"},
		{"probe --api-key-file=k --config.file=" + two, "--api-key-file: cannot go with --config.file, which says how the server is reached\n"},
		{"probe --config.file=" + two, "--target: is missing: the file has \"chat\", \"embed\"\n"},
		{"probe --target=chatt --config.file=" + two, "--target: there is no target \"chatt\", but \"chat\", \"embed\" (did you mean \"chat\"?)\n"},
		{"probe --target=chat --workload=x --config.file=" + two, "--workload: target \"chat\" runs no workload \"x\", but \"chat-512-128\"\n"},
		{"probe --target=chat --prompt-tokens=0 --config.file=" + two, "--prompt-tokens: must be from 1 to 1048576, not 0\n"},
		{"probe http://h --extra-body={", "--extra-body: \"{\" cannot be read\n"},
		{"probe http://h --extra-body={\"n\":2}", "--extra-body: the prober sets this field itself\n"},
		{"probe http://h --drop-field=seeds", "--drop-field: \"seeds\" is not one of cache_salt, chat_template_kwargs, ignore_eos, min_tokens, seed, stream_options, temperature (did you mean \"seed\"?)\n"},
		{"check-config --target=a " + two, "--target: names the one to try: give --connect too\n"},
		{"probe http://h --no-such-flag", "probetool: unknown long flag '--no-such-flag'\nSee probetool --help.\n"},
		{"probe http://h --api=embeddings", "probetool: enum value must be one of chat,completions, got 'embeddings'\nSee probetool --help.\n"},
		{"probe h:8000", "url: is not a URL (did you mean \"http://h:8000\"?)\n"},
		{"probe http://h --prompt-tokens=-3", "--prompt-tokens: must be from 1 to 1048576, not -3\n"},
		{"probe http://h --timeout=0s", "--timeout: must be above 0 and at most 2m0s, not 0s\n"},
		{"probe http://h --timeout=1h", "--timeout: must be above 0 and at most 2m0s, not 1h0m0s\n"},
	} {
		code, stdout, stderr := outcome(t.Context(), strings.Fields(c.args)...)
		if code != exitUsage || stdout != "" || stderr != c.want {
			t.Errorf("%s: %d, %q, %q; want %d and %q", c.args, code, stdout, stderr, exitUsage, c.want)
		}
	}
}

// build makes the program itself.
func build(t *testing.T) (tool string) {
	t.Helper()
	tool = filepath.Join(t.TempDir(), "probetool")
	if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return tool
}

// interrupted runs the program, sends a signal once it has begun what it is expected to hang in, and tells how it ended.
func interrupted(t *testing.T, sig os.Signal, hangs func(), tool string, args ...string) (state *os.ProcessState, said string) {
	t.Helper()
	cmd := exec.Command(tool, args...)
	cmd.Dir = t.TempDir()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	hangs()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the state tells
	return cmd.ProcessState, out.String()
}

// Control-C ends a probe that hangs, with the code that shells expect.
func TestInterrupt(t *testing.T) {
	tool := build(t)
	sim, server := simulator(t, vllmsim.Config{})
	if err := sim.SetFault(vllmsim.Fault{Name: vllmsim.Hang}); err != nil {
		t.Fatal(err)
	}
	state, said := interrupted(t, syscall.SIGINT, func() { <-server.asked }, tool, "probe", server.url)
	if state.ExitCode() != exitInterrupted || said != "" {
		t.Errorf("it ended with %v and said %q, want %d and nothing", state, said, exitInterrupted)
	}
}

// Every command ends when it is told to, also while it waits for a file whose other end never comes.
func TestInterruptedWhileReading(t *testing.T) {
	tool := build(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		args string
		sig  os.Signal
	}{
		{"check-config PIPE", syscall.SIGINT},
		{"check-config PIPE", syscall.SIGTERM},
		{"sweep run PIPE", syscall.SIGTERM},
		{"simulate run PIPE", syscall.SIGINT},
		{"probe http://127.0.0.1:9 --api-key-file=PIPE", syscall.SIGTERM},
		{"sweep concurrency http://127.0.0.1:9 --api-key-file=PIPE", syscall.SIGINT},
		{"sweep search http://127.0.0.1:9 --slo=ttft_p95=1s --api-key-file=PIPE", syscall.SIGTERM},
		{"@PIPE", syscall.SIGTERM}, // the command line itself
	} {
		t.Run(c.args, func(t *testing.T) {
			opened := func() {
				w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // until the program opens it too
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { w.Close() })
			}
			state, said := interrupted(t, c.sig, opened, tool, strings.Fields(strings.ReplaceAll(c.args, "PIPE", pipe))...)
			if state.ExitCode() != exitInterrupted {
				t.Errorf("it ended with %v and said %q, want %d", state, said, exitInterrupted)
			}
		})
	}
}

// Where no results directory can be made, that is told at once, with the path and the system's words, and no server
// is asked anything.
func TestNoResultsDirectory(t *testing.T) {
	_, server := simulator(t, vllmsim.Config{})
	base := t.TempDir()
	in := func(name string) string { return filepath.Join(base, name) }
	for _, err := range []error{
		os.WriteFile(in("file"), []byte("x"), 0o644),
		os.Symlink("loop", in("loop")),
		os.Symlink("nowhere/at/all", in("dangling")),
		os.Symlink("file", in("to-file")),
		os.Mkdir(in("full"), 0o755),
		os.WriteFile(in("full/x"), nil, 0o644),
		os.Mkdir(in("locked"), 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		name, flag string
		code       int
		words      string
	}{
		{"below a file", "--out=" + in("file/sub"), exitFailed, "not a directory"},
		{"a file", "--out=" + in("file"), exitFailed, "not a directory"},
		{"a link to a file", "--out=" + in("to-file"), exitFailed, "not a directory"},
		{"a loop", "--out=" + in("loop"), exitFailed, ""},
		{"below a loop", "--out=" + in("loop/sub"), exitFailed, "file exists"},
		{"a link to nothing", "--out=" + in("dangling"), exitFailed, ""},
		{"a long name", "--out=" + in(long), exitFailed, "file name too long"},
		{"a long name of the run", "--name=" + long, exitUsage, "at most 100 letters"},
		{"not ours", "--out=" + in("locked"), exitFailed, "permission denied"},
		{"a device", "--out=/dev/null", exitFailed, "not a directory"},
		{"dir, below a file", "--dir=" + in("file/sub"), exitFailed, "not a directory"},
		{"dir, a file", "--dir=" + in("file"), exitFailed, "not a directory"},
		{"dir, a loop", "--dir=" + in("loop"), exitFailed, "too many levels of symbolic links"},
		{"dir, a link to nothing", "--dir=" + in("dangling"), exitFailed, "no such file or directory"},
		{"dir, a long name", "--dir=" + in(long), exitFailed, "file name too long"},
		{"dir, not empty", "--dir=" + in("full"), exitUsage, "it exists already and is not empty"},
		{"dir, not ours", "--dir=" + in("locked/run"), exitFailed, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.words == "permission denied" && os.Getuid() == 0 {
				t.Skip("root may write anywhere")
			}
			t.Chdir(t.TempDir())
			_, path, _ := strings.Cut(strings.TrimSuffix(c.flag, "/sub"), "=") // or what it lies below
			for _, command := range [][]string{{"sweep", "concurrency", server.url}, {"simulate", "concurrency"}, {"simulate", "search", "--slo=ttft_p95=1s"}} {
				code, stdout, stderr := outcome(t.Context(), append(command, c.flag)...)
				if code != c.code || stdout != "" || c.code == exitFailed && !strings.Contains(stderr, path) || !strings.Contains(stderr, c.words) {
					t.Errorf("%s: %d, %q, %q; want %d, the path and %q", command, code, stdout, stderr, c.code, c.words)
				}
			}
		})
	}
	select {
	case r := <-server.asked:
		t.Errorf("the server was asked for %s", r.URL)
	default:
	}
}
