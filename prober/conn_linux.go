//go:build linux && (amd64 || arm64)

package prober

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernelStamps reads from a TCP socket and learns when the kernel received what it read (SO_TIMESTAMPNS,
// socket(7)). It goes around net.TCPConn only for the system call itself: waiting, deadlines and closing stay
// with the runtime. Buffers are kept, so that a read allocates nothing; unix.Recvmsg allocates five times.
type kernelStamps struct {
	conn *net.TCPConn
	raw  syscall.RawConn

	receive func(fd uintptr) bool // bound once: a closure a read would be an allocation
	buffer  []byte
	iov     unix.Iovec
	msg     unix.Msghdr
	control [8]uint64 // for its alignment
	n       int
	errno   syscall.Errno
	times   received
}

// newKernelStamps returns nil where conn is no TCP socket or the kernel refuses.
func newKernelStamps(conn net.Conn) *kernelStamps {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	refused := error(nil)
	if err := raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1)
	}); err != nil || refused != nil {
		return nil
	}
	k := &kernelStamps{conn: tcp, raw: raw}
	k.receive = k.recvmsg
	return k
}

// read is Read with the kernel's stamp of the last byte.
func (k *kernelStamps) read(p []byte) (n int, r received, err error) {
	if len(p) == 0 {
		return 0, received{tried: time.Now()}, nil
	}
	k.buffer, k.times = p, received{}
	err = k.raw.Read(k.receive)
	k.buffer = nil
	switch {
	case err != nil:
		return 0, k.times, err
	case k.errno != 0:
		return 0, k.times, &net.OpError{
			Op: "read", Net: "tcp", Source: k.conn.LocalAddr(), Addr: k.conn.RemoteAddr(),
			Err: os.NewSyscallError("recvmsg", k.errno),
		}
	case k.n == 0:
		return 0, k.times, io.EOF
	}
	k.times.stamp = k.stamp()
	return k.n, k.times, nil
}

// recvmsg makes the system call; it reports false where the socket has nothing to read.
func (k *kernelStamps) recvmsg(fd uintptr) bool {
	k.iov.Base = &k.buffer[0]
	k.iov.SetLen(len(k.buffer))
	k.msg = unix.Msghdr{Iov: &k.iov, Control: (*byte)(unsafe.Pointer(&k.control))}
	k.msg.SetIovlen(1)
	k.msg.SetControllen(int(unsafe.Sizeof(k.control)))
	for {
		k.times.tried = time.Now()
		n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&k.msg)), 0)
		switch errno {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			k.times.empty = k.times.tried
			return false
		}
		k.n, k.errno = int(n), errno
		return true
	}
}

// stamp finds the time stamp among the control messages. SO_TIMESTAMPNS is the only one asked for.
func (k *kernelStamps) stamp() time.Time {
	m := (*struct {
		header unix.Cmsghdr
		stamp  unix.Timespec
	})(unsafe.Pointer(&k.control))
	if uintptr(k.msg.Controllen) < unsafe.Sizeof(*m) || m.header.Level != unix.SOL_SOCKET || m.header.Type != unix.SO_TIMESTAMPNS {
		return time.Time{}
	}
	return time.Unix(m.stamp.Unix())
}

// readable tells whether a read would return at once, with bytes, an end or an error. open is false where nobody will
// read any more.
func (k *kernelStamps) readable() (readable, open bool) {
	if k == nil {
		return false, false
	}
	err := k.raw.Control(func(fd uintptr) {
		look := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(look, 0)
		readable = err == nil && n > 0
	})
	return readable, err == nil
}

// segments looks at the TCP segments with data received so far. ok is false where the kernel does not say.
func (k *kernelStamps) segments() (s segments, ok bool) {
	if k == nil {
		return s, false
	}
	err := k.raw.Control(func(fd uintptr) {
		s, ok = snapshot(
			func() (segments, error) { return countSegments(int(fd)) },
			func() (int, error) { return unix.IoctlGetInt(int(fd), unix.SIOCINQ) },
		)
	})
	return s, ok && err == nil
}

// countSegments asks for all but the bytes that wait.
func countSegments(fd int) (segments, error) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return segments{}, err
	}
	return segments{
		count: int(info.Data_segs_in), full: int(info.Advmss), idle: time.Duration(info.Last_data_sent) * time.Millisecond,
	}, nil
}

// snapshot joins two answers of the kernel. A segment that comes between them is among what waits, but not in the
// count, and would be taken for one of those that were read. So the count is asked for again until it stands still.
func snapshot(count func() (segments, error), waiting func() (int, error)) (s segments, ok bool) {
	const tries = 100 // a stream has one segment in a millisecond, a try takes microseconds
	last, err := count()
	for range tries {
		if err != nil {
			return s, false
		}
		var bytes int
		if bytes, err = waiting(); err != nil {
			return s, false
		}
		s = last
		s.waiting = bytes
		if last, err = count(); err == nil && last.count == s.count {
			break
		}
	}
	return s, err == nil && s.full > 0
}
