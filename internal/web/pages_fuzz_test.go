//go:build unix

package web

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// FuzzPages: whatever is asked of the pages is answered in bounded time, and nothing of it becomes markup.
func FuzzPages(f *testing.F) {
	paths := []string{"/", "/probe", "/api/v1/targets", "/api/v1/results", "/config", "/discovery", "/api/v1/discovery"}
	for _, query := range []string{
		"", "target=t&id=ok-1", "target=t&id=flying-1", "target=t&workload=chat-512-128&limit=1", "limit=-1", "limit=99999999999999999999", "limit=1e9",
		"state=down", "group=%3Cscript%3Ealert(1)%3C/script%3E", "group=%E2%80%AE", "target=%3Cscript%3Ealert(1)%3C/script%3E", "target=t&id=<b onload=x>", "%zz", "target=%ff%00&id=%E2%80%AE", strings.Repeat("target=t&", 5000), "a;b",
	} {
		for i := range paths {
			f.Add(i, query, "text/html")
		}
	}
	f.Add(0, "", "application/json;q=1e999, */*;q=-1")
	page := small(time.Now())
	handler := page.handler()
	f.Fuzz(func(t *testing.T, i int, query, accept string) {
		path := paths[max(0, i%len(paths))]
		cputest.Linear(t, len(query)+len(accept), func() {
			r := httptest.NewRequest("GET", path, nil)
			r.URL.RawQuery = query
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			body := w.Body.String()
			if w.Code >= 500 {
				t.Errorf("%s?%s: status %d", path, query, w.Code)
			}
			html := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html")
			for _, markup := range []string{"<script>alert", "<b onload"} {
				if html && strings.Contains(body, markup) {
					t.Errorf("%s?%s: %q is on the page", path, query, markup)
				}
			}
			if strings.ContainsAny(body, "\x00\u202e") {
				t.Errorf("%s?%s: the answer has control characters", path, query)
			}
		})
	})
}
