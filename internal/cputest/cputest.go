//go:build unix

// Package cputest holds code that reads foreign bytes to a bound on its work: a quadratic path fails it.
package cputest

import (
	"syscall"
	"testing"
	"time"
)

// The bound is processor time of the whole process, not time on the clock, so that a busy machine does not fail a test.
// It is wide: ordinary parsers need well under a microsecond a byte, also under the race detector and a fuzzer.
const (
	perByte = 20 * time.Microsecond
	always  = time.Second
)

// Linear runs something that reads so many bytes, and fails the test if it takes more processor time than reading
// them should: 1 s and 20 µs a byte. Nothing else may run beside it.
func Linear(t testing.TB, bytes int, read func()) {
	t.Helper()
	before := spent(t)
	read()
	if took, most := spent(t)-before, always+time.Duration(bytes)*perByte; took > most {
		t.Errorf("%v of processor time for %d bytes, more than %v", took, bytes, most)
	}
}

func spent(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
