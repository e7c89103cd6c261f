package prober

import (
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// e12 (prometheus/blackbox_exporter#84, ribbybibby/ssl_exporter#30): whatever way probes fail, they leave no
// goroutine, no file descriptor and no connection.
func TestFailingProbesLeaveNothing(t *testing.T) {
	probes := 1000
	if testing.Short() {
		probes = 100
	}
	var accepted, left atomic.Int32
	serve := func(s script) string {
		play := playing(s)
		return serveTCP(t, func(conn net.Conn) {
			accepted.Add(1)
			defer left.Add(1)
			play(conn)
		})
	}
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	kinds := []struct {
		address string
		want    Reason
	}{
		{refused.Addr().String(), ReasonConnect},
		{serve("<<HANG>>HTTP/1.1 "), ReasonTimeout},
		{serve("{ROLE}{C:a}<<HANG>>"), ReasonTimeout},
		{serve(jsonAnswer(500, `{"error":{"message":"<30000 x a>"}}`)), ReasonHTTPStatus},
		{serve("{ROLE}{C:a}<<CUT>>"), ReasonTruncated},
		{serve("{ROLE}{C:a}<<RST>>"), ReasonConnReset},
	}
	var rigs []*rig
	for _, k := range kinds {
		rigs = append(rigs, newRig(t, nil, at("http", k.address, func(t *Target) {
			if k.want == ReasonTimeout {
				t.Plans[0].Timeout = 50 * time.Millisecond
			}
		})))
	}
	for _, g := range rigs { // the first of each asks the server, and opens what stays open
		g.once(t)
	}
	files, goroutines := openFiles(t), goleak.IgnoreCurrent()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 20 {
		wg.Go(func() {
			for i := range next {
				res, err := rigs[i%len(rigs)].Send(t.Context(), Order{Workload: "w"})
				if err != nil || res.Reason != kinds[i%len(rigs)].want {
					t.Errorf("%v (%v), want %s", res, err, kinds[i%len(rigs)].want)
				}
			}
		})
	}
	for i := range probes {
		next <- i
	}
	close(next)
	wg.Wait()
	settled := false
	for range 100 {
		if settled = accepted.Load() == left.Load() && openFiles(t) <= files; settled {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	if !settled {
		t.Errorf("the server has accepted %d connections and seen %d end; %d files are open, %d before", accepted.Load(), left.Load(), openFiles(t), files)
	}
	if err := goleak.Find(goroutines); err != nil {
		t.Error(err)
	}
}

// openFiles counts the process's file descriptors, 0 where nobody knows.
func openFiles(t *testing.T) int {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
