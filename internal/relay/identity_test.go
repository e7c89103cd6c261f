package relay

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// roundTrip answers requests without a network.
type roundTrip func(*http.Request) *http.Response

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req), nil }

// FuzzIdentity reads answers to who a server is, plain and packed, by every engine: what they come to is bounded text,
// a failure has a reason, and the work is bounded.
func FuzzIdentity(f *testing.F) {
	for _, answers := range [][2]string{
		{vllmModels, `{"version":"0.32.0"}`},
		{`{"data":[{"id":"m","owned_by":"sglang"},{"id":"n"}]}`, `{"version":null,"version":"1"}`},
		{`{"data":[{"id":"m","owned_by":"llamacpp"}]}`, `{"build_info":"b1-` + strings.Repeat("x", 2000) + `"}`},
		{`{"data":` + strings.Repeat("[", 5000), `{"version":` + strings.Repeat(`{"a":`, 5000)},
		{`{"data":[` + strings.Repeat(`{},`, 3000) + `{}]}`, strings.Repeat(`"`, 3000)},
		{`{"data":[{"id":"` + strings.Repeat(`\u202e`, 500) + `","owned_by":"vllm"}]}`, `{"version":"\u001b[31m"}`},
		{`{"data":[{"id":"` + strings.Repeat("m", maxLabelValue) + `","owned_by":"vllm"}]}`, `{"version":"` + strings.Repeat("1", maxLabelValue) + `"}`},
		{`[{"id":"m"}]`, `[]`},
		{strings.Repeat(" ", 5000), ""},
	} {
		f.Add([]byte(answers[0]), []byte(answers[1]), false)
		f.Add([]byte(answers[0]), []byte(answers[1]), true)
		f.Add([]byte(zipped(answers[0])), []byte(zipped(answers[1])), true)
	}
	f.Fuzz(func(t *testing.T, models, version []byte, packed bool) {
		header := http.Header{}
		if packed {
			header.Set("Content-Encoding", "gzip")
		}
		asked := 0
		answer := func(req *http.Request) *http.Response {
			asked++
			body := version
			if strings.HasSuffix(req.URL.Path, "/models") {
				body = models
			}
			return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(bytes.NewReader(body))}
		}
		for _, engine := range Engines() {
			relay, err := New(Config{Registerer: prometheus.NewRegistry(), URL: parseURL(t, "http://server:8000"), Engine: engine})
			if err != nil {
				t.Fatal(err)
			}
			relay.client.http.Transport = roundTrip(answer)
			var id identity
			cputest.Linear(t, min(maxJSON, unpackedSize(models)+unpackedSize(version)), func() { id, err = relay.identify(t.Context()) })
			for _, text := range []string{id.model, id.version} {
				if len(text) > maxLabelValue || !utf8.ValidString(text) {
					t.Errorf("%s: %d bytes: %.60q", engine, len(text), text)
				}
			}
			if known := id.table != nil; known == (err != nil) || engine != EngineAuto && (!known || id.table.engine != engine) {
				t.Errorf("%s: table %v, error %v", engine, id.table, err)
			}
		}
		if most := 2*len(Engines()) + 4; asked > most {
			t.Errorf("%d requests, more than %d", asked, most)
		}
	})
}

// unpackedSize is the size of an answer, unpacked if it can be.
func unpackedSize(body []byte) int {
	unzipped, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return len(body)
	}
	n, _ := io.Copy(io.Discard, io.LimitReader(unzipped, maxJSON)) // as far as it goes
	return len(body) + int(n)
}
