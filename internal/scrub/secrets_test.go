package scrub

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	promconfig "github.com/prometheus/common/config"
)

// forms are the ways in which the other end may write what it was sent.
func forms() map[string]func(string) string {
	quoted := func(s string) string {
		data, err := json.Marshal(s)
		if err != nil {
			panic(err)
		}
		return string(data[1 : len(data)-1])
	}
	bytes := func(format string) func(string) string {
		return func(s string) string {
			var b strings.Builder
			for i := range len(s) {
				fmt.Fprintf(&b, format, s[i])
			}
			return b.String()
		}
	}
	runes := func(format string) func(string) string {
		return func(s string) string {
			var b strings.Builder
			for _, r := range s {
				fmt.Fprintf(&b, format, r)
			}
			return b.String()
		}
	}
	units := func(s string) string { // of UTF-16
		var b strings.Builder
		for _, u := range utf16.Encode([]rune(s)) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
		return b.String()
	}
	mixed := func(s string) string { // every second character
		var b strings.Builder
		for i, r := range []rune(s) {
			if i%2 == 0 {
				b.WriteString(units(string(r)))
			} else {
				b.WriteString(quoted(string(r)))
			}
		}
		return b.String()
	}
	std, url64 := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	slashes := func(s string) string { return strings.ReplaceAll(quoted(s), "/", `\/`) }
	return map[string]func(string) string{
		"as it is":                       func(s string) string { return s },
		"JSON":                           quoted,
		"JSON with escaped slashes":      slashes,
		"JSON with some escapes":         mixed,
		"JSON with all escapes":          units,
		"JSON in JSON":                   func(s string) string { return quoted(quoted(s)) },
		"escaped slashes in JSON":        func(s string) string { return quoted(slashes(s)) },
		"all escapes in JSON in JSON":    func(s string) string { return quoted(quoted(units(s))) },
		"Go":                             func(s string) string { return fmt.Sprintf("%q", s) },
		"Go in Go":                       func(s string) string { return fmt.Sprintf("%q", fmt.Sprintf("%q", s)) },
		"Go in ASCII":                    func(s string) string { return fmt.Sprintf("%+q", s) },
		"bytes of Python":                bytes(`\x%02x`),
		"the query of a URL":             url.QueryEscape,
		"the path of a URL":              url.PathEscape,
		"a URL in lower case":            bytes("%%%02x"),
		"a URL in upper case":            bytes("%%%02X"),
		"a URL in a URL":                 func(s string) string { return url.QueryEscape(url.QueryEscape(s)) },
		"a URL in JSON":                  func(s string) string { return quoted(url.QueryEscape(s)) },
		"HTML":                           html.EscapeString,
		"HTML in decimals":               runes("&#%d;"),
		"HTML in decimals, no semicolon": runes("&#%03d"),
		"HTML in hexadecimal":            runes("&#x%x;"),
		"HTML by name": func(s string) string {
			return strings.NewReplacer("+", "&plus;", "/", "&sol;", "&", "&amp;").Replace(s)
		},
		"HTML in JSON":                    func(s string) string { return quoted(html.EscapeString(s)) },
		"base64":                          func(s string) string { return std([]byte(s)) },
		"base64 for URLs":                 func(s string) string { return url64([]byte(s)) },
		"base64 behind one letter":        func(s string) string { return std([]byte("a" + s)) },
		"base64 behind two letters":       func(s string) string { return std([]byte("ab" + s + "!")) },
		"base64 with a user":              func(s string) string { return std([]byte("user:" + s)) },
		"base64 with a scheme":            func(s string) string { return url64([]byte("Bearer " + s)) },
		"base64 in a URL":                 func(s string) string { return url.QueryEscape(std([]byte("some:" + s))) },
		"hexadecimal":                     func(s string) string { return hex.EncodeToString([]byte(s)) },
		"hexadecimal in upper case":       func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
		"Latin-1":                         latin1,
		"Latin-1 in JSON":                 func(s string) string { return units(latin1(s)) },
		"with characters that are unseen": func(s string) string { return strings.Join(strings.Split(s, ""), "\u200b\x00\u202e") },
	}
}

// places are where in a text it may stand.
func places() map[string]func(string) string {
	return map[string]func(string) string{
		"alone":           func(s string) string { return s },
		"in a sentence":   func(s string) string { return "wrong key " + s + " given" },
		"in JSON":         func(s string) string { return `{"error":{"message":"` + s + `","code":401}}` },
		"in a word":       func(s string) string { return "key=" + s + "&x=1" },
		"twice":           func(s string) string { return s + ", " + s },
		"behind umlauts":  func(s string) string { return "größer \xff 🙂 \\ % & &amp; " + s },
		"in a long text":  func(s string) string { return strings.Repeat("all is well; ", 400) + s + strings.Repeat(" it is", 400) },
		"behind a border": func(s string) string { return strings.Repeat("x", maxText-5) + " " + s },
	}
}

