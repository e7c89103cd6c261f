//go:build vllm

package vllm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// page is a metrics page: values by series, such as llm_probe_up{target="…"}.
type page map[string]float64

func getPage(t *testing.T, url string) page {
	t.Helper()
	resp := get(t, url)
	defer resp.Body.Close()
	p := page{}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		series, text, _ := cutLast(lines.Text(), " ")
		if series == "" || strings.HasPrefix(series, "#") {
			continue
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: line %q: %v", url, lines.Text(), err)
		}
		p[series] = value
	}
	if err := lines.Err(); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	return p
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// sum adds up the series of a metric that have all the given labels, each written as name="value". It is NaN
// if there is none.
func (p page) sum(name string, labels ...string) float64 {
	total, found := 0.0, false
series:
	for series, value := range p {
		if of, _, _ := strings.Cut(series, "{"); of != name {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue series
			}
		}
		total, found = total+value, true
	}
	if !found {
		return math.NaN()
	}
	return total
}

// growth is how much a metric rose between two pages.
type growth struct{ before, after page }

func (g growth) of(name string, labels ...string) float64 {
	return g.after.sum(name, labels...) - g.before.sum(name, labels...)
}

// mean is the mean of the samples that a histogram or summary took in.
func (g growth) mean(name string) time.Duration {
	return seconds(g.of(name+"_sum") / g.of(name+"_count"))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// millis writes a duration as a table has it.
func millis(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1e3) }

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/plain, application/json;q=0.9")
	return do(t, req)
}

func do(t *testing.T, req *http.Request) *http.Response {
	t.Helper()
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", req.URL, resp.Status)
	}
	return resp
}

func getJSON(t *testing.T, url string, out any) {
	t.Helper()
	resp := get(t, url)
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}

func postJSON(t *testing.T, url, body string, out any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp := do(t, req)
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatalf("%s: %v", url, err)
	}
}
