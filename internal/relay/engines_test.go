package relay

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/recording"
)

// flat is a reading as a map: "requests_waiting{engine,model}" to its value, summaries as "sum/count".
func flat(r *reading) map[string]string {
	flat := map[string]string{}
	for f, series := range r.families {
		spec := family(f).spec()
		for _, s := range series {
			value := fmt.Sprint(s.value)
			if spec.kind == kindSummary {
				value += fmt.Sprint("/", s.count)
			}
			flat[fmt.Sprintf("%s{%s,%s}", spec.name, s.engine, s.model)] = value
		}
	}
	for _, info := range r.info {
		flat["info{"+info.engine+"}"] = strings.Join(info.fields[:], ",")
	}
	if !math.IsNaN(r.start) {
		flat["start"] = fmt.Sprint(r.start)
	}
	if r.dropped > 0 {
		flat["dropped"] = fmt.Sprint(r.dropped)
	}
	return flat
}

func TestEnginePages(t *testing.T) {
	long := strings.Repeat("a", maxLabelValue+1)
	var crowd strings.Builder
	for i := range maxSeries + 3 {
		fmt.Fprintf(&crowd, "vllm:num_requests_running{engine=\"%d\",model_name=\"m\"} 1\n", i)
	}
	tests := []struct {
		name   string
		engine Engine
		page   string
		want   map[string]string
	}{
		{
			name: "new name of the cache usage", engine: EngineVLLM,
			page: `vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.42`,
			want: map[string]string{"kv_cache_usage_ratio{0,m}": "0.42"},
		},
		{
			name: "old name of the cache usage, and no engine label", engine: EngineVLLM,
			page: `vllm:gpu_cache_usage_perc{model_name="m"} 0.42`,
			want: map[string]string{"kv_cache_usage_ratio{0,m}": "0.42"},
		},
		{
			name: "both names while the old one is deprecated", engine: EngineVLLM,
			page: "vllm:gpu_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.1\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.2\n" +
				"vllm:gpu_prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 5\nvllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 5",
			want: map[string]string{"kv_cache_usage_ratio{0,m}": "0.2", "prefix_cache_hits_total{0,m}": "5"},
		},
		{
			name: "the queue by reason is not the queue", engine: EngineVLLM,
			page: "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 5\n" +
				"vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"m\",reason=\"capacity\"} 3\n" +
				"vllm:num_requests_waiting_by_reason{engine=\"0\",model_name=\"m\",reason=\"deferred\"} 2",
			want: map[string]string{"requests_waiting{0,m}": "5"},
		},
		{
			name: "several engines and models", engine: EngineVLLM,
			page: "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1\nvllm:num_requests_running{engine=\"1\",model_name=\"m\"} 2\n" +
				"vllm:num_requests_running{engine=\"0\",model_name=\"n\"} 3",
			want: map[string]string{"requests_running{0,m}": "1", "requests_running{1,m}": "2", "requests_running{0,n}": "3"},
		},
		{
			name: "one series for each process", engine: EngineVLLM,
			page: "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\",pid=\"7\"} 0\nvllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\",pid=\"8\"} 0.3\n" +
				"vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\",pid=\"9\"} 0.1",
			want: map[string]string{"kv_cache_usage_ratio{0,m}": "0.3"},
		},
		{
			name: "one series for each server behind a router: counts add up, ratios take the largest", engine: EngineVLLM,
			page: "vllm:num_requests_running{server=\"a\"} 7\nvllm:num_requests_running{server=\"b\"} 5\n" +
				"vllm:kv_cache_usage_perc{server=\"a\"} 0.5\nvllm:kv_cache_usage_perc{server=\"b\"} 0.9\n" +
				"vllm:prompt_tokens_total{server=\"a\"} 100\nvllm:prompt_tokens_total{server=\"b\"} 50\n" +
				"vllm:time_to_first_token_seconds_sum{server=\"a\"} 1\nvllm:time_to_first_token_seconds_count{server=\"a\"} 4\n" +
				"vllm:time_to_first_token_seconds_sum{server=\"b\"} 2\nvllm:time_to_first_token_seconds_count{server=\"b\"} 5\n" +
				"vllm:cache_config_info{block_size=\"16\",server=\"a\"} 1\nvllm:cache_config_info{block_size=\"32\",server=\"b\"} 1",
			want: map[string]string{
				"requests_running{0,asked}": "12", "kv_cache_usage_ratio{0,asked}": "0.9", "prompt_tokens_total{0,asked}": "150",
				"time_to_first_token_seconds{0,asked}": "3/9", "info{0}": ",,16,",
			},
		},
		{
			name: "servers told apart by a label that is too long still add up", engine: EngineVLLM,
			page: "vllm:num_requests_running{server=\"" + long + "a\"} 7\nvllm:num_requests_running{server=\"" + long + "b\"} 5",
			want: map[string]string{"requests_running{0,asked}": "12", "dropped": "2"},
		},
		{
			name: "repeated sample: the first counts", engine: EngineVLLM,
			page: "vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_running{model_name=\"m\"} 2",
			want: map[string]string{"requests_running{0,m}": "1", "dropped": "1"},
		},
		{
			name: "repeated with its labels in another order", engine: EngineVLLM,
			page: "vllm:prompt_tokens_total{engine=\"0\",model_name=\"m\"} 1\nvllm:prompt_tokens_total{model_name=\"m\",engine=\"0\"} 2",
			want: map[string]string{"prompt_tokens_total{0,m}": "1", "dropped": "1"},
		},
		{
			name: "no labels at all", engine: EngineVLLM,
			page: "vllm:num_requests_running 4",
			want: map[string]string{"requests_running{0,asked}": "4"},
		},
		{
			name: "summaries", engine: EngineVLLM,
			page: "vllm:time_to_first_token_seconds_bucket{engine=\"0\",le=\"+Inf\",model_name=\"m\"} 3\nvllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"m\"} 3\n" +
				"vllm:time_to_first_token_seconds_sum{engine=\"0\",model_name=\"m\"} 0.5",
			want: map[string]string{"time_to_first_token_seconds{0,m}": "0.5/3"},
		},
		{
			name: "only what is wanted", engine: EngineVLLM,
			page: "process_resident_memory_bytes 1e9\npython_gc_objects_collected_total{generation=\"0\"} 1\nprocess_start_time_seconds 1.5e+09\n" +
				"vllm:num_requests_running{model_name=\"m\"} 1\nvllm:num_requests_running_created{model_name=\"m\"} 9",
			want: map[string]string{"requests_running{0,m}": "1", "start": "1.5e+09"},
		},
		{
			name: "label value that is too long, where it does not matter", engine: EngineVLLM,
			page: `vllm:cache_config_info{cfg="` + long + `",block_size="16"} 1`,
			want: map[string]string{"info{0}": ",,16,", "dropped": "1"},
		},
		{
			name: "label value that is too long, where it tells series apart", engine: EngineVLLM,
			page: `vllm:num_requests_running{model_name="` + long + "\"} 1\nvllm:num_requests_waiting{model_name=\"\xff\"} 1\nvllm:num_requests_waiting{model_name=\"m\"} 2",
			want: map[string]string{"requests_waiting{0,m}": "2", "dropped": "2"},
		},
		{name: "too many series", engine: EngineVLLM, page: crowd.String(), want: func() map[string]string {
			want := map[string]string{"dropped": "3"}
			for i := range maxSeries {
				want[fmt.Sprintf("requests_running{%d,m}", i)] = "1"
			}
			return want
		}()},
		{
			name: "what Python writes", engine: EngineVLLM,
			page: `vllm:cache_config_info{block_size="16",cache_dtype="fp8",enable_prefix_caching="False",engine="1",kv_cache_size_tokens="None"} 1`,
			want: map[string]string{"info{1}": "fp8,false,16,"},
		},
		{
			name: "sglang: data parallel ranks are engines", engine: EngineSGLang,
			page: "sglang:num_running_reqs{dp_rank=\"0\",engine_type=\"unified\",model_name=\"m\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"} 3\n" +
				"sglang:num_running_reqs{dp_rank=\"1\",engine_type=\"unified\",model_name=\"m\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"4\"} 5\n" +
				"sglang:num_queue_reqs{dp_rank=\"0\",model_name=\"m\",pp_rank=\"0\",tp_rank=\"0\"} 2",
			want: map[string]string{"requests_running{0,m}": "3", "requests_running{1,m}": "5", "requests_waiting{0,m}": "2"},
		},
		{
			name: "sglang: other ranks are replicas, in whatever order", engine: EngineSGLang,
			page: "sglang:num_running_reqs{model_name=\"m\",pp_rank=\"0\",tp_rank=\"1\"} 9\nsglang:num_running_reqs{model_name=\"m\",pp_rank=\"0\",tp_rank=\"0\"} 3\n" +
				"sglang:num_running_reqs{model_name=\"m\",pp_rank=\"1\",tp_rank=\"0\"} 8",
			want: map[string]string{"requests_running{0,m}": "3"},
		},
		{
			name: "sglang: priorities are parts of the total", engine: EngineSGLang,
			page: "sglang:num_queue_reqs{model_name=\"m\",priority=\"\",tp_rank=\"0\"} 7\nsglang:num_queue_reqs{model_name=\"m\",priority=\"1\",tp_rank=\"0\"} 4\n" +
				"sglang:num_queue_reqs{model_name=\"m\",priority=\"2\",tp_rank=\"0\"} 3",
			want: map[string]string{"requests_waiting{0,m}": "7"},
		},
		{
			name: "sglang: counters add up", engine: EngineSGLang,
			page: "sglang:prompt_tokens_total{is_streaming=\"true\",model_name=\"m\"} 100\nsglang:prompt_tokens_total{is_streaming=\"false\",model_name=\"m\"} 20\n" +
				"sglang:cached_tokens_total{cache_source=\"device\",model_name=\"m\"} 30\nsglang:cached_tokens_total{cache_source=\"host\",model_name=\"m\"} 5\n" +
				"sglang:time_to_first_token_seconds_sum{is_streaming=\"true\",model_name=\"m\"} 1.5\nsglang:time_to_first_token_seconds_count{is_streaming=\"true\",model_name=\"m\"} 3\n" +
				"sglang:time_to_first_token_seconds_sum{is_streaming=\"false\",model_name=\"m\"} 0.5\nsglang:time_to_first_token_seconds_count{is_streaming=\"false\",model_name=\"m\"} 1\n" +
				"sglang:token_usage{model_name=\"m\"} 0.25\nsglang:page_size{model_name=\"m\"} 1\nsglang:max_total_num_tokens{model_name=\"m\"} 1234567",
			want: map[string]string{
				"prompt_tokens_total{0,m}": "120", "prefix_cache_queries_total{0,m}": "120", "prefix_cache_hits_total{0,m}": "35",
				"time_to_first_token_seconds{0,m}": "2/4", "kv_cache_usage_ratio{0,m}": "0.25", "info{0}": ",,1,1234567",
			},
		},
		{
			name: "llama.cpp: no labels, and cached prompt tokens apart", engine: EngineLlamaCpp,
			page: "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\nllamacpp:prompt_tokens_total 100\nllamacpp:prompt_tokens_cached_total 40\nllamacpp:tokens_predicted_total 7",
			want: map[string]string{
				"requests_running{0,asked}": "1", "requests_waiting{0,asked}": "2", "prompt_tokens_total{0,asked}": "140",
				"prefix_cache_queries_total{0,asked}": "140", "prefix_cache_hits_total{0,asked}": "40", "generation_tokens_total{0,asked}": "7",
			},
		},
	}
	read := map[Engine]bool{EngineAuto: true}
	for _, tt := range tests {
		read[tt.engine] = true
	}
	for _, engine := range Engines() {
		if !read[engine] {
			t.Errorf("no page of %s", engine)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page := newPageReader()
			for range 2 { // memory is reused: the second page must say the same
				got, err := page.read(strings.NewReader(tt.page+"\n"), "", "asked", engineByName(tt.engine), false)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, flat(got)); diff != "" {
					t.Fatal(diff)
				}
			}
		})
	}
}

