package prober

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// scene is a target in a certain state, over real sockets.
type scene struct {
	target Target
	dial   DialFunc // nil: the operating system's
	watch  func(*recorder)
}

// replies is a scene in which the server answers every probe with a script.
func replies(s script, change ...func(*Target)) func(*testing.T) scene {
	return func(t *testing.T) scene { return scene{target: at("http", serveTCP(t, playing(s)), change...)} }
}

// fails is a scene in which no connection can be made, for a reason that the prober's own machine has.
func fails(errno syscall.Errno) func(*testing.T) scene {
	return func(*testing.T) scene {
		return scene{target: at("http", "h:1"), dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
		}}
	}
}

// proxyAnswers is a scene in which a proxy answers every CONNECT with a status.
func proxyAnswers(status string) func(*testing.T) scene {
	return func(t *testing.T) scene {
		return scene{target: at("https", "llm.example:443", throughProxy(serveTCP(t, func(conn net.Conn) {
			if _, err := readRequest(conn); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
			}
		})))}
	}
}

// statusScript is an answer that is not 200.
func statusScript(status int) script { return jsonAnswer(status, `{"error":{"message":"no"}}`) }

var reasonScenes = []struct {
	reason Reason
	name   string
	set    func(*testing.T) scene
	tells  string // part of the error
}{
	{ReasonDNS, "unknown host", func(*testing.T) scene {
		return scene{target: at("http", "does-not-exist.invalid:8000"), dial: func(_ context.Context, _, address string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}}
		}}
	}, "no such host"},
	{ReasonConnect, "refused", func(t *testing.T) scene {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener.Close()
		return scene{target: at("http", listener.Addr().String())}
	}, "connection refused"},
	{ReasonConnect, "an error of an unknown kind", func(*testing.T) scene {
		return scene{target: at("http", "h:1"), dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("the network is tired")
		}}
	}, "the network is tired"},
	{ReasonTLS, "a server without TLS", func(t *testing.T) scene {
		return scene{target: at("https", serveTCP(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 64<<10))
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}))}
	}, "first record does not look like a TLS handshake"},
	{ReasonTLS, "closed during the handshake", func(t *testing.T) scene {
		return scene{target: at("https", serveTCP(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 64<<10)) }))}
	}, "EOF"},
	{ReasonTLS, "a certificate of an unknown authority", func(t *testing.T) scene {
		cert, _ := certificate(t)
		return scene{target: at("https", serveTCP(t, overTLS(cert, playing(defaultScript))))}
	}, "certificate signed by unknown authority"},
	{ReasonTLS, "a certificate for another name", func(t *testing.T) scene {
		cert, ca := certificate(t)
		return scene{target: at("https", serveTCP(t, overTLS(cert, playing(defaultScript))), trusting(ca), func(t *Target) { t.HTTP.TLSConfig.ServerName = "other.test" })}
	}, "not other.test"},
	{ReasonConnect, "a proxy that forbids the CONNECT", proxyAnswers("403 Forbidden"), " answered the CONNECT with: Forbidden"},
	{ReasonConnect, "a proxy that does not reach the server", proxyAnswers("502 Bad Gateway"), "the proxy 127.0.0.1:"},
	{ReasonAuth, "a proxy that wants credentials for the CONNECT", proxyAnswers("407 Proxy Authentication Required"), "the proxy 127.0.0.1:"},
	{ReasonConnect, "a proxy that is not there", func(*testing.T) scene {
		return scene{target: at("https", "llm.example:443", throughProxy("proxy.example:3128")), dial: func(context.Context, string, string) (net.Conn, error) { return nil, refusedError }}
	}, "through proxy proxy.example:3128: proxyconnect tcp"},
	{ReasonAuth, "407", replies(statusScript(407)), "HTTP status 407: no"},
	{ReasonInternal, "no file descriptor left", fails(syscall.EMFILE), "the prober has no file descriptor left (RLIMIT_NOFILE is "},
	{ReasonInternal, "no file descriptor left in the whole system", fails(syscall.ENFILE), "fs.file-max"},
	{ReasonInternal, "no port left", fails(syscall.EADDRNOTAVAIL), "ip_local_port_range"},
	{ReasonInternal, "a firewall of its own", fails(syscall.EPERM), "permission to connect"},
	{ReasonInternal, "no file descriptor left to ask for a name", func(*testing.T) scene {
		return scene{target: at("http", "h:1"), dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "dial udp 10.0.0.1:53: socket: " + syscall.EMFILE.Error(), Name: "h"}}
		}}
	}, "RLIMIT_NOFILE is "},
	{ReasonHTTPStatus, "500", replies(statusScript(500)), "HTTP status 500: no"},
	{ReasonHTTPStatus, "404 of a path", replies(jsonAnswer(404, `{"detail":"Not Found"}`)), "HTTP status 404: Not Found"},
	{ReasonHTTPStatus, "a redirect, which is not followed", func(t *testing.T) scene {
		elsewhere := serveTCP(t, func(net.Conn) { t.Error("the redirect was followed") })
		return replies(script("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://" + elsewhere + "/\r\nContent-Length: 0\r\n\r\n"))(t)
	}, "HTTP status 307: (empty body)"},
	{ReasonHTTPStatus, "204", replies("HTTP/1.1 204 No Content\r\n\r\n"), "HTTP status 204"},
	{ReasonRateLimited, "429", replies(statusScript(429)), "HTTP status 429: no"},
	{ReasonOverloaded, "503", replies(statusScript(503)), "HTTP status 503: no"},
	{ReasonOverloaded, "529", replies(statusScript(529)), "HTTP status 529: no"},
	{ReasonAuth, "401", replies(statusScript(401)), "HTTP status 401: no"},
	{ReasonAuth, "403", replies(statusScript(403)), "HTTP status 403: no"},
	{ReasonAuth, "credentials that cannot be read", replies(defaultScript, func(t *Target) {
		t.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", CredentialsFile: filepath.Join(os.TempDir(), "no-such-key")}
	}), "no-such-key"},
	{ReasonModelNotFound, "404 that names the model", replies(jsonAnswer(404, `{"error":{"message":"The model does not exist","param":"model","code":404}}`)), "The model does not exist"},
	{ReasonModelNotFound, "no model at all", func(t *testing.T) scene {
		return scene{target: at("http", serveTCP(t, func(conn net.Conn) {
			if _, err := readRequest(conn); err == nil {
				_ = jsonAnswer(200, `{"data":[]}`).play(conn, nil)
			}
		}), func(t *Target) { t.Model = "" })}
	}, "GET /v1/models lists no model"},
	{ReasonBadRequest, "400", replies(statusScript(400)), "HTTP status 400: no"},
	{ReasonBadRequest, "422", replies(statusScript(422)), "HTTP status 422: no"},
	{ReasonContentType, "not streamed", replies(jsonAnswer(200, `{"choices":[]}`)), "the server did not stream"},
	{ReasonContentType, "a page", replies("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<h1>Welcome</h1>"), "<h1>Welcome</h1>"},
	{ReasonContentType, "compressed though identity was asked for", replies("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00"), `Content-Encoding "gzip"`},
	{ReasonTimeout, "accepted and then nothing", func(t *testing.T) scene {
		return scene{target: at("http", serveTCP(t, func(conn net.Conn) { _ = script("<<HANG>>HTTP/1.1 ").play(conn, nil) }), impatient)}
	}, "no end after 60ms"},
	{ReasonTimeout, "nothing after the request", replies("<<HANG>>HTTP/1.1 200 OK\r\n\r\n", impatient), "no end after 60ms"},
	{ReasonTimeout, "headers that never end", replies(script("HTTP/1.1 200 OK\r\n"+strings.Repeat("<<+10ms>>X-Slow: 1\r\n", 100)), impatient), "no end after 60ms"},
	{ReasonTimeout, "no token after the headers", replies("{ROLE}<<HANG>>", impatient), "no end after 60ms"},
	{ReasonTimeout, "a TLS handshake that hangs", func(t *testing.T) scene {
		return scene{target: at("https", serveTCP(t, func(conn net.Conn) { _ = script("<<HANG>>HTTP/1.1 ").play(conn, nil) }), impatient)}
	}, "no end after 60ms"},
	{ReasonTimeout, "a dial that hangs", func(*testing.T) scene {
		return scene{target: at("http", "h:1", impatient), dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
	}, "no end after 60ms"},
	{ReasonTimeout, "tokens for ever", replies(script("{ROLE}"+strings.Repeat("{C:a}<<+10ms>>", 100)), impatient), "no end after 60ms"},
	{ReasonStalled, "silence after a token", replies("{ROLE}{C:a}<<HANG>>", restless), "no token"},
	{ReasonStalled, "comments after a token", replies(script("{ROLE}{C:a}"+strings.Repeat("<<+5ms>>: still here\n\n", 100)), restless), "no token"},
	{ReasonTruncated, "closed in mid body", replies("{ROLE}{C:a}<<CUT>>"), "unexpected EOF"},
	{ReasonTruncated, "an end without a terminal signal", replies("{ROLE}{C:a}"), "without finish_reason or [DONE]"},
	{ReasonTruncated, "closed before the headers", replies("<<CUT>>HTTP/1.1 "), "EOF"},
	{ReasonTruncated, "closed within the headers", replies("HTTP/1.1 200 OK\r\nServer: x\r\n"), "unexpected EOF"},
	{ReasonMalformed, "no HTTP", func(t *testing.T) scene {
		return scene{target: at("http", serveTCP(t, llm(func(conn net.Conn, _ sentRequest) { _, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n")) })))}
	}, "malformed HTTP response"},
	{ReasonMalformed, "an event that is no JSON", replies("{ROLE}data: hello\n\n"), "event is not a JSON object"},
	{ReasonMalformed, "broken chunks", replies("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "invalid byte in chunk length"},
	{ReasonMalformed, "a list of models that is none", func(t *testing.T) scene {
		return scene{target: at("http", serveTCP(t, func(conn net.Conn) {
			if _, err := readRequest(conn); err == nil {
				_ = jsonAnswer(200, `"m"`).play(conn, nil)
			}
		}), func(t *Target) { t.Model = "" })}
	}, "GET /v1/models: the answer holds no list of models"},
	{ReasonTooLarge, "a flood of headers", replies("HTTP/1.1 200 OK\r\nX-Flood: <2000000 x a>\r\n\r\n"), "response headers exceed 262144 bytes"},
	{ReasonTooLarge, "an event of 9 MB", replies("{ROLE}{C:<9000000 x a>}{DONE}"), "event exceeds 8388608 bytes"},
	{ReasonTooLarge, "a list of models of 5 MB", func(t *testing.T) scene {
		return scene{target: at("http", serveTCP(t, func(conn net.Conn) {
			if _, err := readRequest(conn); err == nil {
				_ = jsonAnswer(200, `{"data":[],"x":"`+strings.Repeat("a", 5<<20)+`"}`).play(conn, nil)
			}
		}), func(t *Target) { t.Model = "" })}
	}, "GET /v1/models: too large: body exceeds 2097152 bytes"},
	{ReasonServerError, "an error in the stream", replies("{ROLE}{C:a}data: {\"error\":\"out of memory\"}\n\n{DONE}"), "out of memory"},
	{ReasonEmptyOutput, "no token", replies("{ROLE}{FIN:stop}{USAGE:512,1}{DONE}"), "without a token"},
	{ReasonConnReset, "reset after a token", replies("{ROLE}{C:a}<<+20ms>><<RST>>"), "connection reset by peer"},
	{ReasonConnReset, "reset before the headers", replies("<<RST>>HTTP/1.1 "), "connection reset by peer"},
	{ReasonInternal, "a panic", func(t *testing.T) scene {
		s := replies(defaultScript)(t)
		s.watch = func(o *recorder) { o.onToken = func() { panic("out of cheese") } }
		return s
	}, "panic: out of cheese"},
}

func TestReasons(t *testing.T) {
	for _, c := range reasonScenes {
		t.Run(string(c.reason)+" "+c.name, func(t *testing.T) {
			t.Parallel()
			s := c.set(t)
			g := newRig(t, s.dial, s.target)
			if s.watch != nil {
				s.watch(g.rec)
			}
			res := g.once(t)
			if res.Reason != c.reason || res.Err == nil || !strings.Contains(res.Err.Error(), c.tells) {
				t.Errorf("%s (%v), want %s that tells %q", outcome(res), res.Err, c.reason, c.tells)
			}
			if len(g.rec.results) != 1 || g.rec.results[0] != res {
				t.Errorf("the observer was told of %d ends", len(g.rec.results))
			}
		})
	}
}

func TestEveryReasonIsReached(t *testing.T) {
	reached := map[Reason]bool{}
	for _, c := range reasonScenes {
		reached[c.reason] = true
	}
	for _, reason := range Reasons() {
		if !reached[reason] {
			t.Errorf("no scene has the reason %s", reason)
		}
	}
}

var suspectScenes = []struct {
	suspect string
	name    string
	set     func(*testing.T) scene
}{
	{"prompt_length", "by usage", replies("{ROLE}{C:a}{FIN:length}{USAGE:540,128}{DONE}")},
	{"short_output", "by usage", replies("{ROLE}{C:a}{FIN:length}{USAGE:512,3}{DONE}")},
	{"short_output", "by its own word", replies("{ROLE}{C:a}{FIN:stop}{DONE}")},
	{"long_output", "longer than asked", replies("{ROLE}{C:a}{FIN:length}{USAGE:512,129}{DONE}")},
	{"long_output", "cut", replies("{ROLE}"+script(strings.Repeat("{C:hm}<<W>>", 5000)), func(t *Target) { t.Plans[0].OutputTokens = 3 })},
	{"cached_prompt", "by usage", replies(`{ROLE}{C:a}{FIN:length}data: {"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":128,"prompt_tokens_details":{"cached_tokens":16}}}` + "\n\n{DONE}")},
	{"coalesced", "all at once", replies("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n{ROLE}" + script(strings.Repeat("{C:to}", 128)) + "{FIN:length}{USAGE:512,128}{DONE}")},
	{"reader_late", "segments that wait", lateScene},
	{"usage_mismatch", "usage says 0", replies("{ROLE}{C:a}{FIN:length}{USAGE:512,0}{DONE}")},
	{"no_done", "a clean end", replies("{ROLE}{C:a}{FIN:length}{USAGE:512,128}")},
	{"no_done", "a reset after the last token", replies("{ROLE}{C:a}{FIN:length}<<+20ms>><<RST>>")},
	{"no_done", "silence after the last token", replies("{ROLE}{C:a}{FIN:length}<<HANG>>", restless)},
	{"content_type", "text/plain", replies("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{ROLE}{C:a}{FIN:length}{USAGE:512,128}{DONE}")},
	{"content_type", "none", replies("HTTP/1.1 200 OK\r\n\r\n: hello\n\n{ROLE}{C:a}{FIN:length}{USAGE:512,128}{DONE}")},
	{"field_refused", "cache_salt", func(t *testing.T) scene {
		return scene{target: at("http", serveTCP(t, llm(func(conn net.Conn, r sentRequest) {
			answer := defaultScript
			if _, has := r.body["cache_salt"]; has {
				answer = jsonAnswer(http.StatusBadRequest, `{"error":{"message":"unknown field cache_salt"}}`)
			}
			_ = answer.play(conn, nil)
		})))}
	}},
	{"degenerate", "slashes", replies("{ROLE}{C:<20 x />}{FIN:length}{USAGE:512,128}{DONE}")},
	{"other_model", "by the stream", replies(`{ROLE}data: {"model":"other","choices":[{"delta":{"content":"a"}}]}` + "\n\n{FIN:length}{USAGE:512,128}{DONE}")},
	{"finish_reason", "a word that nobody knows", replies("{ROLE}{C:a}{FIN:contented}{USAGE:512,128}{DONE}")},
}

func TestSuspects(t *testing.T) {
	for _, c := range suspectScenes {
		t.Run(c.suspect+" "+c.name, func(t *testing.T) {
			if c.suspect == "reader_late" && runtime.GOOS != "linux" {
				t.Skip("without the kernel's stamps nobody can tell")
			}
			var res *Result
			for range 5 { // on a busy machine any probe may be read too late, and be suspect for that alone
				s := c.set(t)
				g := newRig(t, s.dial, s.target)
				if s.watch != nil {
					s.watch(g.rec)
				}
				if res = g.once(t); res.Suspect.Has(SuspectReaderLate) == (c.suspect == "reader_late") {
					break
				}
			}
			if !res.OK() || !slices.Contains(res.Suspect.Names(), c.suspect) {
				t.Errorf("%s (%v), want it suspect for %s", outcome(res), res.Err, c.suspect)
			}
		})
	}
}

func TestEverySuspectIsReached(t *testing.T) {
	reached := map[string]bool{}
	for _, c := range suspectScenes {
		reached[c.suspect] = true
	}
	for _, name := range SuspectNames() {
		if !reached[name] {
			t.Errorf("no scene is suspect for %s", name)
		}
	}
}

// lateScene: while the observer holds the reader up, two more tokens come, 5 ms apart.
func lateScene(t *testing.T) scene {
	held, written := make(chan struct{}), make(chan struct{})
	address := serveTCP(t, llm(func(conn net.Conn, _ sentRequest) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"+expand("{ROLE}{C:a}"))
		<-held
		for _, text := range []string{"{C:b}", "{C:c}", "{FIN:length}{USAGE:512,128}{DONE}"} {
			_, _ = io.WriteString(conn, expand(text))
			<-time.After(5 * time.Millisecond)
		}
		close(written)
	}))
	return scene{target: at("http", address), watch: func(o *recorder) {
		first := true
		o.onToken = func() {
			if first {
				first = false
				close(held)
				<-written
			}
		}
	}}
}

// What a file or a connection cannot do means different things for the same words of the system.
func TestErrorsOfTheSystem(t *testing.T) {
	file := func(errno syscall.Errno) error { return &fs.PathError{Op: "open", Path: "key.txt", Err: errno} }
	for _, c := range []struct {
		at   phase
		err  error
		want Reason
	}{
		{phaseCredentials, file(syscall.ENOENT), ReasonAuth},
		{phaseCredentials, file(syscall.EACCES), ReasonAuth},
		{phaseCredentials, file(syscall.EMFILE), ReasonInternal},
		{phaseTLS, file(syscall.EMFILE), ReasonInternal},
		{phaseConnect, refusedError, ReasonConnect},
		{phaseRequest, &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.ENOBUFS)}, ReasonInternal},
		{phaseBody, &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")}, ReasonTLS},
		{phaseBody, &net.OpError{Op: "local error", Err: errors.New("tls: bad record MAC")}, ReasonTLS},
	} {
		var f *failure
		if err := classify(t.Context(), c.at, c.err); !errors.As(err, &f) || f.reason != c.want {
			t.Errorf("%v in phase %d: %v, want %s", c.err, c.at, err, c.want)
		}
	}
}
