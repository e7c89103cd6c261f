//go:build !linux || !(amd64 || arm64)

package prober

import (
	"net"
	"time"
)

// kernelStamps does not exist here: arrival is the monotonic clock after the read.
type kernelStamps struct{}

func newKernelStamps(net.Conn) *kernelStamps { return nil }

func (*kernelStamps) read([]byte) (int, time.Time, error) { return 0, time.Time{}, net.ErrClosed }

func (*kernelStamps) segments() (count, waiting, full int, ok bool) { return 0, 0, 0, false }
