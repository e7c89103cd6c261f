//go:build linux

package mock

import (
	"bytes"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const badRequest = `{"error":{"message":"this server streams, and wants max_tokens","type":"BadRequestError","param":null,"code":400}}`

// stream is one completion that is being answered.
type stream struct {
	*Server
	conn     *net.TCPConn
	raw      syscall.RawConn
	events   *events
	consumed *atomic.Int64 // tokens that the client has read; nil without a ticket
	account  Account
}

// stream answers one completion: headers at once, the role together with the first token, then one token at a
// time, the last with its finish_reason, then usage and the end.
func (s *Server) stream(conn *net.TCPConn, r request, api api) error {
	ask, err := parseAsk(r.body)
	if err != nil || ask.tokens() < 1 || !ask.Stream {
		return reply(conn, "400 Bad Request", "application/json", []byte(badRequest))
	}
	now := time.Now()
	due := now.Add(s.First - now.Round(0).Sub(r.received))
	st := &stream{Server: s, conn: conn, events: s.events(api, r.id, ask), account: Account{
		ID: r.id, Received: r.received.UnixNano(), Writes: make([]int64, 0, ask.tokens()), Returns: make([]int64, 0, ask.tokens()),
	}}
	if st.raw, err = conn.SyscallConn(); err != nil {
		return err
	}
	if st.consumed, err = OpenTicket(s.Ticket); err != nil {
		return err
	}
	if _, err := conn.Write(r.streamHead()); err != nil {
		return err
	}
	if err := st.tokens(due); err != nil {
		return err
	}
	st.settle()
	return st.end(ask.StreamOptions.IncludeUsage)
}

// events has the chunks of the answer to a request.
func (s *Server) events(api api, id string, ask ask) *events {
	if id == "" {
		id = strconv.FormatInt(s.count.Add(1), 10)
	}
	return &events{
		api: api, id: id, model: ask.Model, prompt: s.Prompt, tokens: ask.tokens(), size: s.Event,
		usage: ask.StreamOptions.ContinuousUsageStats && !s.NoCount,
	}
}

// tokens writes the role and the tokens, the first when it is due.
func (s *stream) tokens(due time.Time) error {
	first := bytes.Clone(s.events.token(1)) // built before it is due, as the others are
	time.Sleep(time.Until(due))
	if role := s.events.role(); role != nil {
		if s.Record {
			s.account.Role = time.Now().UnixNano()
		}
		if _, err := s.conn.Write(role); err != nil {
			return err
		}
	}
	if err := s.token(first); err != nil {
		return err
	}
	for i := 2; i <= s.events.tokens; i++ {
		event := s.events.token(i)
		if s.Every > 0 {
			due = due.Add(s.Every)
			time.Sleep(time.Until(due))
		}
		for s.consumed != nil && s.consumed.Load() < int64(i-1) {
		}
		if err := s.token(event); err != nil {
			return err
		}
	}
	return nil
}

// token writes one, and notes when.
func (s *stream) token(event []byte) error {
	a := &s.account
	if !s.Record {
		_, err := s.conn.Write(event)
		return err
	}
	if len(a.Returns) < len(a.Writes) && unsent(s.raw) == 0 {
		a.left()
	}
	a.Writes = append(a.Writes, time.Now().UnixNano())
	_, err := s.conn.Write(event)
	if err == nil && unsent(s.raw) == 0 {
		a.left()
	}
	return err
}

// settle waits until all tokens have left the kernel; for a second, then the client does not read.
func (s *stream) settle() {
	for tries := 0; len(s.account.Returns) < len(s.account.Writes); tries++ {
		if time.Sleep(time.Millisecond); unsent(s.raw) == 0 || tries == 1000 {
			s.account.left()
		}
	}
}

// end writes what follows the tokens.
func (s *stream) end(usage bool) error {
	if s.Trail > 0 {
		time.Sleep(s.Trail)
	}
	if usage {
		if _, err := s.conn.Write(s.events.last()); err != nil {
			return err
		}
	}
	if s.Record {
		s.mu.Lock()
		s.ledger = append(s.ledger, s.account)
		s.mu.Unlock()
	}
	_, err := s.conn.Write([]byte("e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"))
	return err
}
