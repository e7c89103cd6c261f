package hostile

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Endings that belong together: what net/http makes of some bytes depends on which of its goroutines sees them
// first.
var (
	ok        = []string{OK}
	broken    = []string{"malformed"}
	unread    = []string{"malformed", "truncated", "conn_reset"} // gone before there was an answer
	page      = []string{"parse"}
	lost      = []string{"connect", "parse"} // the same for the metrics page
	slow      = []string{"timeout"}
	big1      = []string{"too_large"}
	bounded   = []string{"too_large", "timeout"}
	anyPage   = []string{OK, "parse", "too_large"} // whatever is made of it, it is bounded
	handshake = []string{"tls"}
)

const (
	head     = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	pageHead = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"
	aThird   = 20 * time.Millisecond
	foreign  = "\u202e\x1b[31m\x00\x9b\xff\xfe\u2066\u200f{KEY}" // bidi, terminal, NUL, C1, no UTF-8, the key
)

func text(s string) Step          { return Step{Text: s} }
func again(n int, s string) Step  { return Step{Text: strings.Repeat(s, n)} }
func slowly(n int, s string) Step { return Step{Text: s, Times: n, Every: aThird} }

func endless(s string) Step { return flood(s, 16<<10, 10*time.Millisecond) }

func flood(s string, size int, every time.Duration) Step {
	return Step{Text: strings.Repeat(s, size/len(s)+1), Times: Forever, Every: every}
}

func drip(s string) Step       { return Step{Text: s, Times: Forever, Every: time.Second} }
func raw(steps ...Step) Script { return steps }
func event(data string) Step   { return text("data: " + data + "\n\n") }
func five(then ...Step) Script {
	return Stream(append([]Step{text(role), slowly(5, token)}, then...)...)
}

func refusal(status, body string) Script { return Page(status, "application/json", body) }

func metrics(lines string) Script { return Page("200 OK", "text/plain; version=0.0.4", lines) }

func sample(value string) string {
	return strings.ReplaceAll(politeMetrics, "} 1", "} "+value) + histogram(value)
}

var (
	hold  = Step{End: Hold}
	deaf  = Step{End: Deaf}
	cut   = Step{End: Cut}
	reset = Step{End: Reset}
)

// histogram is one of vLLM's with the same value everywhere.
func histogram(value string) string {
	return fmt.Sprintf("# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"m\",le=\"+Inf\"} %[1]s\n"+
		"vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} %[1]s\nvllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} %[1]s\n"+
		"# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total{engine=\"0\",model_name=\"m\"} %[1]s\n"+
		"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} %[1]s\n", value)
}

// Servers is the table.
func Servers() []Server {
	return slices.Concat(connections(), heads(), streams(), courtesies(), pages(), echoes())
}

// OneOfEachKind is the first server of each kind of the table.
func OneOfEachKind() []Server {
	var firsts []Server
	for _, s := range Servers() {
		if !slices.ContainsFunc(firsts, func(f Server) bool { return f.Kind == s.Kind }) {
			firsts = append(firsts, s)
		}
	}
	return firsts
}

// ofKind says of what kind servers are.
func ofKind(kind string, servers []Server) []Server {
	for i := range servers {
		servers[i].Kind = kind
	}
	return servers
}

