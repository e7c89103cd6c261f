//go:build linux

package mock

import (
	"errors"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var errNoStamp = errors.New("the kernel gave no receive time")

// stampReceipt asks for the kernel's receive times: of a listener, on all its connections.
func stampReceipt(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	return errors.Join(err, refused)
}

// awaitStamps waits until the kernel gives receive times: it begins a moment after it was asked for the first time.
func awaitStamps() error {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := stampReceipt(listener); err != nil {
		return err
	}
	out, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	defer out.Close()
	in, err := listener.AcceptTCP()
	if err != nil {
		return err
	}
	defer in.Close()
	r := &reader{conn: in}
	for range 1000 {
		if _, err := out.Write([]byte{0}); err != nil {
			return err
		}
		if err = r.read(); !errors.Is(err, errNoStamp) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
	return err
}
