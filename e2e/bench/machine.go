//go:build linux

package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine says what the figures were measured on, and how busy it was.
func machine(options) (string, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "", err
	}
	cpu := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(info); m != nil {
			cpu = string(m[1])
		}
	}
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d × %s, Linux %s, %s; load average before the start %s.\n", time.Now().UTC().Format(time.DateOnly),
		runtime.NumCPU(), cpu, unix.ByteSliceToString(name.Release[:]), runtime.Version(), strings.Fields(string(load))[0]), nil
}

// storeProfile stores a profile that a daemon shows in a file, unless its name is empty.
func storeProfile(url, file string) error {
	if file == "" {
		return nil
	}
	shown, err := scrape(url, "*/*")
	if err != nil {
		return err
	}
	return os.WriteFile(file, shown.body, 0o644)
}

// profileOf is where a client's profile goes: the directory in BENCH_PROFILES, if that is set.
func profileOf(client string) string {
	dir := os.Getenv("BENCH_PROFILES")
	if dir == "" {
		return ""
	}
	return fmt.Sprintf("%s/%s.pprof", dir, client)
}
