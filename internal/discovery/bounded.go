package discovery

import (
	"context"
	"fmt"
	"net"

	promconfig "github.com/prometheus/common/config"
)

// maxAnswer bounds what one answer of an HTTP service discovery may have, in bytes: 10,000 targets with 3 KiB of labels
// each. Prometheus reads it whole, and asks for none that is compressed.
const maxAnswer = 32 << 20

// boundedDial makes connections that end after maxAnswer bytes.
func boundedDial(dial promconfig.DialContextFunc) promconfig.DialContextFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &boundedConn{Conn: conn, left: maxAnswer}, nil
	}
}

type boundedConn struct {
	net.Conn
	left int // one reader at a time
}

// Read implements [net.Conn].
func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
