package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere there is no flag for systemd")
	}
	code, stdout, stderr := outcome(t, "--help")
	if code != 0 || stderr != "" {
		t.Errorf("--help ends with %d and says %q on stderr", code, stderr)
	}
	golden(t, filepath.Join("testdata", "help.txt"), stdout)
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := outcome(t, "--version")
	if code != 0 || stderr != "" || !regexp.MustCompile(`(?s)^llm_prober, version .*go version: +go1\.`).MatchString(stdout) {
		t.Errorf("--version ends with %d and prints %q, %q", code, stdout, stderr)
	}
}

// What is wrong with the command line is told in one line, before anything runs.
func TestBadFlags(t *testing.T) {
	t.Parallel()
	const oneOf = "llm_prober: give only one of --config.file, --target.url and --demo"
	const described = "llm_prober: --target.* and --probe.* describe a server given by --target.url; a configuration file has its own keys for them"
	for _, c := range []struct {
		args string
		want string // first line
	}{
		{"", "llm_prober: nothing to probe: give --target.url=http://HOST:8000, --config.file=FILE, or --demo for a simulated server"},
		{"--demo --config.file=x.yml", oneOf},
		{"--demo --target.url=http://h", oneOf},
		{"--config.file=x.yml --probe.interval=1s", described},
		{"--demo --target.model=m", described},
		{"--demo --config.auto-reload-interval=30s", "llm_prober: --config.auto-reload-interval looks at a file: give --config.file as well"},
		{"--config.file=x.yml --config.auto-reload-interval=10ms", "llm_prober: --config.auto-reload-interval: 10ms is less than 1s; 0s is never"},
		{"--config.file=x.yml --config.auto-reload-interval=-1m", "llm_prober: --config.auto-reload-interval: -1m0s is less than 1s; 0s is never"},
		{"--target.url=http://h --no-such-flag", "llm_prober: unknown long flag '--no-such-flag'"},
		{"--target.url=http://h --log.level=loud", "llm_prober: enum value must be one of debug,info,warn,error, got 'loud'"},
		{"--target.url=http://h --log.format=xml", "llm_prober: enum value must be one of logfmt,json, got 'xml'"},
		{"--target.url=http://h --web.telemetry-path=metrics", `llm_prober: --web.telemetry-path: "metrics" does not begin with a slash`},
		{"--target.url=http://h --web.telemetry-path=/config", `llm_prober: --web.telemetry-path: "/config" is another page`},
		{"--target.url=h:8000", `llm_prober: --target.url: is not a URL (did you mean "http://h:8000"?)`},
		{"--target.url=http://h --probe.interval=1ms", `llm_prober: --probe.interval: must be at least 100ms, not 1ms`},
		{"--target.url=http://h --web.config.file=/nonexistent.yml", "llm_prober: --web.config.file: open /nonexistent.yml: no such file or directory"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := outcome(t, strings.Fields(c.args)...)
			first, _, _ := strings.Cut(stderr, "\n")
			if code != exitUsage || stdout != "" || first != c.want {
				t.Errorf("ends with %d, prints %q and\n%s\nwant %d and\n%s", code, stdout, first, exitUsage, c.want)
			}
		})
	}
}

// Every mistake in a file is told at once, with its line; a start and a check tell the same.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "internal", "config", "testdata", "invalid-ten-mistakes.yml")
	told, err := os.ReadFile(strings.TrimSuffix(file, ".yml") + ".err")
	if err != nil {
		t.Fatal(err)
	}
	want := "llm_prober: " + strings.ReplaceAll(strings.TrimSuffix(string(told), "\n"), "\n", "\nllm_prober: ") + "\n"
	want = strings.ReplaceAll(want, "config.yml", file)
	for _, args := range [][]string{{"--config.file=" + file}, {"--config.file=" + file, "--config.check"}} {
		code, stdout, stderr := outcome(t, args...)
		if code != exitUsage || stdout != "" {
			t.Errorf("%q ends with %d and prints %q", args, code, stdout)
		}
		if d := cmp.Diff(want, stderr); d != "" {
			t.Errorf("%q (-want +got):\n%s", args, d)
		}
	}
}

// Case e24: a file that cannot be read ends the daemon at once and says which and why.
func TestUnreadableConfig(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked.yml")
	if err := os.WriteFile(locked, []byte("targets: []\n"), 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, why string }{
		{"missing", filepath.Join(dir, "nope.yml"), "no such file or directory"},
		{"a folder", dir, "is a directory"},
		{"not allowed", locked, "permission denied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.path == locked && os.Geteuid() == 0 {
				t.Skip("root may read everything")
			}
			for _, check := range []string{"--config.check", "--no-config.check"} {
				code, stdout, stderr := outcome(t, "--config.file="+c.path, check)
				if code != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, c.path) || !strings.Contains(stderr, c.why) {
					t.Errorf("with %s it ends with %d and says %q", check, code, stderr)
				}
			}
		})
	}
}

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "internal", "config", "testdata", "valid.yml")
	code, stdout, stderr := outcome(t, "--config.file="+file, "--config.check")
	want := "warning: " + file + ":28: targets[0].http_client_config.authorization.credentials_file: open " + filepath.Join(filepath.Dir(file), "key.txt") + ": no such file or directory; until the file is there, probes of the target fail as auth\nconfiguration is valid\n"
	if code != exitOK || stderr != "" || stdout != want {
		t.Errorf("the check ends with %d, prints %q, %q; want %q", code, stdout, stderr, want)
	}
}

// Files that hang are told of, not waited for.
func TestConfigCheckOpensNoPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	file := configFile(t, "targets: [{url: 'http://h', http_client_config: {authorization: {credentials_file: "+pipe+"}, tls_config: {ca_file: "+pipe+"}}}]")
	code, stdout, stderr := outcome(t, "--config.file="+file, "--config.check")
	if code != exitOK || stderr != "" || !strings.Contains(stdout, pipe+" is not a regular file") {
		t.Errorf("the check ends with %d, prints %q, %q", code, stdout, stderr)
	}
}

func TestPortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, args := range [][]string{
		{"--target.url=http://127.0.0.1:1", "--web.listen-address=" + l.Addr().String()},
		{"--demo", "--demo.address=" + l.Addr().String()},
	} {
		code, _, stderr := outcome(t, args...)
		if code != exitFailed || !strings.Contains(stderr, l.Addr().String()) || !strings.Contains(stderr, "address already in use") {
			t.Errorf("%q ends with %d and says %q", args, code, stderr)
		}
	}
}
