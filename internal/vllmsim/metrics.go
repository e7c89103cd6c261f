package vllmsim

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

func (s *Server) serveMetrics(p *process, w http.ResponseWriter, _ *http.Request) {
	page := s.page(p)
	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	w.Write(page)
}

// page is the whole page in the order of vLLM 0.32.
func (s *Server) page(p *process) []byte {
	out := &page{multi: s.cfg.MultiProcess}
	if !out.multi { // several API servers share no process metrics
		writePython(out)
		writeProcess(out, p)
	}
	stats := p.engine.Stats()
	e := enginePage{page: out, cfg: &s.cfg, start: p.start, labels: labels{"engine", "0", "model_name", s.cfg.Models[0]}}
	e.scheduler(stats)
	e.tokens(stats)
	p.http.mu.Lock()
	defer p.http.mu.Unlock()
	e.requests(stats, p.http.refused)
	e.lengths(stats)
	e.latencies(stats)
	e.cacheConfig()
	p.http.write(out, p.start)
	return out.text()
}

func one(value float64) series { return series{value: value} }

func writePython(out *page) {
	generations := func(values ...float64) (all []series) {
		for i, v := range values {
			all = append(all, series{labels: labels{"generation", strconv.Itoa(i)}, value: v})
		}
		return all
	}
	// vLLM's page has no _created for these.
	collector := func(name, help string, all []series) {
		out.families = append(out.families, family{name + "_total", help, "counter", plain(all)})
	}
	collector("python_gc_objects_collected", "Objects collected during gc", generations(13_700, 3_386, 1_351))
	collector("python_gc_objects_uncollectable", "Uncollectable objects found during GC", generations(0, 0, 0))
	collector("python_gc_collections", "Number of times this generation was collected", generations(1_785, 163, 11))
	out.gauge("python_info", "Python platform information", series{
		labels: labels{"implementation", "CPython", "major", "3", "minor", "11", "patchlevel", "7", "version", "3.11.7"}, value: 1,
	})
}

func writeProcess(out *page, p *process) {
	out.gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", one(4_816_855_040))
	out.gauge("process_resident_memory_bytes", "Resident memory size in bytes.", one(1_124_016_128))
	out.gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", one(unixSeconds(p.start)))
	out.families = append(out.families, family{
		"process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", "counter",
		plain([]series{one(time.Since(p.start).Seconds())}), // as if it took one core
	})
	out.gauge("process_open_fds", "Number of open file descriptors.", one(37))
	out.gauge("process_max_fds", "Maximum number of open file descriptors.", one(20_000))
}

// enginePage writes the vllm: families.
type enginePage struct {
	*page
	cfg    *Config
	start  time.Time
	labels labels
}

func (e enginePage) count(v int, pairs ...string) series {
	s := series{labels: e.labels, value: float64(v), since: e.start}
	for i := 0; i < len(pairs); i += 2 {
		s.labels = s.labels.with(pairs[i], pairs[i+1])
	}
	return s
}

func (e enginePage) scheduler(s Stats) {
	for _, c := range []struct{ name, what string }{
		{"flops", "floating point operations per GPU (for Model Flops Utilization calculations)"},
		{"read_bytes", "bytes read from memory per GPU (for Model Flops Utilization calculations)"},
		{"write_bytes", "bytes written to memory per GPU (for Model Flops Utilization calculations)"},
	} {
		e.counter("vllm:estimated_"+c.name+"_per_gpu", "Estimated number of "+c.what+".", e.count(0))
	}
	gauges := func(all ...series) []series {
		if e.multi && s.Steps == 0 { // they do not exist before they are first set
			return nil
		}
		return all
	}
	kv := series{labels: e.labels, value: s.KVUsage}
	e.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", gauges(e.count(s.Running))...)
	e.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", gauges(e.count(s.Waiting))...)
	e.gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
		gauges(e.count(s.Waiting, "reason", "capacity"), e.count(0, "reason", "deferred"))...)
	e.gauge("vllm:engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
		e.count(1, "sleep_state", "awake"), e.count(0, "sleep_state", "weights_offloaded"), e.count(0, "sleep_state", "discard_all"))
	e.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", gauges(kv)...)
}

