package page

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// tab is a page of a browser that is spoken to over a pipe, in the DevTools protocol: one JSON object after another,
// each with a zero byte at its end.
type tab struct {
	to      io.Writer
	from    *bufio.Reader
	session string
	calls   int
	events  []message
}

// message is a call to the browser, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// open starts a browser for the length of the test, with a tab that notes what the page says and asks for.
func (b browser) open(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := b.command(ctx, t.TempDir(), "--remote-debugging-pipe", "about:blank")
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // the protocol's are 3 and 4
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	s := &tab{to: ourOut, from: bufio.NewReader(ourIn)}
	t.Cleanup(func() {
		s.session = ""
		s.call(t, "Browser.close", nil, nil) // by itself it removes its folder no earlier than it ends
		_ = cmd.Wait()
		ourOut.Close()
		ourIn.Close()
		cancel()
	})
	var made struct{ TargetID string }
	s.call(t, "Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	var attached struct{ SessionID string }
	s.call(t, "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &attached)
	s.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network", "Accessibility"} {
		s.call(t, domain+".enable", nil, nil)
	}
	return s
}

// call waits for the answer and keeps the events that come before it.
func (s *tab) call(t *testing.T, method string, params, result any) {
	t.Helper()
	s.calls++
	data, err := json.Marshal(message{ID: s.calls, Session: s.session, Method: method, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.to.Write(append(data, 0)); err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	for {
		m := s.next(t)
		if m.ID != s.calls {
			continue
		}
		if m.Error != nil {
			t.Fatalf("%s: %s", method, m.Error)
		}
		if result == nil {
			return
		}
		if err := json.Unmarshal(m.Result, result); err != nil {
			t.Fatalf("%s: %v", method, err)
		}
		return
	}
}

func (s *tab) next(t *testing.T) (m message) {
	t.Helper()
	data, err := s.from.ReadBytes(0)
	if err != nil {
		t.Fatalf("the browser says nothing more: %v", err)
	}
	if err := json.Unmarshal(bytes.TrimSuffix(data, []byte{0}), &m); err != nil {
		t.Fatal(err)
	}
	if m.Method != "" {
		s.events = append(s.events, m)
	}
	return m
}

// load opens an address and waits until all is there.
func (s *tab) load(t *testing.T, address string) {
	t.Helper()
	var answer struct{ ErrorText string }
	s.call(t, "Page.navigate", map[string]any{"url": address}, &answer)
	if answer.ErrorText != "" {
		t.Fatalf("%s: %s", address, answer.ErrorText)
	}
	s.eval(t, `new Promise(done => document.readyState === 'complete' ? done(0) : addEventListener('load', () => done(0)))`, nil)
}

// eval runs a script in the page, for what it comes to.
func (s *tab) eval(t *testing.T, script string, value any) {
	t.Helper()
	var answer struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	s.call(t, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true, "awaitPromise": true}, &answer)
	if answer.ExceptionDetails != nil {
		t.Fatalf("%s: %s", script, answer.ExceptionDetails)
	}
	if value == nil {
		return
	}
	if err := json.Unmarshal(answer.Result.Value, value); err != nil {
		t.Fatalf("%s: %v", script, err)
	}
}

// complaints are lines on the console, errors of scripts, and what the browser itself does not like.
func (s *tab) complaints() (lines []string) {
	for _, e := range s.events {
		switch e.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			lines = append(lines, fmt.Sprint(e.Params))
		}
	}
	return lines
}

// requests are the addresses that the page asked for, those of data that it brings along left out.
func (s *tab) requests() (addresses []string) {
	for _, e := range s.events {
		if e.Method != "Network.requestWillBeSent" {
			continue
		}
		request := e.Params.(map[string]any)["request"].(map[string]any)
		if address := request["url"].(string); !strings.HasPrefix(address, "data:") {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
