package config

import (
	"math"
	"time"

	"github.com/llm-prober/llm_prober/internal/histogram"
)

// DefaultValues is every value that a configuration may leave out.
type DefaultValues struct {
	Global
	Workload
	Engine      string
	IPFamily    string
	TargetLimit int // of a group
}

// Defaults returns the value of each key that is left out. Lists of SLOs are in [DefaultSLOs]; the in-flight
// cap is derived by [MaxInFlight].
func Defaults() DefaultValues {
	return DefaultValues{
		Global: Global{
			Interval:      15 * time.Second,
			Timeout:       60 * time.Second,
			StallTimeout:  30 * time.Second,
			Warmup:        5,
			RelayInterval: 5 * time.Second,
			Histograms:    string(histogram.Both),
		},
		Workload: Workload{
			API:            "chat",
			PromptTokens:   512,
			OutputTokens:   128,
			Arrival:        "constant",
			Seed:           42,
			Temperature:    0,
			MaxTokensField: "max_tokens",
		},
		Engine:      "auto",
		IPFamily:    "any",
		TargetLimit: 1000,
	}
}

// DefaultSLOs returns the objectives of a configuration without the key slos.
func DefaultSLOs() []SLO {
	return []SLO{
		{Name: "ttft", Indicator: "ttft", Threshold: 2 * time.Second, Objective: 0.99},
		{Name: "success", Indicator: "success", Objective: 0.99},
	}
}

// defaultAPIPath is where OpenAI-compatible servers have their API.
const defaultAPIPath = "/v1"

// Limits of values.
const (
	// MaxTimeout is the last bound of the TTFT and duration histograms: a longer wait could not be told
	// from any other.
	MaxTimeout = 120 * time.Second
	// MaxGap is the last bound of the inter-token latency histogram.
	MaxGap = 30 * time.Second
	// MinInterval keeps a probe from becoming load.
	MinInterval = 100 * time.Millisecond
	// MaxInFlightCap is the most probes of one workload that one target may have under way.
	MaxInFlightCap = 64
	// MinGaps is the least number of gaps between tokens for which itl_p95 gives a verdict.
	MinGaps = 20

	maxTokens = 1 << 20 // typing errors; no model has a longer context
	maxWarmup = 1000
	maxName   = 200     // bytes of a name, which becomes a label value
	maxLimit  = 10_000  // targets of a group, as many as may be listed
	maxPlans  = 100_000 // workloads of all targets together: each is a schedule of its own
	maxLabels = 20      // of a target; Mimir refuses a series of more than 30 (max_label_names_per_series), ours and Prometheus' included
)

// maxEntries bounds a list of sections: far more than one prober can do, and few enough that what each has to do with
// each other can be looked at.
func maxEntries(key string) int {
	if key == "targets" {
		return 10_000
	}
	return 1000
}

// MaxInFlight returns the in-flight cap of a plan that sets none: one more probe than can be under way if
// every one runs into its timeout, at most [MaxInFlightCap].
func MaxInFlight(timeout, interval time.Duration) int {
	return int(min(math.Ceil(float64(timeout)/float64(interval))+1, MaxInFlightCap))
}

// OwnedFields returns the fields of a request that the prober sets itself, which extra_body may not.
func OwnedFields() []string {
	return []string{
		"model", "messages", "prompt", "stream", "stream_options", "temperature", "seed",
		"max_tokens", "max_completion_tokens", "min_tokens", "ignore_eos", "cache_salt", "n",
	}
}

// DroppableFields returns the fields that drop_fields may name: those that a probe can do without.
func DroppableFields() []string {
	return []string{
		"cache_salt", "chat_template_kwargs", "ignore_eos", "min_tokens", "seed", "stream_options", "temperature",
	}
}

// ReservedLabels returns the label names that a target may not set, because a metric of the same registry
// has them already, Prometheus attaches them, or the alerts set or drop them. Names that begin with two
// underscores are reserved too.
func ReservedLabels() []string {
	return []string{
		"job", "instance", // attached by Prometheus
		"pod",                                                                                   // the prober's own, which the rules drop
		"alertname", "alertstate", "severity", "scope", "burn_rate", "long", "short", "latency", // of alerts
		"target", "workload", "reason", "slo", "indicator", "engine", "model_name", "source", "metric",
		"le", "quantile", // of histograms and summaries
		"api", "prompt_tokens", "output_tokens", "model", // of llm_probe_workload_info
		"engine_type", "version", "cache_dtype", "prefix_caching", "block_size", "kv_cache_tokens", // of llm_server_info
	}
}