func (e enginePage) tokens(s Stats) {
	e.counter("vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", e.count(s.PrefixCacheQueries))
	e.counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", e.count(s.PrefixCacheHits))
	e.counter("vllm:external_prefix_cache_queries", "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.", e.count(0))
	e.counter("vllm:external_prefix_cache_hits", "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.", e.count(0))
	e.counter("vllm:mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.", e.count(0))
	e.counter("vllm:mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", e.count(0))
	e.counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.", e.count(s.Preemptions))
	e.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", e.count(s.PromptTokens))
	e.counter("vllm:prompt_tokens_by_source", "Number of prompt tokens by source.",
		e.count(s.PromptTokens-s.CachedTokens, "source", "local_compute"),
		e.count(s.CachedTokens, "source", "local_cache_hit"), e.count(0, "source", "external_kv_transfer"))
	e.counter("vllm:prompt_tokens_cached", "Number of cached prompt tokens (local + external).", e.count(s.CachedTokens))
	e.counter("vllm:prompt_tokens_cached_by_source", "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
		e.count(s.PrefixCacheHits, "source", "device"), e.count(0, "source", "host"), e.count(0, "source", "p2p"),
		e.count(0, "source", "disk"), e.count(0, "source", "external_unspecified"))
	e.counter("vllm:generation_tokens", "Number of generation tokens processed.", e.count(s.GenerationTokens))
}

func (e enginePage) requests(s Stats, refused int) {
	var finished []series
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		finished = append(finished, e.count(s.Finished[reason], "finished_reason", reason))
	}
	e.counter("vllm:request_success", "Count of successfully processed requests.", finished...)
	rejection := func(reason string, n int) series { // the one family without an engine
		return series{labels: labels{"model_name", e.cfg.Models[0], "reason", reason}, value: float64(n), since: e.start}
	}
	e.counter("vllm:admission_rejections", "Number of admission attempts rejected by a queue limit, by reason.",
		rejection("max_num_queued_reqs", refused), rejection("max_num_queued_tokens", 0))
}

// observed writes a histogram of the engine.
func (e enginePage) observed(name, help string, h Histogram) {
	e.histogram("vllm:"+name, help, series{labels: e.labels, histogram: h, since: e.start})
}

// tokensOf is a histogram of tokens with the bounds that this server's context length gives.
func (e enginePage) tokensOf(h Histogram) Histogram {
	n := len(tokenBounds(e.cfg.MaxModelLen))
	h.Bounds = h.Bounds[:n]
	h.Counts = slices.Clone(h.Counts[:n+1])
	beyond := h.Count
	for _, c := range h.Counts[:n] {
		beyond -= c
	}
	h.Counts[n] = beyond
	return h
}

func (e enginePage) lengths(s Stats) {
	e.observed("request_prompt_tokens", "Number of prefill tokens processed.", e.tokensOf(s.RequestPrompt))
	e.observed("request_generation_tokens", "Number of generation tokens processed.", e.tokensOf(s.RequestGeneration))
	e.observed("iteration_tokens_total", "Histogram of number of tokens per engine_step.", s.IterationTokens)
	e.observed("request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", e.tokensOf(s.RequestGeneration))
	e.observed("request_params_n", "Histogram of the n request parameter.", s.RequestN)
	e.observed("request_params_max_tokens", "Histogram of the max_tokens request parameter.", e.tokensOf(s.RequestMaxTokens))
}