// connections go wrong before there is an answer.
func connections() []Server {
	return slices.Concat(
		ofKind("lost connection", []Server{
			{Name: "closed on accept", Connect: raw(cut), Probes: unread, Scrapes: lost},
			{Name: "reset on accept", Connect: raw(reset), Probes: append(unread[:3:3], "connect"), Scrapes: lost},
			{Name: "closed after the request", Chat: raw(cut), Metrics: raw(cut), Probes: unread, Scrapes: lost},
			{Name: "reset after the request", Chat: raw(reset), Metrics: raw(reset), Probes: unread, Scrapes: lost},
			{Name: "reset within the headers", Chat: raw(text(head), reset), Metrics: raw(text(pageHead), reset), Probes: unread, Scrapes: lost},
			{Name: "cut within the headers", Chat: raw(text(head), cut), Metrics: raw(text(pageHead), cut), Probes: unread, Scrapes: lost},
		}),
		ofKind("no answer", []Server{
			{Name: "request read, no answer", Chat: raw(hold), Models: raw(hold), Tokenize: raw(hold), Metrics: raw(hold), Health: raw(hold), Version: raw(hold), Probes: slow, Scrapes: slow},
			{Name: "accepted and never read", Connect: raw(deaf), Probes: slow, Scrapes: slow},
		}),
		ofKind("not HTTP", []Server{
			{Name: "HTTP/0.9", Chat: raw(text("hello, this is the document\r\n")), Metrics: raw(text("vllm:num_requests_running 1\n")), Probes: broken, Scrapes: lost},
			{Name: "HTTP/2 preface and settings", Connect: raw(text("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"), hold), Probes: broken, Scrapes: lost},
			{Name: "TLS alert in plain text", Connect: raw(text("\x15\x03\x01\x00\x02\x02\x46"), cut), Probes: unread, Scrapes: lost},
			{Name: "an answer before the request", Connect: append(Answer(16)[:3:3], text("0\r\n\r\n"), hold), Probes: []string{OK, "malformed", "truncated", "conn_reset"}, Scrapes: []string{OK, "connect", "parse", "http_status", "timeout"}},
		}),
		ofKind("TLS", []Server{
			{Name: "half a TLS handshake", HTTPS: true, Connect: raw(text("\x16\x03\x03\x40\x00\x02\x00"), hold), Probes: []string{"tls", "timeout"}, Scrapes: []string{"tls", "timeout"}},
			{Name: "TLS alert at once", HTTPS: true, Connect: raw(text("\x15\x03\x03\x00\x02\x02\x28"), hold), Probes: handshake, Scrapes: handshake},
			{Name: "plain HTTP where TLS is spoken", HTTPS: true, Connect: append(Page("400 Bad Request", "text/plain", "no"), hold), Probes: handshake, Scrapes: handshake},
			{Name: "a client certificate that is missing, TLS 1.3", HTTPS: true, TLS: clientCertificate(tls.VersionTLS13), Probes: handshake, Scrapes: handshake},
			{Name: "a client certificate that is missing, TLS 1.2", HTTPS: true, TLS: clientCertificate(tls.VersionTLS12), Probes: handshake, Scrapes: handshake},
		}),
	)
}

