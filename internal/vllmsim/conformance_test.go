package vllmsim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/recording"
)

// plainConfig is how the server of most recordings was started.
func plainConfig() Config {
	return Config{PerRequestMetrics: true, PromptTokensDetails: true}
}

func queueConfig() Config {
	c := plainConfig()
	c.APIKey, c.KeepAliveInterval, c.RequestIDHeaders = "sk-test", time.Second, true
	c.Engine = DefaultModel()
	c.Engine.RunningCap = 2
	c.Engine.PerIntake = 0 // who comes first runs first
	return c
}

func multiConfig() Config {
	c := plainConfig()
	c.MultiProcess, c.ReasoningParser = true, true
	return c
}

// conformance tells how the server of a recording was started and what happened before the request.
type conformance struct {
	config Config
	before func(*testing.T, *Server)
}

// notCompared are the recordings that the simulator is not held against here.
var notCompared = map[string]string{
	"chat-n2":                       "the simulator gives one answer a request",
	"queued-1":                      "a race: the queue was full only after the headers had gone",
	"hang-midstream-7s-then-resume": "TestHang",
	"engine-killed-midstream":       "TestCrash",
	"after-kill-chat":               "TestCrash",
	"after-kill-health":             "TestCrash",
	"after-kill-chat-1s-later":      "a refused connection has no bytes",
	"after-kill-health-1s-later":    "a refused connection has no bytes",
}

func conformanceOf(name string) conformance {
	switch {
	case name == "queued-0":
		return conformance{queueConfig(), func(t *testing.T, s *Server) { occupy(t, s, 2, 170) }} // 3.5 s
	case name == "rejected-queue-full-0":
		c := queueConfig()
		c.MaxNumQueuedReqs = 3
		return conformance{c, func(t *testing.T, s *Server) {
			occupy(t, s, 2, 100)
			time.Sleep(time.Second) // they run
			occupy(t, s, 3, 100)
		}}
	case strings.HasPrefix(name, "auth-"):
		return conformance{config: queueConfig()}
	case strings.HasPrefix(name, "multi-"):
		return conformance{config: multiConfig()}
	}
	return conformance{config: plainConfig()}
}

// occupy fills the engine with requests that nobody reads.
func occupy(t *testing.T, s *Server, n, tokens int) {
	t.Helper()
	for range n {
		if _, err := s.Engine().Submit(context.Background(), Request{PromptTokens: 24, OutputTokens: tokens}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnswersAreThoseOfVLLM(t *testing.T) {
	for _, name := range recording.Names() {
		if strings.Contains(name, "metrics") || notCompared[name] != "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, err := recording.Load(name)
				if err != nil {
					t.Fatal(err)
				}
				c := conformanceOf(name)
				s, n := serve(t, c.config)
				if c.before != nil {
					c.before(t, s)
				}
				got := n.exchange(t, rec.Request.Method, rec.Request.Path, rec.Request.Headers, bodyOf(rec))
				if diff := cmp.Diff(outline(t, recorded(rec)), outline(t, joined(got))); diff != "" {
					t.Errorf("vLLM (-) and the simulator (+) differ:\n%s", diff)
				}
			})
		})
	}
}

func bodyOf(rec recording.Recording) string {
	if string(rec.Request.Body) == "null" {
		return ""
	}
	return string(rec.Request.Body)
}

func recorded(rec recording.Recording) string {
	var b strings.Builder
	for _, r := range rec.Reads {
		b.WriteString(r.Bytes)
	}
	return b.String()
}

// outline reduces an answer to what must be the same: status, headers, framing, and each JSON document with its
// keys in order and those values that do not depend on the hour or on the model.
func outline(t *testing.T, raw string) []string {
	t.Helper()
	resp := parse(t, raw)
	defer resp.Body.Close()
	lines := []string{resp.Proto + " " + resp.Status}
	for _, h := range []string{"Content-Type", "Vary", "Server", "Allow"} {
		if v, ok := resp.Header[h]; ok {
			lines = append(lines, h+": "+strings.Join(v, ", "))
		}
	}
	for _, h := range []string{"Date", "X-Request-Id"} {
		if resp.Header.Get(h) != "" {
			lines = append(lines, h)
		}
	}
	lines = append(lines, fmt.Sprintf("close %v, length known %v, %v", resp.Close, resp.ContentLength >= 0, resp.TransferEncoding))
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return append(lines, shape(body))
	}
	for _, c := range chunks(t, raw) {
		data, isData := strings.CutPrefix(c, "data: ")
		if data, whole := strings.CutSuffix(data, "\n\n"); isData && whole {
			lines = append(lines, "data: "+shape([]byte(data)))
		} else {
			lines = append(lines, c)
		}
	}
	return lines
}

// chunks undoes the chunked encoding, and keeps what each chunk held: vLLM sends one event in each.
func chunks(t *testing.T, raw string) []string {
	t.Helper()
	_, body, _ := strings.Cut(raw, "\r\n\r\n")
	var all []string
	for body != "" {
		var size int
		line, rest, _ := strings.Cut(body, "\r\n")
		if _, err := fmt.Sscanf(line, "%x", &size); err != nil {
			t.Fatalf("chunk size %q: %v", line, err)
		}
		// The recordings keep bytes that are no UTF-8 as U+FFFD, three bytes long: look for the end instead.
		data, next, _ := strings.Cut(rest, "\r\n")
		if size > 0 {
			all = append(all, data)
		}
		body = next
	}
	return all
}

// kept are the values that must be the same; all others are shown by their type.
var kept = []string{
	"object", "role", "finish_reason", "stop_reason", "index", "completion_tokens", "model", "code", "type", "param",
	"message", "error", "detail", "version", "server_load", "max_model_len", "owned_by", "root",
}

// shape writes a JSON document with its keys in order. Texts that are no JSON stay as they are.
func shape(doc []byte) string {
	if !json.Valid(doc) {
		return string(doc)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var b strings.Builder
	shapeValue(dec, "", &b)
	return b.String()
}

func shapeValue(dec *json.Decoder, key string, b *strings.Builder) {
	tok, _ := dec.Token()
	switch v := tok.(type) {
	case json.Delim:
		shapeMembers(dec, v, b)
	case nil:
		b.WriteString("null")
	default:
		if slices.Contains(kept, key) {
			fmt.Fprintf(b, "%q", fmt.Sprint(v))
		} else {
			b.WriteString(strings.TrimPrefix(strings.TrimPrefix(fmt.Sprintf("%T", v), "json."), "float"))
		}
	}
}

func shapeMembers(dec *json.Decoder, open json.Delim, b *strings.Builder) {
	b.WriteString(open.String())
	last := "" // lists of like things are as long as they please
	for dec.More() {
		if open == '{' {
			key, _ := dec.Token()
			fmt.Fprintf(b, "%s:", key)
			shapeValue(dec, key.(string), b)
			b.WriteString(" ")
			continue
		}
		var item strings.Builder
		shapeValue(dec, "", &item)
		if item.String() != last {
			b.WriteString(item.String())
		}
		last = item.String()
	}
	end, _ := dec.Token()
	b.WriteString(end.(json.Delim).String())
}
