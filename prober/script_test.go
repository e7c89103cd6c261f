package prober

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A script is what a server sends for one probe. Text is sent as it stands, but for
//
//	{ROLE}         a chat chunk with the role and no content
//	{C:x} {R:x}    a chunk with content x, with reasoning_content x
//	{FIN:length}   a chunk with an empty delta and that finish_reason
//	{USAGE:p,c}    the usage chunk: p prompt tokens, c completion tokens
//	{DONE}         data: [DONE]
//	<70000 x a>    the letter a, 70,000 times
//	<<W>>          a new write
//	<<+300ms>>     a new write, after a pause
//	<<END>>        a clean end; so does the end of the script
//	<<CUT>>        the connection is closed in mid body
//	<<RST>>        the connection is reset
//	<<HANG>>       nothing more comes; the server waits for the client to leave
//
// Unless it holds "HTTP/1.1 " itself, it becomes a chunked event stream with status 200.
type script string

var (
	macro     = regexp.MustCompile(`\{(ROLE|DONE|C|R|FIN|USAGE)(?::([^}]*))?\}`)
	repeated  = regexp.MustCompile(`<(\d+) x (.)>`)
	directive = regexp.MustCompile(`<<([^<>]+)>>`)
)

func quoted(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // <3 x a> is to be expanded after this
	_ = e.Encode(text)
	return strings.TrimSpace(b.String())
}

func delta(fields, finish string) string {
	return `data: {"choices":[{"index":0,"delta":{` + fields + `},"finish_reason":` + finish + "}]}\n\n"
}

// expand replaces the macros in a text without directives.
func expand(text string) string {
	text = macro.ReplaceAllStringFunc(text, func(m string) string {
		part := macro.FindStringSubmatch(m)
		switch arg := part[2]; part[1] {
		case "ROLE":
			return delta(`"role":"assistant","content":""`, "null")
		case "C":
			return delta(`"content":`+quoted(arg), "null")
		case "R":
			return delta(`"reasoning_content":`+quoted(arg), "null")
		case "FIN":
			return delta("", quoted(arg))
		case "USAGE":
			var p, c int
			fmt.Sscanf(arg, "%d,%d", &p, &c)
			return fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\n", p, c, p+c)
		default:
			return "data: [DONE]\n\n"
		}
	})
	return repeated.ReplaceAllStringFunc(text, func(m string) string {
		part := repeated.FindStringSubmatch(m)
		n, _ := strconv.Atoi(part[1])
		return strings.Repeat(part[2], n)
	})
}

// bytewise puts a new write after every byte.
func (s script) bytewise() script {
	return script(strings.Join(strings.Split(expand(string(s)), ""), "<<W>>"))
}

// scriptHeader begins the answer of a script that brings no header of its own.
const scriptHeader = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// play writes a script. It returns an error if the client left before its end. reset breaks the connection.
func (s script) play(conn net.Conn, reset func()) (err error) {
	text := string(s)
	raw := strings.Contains(text, "HTTP/1.1 ")
	write := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(conn, format, args...)
		}
	}
	send := func(part string) {
		switch {
		case part == "":
		case raw:
			write("%s", part)
		default:
			write("%x\r\n%s\r\n", len(part), part)
		}
	}
	if !raw {
		write("%s", scriptHeader)
	}
	at := 0
	for _, span := range append(directive.FindAllStringSubmatchIndex(text, -1), []int{len(text), len(text), 0, 0}) {
		send(expand(text[at:span[0]]))
		at = span[1]
		if err != nil {
			return err
		}
		switch word := text[span[2]:span[3]]; word {
		case "W", "":
		case "END":
			at = len(text)
		case "CUT":
			return nil
		case "RST":
			reset()
			return nil
		case "HANG":
			_, err := io.Copy(io.Discard, conn)
			return err
		default:
			pause, parseErr := time.ParseDuration(strings.TrimPrefix(word, "+"))
			if parseErr != nil {
				panic("script: " + parseErr.Error())
			}
			err = wait(conn, pause)
		}
	}
	if !raw {
		write("0\r\n\r\n")
	}
	return err
}

// wait waits, but no longer than the client stays.
func wait(conn net.Conn, pause time.Duration) error {
	if err := conn.SetReadDeadline(time.Now().Add(pause)); err != nil {
		return err
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the client left: %w", err)
	}
	return nil
}

// pipeEnd is the client's end of an in-memory connection. A connection that was reset says so, as a socket does.
type pipeEnd struct {
	net.Conn
	reset  atomic.Bool
	closed func()
}

func (c *pipeEnd) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.reset.Load() {
		err = &net.OpError{Op: "read", Net: "pipe", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	}
	return n, err
}

func (c *pipeEnd) Close() error {
	err := c.Conn.Close()
	c.closed()
	return err
}

// readRequest reads one HTTP request and its JSON body.
func readRequest(conn net.Conn) (sentRequest, error) {
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return sentRequest{}, err
	}
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return sentRequest{}, err
	}
	r := sentRequest{at: time.Now(), method: req.Method, host: req.Host, path: req.URL.Path, header: req.Header, raw: string(raw)}
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &r.body)
	}
	return r, err
}

// sentRequest is a request as the server saw it.
type sentRequest struct {
	at           time.Time
	method, path string
	host         string
	header       http.Header
	body         map[string]any
	raw          string
}

// prompt is the text of a request's prompt: of its last message, or of the completion.
func (r sentRequest) prompt() string {
	messages := r.messages()
	return messages[len(messages)-1]
}

// messages lists the texts of a request's messages; a completion has one.
func (r sentRequest) messages() []string {
	if text, ok := r.body["prompt"].(string); ok {
		return []string{text}
	}
	var texts []string
	for _, m := range r.body["messages"].([]any) {
		texts = append(texts, m.(map[string]any)["content"].(string))
	}
	return texts
}

// jsonAnswer is a script that answers with a status and a JSON body.
func jsonAnswer(status int, body string) script {
	return script(fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		status, http.StatusText(status), len(body), body))
}
