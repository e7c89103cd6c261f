//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/llm-prober/llm_prober/e2e/child"
)

// look is one look at a process and all its descendants.
type look struct {
	at  time.Time
	cpu float64 // seconds, user and system, of those that live and those that were waited for
	mb  float64 // sum of their peaks, 10⁶ bytes
}

// usage is what a client cost.
type usage struct {
	CPU    float64 `json:"cpu_seconds"`  // user and system, from its start to its end
	PeakMB float64 `json:"peak_mb"`      // largest sum of the peaks of its processes, 10⁶ bytes
	Wall   float64 `json:"wall_seconds"` // from its start to its end
	looks  []look
}

// since is the processor time from a moment to the end, interpolated between looks.
func (u usage) since(t time.Time) float64 {
	i, found := slices.BinarySearchFunc(u.looks, t, func(l look, t time.Time) int { return l.at.Compare(t) })
	switch {
	case found:
		return u.CPU - u.looks[i].cpu
	case i == len(u.looks):
		return 0
	case i == 0:
		return u.CPU
	}
	a, b := u.looks[i-1], u.looks[i]
	return u.CPU - a.cpu - (b.cpu-a.cpu)*float64(t.Sub(a.at))/float64(b.at.Sub(a.at))
}

// clientLimit is the longest that a client may take for one level.
const clientLimit = 10 * time.Minute

// runClient runs a command to its end, on the processors given or on all, and says what it cost.
func runClient(ctx context.Context, command *exec.Cmd, cpus ...int) (u usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, clientLimit)
	defer cancel()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	// A group of its own, so that nothing that it started outlives it.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := child.StartOn(command, cpus...); err != nil {
		return u, fmt.Errorf("starting %s: %w", command.Path, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case err = <-ended:
			waiting = false
		case <-tick.C:
			if l, ok := lookAt(command.Process.Pid); ok {
				u.looks = append(u.looks, l)
				u.PeakMB = max(u.PeakMB, l.mb)
			}
		case <-ctx.Done():
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
			<-ended
			err, waiting = ctx.Err(), false
		}
	}
	u.Wall = time.Since(began).Seconds()
	u.CPU = (command.ProcessState.UserTime() + command.ProcessState.SystemTime()).Seconds()
	if err != nil {
		tail := output.Bytes()[max(0, output.Len()-3000):]
		return u, fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, tail)
	}
	return u, nil
}

// lookAt reads /proc of a process and its descendants; false if it has ended.
func lookAt(pid int) (l look, ok bool) {
	l.at = time.Now()
	for pids := []int{pid}; len(pids) > 0; pids = pids[1:] {
		seconds, err := cpuSeconds(pids[0])
		if err != nil {
			continue // ended meanwhile: its parent's count has it, once it was waited for
		}
		ok = true
		l.cpu += seconds
		l.mb += peakMB(pids[0])
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pids[0], pids[0]))
		for child := range strings.FieldsSeq(string(children)) {
			if n, err := strconv.Atoi(child); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return l, ok
}

// clockTick is the unit of times in /proc, 1/100 s on every architecture that Linux has kept.
const clockTick = 100

// cpuSeconds is the time of a process and of those of its children that it has waited for.
func cpuSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// "pid (name) state …": the name may hold anything. utime, stime, cutime and cstime are fields 14 to 17.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 15 {
		return 0, fmt.Errorf("process %d: unknown format of stat", pid)
	}
	ticks := 0
	for _, field := range fields[11:15] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return float64(ticks) / clockTick, nil
}

// peakMB is the largest resident set that a process has had.
func peakMB(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	kb, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, _ := strconv.Atoi(kb)
	return float64(n) * 1024 / 1e6
}
