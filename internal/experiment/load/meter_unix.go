//go:build unix

package load

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// usage is the processor time of this process in seconds, user and system, and its largest resident memory so far
// in bytes.
func usage() (cpu float64, rss int64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	unit := int64(1024)
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		unit = 1 // getrusage(2) of Darwin counts bytes, all others kilobytes
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(u.Utime) + seconds(u.Stime), int64(u.Maxrss) * unit
}

// loadAverage is the machine's over the last minute; 0 where it is not known.
func loadAverage() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(data), " ")
	load, _ := strconv.ParseFloat(first, 64) // 0 if the kernel writes something else
	return load
}
