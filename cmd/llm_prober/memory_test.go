package main

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-kit/log"
	dto "github.com/prometheus/client_model/go"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
	"github.com/llm-prober/llm_prober/prober"
)

// network is an in-memory network for a synctest bubble. Its zero value has no servers: every address that
// nobody listens on refuses connections.
type network struct {
	mu        sync.Mutex
	listeners map[string]*listener
	nameless  bool // names resolve to nothing any more
	usedUp    bool // there are no file descriptors for new connections
}

// listener is one address of a network.
type listener struct {
	address string
	conns   chan net.Conn
	closed  chan struct{}
	close   func()
}

func (n *network) listen(address string) *listener {
	l := &listener{address: address, conns: make(chan net.Conn), closed: make(chan struct{})}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*listener{}
	}
	n.listeners[address] = l
	return l
}

// dial is a prober.DialFunc.
func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	failed := func(err error) (net.Conn, error) { return nil, &net.OpError{Op: "dial", Net: network, Err: err} }
	n.mu.Lock()
	l, nameless, usedUp := n.listeners[address], n.nameless || strings.Contains(address, ".invalid:"), n.usedUp
	n.mu.Unlock()
	if usedUp {
		return failed(os.NewSyscallError("socket", syscall.EMFILE))
	}
	if nameless {
		return failed(&net.DNSError{Err: "no such host", Name: address, IsNotFound: true})
	}
	if l == nil {
		return failed(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	}
	ours, theirs := net.Pipe()
	end := &clientEnd{Conn: ours}
	select {
	case l.conns <- &serverEnd{theirs, &end.reset}:
		return end, nil
	case <-l.closed:
		return failed(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case <-ctx.Done():
		return failed(ctx.Err())
	}
}

// forgetNames takes all names out of the DNS.
func (n *network) forgetNames() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nameless = true
}

// useUp leaves no file descriptor for another connection.
func (n *network) useUp() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.usedUp = true
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.close()
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.address, Net: "memory"} }

// clientEnd of a connection learns that the server has reset it.
type clientEnd struct {
	net.Conn
	reset atomic.Bool
}

func (c *clientEnd) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.reset.Load() {
		err = &net.OpError{Op: "read", Net: "memory", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return n, err
}

// serverEnd of a connection can be closed with a reset, as a TCP connection can.
type serverEnd struct {
	net.Conn
	reset *atomic.Bool
}

func (c *serverEnd) SetLinger(sec int) error {
	c.reset.Store(sec == 0)
	return nil
}

// host is a simulated server at an address of a network.
type host struct {
	*vllmsim.Server
	instead atomic.Pointer[http.HandlerFunc] // answers in place of the simulator where it has an answer
	web     *http.Server
	ended   chan struct{}
}

// serve runs a simulator until the end of the test or until it is removed.
func serve(t *testing.T, n *network, address string, cfg vllmsim.Config) *host {
	t.Helper()
	h := &host{Server: vllmsim.New(cfg), ended: make(chan struct{})}
	h.web = &http.Server{IdleTimeout: 5 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if instead := h.instead.Load(); instead != nil {
			(*instead)(w, r)
			return
		}
		h.Handler().ServeHTTP(w, r)
	})}
	l := n.listen(address)
	go func() {
		defer close(h.ended)
		if err := h.web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving %s: %v", address, err)
		}
	}()
	t.Cleanup(h.remove)
	return h
}

// remove ends the server: its connections break, and new ones are refused.
func (h *host) remove() {
	h.Server.Close()
	h.web.Close()
	<-h.ended
}

// answer puts handlers in place of pages of the simulator; none brings all of them back.
func (h *host) answer(pages map[string]http.HandlerFunc) {
	if pages == nil {
		h.instead.Store(nil)
		return
	}
	f := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := pages[r.URL.Path]; ok {
			page(w, r)
			return
		}
		h.Handler().ServeHTTP(w, r)
	})
	h.instead.Store(&f)
}

// rig is a daemon on a network in memory, and the text of its configuration file.
type rig struct {
	*daemon
	t    *testing.T
	file atomic.Pointer[string]
	log  *lockedBuffer
}

// startRig starts a daemon that ends with the test.
func startRig(t *testing.T, n *network, yaml string) *rig {
	t.Helper()
	g := &rig{t: t, log: &lockedBuffer{}}
	g.write(yaml)
	g.start(n, func() (*config.Config, error) { return config.Parse("config.yml", []byte(*g.file.Load())) })
	return g
}

func (g *rig) start(n *network, load func() (*config.Config, error)) {
	g.t.Helper()
	cfg, err := load()
	if err != nil {
		g.t.Fatal(err)
	}
	g.daemon, err = newDaemon(cfg, load, prober.Options{Dial: n.dial, Logger: log.NewLogfmtLogger(g.log), UserAgent: "llm_prober/test"})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(g.stop)
}

// write replaces the configuration file.
func (g *rig) write(yaml string) { g.file.Store(&yaml) }

// mustReload takes over a configuration.
func (g *rig) mustReload(yaml string) {
	g.t.Helper()
	g.write(yaml)
	if err := g.reload(); err != nil {
		g.t.Fatal(err)
	}
}

// scrape gathers what /metrics would show now.
func (g *rig) scrape() samples {
	g.t.Helper()
	families, err := g.targets.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	return flatten(families)
}

// samples are the values of an exposition: name{label="value",…}, labels in order; of histograms and summaries
// the _count and the _sum.
type samples map[string]float64

// flatten leaves some labels out.
func flatten(families []*dto.MetricFamily, without ...string) samples {
	s := samples{}
	for _, f := range families {
		for _, m := range f.Metric {
			var pairs []string
			for _, l := range m.Label {
				if !slices.Contains(without, l.GetName()) {
					pairs = append(pairs, l.GetName()+"="+strconv.Quote(l.GetValue()))
				}
			}
			labels := ""
			if pairs != nil {
				labels = "{" + strings.Join(pairs, ",") + "}"
			}
			name := f.GetName()
			switch {
			case m.Histogram != nil:
				s[name+"_count"+labels] = float64(m.Histogram.GetSampleCount())
				s[name+"_sum"+labels] = m.Histogram.GetSampleSum()
			case m.Summary != nil:
				s[name+"_count"+labels] = float64(m.Summary.GetSampleCount())
				s[name+"_sum"+labels] = m.Summary.GetSampleSum()
			case m.Counter != nil:
				s[name+labels] = m.Counter.GetValue()
			case m.Gauge != nil:
				s[name+labels] = m.Gauge.GetValue()
			default:
				s[name+labels] = m.Untyped.GetValue()
			}
		}
	}
	return s
}

// of lists the names of the series that have a label, in order.
func (s samples) of(label string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(name string) bool { return !strings.Contains(name, label) })
}

// want compares a series with its value; absent is what a series has that is not there.
func (s samples) want(t *testing.T, series string, value float64) {
	t.Helper()
	got, ok := s[series]
	switch {
	case !ok && value == absent:
	case !ok:
		t.Errorf("%s is absent, want %v", series, value)
	case got != value:
		t.Errorf("%s = %v, want %v", series, got, value)
	}
}

const absent = -1

// lockedBuffer is where logs go.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
