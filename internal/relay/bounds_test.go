package relay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/histogram"
)

// stepsPerByte bounds the work on a page, whatever is on it. The dearest is a label that is compared with all before
// it in its line: five bytes and up to maxLabels comparisons.
const stepsPerByte = 1 + maxLabels/5

// hostilePages are pages of about n bytes, each of a way to make the reading of them dear.
func hostilePages(n int) map[string]string {
	fill := func(head string, one func(i int) string, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < n; i++ {
			b.WriteString(one(i))
		}
		return b.String() + tail
	}
	text := func(s string) func(int) string { return func(int) string { return s } }
	return map[string]string{
		"labels in one line":                  fill("vllm:num_requests_running{", func(i int) string { return fmt.Sprintf(`l%d="",`, i) }, "} 1\n"),
		"lines of as many labels as are read": fill("", text("a{"+manyLabels(maxLabels)+"} 1\n"), ""),
		"one series by a label of no interest": fill("", func(i int) string {
			return fmt.Sprintf("vllm:num_requests_running{model_name=\"m\",x=\"%d\"} 1\n", i)
		}, ""),
		"the same sample":  fill("", text("vllm:num_requests_running{model_name=\"m\"} 1\n"), ""),
		"series":           fill("", func(i int) string { return fmt.Sprintf("vllm:num_requests_running{engine=\"%d\"} 1\n", i) }, ""),
		"engines in infos": fill("", func(i int) string { return fmt.Sprintf("vllm:cache_config_info{engine=\"%d\"} 1\n", i) }, ""),
		"families":         fill("", func(i int) string { return fmt.Sprintf("f%d 1\n", i) }, ""),
		"one name":         fill("", text("n"), " 1\n"),
		"names":            fill("", func(i int) string { return fmt.Sprintf("%s%d 1\n", strings.Repeat("n", 1000), i) }, ""),
		"label names":      fill("", func(i int) string { return fmt.Sprintf("a{%s%d=\"\"} 1\n", strings.Repeat("n", 1000), i) }, ""),
		"help":             fill("# HELP a ", text("help "), "\na 1\n"),
		"comments":         fill("", text("#\n"), ""),
		"empty lines":      fill("", text("\n"), ""),
		"carriage returns": fill("", text("\r"), "\n"),
		"blanks":           fill("a", text(" "), "1\n"),
		"one label value":  fill("vllm:num_requests_running{x=\"", text("v"), "\"} 1\n"),
		"escapes":          fill("vllm:num_requests_running{x=\"", text("\\\""), "\"} 1\n"),
		"quotes":           fill("vllm:num_requests_running{x=\"", text("\","), "} 1\n"),
		"digits":           fill("a ", text("9"), "\n"),
		"digits in values": fill("", text("a "+strings.Repeat("9", 1000)+"e-999\n"), ""),
		"digits in stamps": fill("a 1 ", text("9"), "\n"),
		"no line feed":     fill("", text("x"), ""),
		"braces":           fill("", text("{"), "\n"),
		"exemplars":        fill("", text("a 1 # {"+manyLabels(maxLabels)+"} 1\n"), "# EOF\n"),
	}
}

func manyLabels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `%c%c="",`, 'a'+i/26, 'a'+i%26)
	}
	return b.String()
}

// readText reads a page of an engine, whose model is "m" where the page has none.
func readText(page *pageReader, table *engineTable, text string) (*reading, error) {
	return page.read(strings.NewReader(text), "", "m", table, false)
}

// The work on a page is at most a multiple of its size.
func TestPageWorkIsLinear(t *testing.T) {
	for _, size := range []int{50_000, 400_000} {
		for name, text := range hostilePages(size) {
			page := newPageReader()
			_, err := readText(page, engineByName(EngineVLLM), text)
			if steps := page.scanner.steps; steps > stepsPerByte*len(text) || steps < len(text) {
				t.Errorf("%s: %d steps for %d bytes (%v)", name, steps, len(text), err)
			}
			if kept := len(page.texts) + len(page.sums[familyRunning][0]); kept > 6*maxSeries {
				t.Errorf("%s: %d series and texts are kept", name, kept)
			}
		}
	}
}

