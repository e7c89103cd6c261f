// Package hostile has servers that are broken or mean harm, as a table of what each writes, byte by byte and pause
// by pause, and of what is right to make of it. Tests and the benchmark run them beside healthy servers.
package hostile

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Key is the API key that clients of hostile servers must send as a bearer token. It has the characters that are
// escaped in URLs, JSON, HTML and base64, so that a key that was put in another form shows.
const Key = "sk-Zq7Hostile/9+secret&key=<1>"

// Forms are the ways in which a server may repeat the key. In a [Script] {KEY} and {KEY:form} stand for them.
func Forms() map[string]string {
	return map[string]string{
		"{KEY}":        Key,
		"{KEY:url}":    url.QueryEscape(Key),
		"{KEY:html}":   html.EscapeString(Key),
		"{KEY:slash}":  strings.ReplaceAll(Key, "/", `\/`),
		"{KEY:json}":   strings.NewReplacer("/", `\u002F`, "+", `\u002B`, "&", `\u0026`, "<", `\u003c`, ">", `\u003e`).Replace(Key),
		"{KEY:base64}": base64.StdEncoding.EncodeToString([]byte(Key)),
	}
}

// Script is what a server writes for one request. Then it closes the connection.
type Script []Step

// Step is a part of a script: a text is written so often, each after a pause, and then something ends.
type Step struct {
	Text    string        // as it stands, but for {KEY}
	Times   int           // how often; 0: once
	Every   time.Duration // pause before each
	Chunked bool          // written as one chunk of the chunked encoding
	End     End
}

// Forever as Times is until the client leaves.
const Forever = 1 << 62

// End is what a step ends with.
type End int

// The ends of a step.
const (
	None  End = iota
	Hold      // the connection stays open and silent until the client leaves
	Deaf      // the same, and nothing more is read of it
	Cut       // it is closed
	Reset     // it is reset
)

// Server is a server that misbehaves in one way. Where it has no script for a question it answers as a healthy
// server without a tokenizer does.
type Server struct {
	Name string
	// Kind is what the server stands for: what is found out from one of a kind holds for the others.
	Kind string
	// Connect is written on every connection as soon as it is there, whatever the client sends.
	Connect Script
	// What it answers, by the path that was asked for.
	Chat, Models, Tokenize, Version, Metrics, Health Script
	// TLS is spoken if it is not nil.
	TLS *tls.Config

	// HTTPS: clients come with https, whether or not the server speaks TLS.
	HTTPS bool
	// Unnamed: the client is not told the name of the model, so that it has to ask for it.
	Unnamed bool

	// Probes lists the endings that are right for a probe, reasons of failure or OK; Scrapes for a read of its
	// metrics page. No other ending may happen, and one of them must.
	Probes, Scrapes []string
}

// Target is an entry of the list of targets in a configuration file, for the server at an address, with more keys of
// it in flow style, or none.
func (s Server) Target(name, address, more string) string {
	url := "http://" + address
	if s.HTTPS {
		url = "https://" + address
	}
	if !s.Unnamed {
		more = strings.TrimSuffix("model: m, "+more, ", ")
	}
	return fmt.Sprintf("  - {name: %s, url: %q, metrics_url: %q, http_client_config: {authorization: {credentials: %q}, tls_config: {insecure_skip_verify: true}}, %s}\n",
		name, url, url+"/metrics", Key, more)
}

// OK is the ending of what succeeds.
const OK = "ok"

// Host serves one [Server] and keeps count.
type Host struct {
	server Server
	sent   atomic.Int64
	first  atomic.Int64
	most   atomic.Int64
	forms  *strings.Replacer
	closed chan struct{}
	mu     sync.Mutex
	conns  map[net.Conn]bool
	busy   sync.WaitGroup
}

// Serve answers the connections of a listener until [Host.Close].
func Serve(l net.Listener, s Server) *Host {
	var forms []string
	for name, form := range Forms() {
		forms = append(forms, name, form)
	}
	h := &Host{server: s, forms: strings.NewReplacer(forms...), closed: make(chan struct{}), conns: map[net.Conn]bool{}}
	h.busy.Go(func() {
		<-h.closed
		l.Close()
	})
	h.busy.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.busy.Go(func() { h.serve(conn) })
		}
	})
	return h
}

// Close ends all connections and waits until nothing runs any more.
func (h *Host) Close() {
	h.mu.Lock()
	close(h.closed)
	for conn := range h.conns {
		conn.Close()
	}
	h.mu.Unlock()
	h.busy.Wait()
}

// Sent is how many bytes were written so far.
func (h *Host) Sent() int64 { return h.sent.Load() }

// Requests are the sizes in bytes of the first and of the largest request to the chat endpoint.
func (h *Host) Requests() (first, largest int64) { return h.first.Load(), h.most.Load() }

