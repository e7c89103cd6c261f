package relay

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The list of models is below the API's path, all else below the root. A Host of the target's own is sent to the
// server alone, not to whoever serves a page elsewhere.
func TestWhereItAsks(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Config)
		want    []string // host and path
		without []string
	}{
		{"by default", nil, []string{"vllm:8000/v1/models", "vllm:8000/metrics", "vllm:8000/health"}, nil},
		{"a path and a host", func(c *Config) { c.APIPath, c.Host = "/v3", "model.example" }, []string{"model.example/v3/models", "model.example/metrics", "model.example/health"}, []string{"model.example/v1/models"}},
		{"a page elsewhere", func(c *Config) {
			c.Host, c.MetricsURL = "model.example", parseURL(t, "http://vllm:9090/metrics")
		}, []string{"vllm:9090/metrics", "model.example/health"}, []string{"model.example/metrics"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var got []string
				start(t, func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					got = append(got, r.Host+r.URL.Path)
					mu.Unlock()
					if r.URL.Path == "/v1/models" || r.URL.Path == "/v3/models" {
						_, _ = w.Write([]byte(`{"data":[{"id":"q","owned_by":"vllm"}]}`))
						return
					}
					text("vllm:num_requests_waiting 4\n")(w, r)
				}, c.change)
				time.Sleep(3 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				for _, want := range c.want {
					if !slices.Contains(got, want) {
						t.Errorf("nobody asked %s, only %v", want, got)
					}
				}
				for _, not := range c.without {
					if slices.Contains(got, not) {
						t.Errorf("%s was asked", not)
					}
				}
			})
		})
	}
}
