package vllmsim

import (
	"encoding/json"
	"time"
)

// null is a field that is there and says nothing, where a nil any is left out.
func null() any { return json.RawMessage("null") }

// chunk is a stream event of either API. Its choices differ.
type chunk struct {
	ID                string   `json:"id"`
	Object            string   `json:"object"`
	Created           int64    `json:"created"`
	Model             string   `json:"model"`
	Choices           []any    `json:"choices"`
	Usage             *usage   `json:"usage,omitempty"`
	SystemFingerprint string   `json:"system_fingerprint,omitempty"`
	Metrics           *metrics `json:"metrics,omitempty"`
}

type usage struct {
	PromptTokens            int `json:"prompt_tokens"`
	TotalTokens             int `json:"total_tokens"`
	CompletionTokens        int `json:"completion_tokens"`
	PromptTokensDetails     any `json:"prompt_tokens_details,omitempty"`
	CompletionTokensDetails any `json:"completion_tokens_details,omitempty"`
}

type promptDetails struct {
	CachedTokens       int `json:"cached_tokens"`
	CreatedCacheTokens any `json:"created_cache_tokens,omitempty"`
	MultimodalTokens   any `json:"multimodal_tokens,omitempty"`
}

type reasoningTokens struct {
	ReasoningTokens int `json:"reasoning_tokens"`
}

// metrics is the server's own account of the request. Times are in milliseconds.
type metrics struct {
	TimeToFirstToken    float64 `json:"time_to_first_token_ms"` // since it was scheduled: without the queue
	GenerationTime      float64 `json:"generation_time_ms"`
	QueueTime           float64 `json:"queue_time_ms"`
	MeanITL             any     `json:"mean_itl_ms,omitempty"`
	TokensPerSecond     float64 `json:"tokens_per_second"`
	SpeculativeDecoding any     `json:"speculative_decoding,omitempty"`
}

func (a *answer) newChunk(object string, choices ...any) chunk {
	if choices == nil {
		choices = []any{}
	}
	return chunk{ID: a.id, Object: object, Created: a.began, Model: a.model, Choices: choices}
}

// textChunk is an event with text. Only the very last event tells the fingerprint.
func (a *answer) textChunk(object string, choice any, last bool, details any) chunk {
	c := a.newChunk(object, choice)
	c.Usage = a.continuousUsage(details)
	if last && !a.includeUsage() {
		c.SystemFingerprint = a.fingerprint()
	}
	return c
}

func (a *answer) usageChunk(object string, u *usage) chunk {
	c := a.newChunk(object)
	c.Usage, c.SystemFingerprint, c.Metrics = u, a.fingerprint(), a.metrics()
	return c
}

func (a *answer) fingerprint() string { return "vllm-" + a.cfg.Version + "-8df8df49" }

func (a *answer) includeUsage() bool {
	return !a.plan.noUsage && a.req.streamOptions != nil && a.req.streamOptions.IncludeUsage
}

// continuousUsage is the usage so far, if the client wants it in every chunk.
func (a *answer) continuousUsage(details any) *usage {
	if !a.includeUsage() || !a.req.streamOptions.ContinuousUsageStats {
		return nil
	}
	u := a.usage()
	u.CompletionTokensDetails = details
	return u
}

// usage is the count so far, wrong by what a fault wants.
func (a *answer) usage() *usage {
	prompt, completion := len(a.prompt)+a.plan.promptError, max(0, a.tokens+a.plan.outputError)
	if a.plan.mute {
		completion = 0
	}
	return &usage{PromptTokens: prompt, TotalTokens: prompt + completion, CompletionTokens: completion}
}

func (a *answer) tokenIDs(d delta) []int {
	if a.req.returnTokenIDs {
		return d.ids
	}
	return nil
}

// metrics is nil unless the server was told to send them.
func (a *answer) metrics() *metrics {
	if !a.cfg.PerRequestMetrics {
		return nil
	}
	t := a.stream.Timings()
	m := &metrics{
		TimeToFirstToken: millis(t.Prefill()),
		GenerationTime:   millis(t.Generation()),
		QueueTime:        millis(t.Queue()),
		TokensPerSecond:  float64(a.tokens) / (t.Prefill() + t.Generation()).Seconds(),
	}
	if a.tokens > 1 {
		m.MeanITL = m.GenerationTime / float64(a.tokens-1)
	}
	return m
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// wholeHead and wholeTail are what answers that do not stream have in common.
type wholeHead struct {
	ID                string  `json:"id"`
	Object            string  `json:"object"`
	Created           int64   `json:"created"`
	Model             string  `json:"model"`
	Choices           []any   `json:"choices"`
	ServiceTier       *string `json:"service_tier"`
	SystemFingerprint string  `json:"system_fingerprint"`
	Usage             *usage  `json:"usage"`
}

type wholeTail struct {
	KVTransferParams *int     `json:"kv_transfer_params"`
	ECTransferParams *int     `json:"ec_transfer_params"`
	Metrics          *metrics `json:"metrics"`
}

// wholeHead leaves no field of the usage out. created is null for completions.
func (a *answer) wholeHead(object string, choice, created any) wholeHead {
	u := a.usage()
	u.PromptTokensDetails, u.CompletionTokensDetails = null(), null()
	if a.cfg.PromptTokensDetails {
		u.PromptTokensDetails = promptDetails{a.plan.cached, created, null()}
	}
	if a.cfg.ReasoningParser && a.thought > 0 {
		u.CompletionTokensDetails = reasoningTokens{a.thought}
	}
	return wholeHead{
		ID: a.id, Object: object, Created: a.began, Model: a.model, Choices: []any{choice},
		SystemFingerprint: a.fingerprint(), Usage: u,
	}
}

func (a *answer) wholeTail() wholeTail {
	m := a.metrics()
	if m != nil {
		m.SpeculativeDecoding = null()
		if m.MeanITL == nil {
			m.MeanITL = null()
		}
	}
	return wholeTail{Metrics: m}
}
