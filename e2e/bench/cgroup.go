//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// cpuGroup is a control group whose processes get a share of one processor, of either version.
type cpuGroup struct{ dir string }

const throttlePeriod = 100 * time.Millisecond // the kernel's default

func newCPUGroup(share float64) (g cpuGroup, err error) {
	quota, period := int(share*float64(throttlePeriod.Microseconds())), throttlePeriod.Microseconds()
	name := fmt.Sprintf("llm_prober-bench-%d", os.Getpid())
	if _, err := os.Stat("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"); err == nil {
		g.dir = filepath.Join("/sys/fs/cgroup/cpu", name)
		return g, g.create(map[string]string{"cpu.cfs_period_us": fmt.Sprint(period), "cpu.cfs_quota_us": fmt.Sprint(quota)})
	}
	g.dir = filepath.Join("/sys/fs/cgroup", name)
	// Already there where systemd manages the groups; where it is not, this may well be refused.
	_ = os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+cpu"), 0)
	return g, g.create(map[string]string{"cpu.max": fmt.Sprintf("%d %d", quota, period)})
}

func (g cpuGroup) create(settings map[string]string) error {
	if err := os.Mkdir(g.dir, 0o755); err != nil && !os.IsExist(err) {
		return fmt.Errorf("making a control group (root is needed): %w", err)
	}
	for file, value := range settings {
		if err := os.WriteFile(filepath.Join(g.dir, file), []byte(value), 0); err != nil {
			return fmt.Errorf("limiting a control group: %w", err)
		}
	}
	return nil
}

func (g cpuGroup) add(pid int) error {
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), fmt.Append(nil, pid), 0); err != nil {
		return fmt.Errorf("moving process %d into a control group: %w", pid, err)
	}
	return nil
}

func (g cpuGroup) remove() { _ = os.Remove(g.dir) }

// cpuStat is what the kernel says about the throttling of a group.
type cpuStat struct{ periods, throttled int }

func (g cpuGroup) stat() (s cpuStat, err error) {
	text, err := os.ReadFile(filepath.Join(g.dir, "cpu.stat"))
	if err != nil {
		return s, err
	}
	for line := range strings.Lines(string(text)) {
		var name string
		var value int
		if _, err := fmt.Sscan(line, &name, &value); err != nil {
			continue
		}
		switch name {
		case "nr_periods":
			s.periods = value
		case "nr_throttled":
			s.throttled = value
		}
	}
	return s, nil
}
