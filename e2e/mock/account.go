//go:build linux

package mock

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Account is what the server knows of one request. Times are Unix nanoseconds.
type Account struct {
	ID       string  // X-Request-Id, empty if there was none
	Received int64   // when the kernel received the last byte of the request
	Role     int64   // before the write(2) of the role chunk; 0 where the API has none
	Writes   []int64 // before the write(2) of each token
	Returns  []int64 // when it had returned and nothing waited in the kernel: TCP sends no more than it has room for
}

// left notes that all has left by now.
func (a *Account) left() {
	for now := time.Now().UnixNano(); len(a.Returns) < len(a.Writes); {
		a.Returns = append(a.Returns, now)
	}
}

// unsent is how many bytes the kernel has not sent yet (SIOCOUTQNSD).
func unsent(conn syscall.RawConn) int {
	n := 0
	_ = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }) // a closed one sends nothing
	return n
}
