package main

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// served is a simulated server on the loopback interface.
type served struct {
	url   string
	asked chan *http.Request // gets each request for a completion
}

// simulator makes a token in 20 ms.
func simulator(t *testing.T, cfg vllmsim.Config) (*vllmsim.Server, *served) {
	t.Helper()
	cfg.Engine = vllmsim.Model{RunningCap: 4, TokenBudget: 8192, KVTokens: 1 << 16, Base: 20 * time.Millisecond}
	sim := vllmsim.New(cfg)
	s := &served{asked: make(chan *http.Request, 100)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/completions") {
			s.asked <- r
		}
		sim.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		sim.Close()
		server.CloseClientConnections()
		server.Close()
	})
	s.url = server.URL
	return sim, s
}

// probeAgain sends probes until one was not disturbed by whatever else the machine does.
func probeAgain(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for range 10 {
		code, stdout, stderr = outcome(t.Context(), append([]string{"probe"}, args...)...)
		if !strings.Contains(stdout, "reader_late") {
			break
		}
	}
	return code, stdout, stderr
}

// masked replaces what differs from run to run.
func masked(text, url string) string {
	text = strings.ReplaceAll(text, url, "URL")
	for _, m := range []struct{ pattern, by string }{
		{`probe-[A-Z0-9]+`, "probe-ID"},
		{`(?m)^ {6,}(up to)? +[0-9.]+ (?:µs|ms|s)  [█ 0-9]*$`, "       $1   # ms  # #"}, // a row of the histogram
		{` *[0-9.]+ (?:µs|ms|s)\b`, " # ms"},
		{` +█+`, ""},
		{`after [0-9]+ bytes`, "after # bytes"},
		{`[0-9.,]+ tokens/s`, "# tokens/s"},
		// What a machine that is busy with something else adds.
		{` (?:# ms|[0-9.]+) to # ms`, " # ms"},
		{`SUSPECT: reader_late\n`, "nothing suspect\n"},
		{`, reader_late`, ""},
	} {
		text = regexp.MustCompile(m.pattern).ReplaceAllString(text, m.by)
	}
	return text
}

// The time line of a good probe, one whose server says little, and one that fails in mid stream.
func TestProbe(t *testing.T) {
	telling := vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true}
	for _, c := range []struct {
		name   string
		server vllmsim.Config
		fault  vllmsim.Fault
		args   []string
		code   int
	}{
		{"good", telling, vllmsim.Fault{}, nil, exitOK},
		{"completions", telling, vllmsim.Fault{}, []string{"--api=completions"}, exitOK},
		{"silent-server", vllmsim.Config{}, vllmsim.Fault{}, nil, exitOK},
		{"reasoning", vllmsim.Config{ReasoningParser: true, ReasoningTokens: 3}, vllmsim.Fault{}, nil, exitOK},
		{"suspect", telling, vllmsim.Fault{Name: vllmsim.ShortOutput, Value: "3"}, nil, exitOK},
		{"in-band-error", telling, vllmsim.Fault{Name: vllmsim.InBandError, Value: "3"}, nil, exitFailed},
		{"overloaded", telling, vllmsim.Fault{Name: vllmsim.Status, Value: "503"}, nil, exitFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim, server := simulator(t, c.server)
			if c.fault.Name != "" {
				if err := sim.SetFault(c.fault); err != nil {
					t.Fatal(err)
				}
			}
			code, stdout, stderr := probeAgain(t, append(c.args, "--output-tokens=24", server.url)...)
			if code != c.code || stderr != "" {
				t.Errorf("it ended with %d, want %d, and said %q", code, c.code, stderr)
			}
			file := filepath.Join("testdata", c.name+".txt")
			got := masked(stdout, server.url)
			goldenfile.Check(t, file, got, *update)
			path := (<-server.asked).URL.Path
			if strings.HasSuffix(path, "/chat/completions") == (c.name == "completions") {
				t.Errorf("it asked %s", path)
			}
		})
	}
}

