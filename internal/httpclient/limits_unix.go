//go:build unix

package httpclient

import (
	"fmt"
	"syscall"
)

// fileLimit names the limit of open files in force (getrlimit(2)).
func fileLimit() string {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return "RLIMIT_NOFILE"
	}
	return fmt.Sprintf("RLIMIT_NOFILE is %d", l.Cur)
}
