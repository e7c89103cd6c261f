//go:build linux

package mock

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// serve starts a mock and returns its address.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	listener, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		listener.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// eventsOf sends a request on a connection and returns the data of the events of its answer.
func eventsOf(t *testing.T, conn net.Conn, in *bufio.Reader, path, id, body string) (events []string) {
	t.Helper()
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", path, id, len(body), body)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); response.StatusCode != 200 || kind != "text/event-stream; charset=utf-8" {
		t.Fatalf("status %d, %s: %s", response.StatusCode, kind, text)
	}
	for event := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n\n"), "\n\n") {
		events = append(events, strings.TrimPrefix(event, "data: "))
	}
	return events
}

func TestEventsAreThoseOfVLLM(t *testing.T) {
	s := &Server{Config: Config{Model: "tiny", Prompt: 7}}
	conn, err := net.Dial("tcp", serve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for _, test := range []struct {
		name, path, body string
		want             []string
	}{
		{"chat", "/v1/chat/completions", `{"model":"tiny","stream":true,"max_completion_tokens":2,"stream_options":{"include_usage":true}}`, []string{
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795966996,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795966996,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null,"token_ids":null}]}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795966996,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}]}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795966996,"model":"tiny","choices":[],"usage":{"prompt_tokens":7,"total_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}`,
			`[DONE]`,
		}},
		// The count in every event, and none at the end: nobody asked for it.
		{"continuous usage", "/v1/chat/completions", `{"model":"tiny","stream":true,"max_tokens":1,"stream_options":{"continuous_usage_stats":true}}`, []string{
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795966996,"model":"tiny","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,"completion_tokens_details":null}}`,
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1795966996,"model":"tiny","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}],"usage":{"prompt_tokens":7,"total_tokens":8,"completion_tokens":1,"completion_tokens_details":null}}`,
			`[DONE]`,
		}},
		{"completions", "/v1/completions", `{"model":"other","stream":true,"max_tokens":2}`, []string{
			`{"id":"cmpl-1","object":"text_completion","created":1795966996,"model":"other","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`,
			`{"id":"cmpl-1","object":"text_completion","created":1795966996,"model":"other","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":"length","stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`,
			`[DONE]`,
		}},
	} {
		// One connection for all: clients keep theirs.
		if got := eventsOf(t, conn, in, test.path, "1", test.body); !slices.Equal(got, test.want) {
			t.Errorf("%s:\n%s\nwant\n%s", test.name, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
		}
	}
}

// The account of a request is on the clock of whoever reads it, and keeps to the schedule.
func TestLedger(t *testing.T) {
	s := &Server{Config: Config{First: 20 * time.Millisecond, Every: 5 * time.Millisecond, Record: true}}
	conn, err := net.Dial("tcp", serve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	before := time.Now().UnixNano()
	eventsOf(t, conn, bufio.NewReader(conn), "/v1/chat/completions", "an-id", `{"stream":true,"max_tokens":4}`)
	after := time.Now().UnixNano()
	ledger := s.Ledger()
	if len(ledger) != 1 || ledger[0].ID != "an-id" || len(ledger[0].Writes) != 4 {
		t.Fatalf("the ledger is %+v, want one request of 4 tokens", ledger)
	}
	a := ledger[0]
	times := append([]int64{before, a.Received, a.Role}, append(slices.Clone(a.Writes), after)...)
	if !slices.IsSorted(times) {
		t.Errorf("before, received, role, tokens, after are not in order: %v", times)
	}
	for i, at := range a.Writes {
		due := a.Received + int64(s.First) + int64(i)*int64(s.Every)
		if early := due - at; early > 0 {
			t.Errorf("token %d was written %v before it was due", i, time.Duration(early))
		}
	}
}

func TestOtherPages(t *testing.T) {
	url := "http://" + serve(t, &Server{Config: Config{Model: "tiny"}})
	for path, want := range map[string]int{"/health": 200, "/v1/models": 200, "/tokenize": 404, "/metrics": 404} {
		response, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != want {
			t.Errorf("%s: %d, %v, want %d", path, response.StatusCode, err, want)
		}
		if path == "/v1/models" {
			var models struct{ Data []struct{ ID string } }
			if err := json.Unmarshal(body, &models); err != nil || len(models.Data) != 1 || models.Data[0].ID != "tiny" {
				t.Errorf("the models are %s", body)
			}
		}
	}
	response, err := http.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(`{"max_tokens":2}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 400 {
		t.Errorf("a request for no stream was answered with %d, want 400", response.StatusCode)
	}
}

// What a measurement of a reader wants: events of one size, none before the last was read, and a pause before usage.
func TestEventsForMeasuringAReader(t *testing.T) {
	ticket, remove, err := NewTicket()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	read, err := OpenTicket(ticket)
	if err != nil {
		t.Fatal(err)
	}
	read.Store(2)
	const trail = 30 * time.Millisecond
	s := &Server{Config: Config{Event: 300, NoCount: true, Ticket: ticket, Trail: trail, Record: true}}
	conn, err := net.Dial("tcp", serve(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	time.AfterFunc(20*time.Millisecond, func() { read.Store(3) })
	events := eventsOf(t, conn, bufio.NewReader(conn), "/v1/chat/completions", "an-id",
		`{"stream":true,"max_tokens":4,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
	end := time.Now().UnixNano()
	for i, event := range events[1:5] {
		if size := len("data: " + event + "\n\n"); size != 300 || strings.Contains(event, "usage") {
			t.Errorf("token %d: %d bytes, want 300 and no count: %s", i+1, size, event)
		}
	}
	a := s.Ledger()[0]
	if len(a.Writes) != 4 || len(a.Returns) != 4 {
		t.Fatalf("the account is %+v, want 4 tokens", a)
	}
	if waited := time.Duration(a.Writes[3] - a.Writes[2]); waited < 10*time.Millisecond {
		t.Errorf("the fourth token came %v after the third, which was read 20 ms later", waited)
	}
	if paused := time.Duration(end - a.Writes[3]); paused < trail {
		t.Errorf("usage came %v after the last token, want %v or more", paused, trail)
	}
	for i := range a.Writes {
		if a.Returns[i] < a.Writes[i] {
			t.Errorf("token %d had left before it was written: %+v", i+1, a)
		}
	}
}

// A page of metrics is what the file holds; a client that keeps no connection is told that it is not kept.
func TestMetricsAndClose(t *testing.T) {
	file := t.TempDir() + "/metrics"
	if err := os.WriteFile(file, []byte("up 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Page: file})
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + serve(t, s)
	response, err := http.Get(url + "/0001/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	response.Body.Close()
	if err != nil || string(body) != "up 1\n" {
		t.Errorf("the page is %q, %v", body, err)
	}
	request, err := http.NewRequest(http.MethodPost, url+"/v1/completions", strings.NewReader(`{"stream":true,"max_tokens":1}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	if response, err = http.DefaultClient.Do(request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil || !response.Close {
		t.Errorf("%v; told that the connection ends: %v", err, response.Close)
	}
	response.Body.Close()
	if _, err := New(Config{Page: file + "-missing"}); err == nil {
		t.Error("a page that is not there was accepted")
	}
}
