//go:build linux

// Package mock is a server that streams completions as vLLM does, on a schedule of its own and without a model,
// and keeps an account of when: the kernel's receive time of each request, and the times before and after each write(2).
package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what the server does with a request.
type Config struct {
	Model  string        // the only one it lists, any other is served as well; empty: it lists none
	Prompt int           // prompt tokens that usage tells, whatever was sent
	First  time.Duration // from the arrival of a request to its first token
	Every  time.Duration // between tokens, on an absolute schedule; 0: as fast as they can be written
	Trail  time.Duration // between the last token and usage
	Event  int           // pad each event to so many bytes; 0: not at all
	Ticket string        // file of [NewTicket]: a token is written when all before it were read
	Page   string        // file with the body of /metrics
	// NoCount leaves the count of tokens out of events, even where it is asked for.
	NoCount bool
	// Record keeps an account of each request.
	Record bool
}

// Server is the mock. Each event is one write(2).
type Server struct {
	Config
	page    []byte
	streams sync.WaitGroup
	count   atomic.Int64

	mu     sync.Mutex
	ledger []Account
}

// New reads the files that a configuration names.
func New(config Config) (*Server, error) {
	s := &Server{Config: config}
	if s.Page == "" {
		return s, nil
	}
	var err error
	if s.page, err = os.ReadFile(s.Page); err != nil {
		return nil, fmt.Errorf("reading the page of metrics: %w", err)
	}
	return s, nil
}

// Role is a mock in a process of its own, see package child: it reports its URL, and its ledger at the end.
func Role(config json.RawMessage, ready func(string)) (any, error) {
	var c Config
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	s, err := New(c)
	if err != nil {
		return nil, err
	}
	listener, err := Listen()
	if err != nil {
		return nil, err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	ready("http://" + listener.Addr().String())
	listener.Close()
	return s.Ledger(), <-served
}

// Listen opens a port of the loopback address whose connections have the kernel's receive times from the first byte.
func Listen() (*net.TCPListener, error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(stampReceipt(listener), awaitStamps()); err != nil {
		listener.Close()
		return nil, fmt.Errorf("asking the kernel for receive times: %w", err)
	}
	return listener, nil
}

// Serve answers connections of a listener that [Listen] made, until it is closed.
func (s *Server) Serve(listener *net.TCPListener) error {
	for {
		conn, err := listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go s.connection(conn)
	}
}

// Ledger waits for the streams that are being written and returns the account of each, in the order of their ends.
func (s *Server) Ledger() []Account {
	s.streams.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger
}

// connection answers the requests of one connection, until either side wants no more.
func (s *Server) connection(conn *net.TCPConn) {
	defer conn.Close()
	in := &reader{conn: conn}
	for {
		r, err := in.next()
		if err != nil {
			return
		}
		s.streams.Add(1)
		err = s.answer(conn, r)
		s.streams.Done()
		if err != nil || r.close {
			return
		}
	}
}

// answer has the pages that clients look at before they begin. There is no /tokenize, as on servers other than
// vLLM: clients must believe usage.
func (s *Server) answer(conn *net.TCPConn, r request) error {
	switch {
	case r.method == "POST" && strings.HasSuffix(r.path, "/chat/completions"):
		return s.stream(conn, r, chat)
	case r.method == "POST" && strings.HasSuffix(r.path, "/completions"):
		return s.stream(conn, r, completions)
	case strings.HasSuffix(r.path, "/v1/models") && s.Model != "":
		return reply(conn, "200 OK", "application/json", fmt.Appendf(nil, `{"object":"list","data":[{"id":%q,"object":"model","created":1795966996,"owned_by":"vllm","root":%q,"parent":null,"max_model_len":4096}]}`,
			s.Model, s.Model))
	case strings.HasSuffix(r.path, "/metrics") && s.page != nil:
		return reply(conn, "200 OK", "text/plain; version=0.0.4; charset=utf-8", s.page)
	case strings.HasSuffix(r.path, "/health"):
		return reply(conn, "200 OK", "text/plain", nil)
	}
	return reply(conn, "404 Not Found", "application/json", []byte(`{"error":{"message":"Not Found","type":"NotFoundError","param":null,"code":404}}`))
}

func reply(conn net.Conn, status, kind string, body []byte) error {
	head := fmt.Appendf(nil, "HTTP/1.1 %s\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n", status, kind, len(body))
	_, err := conn.Write(append(head, body...))
	return err
}
