package discovery

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// put replaces a file at once, as a program that writes target files should.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestFilesAreFollowed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "targets.yml")
	put(t, path, `[{targets: ["a:1", "b:2"], labels: {site: ams}}]`)
	f := follow(t, filepath.Join(dir, "config.yml"), "target_groups: [{name: files, file_sd_configs: [{files: ['*.yml']}]}]")
	f.until("a:1 http://a:1 map[site:ams]", "b:2 http://b:2 map[site:ams]")
	put(t, path, `[{targets: ["b:2"], labels: {site: fra}}, {targets: ["c:3"], labels: {__scheme__: https}}]`)
	f.until("b:2 http://b:2 map[site:fra]", "c:3 https://c:3 map[]")
	// What cannot be read changes nothing, and is told.
	put(t, path, `[{targets: [`)
	for f.Found()["files"].Sources[0].Err == "" {
		<-f.Changed()
	}
	f.until("b:2 http://b:2 map[site:fra]", "c:3 https://c:3 map[]")
	put(t, path, `[]`)
	f.until()
}

// The address of an HTTP service discovery is a label of all that it finds. Its secrets are shown nowhere.
func TestSecretsOfAnHTTPDiscoveryAreHidden(t *testing.T) {
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "no", http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode([]map[string]any{{"targets": []string{"a:1"}, "labels": map[string]string{"sent": r.Header.Get("X-Key")}}})
	}))
	defer server.Close()
	f := follow(t, "config.yml", `
target_groups:
  - name: web
    http_sd_configs: [{url: "`+strings.Replace(server.URL, "http://", "http://user:SECRET1@", 1)+`/t?token=SECRET2", refresh_interval: 1s, http_headers: {X-Key: {secrets: [SECRET3]}}}]
    relabel_configs: [{action: labeldrop, regex: sent}]`)
	f.until("a:1 http://a:1 map[]")
	groups := Resolve(f.cfg, f.Found(), nil)
	if m := groups[0].Members[0]; strings.Contains(m.Discovered.Get("__meta_url"), "SECRET") || m.Discovered.Get("__meta_url") == "" {
		t.Errorf("labels %s", m.Discovered)
	}
	broken.Store(true)
	for f.Found()["web"].Sources[0].Err == "" {
		<-f.Changed()
	}
	if err := f.Found()["web"].Sources[0].Err; strings.Contains(err, "SECRET") {
		t.Errorf("error %q", err)
	}
}
