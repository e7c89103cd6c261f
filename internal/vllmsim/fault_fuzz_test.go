//go:build unix

package vllmsim

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// FuzzFault: whatever is asked of /sim/fault, in the query or in the body, is a fault that is known or is refused.
func FuzzFault(f *testing.F) {
	for _, seed := range []string{
		"name=hang", "name=delay&value=1e300s", "name=status&value=-1", "name=status&value=99999999999999999999", "name=slow&value=NaN", "name=slow&value=-Inf",
		"name=%00&value=%ff", "name=hang;value=1", strings.Repeat("name=hang&", 10_000), "value=" + strings.Repeat("9", 100_000),
	} {
		f.Add("POST", seed)
		f.Add("GET", seed)
		f.Add("DELETE", seed)
	}
	f.Fuzz(func(t *testing.T, method, form string) {
		if method != "POST" && method != "DELETE" {
			method = "GET"
		}
		s := New(Config{})
		defer s.Close()
		known := len(s.Faults())
		cputest.Linear(t, len(form), func() {
			r := httptest.NewRequest(method, "/sim/fault", strings.NewReader(form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			s.Handler().ServeHTTP(httptest.NewRecorder(), r)
			r = httptest.NewRequest(method, "/sim/fault", nil)
			r.URL.RawQuery = form
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if w.Code >= 500 || method != "POST" && len(s.Faults()) != known {
				t.Errorf("%s %q: status %d, faults %v", method, form, w.Code, s.Faults())
			}
		})
	})
}
