//go:build linux

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestUsageSince(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	u := usage{CPU: 5, looks: []look{{at: at(100), cpu: 1}, {at: at(200), cpu: 2}, {at: at(400), cpu: 4}}}
	for ms, want := range map[int64]float64{0: 5, 100: 4, 150: 3.5, 300: 2, 400: 1, 900: 0} {
		if got := u.since(at(ms)); got != want {
			t.Errorf("from %d ms on: %v s, want %v", ms, got, want)
		}
	}
}

// What the children of a client cost is the client's.
func TestRunClientCountsAllItsProcesses(t *testing.T) {
	const spin = `i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.1`
	u, err := runClient(t.Context(), exec.Command("sh", "-c", "sh -c '"+spin+"' & "+spin+"; wait"))
	if err != nil {
		t.Fatal(err)
	}
	if u.CPU < 0.1 || u.CPU > 2*u.Wall+0.1 {
		t.Errorf("%v s of processor time in %v s", u.CPU, u.Wall)
	}
	first, last := u.looks[0], u.looks[len(u.looks)-1]
	if last.cpu <= first.cpu || last.cpu > u.CPU+0.02 {
		t.Errorf("%v s at the last look and %v s at the first, of %v s", last.cpu, first.cpu, u.CPU)
	}
	// Two shells, of half a megabyte at the least.
	if u.PeakMB < 1 || u.PeakMB > 50 {
		t.Errorf("a peak of %v MB", u.PeakMB)
	}
}

func TestRunClientTellsWhatItSaidWhenItFailed(t *testing.T) {
	_, err := runClient(t.Context(), exec.Command("sh", "-c", "echo no such model >&2; exit 3"))
	if err == nil || !strings.Contains(err.Error(), "no such model") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("the error is %v", err)
	}
}

func TestRunClientOnOneProcessor(t *testing.T) {
	out := t.TempDir() + "/allowed"
	if _, err := runClient(t.Context(), exec.Command("sh", "-c", "grep Cpus_allowed_list /proc/self/status >"+out), 0); err != nil {
		t.Fatal(err)
	}
	allowed, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(strings.TrimPrefix(string(allowed), "Cpus_allowed_list:")); got != "0" {
		t.Errorf("it ran on processors %s, want 0", got)
	}
}