// The recorded pages of vLLM 0.32: what they say in our terms.
func TestEngineRecordedPages(t *testing.T) {
	info := func(caching string) string { return "auto," + caching + ",128,1048576" }
	tests := map[string]map[string]string{
		"metrics-before-first-request": {
			"requests_running{0,tiny}": "0", "requests_waiting{0,tiny}": "0", "kv_cache_usage_ratio{0,tiny}": "0", "preemptions_total{0,tiny}": "0",
			"prompt_tokens_total{0,tiny}": "0", "generation_tokens_total{0,tiny}": "0", "prefix_cache_queries_total{0,tiny}": "0", "prefix_cache_hits_total{0,tiny}": "0",
			"time_to_first_token_seconds{0,tiny}": "0/0", "queue_time_seconds{0,tiny}": "0/0", "prefill_time_seconds{0,tiny}": "0/0",
			"start": "1.79596686645e+09", "info{0}": info("true"),
		},
		"metrics-after": {
			"requests_running{0,tiny}": "0", "requests_waiting{0,tiny}": "0", "kv_cache_usage_ratio{0,tiny}": "0", "preemptions_total{0,tiny}": "0",
			"prompt_tokens_total{0,tiny}": "286", "generation_tokens_total{0,tiny}": "107", "prefix_cache_queries_total{0,tiny}": "286", "prefix_cache_hits_total{0,tiny}": "0",
			"time_to_first_token_seconds{0,tiny}": "0.15306520462036133/12", "queue_time_seconds{0,tiny}": "0.0003171600001792285/12",
			"prefill_time_seconds{0,tiny}": "0.09942269800001213/12", "start": "1.79596686645e+09", "info{0}": info("true"),
		},
		"load-metrics-waiting": {
			"requests_running{0,tiny}": "2", "requests_waiting{0,tiny}": "1", "kv_cache_usage_ratio{0,tiny}": "0.0004883408619216212", "preemptions_total{0,tiny}": "0",
			"prompt_tokens_total{0,tiny}": "72", "generation_tokens_total{0,tiny}": "459", "prefix_cache_queries_total{0,tiny}": "0", "prefix_cache_hits_total{0,tiny}": "0",
			"time_to_first_token_seconds{0,tiny}": "0.06798028945922852/3", "queue_time_seconds{0,tiny}": "4.9107999984698836e-05/1",
			"prefill_time_seconds{0,tiny}": "0.018249405000005936/1", "start": "1.79596717306e+09", "info{0}": info("false"),
		},
		// Two API servers: no start time, and no gauge before the engine's first step. Absent, not 0.
		"multi-metrics-before": {
			"preemptions_total{0,tiny}": "0", "prompt_tokens_total{0,tiny}": "0", "generation_tokens_total{0,tiny}": "0",
			"prefix_cache_queries_total{0,tiny}": "0", "prefix_cache_hits_total{0,tiny}": "0",
			"time_to_first_token_seconds{0,tiny}": "0/0", "queue_time_seconds{0,tiny}": "0/0", "prefill_time_seconds{0,tiny}": "0/0", "info{0}": info("true"),
		},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, flat(readRecorded(t, name))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func readRecorded(t testing.TB, name string) *reading {
	t.Helper()
	r, err := recording.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	body, err := r.Body()
	if err != nil {
		t.Fatal(err)
	}
	reading, err := newPageReader().read(bytes.NewReader(body), "text/plain; version=1.0.0; charset=utf-8", "", engineByName(EngineVLLM), false)
	if err != nil {
		t.Fatal(err)
	}
	return reading
}

// A hung vLLM serves pages on which process_cpu_seconds_total grows and nothing that is relayed moves.
func TestEngineHungServerIsFrozen(t *testing.T) {
	first, second := readRecorded(t, "hang-metrics-1"), readRecorded(t, "hang-metrics-2")
	if second.moved(first) {
		t.Error("the second page of a hung server differs from the first")
	}
	if after := readRecorded(t, "load-metrics-waiting"); !after.moved(first) {
		t.Error("the page of a working server does not differ")
	}
}

func TestEngineMissing(t *testing.T) {
	all := func(missing bool, families ...family) map[family]bool {
		m := map[family]bool{}
		for _, f := range families {
			m[f] = missing
		}
		return m
	}
	gauges := []family{familyRunning, familyWaiting, familyKVUsage}
	every := []family{
		familyRunning, familyWaiting, familyKVUsage, familyPreemptions, familyPromptTokens, familyGenerationTokens,
		familyCacheQueries, familyCacheHits, familyTTFT, familyQueueTime, familyPrefillTime,
	}
	page := func(engine Engine, text string) map[family]bool {
		table := engineByName(engine)
		reading, err := newPageReader().read(strings.NewReader(text), "", "", table, false)
		if err != nil {
			t.Fatal(err)
		}
		return reading.missing(table)
	}
	recorded := func(name string) map[family]bool {
		return readRecorded(t, name).missing(engineByName(EngineVLLM))
	}
	const v0 = "vllm:num_requests_running{model_name=\"m\"} 1.0\nvllm:num_requests_swapped{model_name=\"m\"} 0.0\nvllm:num_requests_waiting{model_name=\"m\"} 0.0\n" +
		"vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.01\nvllm:cpu_cache_usage_perc{model_name=\"m\"} 0.0\nvllm:gpu_prefix_cache_hit_rate{model_name=\"m\"} -1.0\n" +
		"vllm:num_preemptions_total{model_name=\"m\"} 0.0\nvllm:prompt_tokens_total{model_name=\"m\"} 512.0\nvllm:generation_tokens_total{model_name=\"m\"} 17.0\n" +
		"vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 0.2\nvllm:time_to_first_token_seconds_count{model_name=\"m\"} 1.0\n"
	tests := []struct {
		name      string
		got, want map[family]bool
	}{
		{"all there", recorded("metrics-after"), all(false, every...)},
		{"several processes, after the first step", recorded("multi-metrics"), all(false, every...)},
		{"several processes, before the first step: not to be told", recorded("multi-metrics-before"), all(false)},
		{"before the first request of one process: the gauges are there", recorded("metrics-before-first-request"), all(false, gauges...)},
		{"nothing of the engine", page(EngineVLLM, "process_start_time_seconds 1\n"), all(true, every...)},
		{
			// The V0 engine of 0.6: names and all as it shows them. What it does not have is not missing.
			"an old version", page(EngineVLLM, v0),
			all(false, familyRunning, familyWaiting, familyKVUsage, familyPreemptions, familyPromptTokens, familyGenerationTokens, familyTTFT),
		},
		{
			"an old version that lacks what it had", page(EngineVLLM, strings.ReplaceAll(v0, "vllm:num_preemptions_total", "vllm:num_preemptions")),
			func() map[family]bool {
				judged := all(false, familyRunning, familyWaiting, familyKVUsage, familyPromptTokens, familyGenerationTokens, familyTTFT)
				judged[familyPreemptions] = true
				return judged
			}(),
		},
		{"one gauge gone", page(EngineVLLM, "vllm:num_requests_running 1\nvllm:num_requests_waiting 1\n"), map[family]bool{familyRunning: false, familyWaiting: false, familyKVUsage: true}},
		{
			"a router of vLLM servers: it shows what it knows itself",
			page(EngineVLLM, "vllm:num_requests_running{server=\"http://a:8000\"} 7.0\nvllm:num_requests_waiting{server=\"http://a:8000\"} 0.0\n"+
				"vllm:gpu_prefix_cache_hits_total{server=\"http://a:8000\"} 5.0\nvllm:gpu_prefix_cache_queries_total{server=\"http://a:8000\"} 9.0\n"+
				"vllm:healthy_pods_total{server=\"http://a:8000\"} 1.0\nvllm:current_qps{server=\"http://a:8000\"} 0.2\n"), nil,
		},
		{
			"one gauge gone of a page with labels of the engine",
			page(EngineVLLM, "vllm:num_requests_running{engine=\"0\",server=\"a\"} 1\nvllm:num_requests_waiting{engine=\"0\",server=\"a\"} 1\n"),
			map[family]bool{familyRunning: false, familyWaiting: false, familyKVUsage: true},
		},
		{
			"sglang before its first request ends: counters come later",
			page(EngineSGLang, "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\nsglang:token_usage 0\n"), all(false, gauges...),
		},
		{
			"llama.cpp without a cache: no cache usage is promised",
			page(EngineLlamaCpp, "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\nllamacpp:prompt_tokens_total 9\nllamacpp:tokens_predicted_total 1\n"),
			all(false, familyRunning, familyWaiting, familyPromptTokens, familyGenerationTokens),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every table is sound: its names carry its prefix, no two engines are recognised by the same sign.
func TestEngineTables(t *testing.T) {
	signs := map[string]Engine{}
	if table := engineByOwner(""); table != nil {
		t.Errorf("a server that does not sign its models is taken for %s", table.engine)
	}
	for _, table := range engineTables() {
		for _, sign := range []string{"page " + table.prefix, "owner " + table.ownedBy, "name " + string(table.engine)} {
			if other, taken := signs[sign]; taken && sign != "owner " { // many do not sign
				t.Errorf("%s and %s share the %s", other, table.engine, sign)
			}
			signs[sign] = table.engine
		}
		for _, source := range table.sources {
			for _, name := range source.names {
				if !strings.HasPrefix(name, table.prefix) {
					t.Errorf("%s: %s lacks the prefix", table.engine, name)
				}
			}
		}
	}
	for f := range families {
		spec := f.spec()
		if counter := strings.HasSuffix(spec.name, "_total"); spec.help == "" || counter != (spec.kind == kindCounter) {
			t.Errorf("family %d: %+v", f, spec)
		}
	}
}

func BenchmarkRelayReading(b *testing.B) {
	body := recordedPages(b)["metrics-after"]
	page, table := newPageReader(), engineByName(EngineVLLM)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := page.read(bytes.NewReader(body), "text/plain", "", table, false); err != nil {
			b.Fatal(err)
		}
	}
}
