//go:build linux

package main

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/llm-prober/llm_prober/prober"
)

// A ticket is a counter in memory that server and client share. The client counts the events of a stream that it
// has read, and the server writes the next only then, so that no reader ever finds two events in one read.

// newTicket makes the file of a ticket.
func newTicket() (path string, remove func(), err error) {
	f, err := os.CreateTemp("/dev/shm", "llm_prober-bench")
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	return f.Name(), func() { os.Remove(f.Name()) }, f.Truncate(int64(os.Getpagesize()))
}

// openTicket maps a ticket; nil for an empty path. It stays mapped as long as the process lives.
func openTicket(path string) (*atomic.Int64, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	page, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping a ticket: %w", err)
	}
	return (*atomic.Int64)(unsafe.Pointer(&page[0])), nil
}

// counting is an observer that punches a ticket.
type counting struct {
	prober.Observers
	read *atomic.Int64
}

func (c counting) Started(*prober.Probe)          { c.read.Store(0) }
func (c counting) Token(*prober.Probe, time.Time) { c.read.Add(1) }
