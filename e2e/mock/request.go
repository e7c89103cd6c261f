//go:build linux

package mock

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ask is what the mock needs of a completion request.
type ask struct {
	Model               string
	Stream              bool
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
	StreamOptions       struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

func parseAsk(body []byte) (a ask, err error) { return a, json.Unmarshal(body, &a) }

func (a ask) tokens() int { return max(a.MaxTokens, a.MaxCompletionTokens) }

// request is what the mock needs of an HTTP request.
type request struct {
	method, path, id string
	close            bool // it is the connection's last
	body             []byte
	received         time.Time // its last byte, by the kernel
}

// streamHead answers it. Clients that keep no connection are told that it is not kept.
func (r request) streamHead() []byte {
	keep := ""
	if r.close {
		keep = "connection: close\r\n"
	}
	return []byte("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n" + keep + "transfer-encoding: chunked\r\n\r\n")
}

// reader reads the requests of one connection with the kernel's receive times.
type reader struct {
	conn *net.TCPConn
	data []byte
	last time.Time // when the newest byte of data came
}

func (r *reader) next() (request, error) {
	for {
		if req, rest, ok := cutRequest(r.data); ok {
			r.data, req.received = rest, r.last
			return req, nil
		}
		if err := r.read(); err != nil {
			return request{}, err
		}
	}
}

// cutRequest takes one whole request off the front of what was read.
func cutRequest(data []byte) (req request, rest []byte, ok bool) {
	head, body, ok := bytes.Cut(data, []byte("\r\n\r\n"))
	if !ok {
		return req, data, false
	}
	first, lines, _ := strings.Cut(string(head), "\r\n")
	req.method, req.path, _ = strings.Cut(first, " ")
	req.path, _, _ = strings.Cut(req.path, " ")
	length := 0
	for line := range strings.SplitSeq(lines, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(name) {
		case "content-length":
			length, _ = strconv.Atoi(value)
		case "x-request-id":
			req.id = value
		case "connection":
			req.close = strings.EqualFold(value, "close")
		}
	}
	if len(body) < length {
		return req, data, false
	}
	req.body = bytes.Clone(body[:length])
	return req, body[length:], true
}

// read reads once more.
func (r *reader) read() error {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return err
	}
	buf, control := make([]byte, 16<<10), make([]byte, 64)
	var n, controls int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, controls, _, _, failed = unix.Recvmsg(int(fd), buf, control, 0)
		return failed != unix.EAGAIN
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if n == 0 {
		return net.ErrClosed
	}
	r.data = append(r.data, buf[:n]...)
	messages, err := unix.ParseSocketControlMessage(control[:controls])
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			r.last = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
			return nil
		}
	}
	return errNoStamp
}
