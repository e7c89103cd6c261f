//go:build linux

package mock

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A ticket is a counter in memory that server and client share. The client counts the events of a stream that it
// has read, and the server writes the next only then, so that no reader ever finds two events in one read.

// NewTicket makes the file of a ticket.
func NewTicket() (path string, remove func(), err error) {
	f, err := os.CreateTemp("/dev/shm", "llm_prober-bench")
	if err != nil {
		return "", nil, err
	}
	defer f.Close()
	return f.Name(), func() { os.Remove(f.Name()) }, f.Truncate(int64(os.Getpagesize()))
}

// OpenTicket maps a ticket; nil for an empty path. It stays mapped as long as the process lives.
func OpenTicket(path string) (*atomic.Int64, error) {
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
