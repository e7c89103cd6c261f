//go:build unix

package prober

import (
	"bytes"
	"context"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// FuzzStatusFailure: whatever a server refuses with, the failure has a reason of the list and a text that is short and
// fit to be shown, and finding it takes memory in proportion to the body.
func FuzzStatusFailure(f *testing.F) {
	for _, body := range []string{
		"", `{"error":{"message":"no"}}`, `{"error":"no"}`, `{"message":["a"]}`, `{"detail":[{"loc":["body","x"],"msg":"m"}]}`, "<h1>\u202e</h1>", "\xff\x00\x1b[31m",
		strings.Repeat("[", 3000), `{"error":` + strings.Repeat(`{"error":`, 1000), `{"error":{"param":"model","code":1e999}}`,
	} {
		f.Add(404, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		for _, body := range []string{body, strings.Repeat(body, 1+(64<<10)/(len(body)+1))} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var err error
			cputest.Linear(t, len(body), func() { err = statusFailure(status, "m", body) })
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20+uint64(50*len(body)) {
				t.Errorf("%d kB allocated for %d bytes", allocated>>10, len(body))
			}
			failed, ok := err.(*failure)
			if !ok || !slices.Contains(Reasons(), failed.reason) {
				t.Fatalf("%#v is no failure with a reason", err)
			}
			text := failed.Error()
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxMessage+100 || strings.ContainsAny(text, "\x00\x1b\u202e\u2066") {
				t.Errorf("the text is %q", text)
			}
		}
	})
}

// FuzzHead: whatever a server sends from the first byte of its status line on, the probe ends, no more is read before
// the end of the headers than is allowed, and the failure has a reason of the list and words that are fit to be shown.
func FuzzHead(f *testing.F) {
	for _, head := range []string{
		"", "\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata:\r\n0\r\n\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "HTTP/1.1 307 x\r\nLocation: http://169.254.169.254/\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", "HTTP/1.1 503 \x1b[31m\u202e\r\n\r\n", "HTTP/9.9 99999 x\r\n\r\n", "a: b\r\n", strings.Repeat("X-A: b\r\n", 100), "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
	} {
		f.Add([]byte(head))
	}
	f.Fuzz(func(t *testing.T, head []byte) {
		for _, head := range [][]byte{head, bytes.Repeat(head, 1+(2*maxHeaderBytes)/(len(head)+1))} {
			var res *Result
			var taken atomic.Int64
			synctest.Test(t, func(t *testing.T) {
				cputest.Linear(t, len(head), func() { res = newRig(t, rawServer(head, &taken), target()).once(t) })
			})
			if res.OK() {
				continue
			}
			if n := taken.Load(); res.Headers.IsZero() && n > maxHeaderBytes {
				t.Errorf("%d bytes were taken before the end of the headers", n)
			}
			text := res.Err.Error()
			if !slices.Contains(Reasons(), res.Reason) || !utf8.ValidString(text) || len(text) > 8*maxMessage || strings.ContainsAny(text, "\x00\x1b\u202e\u2066\n") {
				t.Errorf("%s: %q", res.Reason, text)
			}
		}
	})
}

// rawServer answers each request with the same bytes and ends the connection. taken is how many the client read of the last one.
func rawServer(answer []byte, taken *atomic.Int64) DialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			if _, err := readRequest(server); err != nil {
				return
			}
			n, _ := server.Write(answer)
			taken.Store(int64(n))
		}()
		return client, nil
	}
}

// Bytes of any kind from the list of models: bounded work, and nothing in it that must not be shown.
func FuzzModels(f *testing.F) {
	for _, seed := range []string{fakeModels, `[{"id":"a","root":"r","parent":"a","max_model_len":-1}]`, `{"models":[{"name":"a"}]}`, `["a"`, `{"data":[[[[[`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var list []listedModel
		var err error
		cputest.Linear(t, len(data), func() { list, err = parseModels(data) })
		if err != nil && list != nil || len(list) > len(data) {
			t.Errorf("%d models, %v", len(list), err)
		}
		for _, m := range list {
			if n := contextOf(list, m.id); n < 0 || n > maxContext {
				t.Errorf("max_model_len %d", n)
			}
			for _, name := range append(aliasesOf(list, m.id), m.id) {
				if name == "" || len(name) > maxModelName || strings.ContainsAny(name, "\n\r\x00\x1b\u202e") {
					t.Errorf("the name %q", name)
				}
			}
			if len(list) > 100 {
				break
			}
		}
	})
}

// FuzzNames: the names and words of a server, as long as they may be, are compared in linear time; a name is the same
// as itself, whatever stands before it, and a finish_reason means the same in capitals.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{
		"", "/", "gpt-4.1-mini-2025-04-14", "models/gemini-1.5-flash-001", `C:\models\llama-3.gguf`, "a@b@c", strings.Repeat("-2024", 1000), strings.Repeat("/", 1000),
		"stop", "FINISH_REASON_STOP", "tool-calls", "aborted", strings.Repeat("abor", 1000), "\u0130", "\xff",
	} {
		f.Add(seed, "m")
	}
	f.Fuzz(func(t *testing.T, name, other string) {
		cputest.Linear(t, len(name)+len(other), func() {
			if !sameModel(name, name) || sameModel(name, other) != sameModel(other, name) {
				t.Errorf("%q and %q are not compared as names", name, other)
			}
			if short := name != "" && len(name) < maxModelName-5; short && !strings.ContainsAny(name, "/\\") && strings.TrimSpace(name) == name && !sameModel("repo/"+name, name) {
				t.Errorf("%q is another model in a repository", name)
			}
			long := strings.Repeat(name, 1+(64<<10)/(len(name)+1))
			closingOf(long)
			if c := closingOf(name); len(name) < 64 && strings.ToLower(strings.ToUpper(name)) == name && closingOf(strings.ToUpper(name)) != c {
				t.Errorf("%q is %d, in capitals another", name, c)
			}
		})
	})
}