// heads are answers that are no HTTP, or more of it than anyone needs.
func heads() []Server {
	refused := []string{"malformed", "too_large", "timeout"}
	return slices.Concat(
		ofKind("endless headers", []Server{
			{Name: "headers without an end", Chat: raw(text(head), endless("X-Big: aaaaaaaaaaaaaaa\r\n")), Metrics: raw(text(pageHead), endless("X-Big: aaaaaaaaaaaaaaa\r\n")), Probes: big1, Scrapes: []string{"connect", "parse", "too_large"}},
			{Name: "a header line a second", Chat: raw(text(head), drip("X-Slow: a\r\n")), Metrics: raw(text(pageHead), drip("X-Slow: a\r\n")), Probes: slow, Scrapes: slow},
			{Name: "one header of 2 MB", Chat: raw(text(head+"X-Big: "), again(2<<20, "a"), text("\r\n\r\n"), hold), Metrics: raw(text(pageHead+"X-Big: "), again(12<<20, "a"), hold), Probes: big1, Scrapes: []string{"connect", "parse", "too_large"}},
			{Name: "100 Continue without an end", Chat: raw(endless("HTTP/1.1 100 Continue\r\n\r\n")), Metrics: raw(endless("HTTP/1.1 100 Continue\r\n\r\n")), Probes: refused, Scrapes: []string{"connect", "parse", "too_large", "timeout"}},
			{Name: "103 Early Hints without an end", Chat: raw(endless("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")), Metrics: raw(endless("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")), Probes: refused, Scrapes: []string{"connect", "parse", "too_large", "timeout"}},
		}),
		ofKind("unasked HTTP", []Server{
			{Name: "101 Switching Protocols", Chat: raw(text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"), hold), Metrics: raw(text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), hold), Health: raw(text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), hold), Probes: []string{"http_status", "malformed"}, Scrapes: []string{"http_status", "parse"}},
			{Name: "an encoding that was not asked for", Chat: raw(text(head+"Content-Encoding: br\r\n\r\n\x8b\x02\x80ab\x03"), cut), Metrics: raw(text(pageHead+"Content-Encoding: br\r\n\r\n\x8b\x02\x80ab\x03"), cut), Probes: []string{"malformed", "truncated", "content_type"}, Scrapes: page},
			{Name: "a second answer behind the first", Chat: append(Answer(16)[:4:4], text("0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"), hold), Metrics: raw(text(pageHead+"Content-Length: 0\r\n\r\nHTTP/1.1 200 {KEY}\r\n{KEY:url}: {KEY:json}\r\n\r\nvllm:a 1\n"), hold), Probes: ok, Scrapes: []string{OK, "parse"}},
			{Name: "trailers of 4 MB", Chat: append(Answer(16)[:4:4], text("0\r\nX-Trailer: "), again(4<<20, "a"), text("\r\n\r\n"), hold), Probes: append(refused, OK), Scrapes: ok},
			{Name: "redirected in a circle", Chat: raw(text("HTTP/1.1 307 Temporary Redirect\r\nLocation: /v1/chat/completions\r\nConnection: close\r\n\r\n")), Metrics: raw(text("HTTP/1.1 302 Found\r\nLocation: /metrics\r\nConnection: close\r\n\r\n")), Health: raw(text("HTTP/1.1 302 Found\r\nLocation: /health\r\nConnection: close\r\n\r\n")), Probes: []string{"http_status"}, Scrapes: []string{"http_status"}},
		}),
		ofKind("wrong length", []Server{
			{Name: "a content length of an exabyte", Chat: raw(text(head+"Content-Length: 1000000000000000000\r\n\r\n"+role), cut), Metrics: raw(text(pageHead+"Content-Length: 1000000000000000000\r\n\r\n"), hold), Probes: []string{"truncated"}, Scrapes: big1},
			{Name: "a negative content length", Chat: raw(text(head + "Content-Length: -5\r\n\r\n")), Metrics: raw(text(pageHead + "Content-Length: -5\r\n\r\n")), Probes: broken, Scrapes: lost},
			{Name: "two content lengths", Chat: raw(text(head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456")), Metrics: raw(text(pageHead + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456")), Probes: broken, Scrapes: lost},
			{Name: "a chunk size that overflows", Chat: raw(text(head + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\ndata: \n\n")), Metrics: raw(text(pageHead + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffffff\r\n")), Probes: broken, Scrapes: lost},
			{Name: "a chunk of an exabyte", Chat: raw(text(head+"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\n"+role+token), cut), Metrics: raw(text(pageHead+"Transfer-Encoding: chunked\r\n\r\n7fffffffffffffff\r\nvllm:x 1\n"), cut), Probes: []string{"truncated", "conn_reset"}, Scrapes: lost},
			{Name: "a chunk extension without an end", Chat: raw(text(head+"Transfer-Encoding: chunked\r\n\r\n5;a="), endless("b")), Metrics: raw(text(pageHead+"Transfer-Encoding: chunked\r\n\r\n5;a="), endless("b")), Probes: refused, Scrapes: []string{"parse", "too_large", "connect"}},
			{Name: "one byte a chunk, each with an extension", Chat: raw(text(head+"Transfer-Encoding: chunked\r\n\r\n"), endless("1;"+strings.Repeat("x", 200)+"\r\n:\r\n")), Probes: append(bounded[:2:2], "malformed", "stalled"), Scrapes: ok},
		}),
		ofKind("refusal", []Server{
			{Name: "an error's body without an end", Chat: raw(text("HTTP/1.1 500 Internal Server Error\r\n\r\n"), endless("no ")), Metrics: raw(text("HTTP/1.1 500 Internal Server Error\r\n\r\n"), endless("no ")), Probes: []string{"http_status"}, Scrapes: []string{"http_status"}},
			{Name: "a refusal that echoes 1 MB", Chat: append(refusal("400 Bad Request", `{"error":{"message":"`), again(1<<17, "'msg': 'cache_salt chat_template_kwargs' "), text(`"}}`)), Probes: []string{"bad_request"}, Scrapes: ok},
			{Name: "a refusal that names every field", Chat: refusal("400 Bad Request", `{"detail":[{"loc":["body","model"],"msg":"Extra inputs are not permitted"},{"loc":["body","messages"],"msg":"Extra inputs are not permitted"},{"loc":["body","stream"],"msg":"Extra inputs are not permitted"},{"loc":["body","max_tokens"],"msg":"Extra inputs are not permitted"}]}`), Probes: []string{"bad_request"}, Scrapes: ok},
		}),
	)
}

// streams go wrong after a good head.
func streams() []Server {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	chunk := func(choice string) Step {
		return event(`{"choices":[{"index":0,"delta":{},"finish_reason":null` + choice + `}]}`)
	}
	failed := []string{"server_error"}
	either := []string{OK, "malformed"} // a number that is none is no chunk, or is left out
	return slices.Concat(
		ofKind("error in the stream", []Server{
			{Name: "an error object", Chat: five(event(`{"object":"error","message":"KV load failed","type":"InternalServerError","code":500}`), text(done)), Probes: failed, Scrapes: ok},
			{Name: "an error field", Chat: five(text(`error: {"code":500,"message":"context shift is disabled"}`+"\n\n"), text(done)), Probes: failed, Scrapes: ok},
			{Name: "an error in a choice", Chat: five(chunk(`,"error":{"message":"no"}`), text(finish("error")+done)), Probes: failed, Scrapes: ok},
			{Name: "a bare JSON line", Chat: five(text(`{"error":{"message":"upstream"}}`+"\n\n"), text(done)), Probes: []string{"server_error", "truncated", "malformed"}, Scrapes: ok},
			{Name: "an empty error", Chat: Stream(Step{Text: strings.ReplaceAll(token, `{"model"`, `{"error":{},"model"`), Times: 16, Every: aThird}, text(finish("length")+usage("512", "16")+done)), Probes: ok, Scrapes: ok},
		}),
		ofKind("wrong ending", []Server{
			{Name: "[DONE] after five tokens", Chat: five(text(done)), Probes: []string{"truncated"}, Scrapes: ok},
			{Name: "the default event's name and half an object", Chat: five(text("event: message\ndata: {\"choices\":[\n\n")), Probes: broken, Scrapes: ok},
			{Name: "abort", Chat: five(text(finish("abort") + usage("512", "5") + done)), Probes: failed, Scrapes: ok},
			{Name: "the word null as a finish_reason", Chat: Stream(Step{Text: strings.ReplaceAll(token, "null", `"null"`), Times: 5, Every: aThird}), Probes: []string{"truncated"}, Scrapes: ok},
			{Name: "a delta with the usage after the end", Chat: Stream(text(role), slowly(16, token), text(finish("length")), Step{Text: `data: {"choices":[{"index":0,"delta":{}}],"usage":{"prompt_tokens":512,"completion_tokens":16}}` + "\n\n", Every: 600 * time.Millisecond, Times: 1}, text(done)), Probes: ok, Scrapes: ok},
			{Name: "reset after five tokens", Chat: five(reset), Probes: []string{"conn_reset"}, Scrapes: ok},
			{Name: "reset after the last event", Chat: append(Answer(16)[:4:4], reset), Probes: ok, Scrapes: ok},
		}),
		ofKind("no progress", []Server{
			{Name: "empty deltas without an end", Chat: five(Step{Text: `data: {"choices":[{"index":0,"delta":{}}]}` + "\n\n", Times: Forever, Every: 100 * time.Millisecond}), Probes: []string{"stalled"}, Scrapes: ok},
			{Name: "comments without an end", Chat: Stream(endless(": a\n\n")), Probes: append(bounded[:2:2], "malformed"), Scrapes: ok},
			{Name: "comments without an end after five tokens", Chat: five(endless(":\r")), Probes: append(bounded[:2:2], "stalled"), Scrapes: ok},
			{Name: "one byte a second", Chat: Stream(drip("d")), Metrics: raw(text(pageHead+"\r\n"), drip("#")), Probes: slow, Scrapes: slow},
			{Name: "silent after five tokens", Chat: five(hold), Probes: []string{"stalled"}, Scrapes: ok},
		}),
		ofKind("large event", []Server{
			{Name: "an event of 8 MB", Chat: five(text("data: {\"a\":\""), again(8<<20, "a"), text("\"}\n\n"), hold), Probes: big1, Scrapes: ok},
			{Name: "an event of 1.2 MB and 600,000 comments", Chat: five(event(`{"a":"`+strings.Repeat("a", 1200000)+`"}`), again(600000, ":\r"), hold), Probes: append(bounded[:2:2], "stalled", "truncated"), Scrapes: ok},
			{Name: "an event of a million lines", Chat: five(again(1000000, "data: \n"), text("\n"), hold), Probes: append(bounded[:2:2], "stalled", "malformed"), Scrapes: ok},
		}),
		ofKind("lines without data", []Server{
			{Name: "events without a field", Chat: five(endless("\n\n")), Probes: append(bounded[:2:2], "stalled"), Scrapes: ok},
			{Name: "ids and retries without an end", Chat: five(endless("id: 1\nretry: 99999999999999999999\n\n")), Probes: append(bounded[:2:2], "stalled"), Scrapes: ok},
			{Name: "unknown fields without an end", Chat: five(endless("error\nfatal: x\nwarning: x\n\n")), Probes: append(bounded[:2:2], "stalled", "server_error"), Scrapes: ok},
		}),
		ofKind("large token", []Server{
			{Name: "a million tokens at once", Chat: Stream(text(role), again(1000000, `data: {"choices":[{"delta":{"content":"a"}}]}`+"\n\n"), hold), Probes: ok, Scrapes: ok},
			{Name: "a token of 4 MB", Chat: Stream(text(role), event(`{"choices":[{"index":0,"delta":{"content":"`+strings.Repeat("ab ", 4<<20/3)+`"}}]}`), text(finish("length")+usage("512", "16")+done)), Probes: append(ok[:1:1], "too_large"), Scrapes: ok},
		}),
		ofKind("nested JSON", []Server{
			{Name: "100,000 levels of JSON", Chat: five(event(`{"a":`+deep(100000)+`}`), hold), Probes: broken, Scrapes: ok},
			{Name: "9,000 levels of JSON", Chat: Stream(text(role), slowly(16, token), event(`{"warning":`+deep(9000)+`}`), text(finish("length")+usage("512", "16")+done)), Probes: append(broken[:1:1], OK), Scrapes: ok},
			{Name: "9,000 levels in each token", Chat: Stream(Step{Text: `data: {"choices":[{"delta":{"content":"a","x":` + deep(4500) + `}}]}` + "\n\n", Times: 16, Every: aThird}, text(finish("length")+usage("512", "16")+done)), Probes: append(broken[:1:1], OK), Scrapes: ok},
			{Name: "100,000 choices", Chat: five(event(`{"choices":[`+strings.Repeat(`{},`, 100000)+`{}]}`), text(finish("length")+usage("512", "5")+done)), Probes: append(broken[:1:1], OK, "truncated", "server_error"), Scrapes: ok},
		}),
		ofKind("numbers of usage", []Server{
			{Name: "usage of 1e308", Chat: Stream(text(role), slowly(16, token), text(finish("length")+usage("1e308", "1e308")+done)), Probes: either, Scrapes: ok},
			{Name: "usage of 1e400", Chat: Stream(text(role), slowly(16, token), text(finish("length")+usage("1e400", "-1e400")+done)), Probes: either, Scrapes: ok},
			{Name: "usage below 0", Chat: Stream(text(role), slowly(16, token), text(finish("length")+usage("-512", "-16")+done)), Probes: either, Scrapes: ok},
			{Name: "usage of 2^63", Chat: Stream(text(role), slowly(16, token), text(finish("length")+usage("9223372036854775808", "9223372036854775807")+done)), Probes: either, Scrapes: ok},
			{Name: "usage that is NaN", Chat: Stream(text(role), slowly(16, token), text(finish("length")+usage("NaN", "Infinity")+done)), Probes: either, Scrapes: ok},
			{Name: "continuous usage that jumps", Chat: Stream(text(role), Step{Text: strings.ReplaceAll(token, "}]}", `}],"usage":{"prompt_tokens":512,"completion_tokens":2147483647}}`), Times: 16, Every: aThird}, text(finish("length")+usage("512", "0")+done)), Probes: ok, Scrapes: ok},
			{Name: "a prompt that always counts one token", Chat: Stream(text(role), slowly(16, token), text(finish("length")+usage("1", "16")+done)), Probes: ok, Scrapes: ok},
			{Name: "a prompt that counts 2^31 tokens", Chat: Stream(text(role), slowly(16, token), text(finish("length")+usage("2147483647", "16")+done)), Probes: ok, Scrapes: ok},
			{Name: "more cached than sent", Chat: Stream(text(role), slowly(16, token), event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":16,"prompt_tokens_details":{"cached_tokens":-999999999999},"completion_tokens_details":{"reasoning_tokens":1e18}}}`), text(finish("length")+done)), Probes: append(ok[:1:1], "malformed", "truncated"), Scrapes: ok},
		}),
		ofKind("numbers of time", []Server{
			{Name: "server times of 1e300", Chat: Stream(text(role), slowly(16, token), event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":16},"metrics":{"time_to_first_token_ms":1e300,"queued_time_ms":-1e300,"prefill_time_ms":1e300,"decode_time_ms":1e300,"inference_time_ms":-5}}`), text(finish("length")+done)), Probes: either, Scrapes: ok},
			{Name: "server times below 0", Chat: Stream(text(role), slowly(16, token), text(finish("length")), event(`{"choices":[],"usage":{"prompt_tokens":512,"completion_tokens":16},"metrics":{"time_to_first_token_ms":-5,"queue_time_ms":-1e9,"prefill_time_ms":-3}}`), text(done)), Probes: either, Scrapes: ok},
		}),
	)
}

// courtesies are questions around a probe that are answered badly; the probe itself goes well.
func courtesies() []Server {
	json := func(body string) Script { return Page("200 OK", "application/json", body) }
	list := func(entry string) Script { return json(`{"object":"list","data":[` + entry + `]}`) }
	unlisted := []string{"malformed", "too_large", "timeout", "model_not_found"}
	count := func(count string) Script {
		return json(`{"count":` + count + `,"max_model_len":` + count + `,"tokens":[1,2,3]}`)
	}
	return slices.Concat(
		ofKind("list of models", []Server{
			{Name: "models without an end", Models: append(json(`{"data":[`), endless(`{"id":"a"},`)), Probes: ok, Scrapes: ok},
			{Name: "models without an end and no name", Unnamed: true, Models: append(json(`{"data":[`), endless(`{"id":"a"},`)), Probes: unlisted, Scrapes: []string{OK, "too_large", "timeout", "parse"}},
			{Name: "models never answered", Models: raw(hold), Tokenize: raw(hold), Version: raw(hold), Health: raw(hold), Probes: ok, Scrapes: []string{OK, "timeout"}},
			{Name: "models refused", Models: refusal("401 Unauthorized", `{"error":{"message":"Missing scopes"}}`), Probes: ok, Scrapes: []string{OK, "auth"}},
			{Name: "models in a bare array", Models: json(`[{"id":"m"}]`), Probes: ok, Scrapes: ok},
			{Name: "a limit below 0", Unnamed: true, Models: list(`{"id":"m","max_model_len":-5}`), Probes: ok, Scrapes: ok},
			{Name: "a limit of 1e308", Unnamed: true, Models: list(`{"id":"m","max_model_len":1e308}`), Probes: append(ok[:1:1], "malformed"), Scrapes: []string{OK, "parse"}},
			{Name: "a name of 1 MB", Unnamed: true, Models: list(`{"id":"` + strings.Repeat("m", 1<<20-200) + `"}`), Probes: append(unlisted, OK), Scrapes: []string{OK, "parse", "too_large"}},
			{Name: "a name that is no text", Unnamed: true, Models: list(`{"id":"\u202e\u001b[31m\u0000\u2066","root":"` + foreign + `"}`), Probes: append(unlisted, OK), Scrapes: []string{OK, "parse"}},
			{Name: "100,000 levels of models", Unnamed: true, Models: json(strings.Repeat(`{"data":[`, 100000)), Probes: unlisted, Scrapes: []string{OK, "parse", "too_large"}},
		}),
		ofKind("tokenizer", []Server{
			{Name: "a count of -2000000000 for messages", Tokenize: count("-2000000000"), Probes: ok, Scrapes: ok},
			{Name: "a count of 2^62", Tokenize: count("4611686018427387904"), Probes: ok, Scrapes: ok},
			{Name: "a count of 1e308", Tokenize: count("1e308"), Probes: ok, Scrapes: ok},
			{Name: "a count of 0", Tokenize: count("0"), Probes: ok, Scrapes: ok},
			{Name: "a count of 1", Tokenize: json(`{"count":1,"max_model_len":4096,"tokens":[1]}`), Probes: ok, Scrapes: ok},
			{Name: "tokens without an end", Tokenize: append(json(`{"count":9,"tokens":[`), endless("1,")), Probes: ok, Scrapes: ok},
			{Name: "a tokenizer that switches protocols", Tokenize: raw(text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), hold), Models: raw(text("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), hold), Probes: ok, Scrapes: []string{OK, "http_status", "timeout", "parse"}},
		}),
		ofKind("version", []Server{
			{Name: "a version without an end", Version: append(json(`{"version":"`), endless("9.")), Probes: ok, Scrapes: []string{OK, "too_large", "parse"}},
			{Name: "a version that is no text", Version: json(`{"version":"` + foreign + `"}`), Probes: ok, Scrapes: []string{OK, "parse"}},
		}),
	)
}

// pages are metrics pages that are broken; probes go well.
func pages() []Server {
	labels := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `l%d="v",`, i)
		}
		return b.String()
	}
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	rows := []struct {
		kind    string
		name    string
		metrics Script
		scrapes []string
	}{
		{"large page", "200,000 samples that differ in one label", metrics(politeMetrics + many(200000, `vllm:num_requests_running{engine="0",model_name="m",x="%d"} 1`)), anyPage},
		{"large page", "a line of 200,000 labels", metrics("vllm:num_requests_running{" + labels(200000) + `engine="0"} 1` + "\n"), append(page[:1:1], "too_large")},
		{"large page", "200,000 families", metrics(politeMetrics + many(200000, "a%d 1")), anyPage},
		{"large page", "10,000 engines", metrics(many(10000, `vllm:num_requests_running{engine="%d",model_name="m"} 1`)), anyPage},
		{"large page", "10,000 models", metrics(many(10000, `vllm:num_requests_running{engine="0",model_name="m%d"} 1`)), anyPage},
		{"large page", "100,000 buckets", metrics(politeMetrics + "# TYPE vllm:time_to_first_token_seconds histogram\n" + many(100000, `vllm:time_to_first_token_seconds_bucket{engine="0",model_name="m",le="%d"} 1`)), anyPage},
		{"large page", "a page without an end", append(metrics(""), endless("# HELP a b\n")), bounded},
		{"large page", "a line without an end", append(metrics("# HELP a "), endless("b")), bounded},
		{"packed page", "a gzip bomb", raw(text(pageHead+"Content-Encoding: gzip\r\n\r\n"), text(bomb())), big1},
		{"packed page", "half a gzip stream", raw(text(pageHead+"Content-Encoding: gzip\r\n\r\n"), text(bomb()[:500]), cut), lost},
		{"numbers of a page", "NaN everywhere", metrics(sample("NaN")), anyPage},
		{"numbers of a page", "+Inf everywhere", metrics(sample("+Inf")), anyPage},
		{"numbers of a page", "-Inf everywhere", metrics(sample("-Inf")), anyPage},
		{"numbers of a page", "1e308 everywhere", metrics(sample("1e308")), anyPage},
		{"numbers of a page", "-1e308 everywhere", metrics(sample("-1e308")), anyPage},
		{"numbers of a page", "1e400 everywhere", metrics(sample("1e400")), anyPage},
		{"numbers of a page", "NaN and -1e308", metrics(sample("NaN") + `vllm:num_requests_running{engine="1",model_name="m"} -1e308` + "\n"), anyPage},
		{"numbers of a page", "buckets that fall", metrics(politeMetrics + "# TYPE vllm:time_to_first_token_seconds histogram\n" + `vllm:time_to_first_token_seconds_bucket{le="1"} 9` + "\n" + `vllm:time_to_first_token_seconds_bucket{le="NaN"} 1` + "\n" + `vllm:time_to_first_token_seconds_bucket{le="+Inf"} -3` + "\nvllm:time_to_first_token_seconds_sum -9\nvllm:time_to_first_token_seconds_count -3\n"), anyPage},
		{"numbers of a page", "a start in the future", metrics(politeMetrics + "process_start_time_seconds 9e18\n"), anyPage},
		{"numbers of a page", "a start that is NaN", metrics(politeMetrics + "process_start_time_seconds NaN\n"), anyPage},
		{"text of a page", "labels that are no text", metrics(`vllm:num_requests_running{engine="` + foreign + `",model_name="` + foreign + `"} 1` + "\n"), anyPage},
		{"text of a page", "names that are no text", metrics("# HELP " + foreign + " " + foreign + "\n# TYPE " + foreign + " " + foreign + "\n" + foreign + " 1\n"), page},
		{"text of a page", "protobuf of 2^63 bytes", Page("200 OK", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited", "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x0a\x03abc"), page},
		{"text of a page", "JSON", Page("200 OK", "application/json", `{"vllm:num_requests_running":1}`), page},
	}
	var servers []Server
	for _, r := range rows {
		servers = append(servers, Server{Kind: r.kind, Name: "a metrics page: " + r.name, Metrics: r.metrics, Probes: ok, Scrapes: r.scrapes})
	}
	return servers
}

// echoes repeat the key, and texts that change how a terminal or a reader shows what is around them, wherever an
// answer has a place for text.
func echoes() []Server {
	forms := "{KEY} {KEY:url} {KEY:html} {KEY:slash} {KEY:json} {KEY:base64} "
	line := forms + "\u202e\u2066\x9b\xff"
	return slices.Concat(
		ofKind("key repeated", []Server{
			{Name: "the key in the status line", Chat: raw(text("HTTP/1.1 401 bad key " + line + "\r\nConnection: close\r\n\r\n")), Metrics: raw(text("HTTP/1.1 401 bad key " + line + "\r\nConnection: close\r\n\r\n")), Models: raw(text("HTTP/1.1 401 bad key " + line + "\r\nConnection: close\r\n\r\n")), Probes: []string{"auth"}, Scrapes: []string{"auth"}},
			{Name: "the key as the status", Chat: raw(text("HTTP/1.1 " + line + "\r\n\r\n")), Metrics: raw(text("HTTP/1.1 " + line + "\r\n\r\n")), Probes: broken, Scrapes: lost},
			{Name: "the key as a header", Chat: raw(text("HTTP/1.1 200 OK\r\n" + line + "\r\n\r\n")), Metrics: raw(text("HTTP/1.1 200 OK\r\n" + line + "\r\n\r\n")), Probes: broken, Scrapes: lost},
			{Name: "the key as the protocol", Chat: raw(text(line + " 200 OK\r\n\r\n")), Metrics: raw(text(line + " 200 OK\r\n\r\n")), Probes: broken, Scrapes: lost},
			{Name: "the key as a length", Chat: raw(text("HTTP/1.1 200 OK\r\nContent-Length: " + forms + "\r\n\r\n")), Metrics: raw(text("HTTP/1.1 200 OK\r\nContent-Length: " + forms + "\r\n\r\n")), Probes: broken, Scrapes: lost},
			{Name: "the key as an encoding", Chat: raw(text("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + forms + "\r\n\r\n")), Metrics: raw(text("HTTP/1.1 200 OK\r\nContent-Encoding: " + forms + "\r\n\r\n")), Probes: broken, Scrapes: append(page[:1:1], "connect")},
			{Name: "the key as a type", Chat: Page("200 OK", "text/html; for="+forms, "<h1>"+line+"</h1>"), Metrics: Page("200 OK", "text/html; for="+forms, "<h1>"+line+"</h1>"), Probes: []string{"content_type"}, Scrapes: page},
			{Name: "the key as a place", Chat: raw(text("HTTP/1.1 302 Found\r\nLocation: http://elsewhere.invalid/?" + forms + "\r\nConnection: close\r\n\r\n")), Metrics: raw(text("HTTP/1.1 302 Found\r\nLocation: http://%zz{KEY}/\r\nConnection: close\r\n\r\n")), Probes: []string{"http_status"}, Scrapes: []string{"http_status", "connect", "parse"}},
			{Name: "the key in an error", Chat: Page("500 Internal Server Error", "application/json", `{"error":{"message":"`+line+`"}}`), Metrics: Page("500 no", "text/plain", line), Probes: []string{"http_status"}, Scrapes: []string{"http_status"}},
			{Name: "the key in an error of the stream", Chat: five(event(`{"error":{"message":"` + line + `","type":"` + line + `"}}`)), Probes: []string{"server_error", "malformed"}, Scrapes: ok},
			{Name: "the key in an escaped error of the stream", Chat: five(event(`{"error":{"message":"{KEY:json} \u202e\u001b[31m {KEY:slash}"}}`)), Probes: []string{"server_error"}, Scrapes: ok},
			{Name: "the key in garbage", Chat: five(event("{" + line)), Metrics: metrics(line + " 1\n"), Probes: []string{"malformed", "server_error"}, Scrapes: page},
			{Name: "the key in a field", Chat: five(text(line+": "+line+"\n\n"), text(done)), Probes: []string{"truncated", "server_error", "malformed"}, Scrapes: ok},
			{Name: "the key as a finish_reason", Chat: Stream(text(role), slowly(16, token), text(finish("{KEY:json} \\u202e")+usage("512", "16")+done)), Probes: append(ok[:1:1], "server_error", "truncated"), Scrapes: ok},
			{Name: "the key as a model", Chat: Stream(Step{Text: strings.ReplaceAll(token, `"model":"m"`, `"model":"{KEY:json} \u202e\u001b"`), Times: 16, Every: aThird}, text(finish("length")+usage("512", "16")+done)), Probes: ok, Scrapes: ok},
			{Name: "the key as the answer", Chat: Stream(Step{Text: strings.ReplaceAll(token, "ab ", "{KEY:json} \\u202e"), Times: 16, Every: aThird}, text(finish("length")+usage("512", "16")+done)), Probes: ok, Scrapes: ok},
			{Name: "the key as a label", Metrics: metrics(`vllm:num_requests_running{engine="{KEY}",model_name="{KEY} {KEY:base64}` + "\u202e" + `"} 1` + "\n"), Probes: ok, Scrapes: anyPage},
		}),
	)
}

// bomb is a page of 256 MB in 256 kB.
func bomb() string {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is known
	lines := strings.Repeat("# a\n", 1<<18)
	for range 256 {
		_, _ = io.WriteString(z, lines) // a buffer takes all
	}
	_ = z.Close()
	return b.String()
}

// clientCertificate asks for a certificate that no client has.
func clientCertificate(version uint16) *tls.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the system has no random numbers
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, leaf, leaf, &key.PublicKey, key)
	if err != nil {
		panic(err) // it is the same each time
	}
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth:   tls.RequireAnyClientCert, MinVersion: version, MaxVersion: version,
	}
}
