package httpclient

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	promconfig "github.com/prometheus/common/config"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// A server of tokens that repeats what it was sent: the client secret of a file is not shown, also when the file is
// another by then.
func TestClientSecretOfAFileIsHidden(t *testing.T) {
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "unknown client, secret "+secret+", body "+string(body))
	}))
	defer tokens.Close()
	file := filepath.Join(t.TempDir(), "secret")
	rt, err := New(promconfig.HTTPClientConfig{OAuth2: &promconfig.OAuth2{ClientID: "c", ClientSecretFile: file, TokenURL: tokens.URL}},
		"test", (&net.Dialer{}).DialContext, promconfig.WithKeepAlivesDisabled())
	if err != nil {
		t.Fatal(err)
	}
	var secrets scrub.Secrets
	ctx := secrets.Trace(t.Context())
	if err := get(ctx, rt, "http://127.0.0.1:9"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is missing: %v", err)
	}
	for _, secret := range []string{"first-SECRET", "second-SECRET"} {
		if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := get(ctx, rt, "http://127.0.0.1:9")
		if err == nil || !strings.Contains(err.Error(), secret) {
			t.Fatalf("the server of tokens does not repeat the secret: %v", err)
		}
		if shown := secrets.Error(err).Error(); strings.Contains(shown, "SECRET") || !strings.Contains(shown, "unknown client") {
			t.Errorf("shown: %s", shown)
		}
	}
}
