//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serverConfig describes a server that streams as vLLM does, on a schedule of its own and without a model.
type serverConfig struct {
	First  time.Duration // from the arrival of a request to its first token
	Every  time.Duration // between tokens, on an absolute schedule; 0: as fast as they can be written
	Ticket string        // shared memory where the client counts its events: the next is written when all before were read
	Trail  time.Duration // between the last token and usage
	Tokens int
	Usage  bool   // continuous usage: the count of tokens in every event
	Event  int    // pad each event to so many bytes; 0: not at all
	Page   string // file with the body of /metrics
	Record bool   // keep what happened
}

// account is what the server knows of one request.
type account struct {
	Received int64   // when the kernel received the last byte of the request, Unix nanoseconds
	Writes   []int64 // when the write(2) of each token event began
	Returns  []int64 // when it had returned and nothing waited in the kernel: TCP sends no more than it has room for
}

// left notes that all has left by now.
func (a *account) left() {
	for now := time.Now().UnixNano(); len(a.Returns) < len(a.Writes); {
		a.Returns = append(a.Returns, now)
	}
}

// unsent is how many bytes the kernel has not sent yet (SIOCOUTQNSD).
func unsent(conn syscall.RawConn) int {
	n := 0
	_ = conn.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQNSD) }) // a closed one sends nothing
	return n
}

// server is the mock. Each event is one write(2).
type server struct {
	serverConfig
	page    []byte
	streams sync.WaitGroup

	mu     sync.Mutex
	ledger map[string]account // by X-Request-Id
}

// serverRole serves until it is told to go, and then gives its ledger.
func serverRole(config json.RawMessage, ready func(string)) (any, error) {
	s := &server{ledger: map[string]account{}}
	if err := json.Unmarshal(config, &s.serverConfig); err != nil {
		return nil, err
	}
	if s.Page != "" {
		var err error
		if s.page, err = os.ReadFile(s.Page); err != nil {
			return nil, err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	// On the listener already: the kernel begins to stamp a moment after it was asked for the first time.
	if err := stampReceipt(listener.(*net.TCPListener)); err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(conn.(*net.TCPConn))
		}
	}()
	address := "http://" + listener.Addr().String()
	if err := untilStamped(address); err != nil {
		return nil, err
	}
	ready(address)
	s.streams.Wait() // the client may have seen the end before it is noted here
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger, nil
}

// untilStamped sends requests until one was stamped, which is when it is answered. On a busy machine the kernel takes
// its time to begin.
func untilStamped(address string) (err error) {
	for range 1000 {
		var resp *http.Response
		if resp, err = http.Get(address + "/health"); err == nil {
			return resp.Body.Close() // the connection stays, and so do the stamps
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("waiting for the kernel's stamps: %w", err)
}

func stampReceipt(c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	return errors.Join(err, refused)
}

// serve answers the requests of one connection.
func (s *server) serve(conn *net.TCPConn) {
	defer conn.Close()
	in := &requestReader{conn: conn}
	for {
		r, err := in.next()
		if err != nil {
			return
		}
		switch {
		case r.method == "POST" && strings.HasSuffix(r.path, "/completions"):
			s.streams.Add(1)
			s.stream(conn, r)
			s.streams.Done()
			return
		case strings.HasSuffix(r.path, "/metrics") && s.page != nil:
			err = reply(conn, "200 OK", "text/plain; version=0.0.4; charset=utf-8", s.page)
		case strings.HasSuffix(r.path, "/health"):
			err = reply(conn, "200 OK", "text/plain", nil)
		default:
			err = reply(conn, "404 Not Found", "application/json", []byte(`{"error":{"message":"Not Found","code":404}}`))
		}
		if err != nil {
			return
		}
	}
}

func reply(conn net.Conn, status, kind string, body []byte) error {
	head := fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", status, kind, len(body))
	_, err := conn.Write(append(head, body...))
	return err
}

// stream answers one completion: headers at once, then the role and the first token, then one token at a time,
// the last with its finish_reason, then usage and the end.
func (s *server) stream(conn *net.TCPConn, r request) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return
	}
	a := account{Received: r.received.UnixNano(), Writes: make([]int64, 0, s.Tokens), Returns: make([]int64, 0, s.Tokens)}
	now := time.Now()
	due := now.Add(s.First - now.Round(0).Sub(r.received))
	_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"))
	e := &events{serverConfig: s.serverConfig, id: r.id}
	middle := bytes.Clone(e.token(1)) // what does not change need not be built again
	consumed, err := openTicket(s.Ticket)
	if err != nil {
		return // the client sees a stream without a token
	}
	time.Sleep(time.Until(due))
	_, _ = conn.Write(e.role())
	for i := 1; i <= s.Tokens; i++ {
		event := middle
		if s.Usage || i == s.Tokens {
			event = e.token(i)
		}
		if i > 1 && s.Every > 0 {
			due = due.Add(s.Every)
			time.Sleep(time.Until(due))
		}
		if consumed != nil {
			for consumed.Load() < int64(i-1) {
			}
		}
		if s.Record {
			if len(a.Returns) < len(a.Writes) && unsent(raw) == 0 {
				a.left()
			}
			a.Writes = append(a.Writes, time.Now().UnixNano())
		}
		if _, err := conn.Write(event); err != nil {
			break
		}
		if s.Record && unsent(raw) == 0 {
			a.left()
		}
	}
	for tries := 0; len(a.Returns) < len(a.Writes); tries++ {
		if time.Sleep(time.Millisecond); unsent(raw) == 0 || tries == 1000 {
			a.left()
		}
	}
	if s.Trail > 0 {
		time.Sleep(s.Trail)
	}
	_, _ = conn.Write(e.usage())
	_, _ = conn.Write(e.event("[DONE]"))
	_, _ = conn.Write([]byte("0\r\n\r\n"))
	if s.Record {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ledger[r.id] = a
	}
}

