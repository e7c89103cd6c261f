package relay

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/llm-prober/llm_prober/internal/cputest"
	"github.com/llm-prober/llm_prober/internal/recording"
)

// samples is what a page says: "name{a=\"b\"}" to its values, in the order of the page.
type samples map[string][]float64

// scanAll reads a page with the scanner under test.
func scanAll(page []byte, openMetrics bool, names ...string) (samples, error) {
	want := map[string]int{}
	for i, name := range names {
		want[name] = i
	}
	got := samples{}
	scanner := scanner{want: want}
	err := scanner.scan(bytes.NewReader(page), openMetrics, func(i int, labels []label, value float64) {
		pairs := map[string]string{}
		for _, l := range labels {
			pairs[string(l.name)] = string(l.value)
		}
		key := seriesKey(names[i], pairs)
		got[key] = append(got[key], value)
	})
	return got, err
}

func seriesKey(name string, labels map[string]string) string {
	var b strings.Builder
	for i, label := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", label, labels[label])
	}
	return name + "{" + b.String() + "}"
}

// fromExpfmt reads the same with prometheus/common.
func fromExpfmt(families map[string]*dto.MetricFamily, names ...string) samples {
	got := samples{}
	add := func(name string, m *dto.Metric, value float64) {
		if !slices.Contains(names, name) {
			return
		}
		pairs := map[string]string{}
		for _, l := range m.Label {
			pairs[l.GetName()] = l.GetValue()
		}
		key := seriesKey(name, pairs)
		got[key] = append(got[key], value)
	}
	for name, f := range families {
		for _, m := range f.Metric {
			switch {
			case m.Gauge != nil:
				add(name, m, m.Gauge.GetValue())
			case m.Counter != nil:
				add(name, m, m.Counter.GetValue())
			case m.Untyped != nil:
				add(name, m, m.Untyped.GetValue())
			case m.Histogram != nil:
				add(name+"_sum", m, m.Histogram.GetSampleSum())
				add(name+"_count", m, float64(m.Histogram.GetSampleCount()))
			}
		}
	}
	return got
}

var recordedNames = []string{
	"process_start_time_seconds",
	"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "vllm:cache_config_info",
	"vllm:num_preemptions_total", "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
	"vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total", "vllm:prompt_tokens_by_source_total",
	"vllm:time_to_first_token_seconds_sum", "vllm:time_to_first_token_seconds_count",
	"vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count",
	"vllm:request_prefill_time_seconds_sum", "vllm:request_prefill_time_seconds_count",
}

// recordedPages are the recorded metrics pages of a real vLLM.
func recordedPages(t testing.TB) map[string][]byte {
	pages := map[string][]byte{}
	for _, name := range recording.Names() {
		r, err := recording.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if r.Request.Path != "/metrics" {
			continue
		}
		if pages[name], err = r.Body(); err != nil {
			t.Fatal(err)
		}
	}
	if len(pages) < 8 {
		t.Fatalf("only %d recorded pages", len(pages))
	}
	return pages
}

func TestExpositionAgreesWithExpfmtOnRecordedPages(t *testing.T) {
	for name, page := range recordedPages(t) {
		t.Run(name, func(t *testing.T) {
			parser := expfmt.NewTextParser(model.UTF8Validation)
			families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
			if err != nil {
				t.Fatal(err)
			}
			want := fromExpfmt(families, recordedNames...)
			got, err := scanAll(page, false, recordedNames...)
			if err != nil {
				t.Fatal(err)
			}
			if len(want) < 11 { // those of multi-process mode before the first step
				t.Errorf("expfmt finds only %d samples", len(want))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the scanner (+) differs from expfmt (-):\n%s", diff)
			}
		})
	}
}

