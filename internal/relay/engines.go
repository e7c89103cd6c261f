package relay

// Engine is the server software whose metrics a relay reads.
type Engine string

// The engines. What each of them exposes is told in engineTables.
const (
	EngineAuto     Engine = "auto" // found out: see [Config]
	EngineVLLM     Engine = "vllm"
	EngineSGLang   Engine = "sglang"
	EngineLlamaCpp Engine = "llamacpp"
)

// family numbers the families that are relayed under the labels engine and model_name.
type family int

const (
	familyRunning family = iota
	familyWaiting
	familyKVUsage
	familyPreemptions
	familyPromptTokens
	familyGenerationTokens
	familyCacheQueries
	familyCacheHits
	familyTTFT
	familyQueueTime
	familyPrefillTime
	families // how many there are
)

// infoField numbers the labels of llm_server_info that are read from a page.
type infoField int

const (
	infoCacheDtype infoField = iota
	infoPrefixCaching
	infoBlockSize
	infoKVCacheTokens
	infoFields // how many there are
)

// engineSource says where a family is found on an engine's page.
type engineSource struct {
	family family
	// names are the sample names, newest first; the first that a page has counts. For a summary they are the
	// name of the histogram, whose _sum and _count are read.
	names []string
	// plus is the name of a counter that the engine keeps apart and the others include; it is added.
	plus string
	// optional: the engine shows it only in some cases, so that its absence says nothing.
	optional bool
	// newer: pages that show the KV cache usage under an older name are of versions that may lack it.
	newer bool
}

// engineInfoSource says where a label of llm_server_info is found: in a label or, without one, in the value.
type engineInfoSource struct {
	field infoField
	name  string
	label string
}

// engineTable is all that the relay knows of an engine. A new engine is a new table.
type engineTable struct {
	engine  Engine
	prefix  string // of its sample names, by which a page is recognised
	ownedBy string // how it signs the models that /v1/models lists; empty: not by a name of its own
	sources []engineSource
	info    []engineInfoSource

	// engineLabel becomes our label engine; "0" where the page has none.
	engineLabel string
	// rankLabels number the replicas of one engine, each of which reports the same requests: the lowest counts.
	rankLabels []string
	// breakdownLabel, where set and not empty, marks a part of a total that is on the page too.
	breakdownLabel string

	// versionPaths are asked in turn for a JSON object with the string versionKey.
	versionPaths []string
	versionKey   string
	// healthCosts: /health makes the model generate a token when it is idle, so it is asked less often.
	healthCosts bool
}

// engineTables lists the engines, as of vLLM 0.6 to 0.33, SGLang 0.4 to 0.5.18 and llama.cpp b10573.
func engineTables() []*engineTable {
	return []*engineTable{vllmTable(), sglangTable(), llamaCppTable()}
}

// Engines returns the values of [Config.Engine]: [EngineAuto] and the engines that the relay knows.
func Engines() []Engine {
	engines := []Engine{EngineAuto}
	for _, table := range engineTables() {
		engines = append(engines, table.engine)
	}
	return engines
}

// vllmTable: vllm/v1/metrics/loggers.py. The "gpu_" names were hidden in 0.10 and removed in 0.12. The V0
// engine (vllm/engine/metrics.py, the default until 0.7) has no counters of its prefix cache, only a hit rate, and
// its first versions do not tell queue and prefill apart.
func vllmTable() *engineTable {
	const info = "vllm:cache_config_info"
	return &engineTable{
		engine:  EngineVLLM,
		prefix:  "vllm:",
		ownedBy: "vllm",
		sources: []engineSource{
			{family: familyRunning, names: []string{"vllm:num_requests_running"}},
			{family: familyWaiting, names: []string{"vllm:num_requests_waiting"}},
			{family: familyKVUsage, names: []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}},
			{family: familyPreemptions, names: []string{"vllm:num_preemptions_total"}},
			{family: familyPromptTokens, names: []string{"vllm:prompt_tokens_total"}},
			{family: familyGenerationTokens, names: []string{"vllm:generation_tokens_total"}},
			{family: familyCacheQueries, names: []string{"vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"}, newer: true},
			{family: familyCacheHits, names: []string{"vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"}, newer: true},
			{family: familyTTFT, names: []string{"vllm:time_to_first_token_seconds"}},
			{family: familyQueueTime, names: []string{"vllm:request_queue_time_seconds"}, newer: true},
			{family: familyPrefillTime, names: []string{"vllm:request_prefill_time_seconds"}, newer: true},
		},
		info: []engineInfoSource{
			{infoCacheDtype, info, "cache_dtype"},
			{infoPrefixCaching, info, "enable_prefix_caching"},
			{infoBlockSize, info, "block_size"},
			{infoKVCacheTokens, info, "kv_cache_size_tokens"},
		},
		engineLabel:  "engine",
		versionPaths: []string{"version"},
		versionKey:   "version",
	}
}