func TestSecretsAreFoundInEveryForm(t *testing.T) {
	for _, key := range []string{
		"sk-SECRET1/a&b+c", "SECRET2 in a header", `pass"wo\rd<+>/_-=`, "dXNlcjpwYXNzd29yZA==", "größer🙂als", "100%25+C3%BCb", `C:\new\u0041`, "zu/r+t",
	} {
		var s Secrets
		s.Header("X-Api-Key", []string{key})
		for form, write := range forms() {
			for place, put := range places() {
				text := put(write(key))
				got := s.Hide(text)
				if core := strings.Trim(write(key), `"=`); strings.Contains(got, core) || !strings.Contains(got, hidden) && place != "behind a border" {
					t.Errorf("%q, %s, %s: %.300q becomes %.300q", key, form, place, text, got)
				}
				if left := put(hidden); place != "behind a border" && len(got) > len(left)+16 {
					t.Errorf("%q, %s, %s: more is left than stood around it: %.300q", key, form, place, got)
				}
			}
		}
	}
}

func TestHide(t *testing.T) {
	for _, tc := range []struct{ name, secret, text, want string }{
		{"none", "", "all is well", "all is well"},
		{"no more than the secret", "sk-SECRET", `a "sk-SECRET"\n & b%`, `a "<secret>"\n & b%`},
		{"neighbours", "sk-SECRET", "sk-SECRETsk-SECRET", "<secret>"},
		{"another", "sk-SECRET", "sk-SECREX sk-secret", "sk-SECREX sk-secret"},
		{"cut behind six bytes", "sk-SECRET", "the key is sk-SEC", "the key is <secret>"},
		{"cut behind five bytes", "sk-SECRET", "the key is sk-SE", "the key is sk-SE"},
		{"cut in a quotation", "sk-SECRET", `malformed "sk-SECR…"`, `malformed "<secret>…"`},
		{"cut in an escape", "sk/SECRET", `sk\u002fSECR`, "<secret>"},
		{"a short one is a word", "abc1", "abc1 is no xabc1 nor abc12, but (abc1)", "<secret> is no xabc1 nor abc12, but (<secret>)"},
		{"a short one, escaped", "a/c", `"a\/c"`, `"<secret>"`},
		{"a shorter one", "ab", "ab", "ab"},
		{"bearer", "Bearer sk-SECRET", "Bearer sk-SECRET and sk-SECRET", "<secret> and <secret>"},
		{"basic", "Basic " + base64.StdEncoding.EncodeToString([]byte("someone:pass-word")), "Basic c29tZW9uZTpwYXNzLXdvcmQ= c29tZW9uZTpwYXNzLXdvcmQ= someone:pass-word pass-word of someone else", "<secret> <secret> <secret> <secret> of someone else"},
		{"basic, a token as user", "Basic " + base64.StdEncoding.EncodeToString([]byte("token99:")), "user token99", "user <secret>"},
		{"a cookie", `session=abcdef99; lang=de`, "abcdef99 de", "<secret> de"},
		{"parameters", `Digest username="u", response="abcdef99"`, "abcdef99", "<secret>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s Secrets
			s.Header("Authorization", []string{tc.secret})
			if got := s.Hide(tc.text); got != tc.want {
				t.Errorf("%q becomes %q, want %q", tc.text, got, tc.want)
			}
		})
	}
}

func TestWhereSecretsComeFrom(t *testing.T) {
	parse := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	t.Setenv("HTTPS_PROXY", "http://me:SECRET12@proxy")
	for _, tc := range []struct {
		name string
		from func(*Secrets)
		text string
	}{
		{"user and query of a URL", func(s *Secrets) { s.URL(parse("http://u:SECRET1@h/?token=SECRET2&x=1")) }, "SECRET1 u:SECRET1 SECRET2"},
		{"a user that is a token", func(s *Secrets) { s.URL(parse("http://SECRET3@h/")) }, "SECRET3"},
		{"a query with escapes", func(s *Secrets) { s.URL(parse("http://h/?k=SECRET%2F3")) }, "SECRET/3 SECRET%2f3 SECRET%2F3"},
		{"the configuration", func(s *Secrets) {
			s.Client(&promconfig.HTTPClientConfig{
				BearerToken: "SECRET4", Authorization: &promconfig.Authorization{Credentials: "SECRET5"},
				BasicAuth: &promconfig.BasicAuth{Password: "SECRET6"}, OAuth2: &promconfig.OAuth2{ClientSecret: "SECRET7"},
				HTTPHeaders: &promconfig.Headers{Headers: map[string]promconfig.Header{"X": {Secrets: []promconfig.Secret{"SECRET8"}}}},
				ProxyConfig: promconfig.ProxyConfig{
					ProxyURL:           promconfig.URL{URL: parse("http://u:SECRET9@p")},
					ProxyConnectHeader: promconfig.ProxyHeader{"Proxy-Authorization": {"Bearer SECRET10"}},
				},
			})
		}, "SECRET4 SECRET5 SECRET6 SECRET7 SECRET8 SECRET9 SECRET10"},
		{"the environment", func(s *Secrets) {
			s.Client(&promconfig.HTTPClientConfig{ProxyConfig: promconfig.ProxyConfig{ProxyFromEnvironment: true}})
		}, "SECRET12"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var s Secrets
			tc.from(&s)
			if got := s.Hide(tc.text); strings.Contains(got, "SECRET") {
				t.Errorf("%q becomes %q", tc.text, got)
			}
		})
	}
}

