// Package recording holds byte-exact traffic of a real vLLM and plays it back, so that the prober, the relay
// and the simulator are held against the real thing and not against each other.
//
// testdata/vllm-0.32.0 was captured by testdata/record.py from vLLM 0.32.0 (CPU build, tiny random model).
package recording

import (
	"bufio"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed testdata/vllm-0.32.0/*.json
var files embed.FS

const dir = "testdata/vllm-0.32.0"

// Recording is one request and all that the server sent back on its connection.
type Recording struct {
	Name    string
	Comment string
	Request Request
	Reads   []Read
	End     string // "eof", or the error that ended the connection
}

// Request is what was sent.
type Request struct {
	Method  string
	Path    string
	Headers map[string]string
	Body    json.RawMessage // null for a request without a body
}

// Read is what one socket read returned.
type Read struct {
	Millis float64 `json:"t_ms"`  // since the request was written
	Bytes  string  `json:"bytes"` // HTTP framing included
}

// At is the time of the read since the request was written.
func (r Read) At() time.Duration { return time.Duration(r.Millis * float64(time.Millisecond)) }

// Load reads the recording of the given name, such as "chat-include-usage".
func Load(name string) (Recording, error) {
	data, err := files.ReadFile(path.Join(dir, name+".json"))
	if err != nil {
		return Recording{}, fmt.Errorf("no recording named %q: %w", name, err)
	}
	var r Recording
	if err := json.Unmarshal(data, &r); err != nil {
		return Recording{}, fmt.Errorf("recording %q: %w", name, err)
	}
	return r, nil
}

// Names lists all recordings, sorted.
func Names() []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // embedded: cannot fail
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".json")
	}
	return names
}

// Response parses the recorded bytes as one HTTP response. The caller closes its body.
func (r Recording) Response() (*http.Response, error) {
	var all strings.Builder
	for _, read := range r.Reads {
		all.WriteString(read.Bytes)
	}
	req := &http.Request{Method: r.Request.Method}
	return http.ReadResponse(bufio.NewReader(strings.NewReader(all.String())), req)
}

// Body returns the recorded response body, without HTTP framing.
func (r Recording) Body() ([]byte, error) {
	resp, err := r.Response()
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// Dial returns a connection whose other end waits for one HTTP request, whatever it says, and then plays the
// recorded reads with their recorded timing. It works under testing/synctest.
func (r Recording) Dial() net.Conn {
	client, server := net.Pipe()
	go r.play(server)
	return client
}

func (r Recording) play(conn net.Conn) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return
	}
	start := time.Now()
	for _, read := range r.Reads {
		time.Sleep(time.Until(start.Add(read.At())))
		if _, err := io.WriteString(conn, read.Bytes); err != nil {
			return
		}
	}
}