func (h *Host) serve(conn net.Conn) {
	h.mu.Lock()
	select {
	case <-h.closed:
		conn.Close()
	default:
		h.conns[conn] = true
	}
	h.mu.Unlock()
	defer func() {
		conn.Close()
		h.mu.Lock()
		delete(h.conns, conn)
		h.mu.Unlock()
	}()
	if connect := h.server.Connect; connect != nil {
		if connect[len(connect)-1].End != Deaf {
			h.busy.Go(func() { _, _ = io.Copy(io.Discard, conn) }) // until it is closed
		}
		h.play(connect, conn)
		return
	}
	talk := conn
	if h.server.TLS != nil {
		talk = tls.Server(conn, h.server.TLS)
	}
	request, err := http.ReadRequest(bufio.NewReader(talk))
	if err != nil {
		if h.server.TLS != nil {
			h.play(Script{{End: Hold}}, conn) // until the client has read the alert
		}
		return
	}
	size, err := io.Copy(io.Discard, request.Body)
	if err != nil {
		return
	}
	if request.Method == http.MethodPost && !strings.HasSuffix(request.URL.Path, "/tokenize") {
		h.first.CompareAndSwap(0, size)
		for most := h.most.Load(); size > most && !h.most.CompareAndSwap(most, size); most = h.most.Load() {
		}
	}
	h.play(h.server.script(request), talk)
}

// script is the answer to a request.
func (s Server) script(r *http.Request) Script {
	for _, answer := range []struct {
		path           string
		script, polite Script
	}{
		{"/completions", s.Chat, Answer(16)},
		{"/v1/models", s.Models, Page("200 OK", "application/json", `{"object":"list","data":[{"id":"m","object":"model","owned_by":"vllm","root":"m","max_model_len":4096}]}`)},
		{"/tokenize", s.Tokenize, nil},
		{"/version", s.Version, Page("200 OK", "application/json", `{"version":"0.11.0"}`)},
		{"/metrics", s.Metrics, Page("200 OK", "text/plain; version=0.0.4", politeMetrics)},
		{"/health", s.Health, Page("200 OK", "text/plain", "")},
	} {
		if strings.HasSuffix(r.URL.Path, answer.path) {
			if answer.script != nil {
				return answer.script
			}
			if answer.polite != nil {
				return answer.polite
			}
		}
	}
	return Page("404 Not Found", "application/json", `{"detail":"Not Found"}`)
}

// errEnd ends a script early, without an error.
var errEnd = errors.New("the script ends here")

func (h *Host) play(s Script, conn net.Conn) {
	for _, step := range s {
		if err := h.step(step, conn); err != nil {
			return
		}
	}
}

func (h *Host) step(s Step, conn net.Conn) error {
	text := s.Text
	if strings.Contains(text, "{KEY") {
		text = h.forms.Replace(text)
	}
	before, after := "", ""
	if s.Chunked {
		before, after = fmt.Sprintf("%x\r\n", len(text)), "\r\n"
	}
	for range max(1, s.Times) {
		if s.Every > 0 {
			select {
			case <-time.After(s.Every):
			case <-h.closed:
				return net.ErrClosed
			}
		}
		if err := h.write(conn, before, text, after); err != nil {
			return err
		}
	}
	switch s.End {
	case Hold:
		_, _ = io.Copy(io.Discard, conn) // its end is all that is waited for
		return errEnd
	case Deaf:
		<-h.closed
		return errEnd
	case Reset:
		if c, ok := conn.(interface{ SetLinger(int) error }); ok {
			_ = c.SetLinger(0) // a connection that is gone needs no reset
		}
		return errEnd
	case Cut:
		return errEnd
	}
	return nil
}

// write writes texts as one, in pieces: a copy of a long one would count as memory that the client takes.
func (h *Host) write(conn net.Conn, texts ...string) error {
	const piece = 64 << 10
	buffer := make([]byte, 0, 1<<10)
	flush := func() error {
		n, err := conn.Write(buffer)
		h.sent.Add(int64(n))
		buffer = buffer[:0]
		return err
	}
	for _, text := range texts {
		for len(text) > 0 {
			n := min(len(text), piece-len(buffer))
			buffer, text = append(buffer, text[:n]...), text[n:]
			if len(buffer) == piece {
				if err := flush(); err != nil {
					return err
				}
			}
		}
	}
	return flush()
}

// Page is an answer that ends with its connection.
func Page(status, contentType, body string) Script {
	return Script{{Text: "HTTP/1.1 " + status + "\r\nContent-Type: " + contentType + "\r\nConnection: close\r\n\r\n" + body}}
}

// Stream is an answer with status 200 of events in chunks, which ends cleanly unless a step ends it before.
func Stream(steps ...Step) Script {
	s := Script{{Text: "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"}}
	for _, step := range steps {
		step.Chunked = step.Text != ""
		s = append(s, step)
	}
	return append(s, Step{Text: "0\r\n\r\n", End: Hold})
}

// Answer is a good answer of so many tokens, 20 ms apart, to a prompt of 512.
func Answer(tokens int) Script {
	return Stream(Step{Text: role}, Step{Text: token, Times: tokens, Every: 20 * time.Millisecond},
		Step{Text: finish("length") + usage("512", fmt.Sprint(tokens)) + done})
}

// Pieces of streams.
const (
	role  = `data: {"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	token = `data: {"model":"m","choices":[{"index":0,"delta":{"content":"ab "},"finish_reason":null}]}` + "\n\n"
	done  = "data: [DONE]\n\n"
)

func finish(reason string) string {
	return `data: {"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}` + "\n\n"
}

func usage(prompt, output string) string {
	return `data: {"model":"m","choices":[],"usage":{"prompt_tokens":` + prompt + `,"completion_tokens":` + output + `}}` + "\n\n"
}

const politeMetrics = `# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 1
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 0
`
