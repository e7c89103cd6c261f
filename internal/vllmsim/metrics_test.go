package vllmsim

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/llm-prober/llm_prober/internal/recording"
)

// pageOutline is what must be the same on two pages: every line, with values masked and with the buckets of a
// histogram on one line.
func pageOutline(page string) []string {
	var lines []string
	for _, line := range strings.Split(page, "\n") {
		if !strings.HasPrefix(line, "#") {
			line, _, _ = strings.Cut(line, "} ")
			line, _, _ = strings.Cut(line, " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// differs lists label values of cache_config_info that tell of the machine, not of vLLM.
var differs = strings.NewReplacer(
	`block_size="128"`, `block_size="16"`, // the CPU build has larger blocks
	`kv_cache_max_concurrency="256.0"`, `kv_cache_max_concurrency="22.0"`,
	`kv_cache_size_tokens="1048576"`, `kv_cache_size_tokens="90112"`,
	`num_gpu_blocks="8192"`, `num_gpu_blocks="5632"`,
)

// asRecorded sends the requests that had been made when a page was recorded, in the same order, so that the
// http_ families have the same series.
func asRecorded(t *testing.T, n *network, names ...string) {
	t.Helper()
	for _, name := range names {
		rec, err := recording.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		n.exchange(t, rec.Request.Method, rec.Request.Path, rec.Request.Headers, bodyOf(rec))
	}
}

func TestMetricsPageIsThatOfVLLM(t *testing.T) {
	all := []string{
		"models", "chat-plain", "completion-include-usage", "error-400-type", "error-404-path", "error-400-too-long", "tokenize-prompt",
	}
	uncached := queueConfig()
	uncached.DisablePrefixCache = true
	for _, tc := range []struct {
		page   string
		config Config
		before []string
	}{
		{"metrics-before-first-request", plainConfig(), []string{"models"}},
		{"metrics-after", plainConfig(), all},
		{"auth-metrics-without-key", uncached, nil},
		{"load-metrics-waiting", uncached, []string{"auth-good-key-request-id"}},
		{"multi-metrics-before", multiConfig(), nil},
		{"multi-metrics", multiConfig(), []string{"multi-chat", "multi-404", "multi-tokenize"}},
	} {
		t.Run(tc.page, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rec, err := recording.Load(tc.page)
				if err != nil {
					t.Fatal(err)
				}
				want, err := rec.Body()
				if err != nil {
					t.Fatal(err)
				}
				_, n := serve(t, tc.config)
				asRecorded(t, n, tc.before...)
				got := parse(t, joined(n.exchange(t, "GET", "/metrics", nil, "")))
				if ct := got.Header.Get("Content-Type"); ct != "text/plain; version=1.0.0; charset=utf-8" {
					t.Errorf("content type %q", ct)
				}
				body, err := io.ReadAll(got.Body)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(pageOutline(differs.Replace(string(want))), pageOutline(string(body))); diff != "" {
					t.Errorf("vLLM (-) and the simulator (+) differ:\n%s", diff)
				}
			})
		})
	}
}

// values reads a page with the parser that Prometheus uses: one value a series, histograms as _count and _sum.
func values(t *testing.T, page string) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			key := name + labelsOf(m)
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				all[key+"_count"] = float64(m.GetHistogram().GetSampleCount())
				all[key+"_sum"] = m.GetHistogram().GetSampleSum()
			case dto.MetricType_SUMMARY:
				all[key+"_count"] = float64(m.GetSummary().GetSampleCount())
				all[key+"_sum"] = m.GetSummary().GetSampleSum()
			default:
				all[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// labelsOf shows all labels but those that every series has.
func labelsOf(m *dto.Metric) string {
	var values []string
	for _, l := range m.GetLabel() {
		if !slices.Contains([]string{"engine", "model_name"}, l.GetName()) {
			values = append(values, l.GetValue())
		}
	}
	if len(values) == 0 {
		return ""
	}
	return "{" + strings.Join(values, ",") + "}"
}

// check compares some values of a page.
func check(t *testing.T, page string, want map[string]float64) {
	t.Helper()
	all, got := values(t, page), map[string]float64{}
	for name := range want {
		if v, there := all[name]; there {
			got[name] = v
		}
	}
	near := cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

const chatBody = `{"model":"tiny","messages":[{"role":"user","content":"the of and to in is"}],"min_tokens":4,"max_tokens":4,"ignore_eos":true%s}`

func TestMetricsTellWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plainConfig()
		c.Engine = clockwork()
		s, n := serve(t, c)
		began := float64(time.Now().Unix())
		prompt := len(chatPieces([]message{{"user", "the of and to in is"}}, true))
		json := map[string]string{"Content-Type": "application/json"}
		for range 2 { // the second finds one block of 16 tokens in the cache
			n.exchange(t, "POST", "/v1/chat/completions", json, fmt.Sprintf(chatBody, ""))
		}
		n.exchange(t, "POST", "/v1/chat/completions", json, fmt.Sprintf(chatBody, `,"n":3`))
		cached := float64((prompt - 1) / blockSize * blockSize)
		first, second := .015+float64(prompt)*1e-4, .015+(float64(prompt)-cached)*1e-4
		check(t, n.get(t, "/metrics"), map[string]float64{
			"process_start_time_seconds":                          began,
			"vllm:num_requests_running":                           0,
			"vllm:num_requests_waiting":                           0,
			"vllm:num_requests_waiting_by_reason{capacity}":       0,
			"vllm:kv_cache_usage_perc":                            0,
			"vllm:prefix_cache_queries_total":                     float64(2 * prompt),
			"vllm:prefix_cache_hits_total":                        cached,
			"vllm:prompt_tokens_total":                            float64(2 * prompt),
			"vllm:prompt_tokens_by_source_total{local_compute}":   float64(2*prompt) - cached,
			"vllm:prompt_tokens_by_source_total{local_cache_hit}": cached,
			"vllm:prompt_tokens_cached_total":                     cached,
			"vllm:generation_tokens_total":                        8,
			"vllm:request_success_total{length}":                  2,
			"vllm:num_preemptions_total":                          0,
			"vllm:iteration_tokens_total_count":                   8,
			"vllm:iteration_tokens_total_sum":                     float64(2*prompt) + 8,
			"vllm:time_to_first_token_seconds_count":              2,
			"vllm:time_to_first_token_seconds_sum":                first + second,
			"vllm:inter_token_latency_seconds_count":              6,
			"vllm:inter_token_latency_seconds_sum":                6 * .011,
			"vllm:request_time_per_output_token_seconds_sum":      2 * .011,
			"vllm:e2e_request_latency_seconds_sum":                first + second + 6*.011,
			"vllm:request_queue_time_seconds_count":               2,
			"vllm:request_queue_time_seconds_sum":                 0,
			"vllm:request_prefill_time_seconds_sum":               first + second,
			"vllm:request_decode_time_seconds_sum":                6 * .011,
			"vllm:request_inference_time_seconds_sum":             first + second + 6*.011,
			"vllm:request_prefill_kv_computed_tokens_sum":         float64(2*prompt) - cached,
			"vllm:request_params_max_tokens_sum":                  8,
			"http_requests_total{/v1/chat/completions,POST,2xx}":  2,
			"http_requests_total{/v1/chat/completions,POST,4xx}":  1,
		})
		time.Sleep(time.Minute)
		s.Restart()
		check(t, n.get(t, "/metrics"), map[string]float64{
			"process_start_time_seconds":             began + 60 + first + second + 6*.011,
			"vllm:generation_tokens_total":           0,
			"vllm:prefix_cache_hits_total":           0,
			"vllm:time_to_first_token_seconds_count": 0,
			"vllm:request_success_total{length}":     0,
		})
	})
}

func TestQueueShowsOnThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := queueConfig()
		c.MaxNumQueuedReqs = 3
		s, n := serve(t, c)
		occupy(t, s, 5, 100)
		time.Sleep(time.Second)
		rec, err := recording.Load("rejected-queue-full-0")
		if err != nil {
			t.Fatal(err)
		}
		n.exchange(t, "POST", rec.Request.Path, rec.Request.Headers, bodyOf(rec))
		check(t, n.get(t, "/metrics"), map[string]float64{
			"vllm:num_requests_running":                              2,
			"vllm:num_requests_waiting":                              3,
			"vllm:num_requests_waiting_by_reason{capacity}":          3,
			"vllm:num_requests_waiting_by_reason{deferred}":          0,
			"vllm:admission_rejections_total{max_num_queued_reqs}":   1,
			"vllm:admission_rejections_total{max_num_queued_tokens}": 0,
			"http_requests_total{/v1/chat/completions,POST,5xx}":     1,
		})
		time.Sleep(time.Minute)
		check(t, n.get(t, "/metrics"), map[string]float64{"vllm:num_requests_running": 0, "vllm:num_requests_waiting": 0})
	})
}

func TestSeveralProcessesHaveNoGaugesBeforeTheFirstStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := serve(t, multiConfig())
		gauges := []string{"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"}
		there := func() (names []string) {
			all := values(t, n.get(t, "/metrics"))
			for _, name := range gauges {
				if _, ok := all[name]; ok {
					names = append(names, name)
				}
			}
			return names
		}
		if got := there(); got != nil {
			t.Errorf("before: %v", got)
		}
		occupy(t, s, 1, 1)
		time.Sleep(time.Second)
		if diff := cmp.Diff(gauges, there()); diff != "" {
			t.Errorf("after a step (-want +got):\n%s", diff)
		}
	})
}

func TestPythonFloat(t *testing.T) {
	for _, tc := range []struct {
		in   float64
		want string
	}{
		{0, "0.0"},
		{2, "2.0"},
		{0.3, "0.3"},
		{27.450000000000003, "27.450000000000003"},
		{1.795967256163403e9, "1.795967256163403e+09"},
		{1795967173.06, "1.79596717306e+09"},
		{4816855040, "4.81685504e+09"},
		{999999, "999999.0"},
		{1000000, "1e+06"},
		{12345678901, "1.2345678901e+010"},
		{0.0004883408619216212, "0.0004883408619216212"},
		{0.00002, "2e-05"},
	} {
		if got := pythonFloat(tc.in); got != tc.want {
			t.Errorf("%v is written %q, want %q", tc.in, got, tc.want)
		}
	}
}

func TestDemoLoadBreathes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := serve(t, Config{Engine: DemoModel()})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.RunLoad(ctx, DemoLoad())
		}()
		for period := range 4 {
			const seconds = 180
			queued, peak := 0, 0
			for range seconds {
				time.Sleep(time.Second)
				waiting := s.Engine().Stats().Waiting
				if waiting > 0 {
					queued++
				}
				peak = max(peak, waiting)
			}
			t.Logf("period %d: peak %d, queued for %d of %d s", period, peak, queued, seconds)
			if peak < 20 || peak > 150 || queued < 20 || queued > seconds/2 {
				t.Errorf("period %d: a queue of up to %d for %d of %d s; want one that is seen, and gone for most of the time", period, peak, queued, seconds)
			}
		}
		cancel()
		<-ended
	})
}
