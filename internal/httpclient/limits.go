package httpclient

import (
	"errors"
	"net"
	"strings"
	"syscall"
)

// LocalLimit names what the prober's own machine lacks or forbids, if that is what an error is about; empty: it is not.
// The server has no part in it.
func LocalLimit(err error) string {
	var dns *net.DNSError
	if errors.As(err, &dns) { // keeps the words of its cause only
		for _, l := range localLimits {
			if strings.HasSuffix(dns.Err, l.errno.Error()) {
				return l.lacks()
			}
		}
		return ""
	}
	var op *net.OpError
	for _, l := range localLimits {
		if errors.Is(err, l.errno) && (!l.network || errors.As(err, &op)) {
			return l.lacks()
		}
	}
	return ""
}

// localLimits are the errors of socket(2), connect(2) and open(2) that tell of the caller's machine.
var localLimits = []struct {
	errno   syscall.Errno
	network bool // only of a connection; of a file it means something else
	lacks   func() string
}{
	{syscall.EMFILE, false, func() string { return "file descriptor left (" + fileLimit() + ")" }},
	{syscall.ENFILE, false, lacks("file descriptor left: the limit of the whole system (fs.file-max) is reached")},
	{syscall.ENOBUFS, false, lacks("buffer left")},
	{syscall.ENOMEM, false, lacks("memory left")},
	{syscall.EADDRNOTAVAIL, true, lacks("local address or port left (net.ipv4.ip_local_port_range)")},
	{syscall.EACCES, true, lacks("permission to connect: a firewall of its own machine, perhaps")},
	{syscall.EPERM, true, lacks("permission to connect: a firewall of its own machine, perhaps")},
}

func lacks(text string) func() string { return func() string { return text } }