// sglangTable: python/sglang/srt/observability/metrics_collector.py. Its scheduler reports per rank and,
// with priority scheduling, per priority beside the total; its counters appear with the first request that ends.
func sglangTable() *engineTable {
	return &engineTable{
		engine:  EngineSGLang,
		prefix:  "sglang:",
		ownedBy: "sglang",
		sources: []engineSource{
			{family: familyRunning, names: []string{"sglang:num_running_reqs"}},
			{family: familyWaiting, names: []string{"sglang:num_queue_reqs"}},
			{family: familyKVUsage, names: []string{"sglang:token_usage"}},
			{family: familyPreemptions, names: []string{"sglang:num_retracted_requests_total"}, optional: true},
			{family: familyPromptTokens, names: []string{"sglang:prompt_tokens_total"}},
			{family: familyGenerationTokens, names: []string{"sglang:generation_tokens_total"}},
			// Every prompt token is looked up in the radix cache, and there is no counter of its own for that.
			{family: familyCacheQueries, names: []string{"sglang:prompt_tokens_total"}},
			{family: familyCacheHits, names: []string{"sglang:cached_tokens_total"}, optional: true},
			{family: familyTTFT, names: []string{"sglang:time_to_first_token_seconds"}},
			{family: familyQueueTime, names: []string{"sglang:queue_time_seconds"}, optional: true},
		},
		info: []engineInfoSource{
			{infoBlockSize, "sglang:page_size", ""},
			{infoBlockSize, "sglang:cache_config_info", "page_size"},
			{infoKVCacheTokens, "sglang:max_total_num_tokens", ""},
		},
		engineLabel:    "dp_rank",
		rankLabels:     []string{"tp_rank", "pp_rank", "moe_ep_rank"},
		breakdownLabel: "priority",
		versionPaths:   []string{"server_info", "get_server_info"},
		versionKey:     "version",
		healthCosts:    true,
	}
}

// llamaCppTable: tools/server/server-task.cpp; exposed only with --metrics. Its prompt tokens leave out
// those that came from the cache, which the other engines count.
func llamaCppTable() *engineTable {
	const cached = "llamacpp:prompt_tokens_cached_total"
	return &engineTable{
		engine:  EngineLlamaCpp,
		prefix:  "llamacpp:",
		ownedBy: "llamacpp",
		sources: []engineSource{
			{family: familyRunning, names: []string{"llamacpp:requests_processing"}},
			{family: familyWaiting, names: []string{"llamacpp:requests_deferred"}},
			{family: familyKVUsage, names: []string{"llamacpp:kv_cache_usage_ratio"}, optional: true},
			{family: familyPromptTokens, names: []string{"llamacpp:prompt_tokens_total"}, plus: cached},
			{family: familyGenerationTokens, names: []string{"llamacpp:tokens_predicted_total"}},
			{family: familyCacheQueries, names: []string{"llamacpp:prompt_tokens_total"}, plus: cached, optional: true},
			{family: familyCacheHits, names: []string{cached}, optional: true},
		},
		versionPaths: []string{"props"},
		versionKey:   "build_info",
	}
}

// engineByName finds the table of an engine; nil for auto and for names that are none.
func engineByName(engine Engine) *engineTable {
	for _, t := range engineTables() {
		if t.engine == engine {
			return t
		}
	}
	return nil
}

// engineByOwner finds the table of the engine that signs its models so; nil if none does.
func engineByOwner(ownedBy string) *engineTable {
	for _, t := range engineTables() {
		if t.ownedBy != "" && t.ownedBy == ownedBy {
			return t
		}
	}
	return nil
}
