//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	promconfig "github.com/prometheus/common/config"
	"golang.org/x/sys/unix"

	"github.com/llm-prober/llm_prober/e2e/mock"
	"github.com/llm-prober/llm_prober/prober"
)

const (
	modelName    = "mock"
	promptTokens = 32
	workload     = "bench"
)

// clientConfig describes what a client asks of the server.
type clientConfig struct {
	URL     string
	Streams int           // at once
	Rounds  int           // one after another
	Stagger time.Duration // between the starts of two streams; 0: all of a round at the same time
	Tokens  int
	Kernel  bool   // false: hide from the prober that the connection is one of the kernel's
	Segment int    // largest TCP segment; 0: the interface's, which is 64 KiB for the loopback
	Ticket  string // see mock.OpenTicket
	Profile string // file for a CPU profile
}

// clientResult is what a client did.
type clientResult struct {
	CPU     time.Duration // user and system, from the first request to the last answer
	Wall    time.Duration
	PeakRSS int64 // bytes
	Events  int
	Probes  []probe
}

// The latencies of a probe that are compared.
const (
	ttft = iota
	itl
	tpot
	duration
	kinds
)

// probe is one result of the prober.
type probe struct {
	ID        string
	Failed    string
	Late      bool  // reader_late: something of it is not recorded
	Sent      int64 // Unix nanoseconds
	Tokens    int   // events
	Latencies [kinds][]prober.Latency
}

func newProbe(r *prober.Result) probe {
	p := probe{
		ID: r.RequestID, Failed: string(r.Reason), Late: r.Suspect.Has(prober.SuspectReaderLate),
		Sent: r.Sent.UnixNano(), Tokens: len(r.Gaps) + 1,
	}
	p.Latencies[itl] = slices.Collect(r.ITL())
	for kind, of := range map[int]func() (prober.Latency, bool){ttft: r.TTFT, tpot: r.TPOT, duration: r.Duration} {
		if l, known := of(); known {
			p.Latencies[kind] = []prober.Latency{l}
		}
	}
	return p
}

// measured runs work between two looks at the clock of the processor.
func (c *clientConfig) measured(work func() error) (r clientResult, err error) {
	if c.Profile != "" {
		f, err := os.Create(c.Profile)
		if err != nil {
			return r, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return r, err
		}
		defer pprof.StopCPUProfile()
	}
	var before, after unix.Rusage
	start := time.Now()
	if err := unix.Getrusage(unix.RUSAGE_SELF, &before); err != nil {
		return r, err
	}
	err = work()
	r.Wall = time.Since(start)
	if err := unix.Getrusage(unix.RUSAGE_SELF, &after); err != nil {
		return r, err
	}
	r.CPU = time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	r.PeakRSS = after.Maxrss << 10
	return r, err
}

// schedule starts every stream when it is due and waits for all to end.
func (c *clientConfig) schedule(one func(i int)) {
	start := time.Now()
	for round := range c.Rounds {
		var running sync.WaitGroup
		for i := range c.Streams {
			if c.Stagger > 0 {
				time.Sleep(time.Until(start.Add(time.Duration(i) * c.Stagger)))
			}
			running.Go(func() { one(round*c.Streams + i) })
		}
		running.Wait()
		start = time.Now()
	}
}

// proberRole sends probes with the prober of this project.
func proberRole(config json.RawMessage, ready func(string)) (any, error) {
	var c clientConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	runner, err := c.runner()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	// The first probe finds out what the server can do. The scheduled ones of a daemon do not.
	order := prober.Order{Workload: workload}
	if first, err := runner.Send(ctx, order); err != nil || !first.OK() {
		return nil, fmt.Errorf("the first probe failed: %w", errors.Join(err, first.Err))
	}
	ready("")
	results := make([]*prober.Result, c.Streams*c.Rounds)
	r, err := c.measured(func() error {
		c.schedule(func(i int) { results[i], _ = runner.Send(ctx, order) })
		return nil
	})
	for _, res := range results {
		r.Events += len(res.Gaps) + 1
		r.Probes = append(r.Probes, newProbe(res))
	}
	return r, err
}

func (c *clientConfig) runner() (*prober.Runner, error) {
	base, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	var observer prober.Observer
	if ticket, err := mock.OpenTicket(c.Ticket); err != nil {
		return nil, err
	} else if ticket != nil {
		observer = counting{read: ticket}
	}
	return prober.NewRunner(prober.Target{
		Name: "bench", URL: base, Model: modelName, IPFamily: prober.IPv4, HTTP: promconfig.DefaultHTTPClientConfig,
		Plans: []prober.Plan{{
			Workload: prober.Workload{
				Name: workload, API: prober.Chat, PromptTokens: promptTokens, OutputTokens: c.Tokens, MaxTokensField: "max_tokens",
			},
			Interval: time.Second, Arrival: prober.Constant, Timeout: 5 * time.Minute, StallTimeout: time.Minute, MaxInFlight: 1,
		}},
	}, prober.Options{Observer: observer, Dial: c.dial, Watch: prober.NewWatch(), UserAgent: "llm_prober/bench"})
}

// plainConn hides the kind of a connection, so that no one can ask the kernel for stamps.
type plainConn struct{ net.Conn }

func (c *clientConfig) dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{}
	if c.Segment > 0 {
		d.Control = func(_, _ string, raw syscall.RawConn) error {
			var refused error
			err := raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, c.Segment) })
			return errors.Join(err, refused)
		}
	}
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || c.Kernel {
		return conn, err
	}
	return plainConn{conn}, nil
}

// bareRole reads the same streams with net/http and finds line ends in a buffer of 4 KiB. It takes no time
// stamp, decodes nothing and knows nothing of probes: what is left is what any Go client must spend.
func bareRole(config json.RawMessage, ready func(string)) (any, error) {
	var c clientConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
	ticket, err := mock.OpenTicket(c.Ticket)
	if err != nil {
		return nil, err
	}
	body := fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"stream_options":{"include_usage":true}}`, modelName, c.Tokens)
	var mu sync.Mutex
	lines := 0
	read := func(i int) error {
		req, err := http.NewRequest(http.MethodPost, c.URL+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Request-Id", fmt.Sprintf("probe-%026d", i)) // as long as the prober's
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		in := bufio.NewReaderSize(resp.Body, 4<<10)
		n := 0
		if ticket != nil {
			ticket.Store(0)
		}
		for {
			_, err := in.ReadSlice('\n')
			if err == io.EOF {
				break
			}
			if err != nil {
				return err
			}
			if n++; ticket != nil && n > 2 { // the first event is the role
				ticket.Store(int64(n/2 - 1))
			}
		}
		mu.Lock()
		defer mu.Unlock()
		lines += n
		return nil
	}
	if err := read(0); err != nil {
		return nil, err
	}
	ready("")
	lines = 0
	failed := make(chan error, c.Streams*c.Rounds)
	r, err := c.measured(func() error {
		c.schedule(func(i int) { failed <- read(i) })
		return nil
	})
	for range cap(failed) {
		err = errors.Join(err, <-failed)
	}
	r.Events = lines/2 - 3*c.Streams*c.Rounds // two line ends an event; role, usage and [DONE] are no tokens
	return r, err
}
