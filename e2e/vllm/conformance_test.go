//go:build vllm

package vllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/llm-prober/llm_prober/internal/recording"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// elsewhere are the recordings of servers that were started otherwise, or that were hurt, by how their names begin.
var elsewhere = []string{"after-kill-", "auth-", "engine-killed-", "hang-", "multi-", "queued-", "rejected-"}

// TestSimulatorAnswersAlike sends the requests of the recordings to a live vLLM and to the simulator: both must
// answer with the same status and the same JSON keys in the same order, event by event. What is compared byte by
// byte, and with the recordings, is in internal/vllmsim.
func TestSimulatorAnswersAlike(t *testing.T) {
	s := startServer(t)
	sim := vllmsim.New(vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true})
	simulated := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		simulated.Close()
		sim.Close()
	})
	for _, name := range recording.Names() {
		// The simulator gives one answer a request; the pages of metrics are the relay's concern.
		if name == "chat-n2" || strings.Contains(name, "metrics") ||
			slices.ContainsFunc(elsewhere, func(begins string) bool { return strings.HasPrefix(name, begins) }) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			rec, err := recording.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			live, like := outline(t, s.url, rec.Request), outline(t, simulated.URL, rec.Request)
			if !slices.Equal(live, like) {
				t.Errorf("vLLM says\n\t%s\nthe simulator\n\t%s", strings.Join(live, "\n\t"), strings.Join(like, "\n\t"))
			}
		})
	}
}

// outline is the status and the content type of an answer, and the keys of each JSON document in it. Like events
// in a row are one: a busy vLLM puts several tokens into one.
func outline(t *testing.T, url string, r recording.Request) []string {
	t.Helper()
	var body io.Reader
	if string(r.Body) != "null" {
		body = bytes.NewReader(r.Body)
	}
	req, err := http.NewRequestWithContext(t.Context(), r.Method, url+r.Path, body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range r.Headers {
		if !slices.Contains([]string{"Host", "Content-Length", "Connection"}, http.CanonicalHeaderKey(name)) {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"))}
	for event := range strings.SplitSeq(string(data), "\n\n") {
		lines = append(lines, keys(strings.TrimPrefix(event, "data: ")))
	}
	return slices.Compact(lines)
}

// keys writes the keys of a JSON document in their order; a text that is none stays as it is.
func keys(doc string) string {
	dec := json.NewDecoder(strings.NewReader(doc))
	if !json.Valid([]byte(doc)) {
		return doc
	}
	var b strings.Builder
	writeKeys(dec, &b)
	return b.String()
}

func writeKeys(dec *json.Decoder, b *strings.Builder) {
	open, ok := first(dec).(json.Delim)
	if !ok {
		return // a plain value
	}
	b.WriteString(open.String())
	before := ""
	for dec.More() {
		if open == '{' {
			fmt.Fprintf(b, "%v:", first(dec))
			writeKeys(dec, b)
			b.WriteByte(' ')
			continue
		}
		var member strings.Builder // lists of like things are as long as they please
		if writeKeys(dec, &member); member.String() != before {
			b.WriteString(member.String())
		}
		before = member.String()
	}
	b.WriteString(first(dec).(json.Delim).String())
}

// first reads the next token of a document that is known to be valid.
func first(dec *json.Decoder) json.Token {
	token, _ := dec.Token()
	return token
}