// What a hostile page comes to.
func TestPageBounds(t *testing.T) {
	pages := hostilePages(1_000_000)
	sum := strings.Count(pages["one series by a label of no interest"], "\n")
	tests := []struct {
		page string
		want string // running/dropped, or the error
	}{
		{pages["labels in one line"], "the page is out of bounds: line 1: it has more labels than are read"},
		{"a{" + manyLabels(maxLabels+1) + "} 1\n", "the page is out of bounds: line 1: it has more labels than are read"},
		{"vllm:num_requests_running{" + manyLabels(maxLabels) + "} 1\n", "1/0"},
		{strings.Repeat("a 1\n", maxSamples), "/0"},
		{strings.Repeat("a 1\n", maxSamples+1), "the page is out of bounds: line 250001: more samples than are read"},
		{strings.Repeat("vllm:a 1\nvllm:num_requests_running 1\n", maxWanted), fmt.Sprintf("1/%d", maxWanted-1)},
		{strings.Repeat("vllm:num_requests_running 1\n", maxWanted+1), "the page is out of bounds: line 30001: more samples than are read"},
		{pages["one series by a label of no interest"], fmt.Sprintf("%d/0", sum)},
		{pages["the same sample"], fmt.Sprintf("1/%d", strings.Count(pages["the same sample"], "\n")-1)},
		{pages["series"], fmt.Sprintf("/%d", strings.Count(pages["series"], "\n")-maxSeries)},
		{pages["help"], "/0"},
		{pages["one label value"], "1/1"},
		{pages["no line feed"], "line 1: the page is cut off in this line"},
	}
	for _, tt := range tests {
		reading, err := readText(newPageReader(), engineByName(EngineVLLM), tt.page)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			if running, known := reading.total(familyRunning); known {
				got = fmt.Sprint(running)
			}
			got += fmt.Sprint("/", reading.dropped)
		}
		if got != tt.want {
			t.Errorf("%.40q: %s, want %s", tt.page, got, tt.want)
		}
	}
}

func zipped(parts ...string) string {
	var b bytes.Buffer
	for _, p := range parts {
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, p)
		_ = z.Close()
	}
	return b.String()
}

// stored is a text in the form of gzip, but as it is.
func stored(text string) string {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.NoCompression) // the level is known
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// Servers that would take a core: each is a failure with its reason, told once, and they are asked less often the
// more their pages cost. /health says what it says all the while.
func TestHostilePages(t *testing.T) {
	gzipped := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, body)
		}
	}
	endless := func(text string, pause time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			for req.Context().Err() == nil {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
				if pause > 0 {
					_ = http.NewResponseController(w).Flush()
					select {
					case <-time.After(pause):
					case <-req.Context().Done():
					}
				}
			}
		}
	}
	header := func(w http.ResponseWriter, _ *http.Request) {
		for i := range 30_000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), "0")
		}
	}
	upgrade := func(w http.ResponseWriter, req *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the relay closes it
		_ = conn.Close()
	}
	trickle := func(w http.ResponseWriter, req *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		closed := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			close(closed)
		}()
		for _, c := range "HTTP/1.1 200 OK\r\nContent-Type: text/plain" {
			if _, err := io.WriteString(conn, string(c)); err != nil {
				break
			}
			select {
			case <-time.After(time.Second):
			case <-closed:
			}
		}
		<-closed
	}
	pages := hostilePages(1 << 20)
	tests := []struct {
		name   string
		page   http.HandlerFunc
		reason string
		most   int64 // requests in 12 s
	}{
		{"labels in one line", text(pages["labels in one line"]), "too_large", 12},
		{"samples", text(strings.Repeat("a 1\n", maxSamples+1)), "too_large", 12},
		{"endless page", endless(strings.Repeat("#", 1<<20)+"\n", 0), "too_large", 7},
		{"endless line", endless(strings.Repeat("x", 1<<20), 0), "too_large", 7},
		{"endless page, a byte a second", endless("#", time.Second), "timeout", 4},
		{"no line feed", text(pages["no line feed"]), "parse", 12},
		{"bomb", gzipped(zipped(strings.Repeat("#\n", maxPage))), "too_large", 12},
		{"packed and too large", gzipped(stored(strings.Repeat("#\n", maxPacked/2))), "too_large", 12},
		{"50,000 empty members", gzipped(strings.Repeat(zipped(""), 50_000) + "x"), "parse", 12},
		{"headers", header, "too_large", 12},
		{"another protocol", upgrade, "http_status", 12},
		{"headers that trickle", trickle, "timeout", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				w := start(t, vllm(func(rw http.ResponseWriter, req *http.Request) {
					asked.Add(1)
					tt.page(rw, req)
				}), nil)
				w.pass(12)
				failures := w.failures()
				if failures[tt.reason] == "" || len(failures) != 1 {
					t.Errorf("failures: %v\n%s", failures, w.logs)
				}
				w.has(map[string]string{"up": "0", "healthy": "1"})
				if got := asked.Load(); got > tt.most || got < 2 {
					t.Errorf("asked %d times", got)
				}
				if n := strings.Count(w.logs.String(), "cannot be read"); n != 1 {
					t.Errorf("told %d times:\n%s", n, w.logs)
				}
			})
		})
	}
}

