//go:build !linux || !(amd64 || arm64)

package prober

import "net"

// kernelStamps does not exist here: arrival is the monotonic clock after the read.
type kernelStamps struct{}

func newKernelStamps(net.Conn) *kernelStamps { return nil }

func (*kernelStamps) read([]byte) (int, received, error) { return 0, received{}, net.ErrClosed }

func (*kernelStamps) segments() (s segments, ok bool) { return s, false }

func (*kernelStamps) readable() (readable, open bool) { return false, false }
