package prober

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzStatusFailure: whatever a server refuses with, the failure has a reason of the list and a text that is short and
// fit to be shown, and finding it takes memory in proportion to the body.
func FuzzStatusFailure(f *testing.F) {
	for _, body := range []string{
		"", `{"error":{"message":"no"}}`, `{"error":"no"}`, `{"message":["a"]}`, `{"detail":[{"loc":["body","x"],"msg":"m"}]}`, "<h1>\u202e</h1>", "\xff\x00\x1b[31m",
		strings.Repeat("[", 3000), `{"error":` + strings.Repeat(`{"error":`, 1000), `{"error":{"param":"model","code":1e999}}`,
	} {
		f.Add(404, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		for _, body := range []string{body, strings.Repeat(body, 1+(64<<10)/(len(body)+1))} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := statusFailure(status, "m", body)
			runtime.ReadMemStats(&after)
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20+uint64(50*len(body)) {
				t.Errorf("%d kB allocated for %d bytes", allocated>>10, len(body))
			}
			failed, ok := err.(*failure)
			if !ok || !slices.Contains(Reasons(), failed.reason) {
				t.Fatalf("%#v is no failure with a reason", err)
			}
			text := failed.Error()
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxMessage+100 || strings.ContainsAny(text, "\x00\x1b\u202e\u2066") {
				t.Errorf("the text is %q", text)
			}
		}
	})
}
