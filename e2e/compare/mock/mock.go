//go:build linux

// Package mock is a server that streams completions as vLLM does, on a schedule of its own and without a model,
// and keeps an account of when: the kernel's receive time of each request and the time before each write(2).
package mock

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Config is what the server does with a request.
type Config struct {
	Model  string        // the only one it lists; any other is served as well
	Prompt int           // prompt tokens that usage tells, whatever was sent
	First  time.Duration // from the arrival of a request to its first token
	Every  time.Duration // between tokens, on an absolute schedule
}

// Account is what the server knows of one request. Times are Unix nanoseconds.
type Account struct {
	ID       string  // X-Request-Id, empty if there was none
	Received int64   // when the kernel received the last byte of the request
	Role     int64   // before the write(2) of the role chunk; 0 where the API has none
	Tokens   []int64 // before the write(2) of each token
}

// Server is the mock. Each event is one write(2).
type Server struct {
	Config
	streams sync.WaitGroup
	count   atomic.Int64

	mu     sync.Mutex
	ledger []Account
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

// answer has the pages that benchmarks look at before they begin. There is no /tokenize, as on servers other than
// vLLM: clients must believe usage.
func (s *Server) answer(conn *net.TCPConn, r request) error {
	switch {
	case r.method == "POST" && strings.HasSuffix(r.path, "/chat/completions"):
		return s.stream(conn, r, chat)
	case r.method == "POST" && strings.HasSuffix(r.path, "/completions"):
		return s.stream(conn, r, completions)
	case strings.HasSuffix(r.path, "/v1/models"):
		return reply(conn, "200 OK", fmt.Sprintf(`{"object":"list","data":[{"id":%q,"object":"model","created":1795966996,"owned_by":"vllm","root":%q,"parent":null,"max_model_len":4096}]}`,
			s.Model, s.Model))
	case strings.HasSuffix(r.path, "/health"):
		return reply(conn, "200 OK", "")
	}
	return reply(conn, "404 Not Found", `{"error":{"message":"Not Found","type":"NotFoundError","param":null,"code":404}}`)
}

func reply(conn net.Conn, status, body string) error {
	_, err := fmt.Fprintf(conn, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s", status, len(body), body)
	return err
}

// stream answers one completion: headers at once, the role together with the first token, then one token at a
// time, the last with its finish_reason, then usage and the end.
func (s *Server) stream(conn *net.TCPConn, r request, api api) error {
	ask, err := parseAsk(r.body)
	if err != nil || ask.tokens() < 1 || !ask.Stream {
		return reply(conn, "400 Bad Request", `{"error":{"message":"this server streams, and wants max_tokens","type":"BadRequestError","param":null,"code":400}}`)
	}
	a := Account{ID: r.id, Received: r.received.UnixNano(), Tokens: make([]int64, 0, ask.tokens())}
	now := time.Now()
	due := now.Add(s.First - now.Round(0).Sub(r.received))
	e := &events{api: api, model: ask.Model, prompt: s.Prompt, tokens: ask.tokens(), usage: ask.StreamOptions.ContinuousUsageStats, id: r.id}
	if e.id == "" {
		e.id = strconv.FormatInt(s.count.Add(1), 10)
	}
	if _, err := conn.Write([]byte("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n")); err != nil {
		return err
	}
	time.Sleep(time.Until(due))
	if role := e.role(); role != nil {
		a.Role = time.Now().UnixNano()
		if _, err := conn.Write(role); err != nil {
			return err
		}
	}
	for i := 1; i <= e.tokens; i++ {
		event := e.token(i)
		if i > 1 {
			due = due.Add(s.Every)
			time.Sleep(time.Until(due))
		}
		a.Tokens = append(a.Tokens, time.Now().UnixNano())
		if _, err := conn.Write(event); err != nil {
			return err
		}
	}
	end := []byte("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
	if ask.StreamOptions.IncludeUsage {
		if _, err := conn.Write(e.last()); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.ledger = append(s.ledger, a)
	s.mu.Unlock()
	_, err = conn.Write(end)
	return err
}
