package prober

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	promconfig "github.com/prometheus/common/config"
)

// The API is where the target says, below the root; the tokenizer is at the root, whatever it says. A Host of the
// target's own goes with every request and changes no address.
func TestWhereRequestsGo(t *testing.T) {
	for _, c := range []struct {
		name, apiPath, host  string
		wantChat, wantModels string
	}{
		{name: "by default", wantChat: "/v1/chat/completions", wantModels: "/v1/models"},
		{name: "a path of its own", apiPath: "/v1beta/openai", wantChat: "/v1beta/openai/chat/completions", wantModels: "/v1beta/openai/models"},
		{name: "none", apiPath: "/", wantChat: "/chat/completions", wantModels: "/models"},
		{name: "a host of its own", host: "model.example:8443", wantChat: "/v1/chat/completions", wantModels: "/v1/models"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &fakeServer{}
				tg := target()
				tg.Model, tg.APIPath, tg.Host = "", c.apiPath, c.host
				probeOnce(t, s, tg)
				want := "llm.example:8000"
				if c.host != "" {
					want = c.host
				}
				requests := append(s.sent(), s.others...)
				for _, r := range requests {
					if r.host != want {
						t.Errorf("%s asks for host %q, want %q", r.path, r.host, want)
					}
				}
				if got := requests[0]; got.method != http.MethodPost || got.path != c.wantChat {
					t.Errorf("the probe is %s %s, want POST %s", got.method, got.path, c.wantChat)
				}
				if s.asked(c.wantModels) != 1 || s.asked("/tokenize") != 1 {
					t.Errorf("asked %s %d times and /tokenize %d times", c.wantModels, s.asked(c.wantModels), s.asked("/tokenize"))
				}
			})
		})
	}
}

// A key that cannot be a header is the credentials' fault, and the file is named.
func TestKeyThatIsNoHeader(t *testing.T) {
	for name, content := range map[string]string{"several lines": "one\ntwo\n", "a control character": "on\x00e\n"} {
		synctest.Test(t, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key.txt")
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			tg := target()
			tg.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", CredentialsFile: file}
			r := probeOnce(t, &fakeServer{}, tg)
			if r.Reason != ReasonAuth || !strings.Contains(r.Err.Error(), file) {
				t.Errorf("%s: %s", name, outcome(r))
			}
		})
	}
}
