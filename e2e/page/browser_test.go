package page

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// browser is a headless Chromium.
type browser struct{ path string }

func findBrowser(t *testing.T) browser {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return browser{path}
		}
	}
	if os.Getenv("LLM_PROBER_REQUIRE_CHROMIUM") != "" {
		t.Fatal("there is no Chromium")
	}
	t.Skip("there is no Chromium")
	return browser{}
}

// command starts Chromium without anything that would call home.
func (b browser) command(ctx context.Context, profile string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, b.path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--hide-scrollbars", "--user-data-dir=" + profile,
	}, args...)...)
}

// load returns the document as scripts left it. A line on the console fails the test.
func (b browser) load(t *testing.T, address string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var log strings.Builder
	cmd := b.command(ctx, t.TempDir(), "--enable-logging=stderr", "--dump-dom", address)
	cmd.Stderr = &log
	dom, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", address, err, log.String())
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("%s: on the console: %s", address, line)
		}
	}
	return string(dom)
}

// shoot takes a screenshot, and keeps it where that is asked for.
func (b browser) shoot(t *testing.T, address, name, size string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	folder := keep
	if folder == "" {
		folder = t.TempDir()
	}
	file := filepath.Join(folder, name)
	out, err := b.command(ctx, t.TempDir(), append(args, "--screenshot="+file, "--window-size="+size, address)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", address, err, out)
	}
	if info, err := os.Stat(file); err != nil || info.Size() < 10_000 {
		t.Errorf("%s: no picture: %v", address, err)
	}
}