// The relay rests twenty times as long as its work took.
func TestRest(t *testing.T) {
	tests := []struct {
		work  time.Duration
		bytes int64
		want  time.Duration
	}{
		{0, 0, 0},
		{300 * time.Microsecond, 60_000, 12 * time.Millisecond}, // a page of vLLM: no sample falls out
		{time.Hour, 60_000, 366 * time.Millisecond},             // the same, while the machine stood still
		{100 * time.Millisecond, 16_000_000, 3600 * time.Millisecond},
		{time.Second, 16_000_000, 21600 * time.Millisecond},
	}
	for _, tt := range tests {
		if got := restAfter(tt.work, tt.bytes); got != tt.want {
			t.Errorf("after %v and %d bytes: %v, want %v", tt.work, tt.bytes, got, tt.want)
		}
	}
}

// A page that is large but good is shown until the next, though that comes late.
func TestLargePageIsShownThroughout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := runningPage + "# " + strings.Repeat("x", 12<<20) + "\n"
		w := start(t, vllm(text(page)), func(cfg *Config) { cfg.Interval = 200 * time.Millisecond })
		w.pass(5)
		for range 30 {
			w.pass(1)
			w.has(map[string]string{"up": "1", "requests_running{0,m}": "3"})
		}
		if n := strings.Count(w.logs.String(), "costs too much to be read at every interval"); n != 1 {
			t.Errorf("told %d times:\n%s", n, w.logs)
		}
	})
}

// Reading ends with the context, also in the middle of what is there.
func TestReadingEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, limit := range map[string]int{"whole": 5, "ended in the middle": 2} {
			ctx, cancel := context.WithCancel(t.Context())
			began, pacer := time.Now(), &pacer{ctx: ctx}
			body := &pacedReader{r: strings.NewReader(strings.Repeat("a 1\n", strideBytes)), pacer: pacer, limit: maxPage}
			time.AfterFunc(time.Duration(limit)*pauseTime-pauseTime/2, cancel)
			_, err := newPageReader().read(body, "", "m", nil, false)
			if took := time.Since(began); took > time.Duration(limit)*pauseTime || errors.Is(err, context.Canceled) != (limit < 5) {
				t.Errorf("%s: %v after %v", name, err, took)
			}
			cancel()
		}
	})
}

