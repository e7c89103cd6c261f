package main

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

const (
	hup  = syscall.SIGHUP
	term = syscall.SIGTERM
)

// midStream starts a daemon whose probes are all in mid stream and will stay there.
func midStream(t *testing.T) *process {
	t.Helper()
	sim, url := simulator(t, vllmsim.Config{})
	p := start(t, "--config.file="+configFile(t, "FAST\ntargets: [{name: a, url: \""+url+"\"}]\n"), "--web.enable-pprof")
	p.untilAbove(ttftCount, 0)
	if err := sim.SetFault(vllmsim.Fault{Name: vllmsim.Hang}); err != nil {
		t.Fatal(err)
	}
	p.untilAbove(`llm_probe_in_flight{target="a",workload="w"}`, 2)
	return p
}

// Case e19: a signal ends the daemon with 0 although probes are in mid stream, and they are nobody's failure.
func TestStopInMidStream(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"SIGTERM": term, "SIGINT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := midStream(t)
			s := p.scrape()
			p.signal(signal)
			took := p.end()
			if code := p.cmd.ProcessState.ExitCode(); code != exitOK || took > 5*time.Second {
				t.Errorf("it ended with %d after %v", code, took)
			}
			s.want(t, `llm_probe_consecutive_failures{target="a",workload="w"}`, 0)
			s.want(t, `llm_probe_slo_bad_events_total{slo="success",target="a",workload="w"}`, 0)
			log := p.log.String()
			if strings.Contains(log, "probe failed") || strings.Contains(log, "level=error") || !strings.Contains(log, "stopping: probes in flight are abandoned") {
				t.Error("the log tells of a failure, or nothing of the end")
			}
		})
	}
}

// A request that hangs holds the end up for 3 s at most, and a second signal for no time at all.
func TestStopWhileARequestHangs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		signals int
	}{{"one signal", 1}, {"two signals", 2}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := midStream(t)
			conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("GET /debug/pprof/trace?seconds=60 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			p.until("the request is being answered", func() bool {
				return strings.Contains(p.get("/debug/pprof/goroutine?debug=1"), "pprof.Trace")
			})
			p.signal(term)
			p.until("the end begins", func() bool { return strings.Contains(p.log.String(), "stopping") })
			if c.signals == 2 {
				p.signal(term)
			}
			took := p.end()
			status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
			switch {
			case c.signals == 1 && (status.ExitStatus() != exitOK || took > 4*time.Second):
				t.Errorf("it ended with %v after %v, want 0 within 4 s", p.cmd.ProcessState, took)
			case c.signals == 2 && (!status.Signaled() || status.Signal() != term || took > time.Second):
				t.Errorf("it ended with %v after %v, want the signal's own end at once", p.cmd.ProcessState, took)
			}
		})
	}
}

// Whatever servers, files and clients of ours do, a signal ends the daemon within 3 s.
func TestStopInEveryState(t *testing.T) {
	t.Parallel()
	serveRaw := func(answer string) string {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var conns sync.WaitGroup
		conns.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				conns.Go(func() { // until the daemon is gone
					defer conn.Close()
					_, _ = io.WriteString(conn, answer)
					_, _ = io.Copy(io.Discard, conn)
				})
			}
		})
		t.Cleanup(func() {
			listener.Close()
			conns.Wait()
		})
		return listener.Addr().String()
	}
	silent := serveRaw("")
	pipe := filepath.Join(t.TempDir(), "key") // nobody writes to it
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--config.file="+configFile(t, `FAST
targets:
  - {name: silent, model: m, engine: vllm, url: "http://`+silent+`"}
  - {name: handshake, model: m, engine: vllm, url: "https://`+silent+`"}
  - {name: switched, model: m, engine: vllm, url: "http://`+serveRaw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")+`"}
  - {name: headers, model: m, engine: vllm, url: "http://`+serveRaw("HTTP/1.1 200 OK\r\n")+`"}
  - {name: stream, model: m, engine: vllm, url: "http://`+serveRaw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: \n")+`"}
  - {name: unread, model: m, engine: vllm, url: "http://`+silent+`/x", workloads: [w]}
  - {name: file, model: m, engine: vllm, url: "http://`+silent+`/y", http_client_config: {authorization: {credentials_file: "`+pipe+`"}}}
`))
	loris, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer loris.Close()
	if _, err := io.WriteString(loris, "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "); err != nil {
		t.Fatal(err)
	}
	p.untilAbove(`llm_probe_in_flight{target="file",workload="w"}`, 2)
	p.signal(term)
	if took := p.end(); p.cmd.ProcessState.ExitCode() != exitOK || took > 4*time.Second {
		t.Errorf("it ended with %v after %v, want 0 within 3 s", p.cmd.ProcessState, took)
	}
	if log := p.log.String(); !strings.Contains(log, "left behind") || !strings.Contains(log, `left="requests to our own pages"`) {
		t.Error("the log does not tell what was left")
	}
}