func TestHarmlessHeadersAreNoSecrets(t *testing.T) {
	var s Secrets
	for _, name := range ownHeaders {
		s.Header(strings.ToLower(name), []string{"harmless"})
	}
	if got := s.Hide("harmless"); got != "harmless" {
		t.Errorf("the value of an own header becomes %q", got)
	}
}

// Tokens are renewed for as long as the daemon runs; what the configuration has stays.
func TestOldTokensAreForgotten(t *testing.T) {
	var s Secrets
	s.URL(&url.URL{Host: "h", User: url.UserPassword("u", "SECRET-kept")})
	for i := range 10 * maxRecent {
		s.Header("Authorization", []string{fmt.Sprintf("token%05d", i)})
		s.Header("X-Api-Key", []string{"SECRET-always"})
	}
	if len(s.recent) > maxRecent {
		t.Errorf("%d tokens are kept", len(s.recent))
	}
	last := fmt.Sprintf("token%05d", 10*maxRecent-1)
	if got := s.Hide("SECRET-kept SECRET-always " + last); got != "<secret> <secret> <secret>" {
		t.Errorf("tokens in use are shown: %q", got)
	}
}

func TestErrorKeepsItsKind(t *testing.T) {
	var s Secrets
	s.Header("Authorization", []string{"sk-SECRET"})
	err := s.Error(fmt.Errorf("reading \u202esk-SECRET\n: %w", io.ErrUnexpectedEOF))
	if err.Error() != "reading \uFFFD<secret> : unexpected EOF" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q", err)
	}
	if plain := errors.New("plain"); s.Error(plain) != plain || s.Error(nil) != nil { //nolint:errorlint // the very same
		t.Error("an error with nothing to hide is replaced")
	}
}

// checkWork holds the work on a text to a bound that grows with its length and the number of forms: a path that is
// quadratic does more.
func checkWork(t *testing.T, s *Secrets, text string) {
	t.Helper()
	forms := 1
	for _, list := range s.index.patterns {
		forms = max(forms, 1+len(list))
	}
	text = text[:min(len(text), maxText)]
	if _, work := s.index.find(text); work > 2*(maxLayers+1)*forms*(len(text)+1) {
		t.Errorf("%d steps for %d bytes and %d forms: %.100q", work, len(text), forms, text)
	}
}

func FuzzHide(f *testing.F) {
	f.Add("sk-SECRET", `{"error":"sk\u002dSECRET &amp;#x2b; %2525 \\\\\\"}`)
	f.Add("aaaaaaaaab", strings.Repeat("a", 1000))
	f.Add("abc", strings.Repeat("YWJj", 500))
	f.Fuzz(func(t *testing.T, secret, text string) {
		if len(secret) > 100 {
			return
		}
		var s Secrets
		s.Header("X-Api-Key", []string{secret})
		got := s.Hide(text)
		if trimmed := strings.TrimSpace(secret); len(trimmed) >= minAnywhere && !strings.Contains(hidden, trimmed) && len(text) <= maxText {
			for part := range strings.SplitSeq(got, hidden) {
				if strings.Contains(part, trimmed) {
					t.Errorf("%q is left in %q", secret, got)
				}
			}
		}
		if clean := s.Text(text, 200); !utf8.ValidString(clean) || utf8.RuneCountInString(clean) > 200 {
			t.Errorf("%q becomes %q", text, clean)
		}
		checkWork(t, &s, text)
		checkWork(t, &s, strings.Repeat(text, 1+4096/(len(text)+1)))
	})
}

// Texts in which a search is slow if any is.
func TestHideIsLinear(t *testing.T) {
	var s Secrets
	for i := range 20 {
		s.Header("X-Api-Key", []string{strings.Repeat("a", 50+i) + "b", fmt.Sprintf("abc%d", i)})
	}
	for _, unit := range []string{"a", "abc", "abc1", "YWJj", "YWJjMQ", "%", `\`, "&", "&#x26", "%25", `\u005c`, "&amp;amp;", "\u202e", "YWFhYWFhYWFhYWFh", "616161"} {
		checkWork(t, &s, strings.Repeat(unit, maxText/len(unit)))
	}
}