// Relays that share large pages read on in them one at a time, and only there.
func TestLargePagesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := func(pages *LargePages, size int) {
			text := strings.Repeat("#"+strings.Repeat(" ", 62)+"\n", size/64)
			pacer := &pacer{ctx: t.Context(), pages: pages}
			defer pacer.end()
			body := &pacedReader{r: strings.NewReader(text), pacer: pacer, limit: maxPage}
			if _, err := newPageReader().read(body, "", "m", nil, false); err != nil {
				t.Error(err)
			}
		}
		took := func(relays, size int) time.Duration {
			began, pages := time.Now(), NewLargePages()
			var all sync.WaitGroup
			for range relays {
				all.Go(func() { read(pages, size) })
			}
			all.Wait()
			if len(pages.turn) != 0 {
				t.Error("the turn was not given back")
			}
			return time.Since(began)
		}
		const all, alone = maxPage / strideBytes, largePage / strideBytes // pauses
		if got := took(1, maxPage); got != all*pauseTime {
			t.Errorf("one takes %v", got)
		}
		if got, want := took(10, maxPage), (alone+10*(all-alone))*pauseTime; got != want {
			t.Errorf("ten take %v, want %v", got, want)
		}
		if got := took(10, largePage); got != alone*pauseTime {
			t.Errorf("ten that are not large take %v", got)
		}
	})
}

// Numbers that no server can mean are no samples: the series goes, never a part of its sum, and it is counted.
func TestImplausibleNumbers(t *testing.T) {
	tests := []struct {
		name, page string
		want       map[string]string
	}{
		{"not a number", "vllm:num_requests_running NaN", map[string]string{"dropped": "1"}},
		{"infinite", "vllm:num_requests_running +Inf", map[string]string{"dropped": "1"}},
		{"below zero", "vllm:num_requests_waiting -1", map[string]string{"dropped": "1"}},
		{"-1.7e308", "vllm:num_requests_waiting -1.7e308", map[string]string{"dropped": "1"}},
		{"a counter that cannot count", "vllm:prompt_tokens_total 9007199254740994", map[string]string{"dropped": "1"}},
		{"the largest counter", "vllm:prompt_tokens_total 9007199254740992", map[string]string{"prompt_tokens_total{0,m}": "9.007199254740992e+15"}},
		{"a ratio above one", "vllm:kv_cache_usage_perc 42", map[string]string{"dropped": "1"}},
		{"a full cache", "vllm:kv_cache_usage_perc 1", map[string]string{"kv_cache_usage_ratio{0,m}": "1"}},
		{
			"one part of a sum", "vllm:prompt_tokens_total{server=\"a\"} NaN\nvllm:prompt_tokens_total{server=\"b\"} 5\nvllm:prompt_tokens_total{engine=\"1\"} 7",
			map[string]string{"prompt_tokens_total{1,m}": "7", "dropped": "1"},
		},
		{
			"a sum of a summary", "vllm:time_to_first_token_seconds_sum NaN\nvllm:time_to_first_token_seconds_count 5",
			map[string]string{"dropped": "1"},
		},
		{
			"a count of a summary", "vllm:time_to_first_token_seconds_sum 5\nvllm:time_to_first_token_seconds_count -5",
			map[string]string{"dropped": "1"},
		},
		{"half a summary", "vllm:time_to_first_token_seconds_sum 5", map[string]string{}},
		{
			"parts that add up to more than can be counted", "vllm:prompt_tokens_total{server=\"a\"} 9e15\nvllm:prompt_tokens_total{server=\"b\"} 9e15", map[string]string{},
		},
		{"a start that is none", "process_start_time_seconds -Inf", map[string]string{"dropped": "1"}},
		{"timestamps mean nothing", "vllm:num_requests_running 1 -9223372036854775808", map[string]string{"requests_running{0,m}": "1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readText(newPageReader(), engineByName(EngineVLLM), tt.page+"\n")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, flat(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
	got, err := readText(newPageReader(), engineByName(EngineSGLang), "sglang:page_size NaN\nsglang:max_total_num_tokens 1e308\n")
	if err != nil || len(got.info) != 0 || got.dropped != 2 {
		t.Errorf("infos of numbers that cannot be: %+v %v", got, err)
	}
}

// One wrong number among good ones leaves what was summed so far as it was, and is no restart.
func TestSumsStayFinite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := func(waiting, tokens string) http.HandlerFunc {
			return text(fmt.Sprintf("vllm:num_requests_waiting{model_name=\"m\"} %s\nvllm:prompt_tokens_total{model_name=\"m\"} %s\n", waiting, tokens))
		}
		w := start(t, vllm(turns(page("4", "10"), page("NaN", "NaN"), page("-1e308", "-1"), page("1e308", "1e308"), page("3", "20"))), nil)
		w.pass(1)
		w.has(map[string]string{"up": "1", "requests_waiting{0,m}": "4", "prompt_tokens_total{0,m}": "10", "requests_waiting_sampled": "4/1", "dropped_samples_total": "0"})
		for _, dropped := range []string{"2", "4", "6"} {
			w.pass(1)
			w.has(map[string]string{"up": "1", "requests_waiting{0,m}": "", "prompt_tokens_total{0,m}": "", "requests_waiting_sampled": "4/1", "dropped_samples_total": dropped})
		}
		if last := w.relay.Last(); last.Waiting != nil || last.PromptTokens != nil {
			t.Errorf("numbers that cannot be are known: %+v", last)
		}
		w.pass(10)
		w.has(map[string]string{"requests_waiting{0,m}": "3", "prompt_tokens_total{0,m}": "20", "requests_waiting_sampled": "34/11", "dropped_samples_total": "6"})
		if n := strings.Count(w.logs.String(), `left_out="values that cannot be"`); n != 1 || w.restarts.Load() != 0 {
			t.Errorf("told %d times, %d restarts:\n%s", n, w.restarts.Load(), w.logs)
		}
	})
}

