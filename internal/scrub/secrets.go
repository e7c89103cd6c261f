package scrub

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	promconfig "github.com/prometheus/common/config"
)

const (
	// minSecret is the length in bytes below which a value is not looked for: to hide every "1" says more than it hides.
	minSecret = 3
	// minAnywhere is the length from which a value is found inside a word too; a shorter one is found as a whole
	// word, since every text has its letters somewhere.
	minAnywhere = 6
	// maxRecent is how many different values of headers are kept, the last used: tokens are renewed.
	maxRecent = 64
	// maxText is how many bytes are looked at of one text; of one that is longer, the rest is left out.
	maxText = 64 << 10
	// maxError is how many characters an error may have; it quotes less than that of a server.
	maxError = 1 << 10

	hidden = "<secret>"
)

// Secrets are the values that one client sends as credentials: they are not to be shown when the other end repeats
// them. The zero value has none. It is safe for concurrent use.
//
// They are found as they are, in the escapes of JSON, Go, HTML and URLs (one inside another too), in hexadecimal
// and in base64, the part of a longer text included; and the beginning of one, of six bytes or more, at the end of a
// text that was cut. Values of less than six bytes are found as whole words, values of less than three are not looked
// for. A text in which a server has changed a secret in another way cannot be told from any other text.
type Secrets struct {
	mu     sync.RWMutex
	kept   []string // for good: of the configuration
	recent []string // of headers, the last used at the end
	index  index
}

// ownHeaders have values that are no secrets: those that a client sets by itself.
var ownHeaders = []string{
	"Host", "User-Agent", "Content-Length", "Content-Type", "Accept", "Accept-Encoding", "Connection",
	"Transfer-Encoding", "X-Request-Id", "Referer", "X-Prometheus-Scrape-Timeout-Seconds",
}

// Trace makes every request that is sent with the context tell the values of its headers, those that a transport
// adds by itself (credentials read from a file, tokens that were fetched) included.
func (s *Secrets) Trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: s.Header})
}

// Header takes one header field of a request that is being written (httptrace.ClientTrace.WroteHeaderField).
func (s *Secrets) Header(key string, values []string) {
	if slices.Contains(ownHeaders, http.CanonicalHeaderKey(key)) {
		return
	}
	for _, v := range values {
		for _, part := range partsOfHeader(v) {
			s.add(part, false)
		}
	}
}

// partsOfHeader are the value of a header and those parts of it that are secrets by themselves: what follows the
// scheme of Authorization, the name and the password of Basic, and the values of name=value.
func partsOfHeader(v string) []string {
	parts := []string{v}
	scheme, credentials, ok := strings.Cut(v, " ")
	if ok {
		parts = append(parts, credentials)
	}
	if decoded, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "Basic") {
		return append(parts, partsOfUser(string(decoded))...)
	}
	for pair := range strings.FieldsFuncSeq(v, func(r rune) bool { return strings.ContainsRune(" ,;", r) }) {
		if _, value, ok := strings.Cut(pair, "="); ok {
			parts = append(parts, strings.Trim(value, `"=`))
		}
	}
	return parts
}

// partsOfUser are the secrets of user:password. A user without a password is a token.
func partsOfUser(both string) []string {
	if user, password, _ := strings.Cut(both, ":"); password == "" {
		return []string{user}
	} else {
		return []string{both, password}
	}
}

// URL takes the secrets of a URL that is asked: its user information and the values of its query.
func (s *Secrets) URL(u *url.URL) {
	if u == nil {
		return
	}
	if u.User != nil {
		password, _ := u.User.Password()
		for _, part := range partsOfUser(u.User.Username() + ":" + password) {
			s.add(part, true)
		}
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		if _, value, ok := strings.Cut(pair, "="); ok {
			s.add(value, true)
		}
	}
}

// Client takes the secrets of a client's configuration that its headers do not show: those that go to a proxy or to
// a server of tokens, and those that an error may quote before anything is sent.
func (s *Secrets) Client(c *promconfig.HTTPClientConfig) {
	add := func(v promconfig.Secret) { s.add(string(v), true) }
	add(c.BearerToken)
	if c.Authorization != nil {
		add(c.Authorization.Credentials)
	}
	if c.BasicAuth != nil {
		add(c.BasicAuth.Password)
	}
	if c.OAuth2 != nil {
		add(c.OAuth2.ClientSecret)
		s.client(c.OAuth2.ProxyConfig)
	}
	if c.HTTPHeaders != nil {
		for _, h := range c.HTTPHeaders.Headers {
			for _, v := range h.Secrets {
				add(v)
			}
		}
	}
	s.client(c.ProxyConfig)
}

// client takes the secrets of a proxy.
func (s *Secrets) client(c promconfig.ProxyConfig) {
	s.URL(c.ProxyURL.URL)
	for _, values := range c.ProxyConnectHeader {
		for _, v := range values {
			for _, part := range partsOfHeader(string(v)) {
				s.add(part, true)
			}
		}
	}
	if !c.ProxyFromEnvironment {
		return
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		if u, err := url.Parse(os.Getenv(name)); err == nil {
			s.URL(u)
		}
	}
}

// add keeps a value, for good or until there are many others.
func (s *Secrets) add(v string, keep bool) {
	v = strings.TrimSpace(v)
	if len(v) < minSecret {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.kept, v) {
		return
	}
	if i := slices.Index(s.recent, v); i >= 0 {
		copy(s.recent[i:], s.recent[i+1:])
		s.recent[len(s.recent)-1] = v
		return
	}
	if keep {
		s.kept = append(s.kept, v)
	} else {
		s.recent = append(s.recent[max(0, len(s.recent)+1-maxRecent):], v)
	}
	s.index = newIndex(slices.Concat(s.kept, s.recent))
}

// Hide replaces every secret in a text by "<secret>". Of a text of more than 64 KiB the rest is left out.
func (s *Secrets) Hide(text string) string {
	s.mu.RLock()
	x := s.index
	s.mu.RUnlock()
	mark := ""
	if len(text) > maxText {
		text, mark = text[:maxText], cutMark
	}
	if x.patterns == nil {
		return text + mark
	}
	found, _ := x.find(text)
	return replace(text, found) + mark
}

// Text is [Text] of a text without its secrets.
func (s *Secrets) Text(text string, limit int) string { return Text(s.Hide(text), limit) }

// Error is an error whose text is without secrets and fit to be shown; it wraps err. Of nil it is nil.
func (s *Secrets) Error(err error) error {
	if err == nil {
		return nil
	}
	before := err.Error()
	if text := s.Text(before, maxError); text != before {
		return &scrubbedError{text, err}
	}
	return err
}

// scrubbedError has another text than the error that it wraps.
type scrubbedError struct {
	text string
	err  error
}

func (e *scrubbedError) Error() string { return e.text }
func (e *scrubbedError) Unwrap() error { return e.err }