func (e enginePage) latencies(s Stats) {
	e.observed("time_to_first_token_seconds", "Histogram of time to first token in seconds.", s.TimeToFirstToken)
	e.observed("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", s.InterToken)
	e.observed("request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", s.TimePerOutput)
	e.observed("e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", s.EndToEnd)
	e.observed("request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", s.QueueTime)
	e.observed("request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", s.InferenceTime)
	e.observed("request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", s.PrefillTime)
	e.observed("request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", s.DecodeTime)
	e.observed("request_num_preemptions", "Histogram of the number of times a request was preempted.", s.RequestPreemptions)
	e.observed("request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens).", e.tokensOf(s.RequestKVComputed))
}

func (e enginePage) cacheConfig() {
	kv := e.cfg.Engine.KVTokens
	caching := map[bool]string{false: "True", true: "False"}[e.cfg.DisablePrefixCache]
	block := strconv.Itoa(blockSize)
	e.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", series{value: 1, labels: labels{
		"_block_size_resolved", "True", "block_size", block, "cache_dtype", "auto", "cache_hit_alignment_tokens", "None",
		"effective_attention_block_size", block, "enable_mamba_shared_prefix_checkpoint", "False",
		"enable_prefix_caching", caching, "engine", "0", "gpu_memory_utilization", "0.92", "hash_block_size", "None",
		"is_attention_free", "False", "kv_cache_dtype_skip_layers", "[]", "kv_cache_layout", "None",
		"kv_cache_max_concurrency", pythonFloat(float64(kv) / float64(e.cfg.MaxModelLen)), "kv_cache_memory_bytes", "1073741824",
		"kv_cache_size_tokens", strconv.Itoa(kv), "kv_offloading_backend", "native", "kv_offloading_size", "None",
		"kv_sharing_fast_prefill", "False", "mamba_block_size", "None", "mamba_cache_dtype", "auto",
		"mamba_cache_mode", "none", "mamba_page_size_padded", "None", "mamba_ssm_cache_dtype", "float32",
		"num_cpu_blocks", "None", "num_gpu_blocks", strconv.Itoa(kv / blockSize), "num_gpu_blocks_override", "None",
		"prefix_cache_retention_interval", "0", "prefix_caching_hash_algo", "sha256", "prefix_match_unit", "None",
		"replayssm_buffer_len", "16", "skip_page_size_padded", "None", "sliding_window", "None",
		"swa_bounded_replay", "True", "use_kda_recoverssm", "False", "use_replayssm", "False",
		"user_specified_block_size", "False",
	}})
}

// write adds the families of prometheus-fastapi-instrumentator. Its help texts end with a blank.
func (h *httpStats) write(out *page, start time.Time) {
	var requests, received, sent, durations []series
	for _, c := range h.requests {
		requests = append(requests, series{
			labels: labels{"handler", c.route, "method", c.method, "status", c.status}, value: float64(c.count), since: c.since,
		})
	}
	for _, r := range h.routes {
		handler := labels{"handler", r.route}
		received = append(received, series{labels: handler, value: r.received, count: r.receivedN, since: r.since})
		sent = append(sent, series{labels: handler, value: r.sent, count: r.sentN, since: r.since})
		durations = append(durations, series{labels: handler.with("method", r.method), histogram: r.duration, since: r.since})
	}
	if !out.multi || len(requests) > 0 {
		out.counter("http_requests", "Total number of requests by method, status and handler.", requests...)
		out.summary("http_request_size_bytes", "Content length of incoming requests by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. ", received...)
		out.summary("http_response_size_bytes", "Content length of outgoing responses by handler. Only value of header is respected. Otherwise ignored. No percentile calculated. ", sent...)
	}
	out.histogram("http_request_duration_highr_seconds", "Latency with many buckets but no API specific labels. Made for more accurate percentile calculations. ",
		series{histogram: h.duration, since: start})
	if !out.multi || len(durations) > 0 {
		out.histogram("http_request_duration_seconds", "Latency with only few buckets by handler. Made to be only used if aggregation by handler is important. ", durations...)
	}
}