// The same as JSON: numbers that agree with each other and with the server's model.
func TestProbeJSON(t *testing.T) {
	_, server := simulator(t, vllmsim.Config{PerRequestMetrics: true, PromptTokensDetails: true})
	code, stdout, stderr := probeAgain(t, "--json", "--prompt-tokens=100", "--output-tokens=24", server.url+"/v1")
	if code != exitOK || stderr != "" {
		t.Fatalf("it ended with %d and said %q", code, stderr)
	}
	var got struct {
		Success bool     `json:"success"`
		Suspect []string `json:"suspect"`
		Model   string   `json:"model"`
		Status  int      `json:"http_status"`
		Prompt  int      `json:"prompt_tokens"`
		Cached  *int     `json:"cached_prompt_tokens"`
		Output  int      `json:"output_tokens"`
		Source  string   `json:"token_source"`
		Finish  string   `json:"finish_reason"`
		Sent    time.Time
		First   time.Time `json:"first_token"`
		Last    time.Time `json:"last_token"`
		TTFT    float64   `json:"ttft_seconds"`
		TPOT    float64   `json:"tpot_seconds"`
		All     float64   `json:"duration_seconds"`
		Queue   float64   `json:"server_queue_seconds"`
		Prefill float64   `json:"server_prefill_seconds"`
		Gaps    []float64
	}
	if err := json.Unmarshal([]byte(stdout), &struct {
		Gaps *[]float64 `json:"gaps_seconds"`
	}{&got.Gaps}); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	late := slices.Contains(got.Suspect, "reader_late") // the machine is busy: latencies are withheld, as they should be
	if !got.Success || len(got.Suspect) > 1 || len(got.Suspect) == 1 && !late || got.Model != "tiny" || got.Status != 200 || got.Finish != "length" {
		t.Errorf("no plain success:\n%s", stdout)
	}
	if got.Prompt != 100 || got.Cached == nil || *got.Cached != 0 || got.Output != 24 || got.Source != "usage" || len(got.Gaps) != 23 {
		t.Errorf("prompt %d, cached %v, output %d (%s), %d gaps; want 100, 0, 24 (usage), 23", got.Prompt, got.Cached, got.Output, got.Source, len(got.Gaps))
	}
	if late {
		return
	}
	sum := 0.0
	for _, gap := range got.Gaps {
		sum += gap
	}
	first, last := got.First.Sub(got.Sent).Seconds(), got.Last.Sub(got.Sent).Seconds()
	agree := func(a, b float64) bool { return math.Abs(a-b) < 20e-6 } // each of 23 gaps is rounded to a microsecond
	if !agree(got.TTFT, first) || !agree(got.All, last) || !agree(last-first, sum) || !agree(got.TPOT, sum/23) {
		t.Errorf("TTFT %v and first token %v, duration %v and last token %v, gaps %v and TPOT %v do not agree", got.TTFT, first, got.All, last, sum, got.TPOT)
	}
	// A busy machine makes everything later, never earlier.
	if got.Prefill < 0.019 || got.TTFT < got.Queue+got.Prefill || got.TPOT < 0.019 {
		t.Errorf("queue %v and prefill %v of TTFT %v, TPOT %v; the server's model takes 20 ms for each step", got.Queue, got.Prefill, got.TTFT, got.TPOT)
	}
}

func TestProbeFails(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		server.Close()
		code, stdout, stderr := outcome(t.Context(), "probe", server.URL)
		if code != exitFailed || stderr != "" || !strings.Contains(stdout, "FAILED (connect): ") || !strings.Contains(stdout, "connection refused") {
			t.Errorf("it ended with %d and said %q, %q", code, stdout, stderr)
		}
	})
	t.Run("timeout", func(t *testing.T) {
		sim, server := simulator(t, vllmsim.Config{})
		if err := sim.SetFault(vllmsim.Fault{Name: vllmsim.Hang}); err != nil {
			t.Fatal(err)
		}
		code, stdout, _ := outcome(t.Context(), "probe", server.url, "--timeout=1s", "--json")
		var got struct {
			Success       bool
			Reason, Error string
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitFailed || got.Success || got.Reason != "timeout" || !strings.HasSuffix(got.Error, "deadline exceeded: no end after 1s") {
			t.Errorf("it ended with %d and said (%v) %s", code, err, stdout)
		}
	})
	t.Run("too long for the model", func(t *testing.T) {
		_, server := simulator(t, vllmsim.Config{})
		code, stdout, stderr := outcome(t.Context(), "probe", server.url, "--prompt-tokens=5000")
		if code != exitFailed || stderr != "" || !strings.Contains(stdout, `NOT SENT: prompt_tokens 5000 and output_tokens 128 are 5128 together; model "tiny" takes at most 4096`) {
			t.Errorf("it ended with %d and said %q, %q", code, stdout, stderr)
		}
	})
}

// The key comes from a file, opens the door, and is nowhere to be seen.
func TestProbeAPIKey(t *testing.T) {
	_, server := simulator(t, vllmsim.Config{APIKey: "sk-secret"})
	right, wrong := filepath.Join(t.TempDir(), "right"), filepath.Join(t.TempDir(), "wrong")
	for file, key := range map[string]string{right: "sk-secret\n", wrong: "sk-wrong\n"} {
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"none", nil, exitFailed, "FAILED (auth): "},
		{"wrong", []string{"--api-key-file=" + wrong}, exitFailed, "FAILED (auth): "},
		{"missing file", []string{"--api-key-file=" + right + "-not"}, exitFailed, "FAILED (auth): "},
		{"right", []string{"--api-key-file=" + right}, exitOK, "8 of 8 asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := probeAgain(t, append(c.args, "--output-tokens=8", "--verbose", server.url)...)
			if code != c.code || !strings.Contains(stdout, c.want) || strings.Contains(stdout+stderr, "sk-") {
				t.Errorf("it ended with %d and said\n%s\n%s", code, stdout, stderr)
			}
		})
	}
}
