package prober

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	promconfig "github.com/prometheus/common/config"
)

// e16 (prometheus/blackbox_exporter#1107, prometheus/snmp_exporter#691): whatever a server repeats, no secret gets
// into a result or a log line.
func TestSecretsAreNotRepeated(t *testing.T) {
	const key, other, user, password = "sk-SECRET1/a&b", "SECRET2 in a header", "someone", "SECRET3-pass\"word"
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	clients := map[string]promconfig.HTTPClientConfig{
		"bearer token and header": {
			Authorization: &promconfig.Authorization{Type: "Bearer", Credentials: key},
			HTTPHeaders:   &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Api-Key": {Secrets: []promconfig.Secret{other}}}},
		},
		"basic auth": {BasicAuth: &promconfig.BasicAuth{Username: user, Password: password}},
	}
	quotedBy := func(text string) string { // as a server's JSON encoder would
		data, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	all := "Bearer " + key + ", " + other + ", Basic " + basic + ", " + password
	padded := strings.Repeat("x", maxMessage-10) + " " + key // a secret across the place where texts are cut
	answers := map[string]script{
		"a status with text":          script("HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n\r\n" + all),
		"a status with JSON":          jsonAnswer(401, `{"error":{"message":`+quotedBy("wrong key: "+all)+`}}`),
		"a refusal":                   jsonAnswer(400, `{"error":{"message":`+quotedBy("cache_salt refused for "+all)+`}}`),
		"a page":                      script("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + all),
		"a content type":              script("HTTP/1.1 200 OK\r\nContent-Type: text/" + key + "\r\n\r\nhello"),
		"an error in the stream":      script(`data: {"error":{"message":` + quotedBy(all) + "}}\n\n"),
		"a string in the stream":      script(`data: {"error":` + quotedBy(all) + "}\n\n"),
		"an event named error":        script("event: error\ndata: " + quotedBy(all) + "\n\n"),
		"a long text":                 jsonAnswer(500, `{"error":{"message":`+quotedBy(padded)+`}}`),
		"a long error in the stream":  script(`data: {"error":{"message":` + quotedBy(padded) + "}}\n\n"),
		"no HTTP at all":              script("<<W>>" + all + " HTTP/1.1 "),
		"a status line":               script("HTTP/1.1 401 bad key " + all + "\r\n\r\n"),
		"a broken header":             script("HTTP/1.1 200 OK\r\n" + all + "\r\n\r\n"),
		"a content length":            script("HTTP/1.1 200 OK\r\nContent-Length: " + all + "\r\n\r\n"),
		"a content encoding":          script("HTTP/1.1 200 OK\r\nContent-Encoding: " + key + "\r\n\r\nhello"),
		"a finish reason":             script(`data: {"choices":[{"index":0,"delta":{},"finish_reason":` + quotedBy(all) + "}]}\n\ndata: [DONE]\n\n"),
		"an escaped key":              jsonAnswer(500, `{"error":{"message":"`+strings.ReplaceAll(quotedBy(all)[1:], "/", `\u002F`)+`}}`),
		"an encoded key":              jsonAnswer(500, `{"error":{"message":"`+base64.StdEncoding.EncodeToString([]byte("key: "+all))+` `+url.QueryEscape(all)+` `+html.EscapeString(url.QueryEscape(all))+`"}}`),
		"a text cut by the server":    jsonAnswer(500, `{"error":{"message":"`+strings.Repeat("x", 100)+" "+key[:10]+`"}}`),
		"a bidi override":             jsonAnswer(500, "{\"error\":{\"message\":\"\u202e"+key+"\u200b\"}}"),
		"a broken chunk after secret": script("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + key + "\r\n"),
	}
	for client, config := range clients {
		for name, answer := range answers {
			t.Run(client+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					target := target()
					target.HTTP = config
					s := always(answer)
					g := newRig(t, s.dial, target)
					res := g.once(t)
					if res.OK() {
						t.Fatalf("%s", outcome(res))
					}
					sent := s.sent()[0].header
					if sent.Get("Authorization") == "" {
						t.Error("the request has no credentials")
					}
					shown := fmt.Sprintf("%s\n%v\n%+v\n%s\n%s", g.logs, res.Err, *res, res.Body, res.FinishReason)
					for _, secret := range []string{"SECRET1", "SECRET2", "SECRET3", basic, "sk-SEC"} {
						if strings.ContainsAny(shown, "\u202e\u200b") {
							t.Errorf("a character that reorders others is shown:\n%s", shown)
						}
						if mine := strings.Contains(fmt.Sprint(sent), secret) || client == "basic auth" && secret == "SECRET3"; mine && strings.Contains(shown, secret) {
							t.Errorf("%s is shown:\n%s", secret, shown)
						}
					}
				})
			})
		}
	}
}