// events builds the chunks of one stream, as vLLM 0.32 writes them.
type events struct {
	serverConfig
	id  string
	buf []byte
}

func (e *events) event(data string) []byte {
	event := "data: " + data + "\n\n"
	e.buf = fmt.Appendf(e.buf[:0], "%x\r\n%s\r\n", len(event), event)
	return e.buf
}

func (e *events) choice(delta, end string, count int) []byte {
	usage := ""
	if e.Usage {
		usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"completion_tokens_details":null}`,
			promptTokens, promptTokens+count, count)
	}
	return e.event(fmt.Sprintf(`{"id":"chatcmpl-%s","object":"chat.completion.chunk","created":1795966996,"model":%q,"choices":[{"index":0,"delta":{%s},"logprobs":null,%s}]%s}`,
		e.id, modelName, delta, end, usage))
}

func (e *events) role() []byte {
	return e.choice(`"role":"assistant","content":""`, `"finish_reason":null`, 0)
}

func (e *events) token(i int) []byte {
	end := `"finish_reason":null,"token_ids":null`
	if i == e.Tokens {
		end = `"finish_reason":"length","stop_reason":null,"token_ids":null`
	}
	content := " word"
	event := e.choice(`"content":"`+content+`"`, end, i)
	if short := e.Event - (len(event) - len("xx\r\n\r\n")); short > 0 {
		event = e.choice(`"content":"`+content+strings.Repeat("s", short)+`"`, end, i)
	}
	return event
}

func (e *events) usage() []byte {
	return e.event(fmt.Sprintf(`{"id":"chatcmpl-%s","object":"chat.completion.chunk","created":1795966996,"model":%q,"choices":[],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":0}}}`,
		e.id, modelName, promptTokens, promptTokens+e.Tokens, e.Tokens))
}

// request is what the mock needs of an HTTP request.
type request struct {
	method, path, id string
	received         time.Time // its last byte, by the kernel
}

// requestReader reads the requests of one connection with the kernel's receive stamps.
type requestReader struct {
	conn *net.TCPConn
	data []byte
}

func (r *requestReader) next() (request, error) {
	var req request
	for {
		if head, body, ok := bytes.Cut(r.data, []byte("\r\n\r\n")); ok {
			length := 0
			lines := strings.Split(string(head), "\r\n")
			req.method, req.path, _ = strings.Cut(lines[0], " ")
			req.path, _, _ = strings.Cut(req.path, " ")
			for _, line := range lines[1:] {
				switch name, value, _ := strings.Cut(line, ": "); strings.ToLower(name) {
				case "content-length":
					length, _ = strconv.Atoi(value)
				case "x-request-id":
					req.id = value
				}
			}
			if len(body) >= length {
				r.data = body[length:]
				return req, nil
			}
		}
		var err error
		if req.received, err = r.read(); err != nil {
			return req, err
		}
	}
}

// read reads once more.
func (r *requestReader) read() (received time.Time, err error) {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return received, err
	}
	buf, control := make([]byte, 8<<10), make([]byte, 64)
	var n, controls int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, controls, _, _, failed = unix.Recvmsg(int(fd), buf, control, 0)
		return failed != unix.EAGAIN
	})
	if err = errors.Join(err, failed); err != nil {
		return received, err
	}
	if n == 0 {
		return received, net.ErrClosed
	}
	r.data = append(r.data, buf[:n]...)
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		return received, err
	}
	for _, m := range messages {
		if m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:]))), nil
		}
	}
	return received, errors.New("no time stamp")
}