func TestExpositionReads(t *testing.T) {
	const om = true
	tests := []struct {
		name        string
		page        string
		openMetrics bool
		want        samples
	}{
		{name: "empty page", page: "", want: samples{}},
		{name: "comments only", page: "# HELP a x\n# TYPE a gauge\n#\n\n", want: samples{}},
		{name: "no labels", page: "a 1\n", want: samples{"a{}": {1}}},
		{name: "empty labels", page: "a{} 1\n", want: samples{"a{}": {1}}},
		{name: "trailing comma", page: "a{x=\"1\",} 1\n", want: samples{`a{x="1"}`: {1}}},
		{name: "blanks everywhere", page: " a { x = \"1\" , y = \"2\" }\t 1 \n", want: samples{`a{x="1",y="2"}`: {1}}},
		{name: "no blank after the brace", page: "a{x=\"1\"}2\n", want: samples{`a{x="1"}`: {2}}},
		{name: "escapes", page: "a{x=\"C:\\\\q\\\"8\\\"\\nfast\"} 1\n", want: samples{`a{x="C:\\q\"8\"\nfast"}`: {1}}},
		{name: "two escaped values do not mix", page: "a{x=\"\\\\1\",y=\"\\\\2\"} 1\n", want: samples{`a{x="\\1",y="\\2"}`: {1}}},
		{name: "braces and commas in a value", page: "a{x=\"},{\"} 1\n", want: samples{`a{x="},{"}`: {1}}},
		{name: "longer names are others", page: "ab 1\na_by 2\na:c 3\na 4\n", want: samples{"a{}": {4}}},
		{name: "values of Python", page: "a 6.0\nb 1.79596686645e+09\n", want: samples{"a{}": {6}, "b{}": {1795966866.45}}},
		{name: "infinities", page: "a +Inf\nb -Inf\n", want: samples{"a{}": {math.Inf(1)}, "b{}": {math.Inf(-1)}}},
		{name: "not a number", page: "a NaN\n", want: samples{"a{}": {math.NaN()}}},
		{name: "timestamp", page: "a 1 1395066363000\nb 2 -3\n", want: samples{"a{}": {1}, "b{}": {2}}},
		{name: "carriage returns", page: "# TYPE a gauge\r\na 3\r\nb{x=\"1\"} 4\r\n", want: samples{"a{}": {3}, `b{x="1"}`: {4}}},
		{name: "byte order mark", page: "\xEF\xBB\xBFa 1\n", want: samples{"a{}": {1}}},
		{name: "repeated samples", page: "a 1\na 2\n", want: samples{"a{}": {1, 2}}},
		{name: "quoted name", page: "{\"a\",x=\"1\"} 1\n{\"a\"} 2\n", want: samples{`a{x="1"}`: {1}, "a{}": {2}}},
		{name: "quoted label name", page: "a{\"x.y\"=\"1\"} 1\n", want: samples{`a{x.y="1"}`: {1}}},
		{name: "eof is a comment in text", page: "# EOF\na 1\n", want: samples{"a{}": {1}}},

		{name: "openmetrics", page: "# TYPE a counter\na_total 5.0 1520879607.789\na 1\n# EOF\n", openMetrics: om, want: samples{"a{}": {1}}},
		{name: "openmetrics by its body", page: "a 1 1520879607.789\n# EOF\n", want: samples{"a{}": {1}}},
		{name: "openmetrics without last line feed", page: "a 1\n# EOF", openMetrics: om, want: samples{"a{}": {1}}},
		{
			name: "exemplars", openMetrics: om,
			page: "b{le=\"1.0\"} 2 # {trace_id=\"x\"} 0.5\nb{le=\"2.0\"} 3 12.5 # {trace_id=\"y\"} 0.7 1520879607.789\na{x=\"1\"} 1 # {} 1\n# EOF\n",
			want: samples{`b{le="1.0"}`: {2}, `b{le="2.0"}`: {3}, `a{x="1"}`: {1}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := scanAll([]byte(tt.page), tt.openMetrics, "a", "b")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateNaNs()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExpositionRefuses(t *testing.T) {
	tests := []struct {
		name        string
		page        string
		openMetrics bool
		want        string
	}{
		{"quote in a label value", "ok 1\na{x=\"14\" lap\"} 1\n", false, "line 2: neither a comma nor a closing brace follows a label"},
		{"escape that does not exist", "a{x=\"x\\uy\"} 1\n", false, `line 1: a quoted string holds the escape \u, which does not exist`},
		{"decimal comma", "# c\n\na 0,5\n", false, `line 3: "0,5" is no value`},
		{"no value", "a\n", false, "line 1: the metric name holds a character that is not allowed, or has no value"},
		{"no value after labels", "a{x=\"1\"}\n", false, "line 1: the value is missing"},
		{"no value before a carriage return", "a \r\n", false, "line 1: the metric name holds a character that is not allowed, or has no value"},
		{"cut off after a value", "a{x=\"1\"} 12", false, "line 1: the page is cut off in this line"},
		{"cut off in a name", "a 1\nvllm:num_req", false, "line 2: the page is cut off in this line"},
		{"cut off in a comment", "a 1\n# HEL", false, "line 2: the page is cut off in this line"},
		{"cut off in labels", "a{x=\"1\n", false, "line 1: a quoted string has no end"},
		{"cut off in an escape", "a{x=\"1\\\n", false, "line 1: a quoted string has no end"},
		{"cut off after an escaped quote", "a{x=\"1\\\"\n", false, "line 1: a quoted string has no end"},
		{"labels without a name", "{x=\"m\"} 1\n", false, "line 1: it has labels but no metric name"},
		{"braces without anything", "{} 1\n", false, "line 1: it has labels but no metric name"},
		{"two names", "a{\"b\"} 1\n", false, "line 1: a label has no value"},
		{"name that is not quoted in braces", "{a} 1\n", false, "line 1: a label has no value"},
		{"empty quoted name", "{\"\"} 1\n", false, "line 1: a quoted name is empty or not UTF-8"},
		{"label value without quotes", "a{x=1} 1\n", false, "line 1: a label value is not quoted"},
		{"label name with a colon", "a{x:y=\"1\"} 1\n", false, "line 1: a label has no value"},
		{"label name that begins with a digit", "a{1=\"1\"} 1\n", false, "line 1: a label name is missing or holds a character that is not allowed"},
		{"no label between commas", "a{,} 1\n", false, "line 1: a label name is missing or holds a character that is not allowed"},
		{"label twice", "a{x=\"1\",x=\"2\"} 1\n", false, "line 1: a label name is used twice or reserved"},
		{"reserved label", "a{__name__=\"b\"} 1\n", false, "line 1: a label name is used twice or reserved"},
		{"html", "<html>..</html>\n", false, "line 1: it begins with no metric name"},
		{"json object", "{\"detail\":\"Not Found\"}\n", false, "line 1: neither a comma nor a closing brace follows a label"},
		{"json list", "[{\"iter\": 1}]\n", false, "line 1: it begins with no metric name"},
		{"words", "Internal Server Error\n", false, `line 1: "Server" is no value`},
		{"nul", "a 1\nb\x00 1\n", false, "line 2: it holds a NUL byte"},
		{"hexadecimal value", "a 0x1p4\n", false, `line 1: "0x1p4" is no value`},
		{"underscores in a value", "a 1_000\n", false, `line 1: "1_000" is no value`},
		{"value out of range", "a 1e999\n", false, `line 1: "1e999" is no value`},
		{"two values", "a 1 2 3\n", false, `line 1: there is "3" after the value`},
		{"fraction in a timestamp of text", "a 1 2.5\n", false, `line 1: "2.5" after the value is no timestamp`},
		{"exemplar in text", "a 1 # {x=\"1\"} 1\n", false, `line 1: there is "# {x=\"1\"} 1" after the value`},
		{"fault in a sample that is not wanted", "other{x=\"\\q\"} 1\n", false, `line 1: a quoted string holds the escape \q, which does not exist`},

		{"openmetrics without end", "a 1\n", true, "line 1: the page is cut off: OpenMetrics without # EOF"},
		{"openmetrics with text after its end", "a 1\n# EOF\nb 1\n# EOF\n", true, "line 3: there is text after # EOF"},
		{"exemplar without value", "a 1 # {x=\"1\"}\n# EOF\n", true, "line 1: exemplar: the value is missing"},
		{"exemplar without labels", "a 1 # 2\n# EOF\n", true, "line 1: an exemplar has no labels"},
		{"exemplar with two timestamps", "a 1 # {} 2 3 4\n# EOF\n", true, `line 1: exemplar: "3 4" is no timestamp`},
		{"timestamp that is no number", "a 1 NaN\n# EOF\n", true, `line 1: "NaN" after the value is no timestamp`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := scanAll([]byte(tt.page), tt.openMetrics, "a", "b")
			if err == nil || err.Error() != tt.want {
				t.Errorf("got %v\nwant %s", err, tt.want)
			}
		})
	}
}

// A page cut anywhere but between two lines is refused, whole and without a value.
func TestExpositionRefusesEveryTruncation(t *testing.T) {
	page := recordedPages(t)["load-metrics-waiting"]
	for i := 1; i < len(page); i += 97 {
		_, err := scanAll(page[:i], false, recordedNames...)
		if whole := page[i-1] == '\n'; (err == nil) != whole {
			t.Fatalf("cut after %q: %v", page[max(0, i-20):i], err)
		}
	}
}

func TestExpositionAllocatesNothing(t *testing.T) {
	page := recordedPages(t)["metrics-after"]
	want := map[string]int{}
	for i, name := range recordedNames {
		want[name] = i
	}
	scanner := scanner{want: want}
	sum := 0.0
	reader := bytes.NewReader(nil)
	allocs := testing.AllocsPerRun(20, func() {
		reader.Reset(page)
		err := scanner.scan(reader, false, func(_ int, _ []label, value float64) { sum += value })
		if err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 0 || sum == 0 {
		t.Errorf("%v allocations for a page", allocs)
	}
}

// FuzzExposition holds the scanner against expfmt: where both accept a page, the wanted values agree; and what
// the scanner accepts expfmt accepts too, but for the lenience that the scanner documents. The work is bounded.
func FuzzExposition(f *testing.F) {
	for _, page := range []string{
		"a 1\n", "a{x=\"1\",y=\"\\\\\\n\\\"\"} 2 3\n", "{\"a\",\"x.y\"=\"1\"} NaN\nb +Inf\n", "# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n",
		"a{} 1\nb{x=\"\xff\"} 1\n", "a 1 # {x=\"y\"} 1\n# EOF\n", "\xEF\xBB\xBFa 1\r\n", "<html>\n", "a{x=\"14\" lap\"} 1\n", "a 12", "a{\"x\"=\"1\"}1\n",
	} {
		f.Add([]byte(page))
	}
	for _, page := range hostilePages(2000) {
		f.Add([]byte(page))
	}
	f.Fuzz(func(t *testing.T, page []byte) {
		var got samples
		var err error
		cputest.Linear(t, len(page), func() { got, err = scanAll(page, false, "a", "b") })
		if err != nil || bytes.HasSuffix(bytes.TrimRight(page, "\r\n"), []byte("# EOF")) {
			return // expfmt knows no OpenMetrics
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
		if err != nil {
			if !lenient(page) {
				t.Errorf("the scanner accepts what expfmt refuses: %v", err)
			}
			return
		}
		if bytes.ContainsRune(page, '#') {
			return // with types, expfmt sorts samples into histograms
		}
		want := fromExpfmt(families, "a", "b")
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("the scanner (+) differs from expfmt (-):\n%s", diff)
		}
	})
}

// lenient reports whether a page has something that only the scanner tolerates.
func lenient(page []byte) bool {
	return bytes.ContainsAny(page, "#\r") || bytes.HasPrefix(page, []byte("\xEF\xBB\xBF")) || !utf8.Valid(page) ||
		bytes.Contains(page, []byte(" \n")) || bytes.Contains(page, []byte("\t\n"))
}

func BenchmarkExpositionScanner(b *testing.B) {
	page := recordedPages(b)["metrics-after"]
	want := map[string]int{}
	for i, name := range recordedNames {
		want[name] = i
	}
	scanner := scanner{want: want}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if err := scanner.scan(bytes.NewReader(page), false, func(int, []label, float64) {}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkExpositionExpfmt(b *testing.B) {
	page := recordedPages(b)["metrics-after"]
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		decoder := expfmt.NewDecoder(bytes.NewReader(page), expfmt.NewFormat(expfmt.TypeTextPlain))
		for {
			var family dto.MetricFamily
			if err := decoder.Decode(&family); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