// A server that was started in the future was not: by more than clocks differ.
func TestStartInTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := int(time.Now().Unix())
		w := start(t, vllm(turns(startedAt(now+3600, 1), startedAt(now+2*86400, 2))), nil)
		w.pass(1)
		w.has(map[string]string{"start_time_seconds": fmt.Sprint(float64(now + 3600)), "dropped_samples_total": "0"})
		w.pass(5)
		w.has(map[string]string{"up": "1", "start_time_seconds": "", "dropped_samples_total": "5", "generation_tokens_total{0,m}": "2"})
		if w.restarts.Load() != 0 {
			t.Errorf("%d restarts", w.restarts.Load())
		}
	})
}

// FuzzPage reads whole pages of every engine: the work on them is bounded, and what they come to is plausible.
func FuzzPage(f *testing.F) {
	for _, page := range hostilePages(2000) {
		f.Add([]byte(page))
	}
	for _, page := range []string{
		"vllm:num_requests_running{server=\"a\"} 7\nvllm:num_requests_running{server=\"b\"} 5\n",
		"vllm:kv_cache_usage_perc 2\nvllm:time_to_first_token_seconds_sum NaN\nvllm:time_to_first_token_seconds_count 1e300\n",
		"sglang:num_running_reqs{tp_rank=\"1\"} 9\nsglang:num_running_reqs{tp_rank=\"0\"} -3\nsglang:page_size 1e308\n",
		"llamacpp:prompt_tokens_total 100\nllamacpp:prompt_tokens_cached_total +Inf\nprocess_start_time_seconds 1e300\n",
	} {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, table := range append(engineTables(), &engineTable{}) {
			page := newPageReader()
			reading, err := readText(page, table, string(text))
			if steps := page.scanner.steps; steps > stepsPerByte*len(text) {
				t.Errorf("%s: %d steps for %d bytes", table.engine, steps, len(text))
			}
			if err != nil {
				continue
			}
			for f, series := range reading.families {
				sum, _ := reading.total(family(f))
				if len(series) > maxSeries || math.IsNaN(sum) || math.IsInf(sum, 0) || sum < 0 {
					t.Errorf("%s: %s: %d series, sum %v", table.engine, family(f).spec().name, len(series), sum)
				}
				for _, s := range series {
					constMetric(newMetrics(&Relay{}, nil, histogram.Both).families[f], family(f).spec().kind, s)
				}
			}
		}
	})
}
