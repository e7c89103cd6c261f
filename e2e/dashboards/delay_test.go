package dashboards

import (
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// distance is a TCP proxy that carries everything late by as long as it says, in both directions, as a longer way
// would. Bytes stay as far apart as they were.
type distance struct{ delay atomic.Int64 }

// before listens in front of an address and returns where.
func (d *distance) before(t *testing.T, address string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go d.join(client, address)
		}
	}()
	return listener.Addr().String()
}

func (d *distance) join(client net.Conn, address string) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		client.Close()
		return
	}
	go d.carry(client, server)
	d.carry(server, client)
}

// parcel is what was read at once, and when it is to arrive.
type parcel struct {
	bytes []byte
	due   time.Time
}

func (d *distance) carry(from, to net.Conn) {
	way := make(chan parcel, 4096)
	go func() {
		defer to.Close()
		for p := range way {
			<-time.After(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				from.Close()
			}
		}
	}()
	defer close(way)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			way <- parcel{buffer[:n], time.Now().Add(time.Duration(d.delay.Load()))}
		}
		if err != nil {
			return
		}
	}
}
