package vllmsim

import "time"

// Model says how long an engine step takes and how much fits into one. One step decodes one token of every
// running request and prefills as many prompt tokens as the budget leaves.
type Model struct {
	RunningCap  int // requests that run at once; the others wait
	TokenBudget int // tokens of one step, decoding and prefill together
	KVTokens    int // size of the KV cache in tokens

	// A step takes Base + PerDecode·decoding requests + PerPrefill·prefill tokens + PerAdmission·new requests.
	Base         time.Duration
	PerDecode    time.Duration
	PerPrefill   time.Duration
	PerAdmission time.Duration

	// Window is how long after a step began a request may still join it. It makes requests that arrive together
	// run together, as they do behind a real API server. It does not lengthen the step.
	Window time.Duration
}

// DefaultModel is Qwen3.5-4B on one A10 under vLLM 0.27, fitted to published measurements of that pair
// (512 prompt and 128 output tokens: 49 tokens/s alone, 890 tokens/s at 128 requests).
func DefaultModel() Model {
	return Model{
		RunningCap:   106,
		TokenBudget:  2048,
		KVTokens:     90_112,
		Base:         19650 * time.Microsecond,
		PerDecode:    352 * time.Microsecond,
		PerPrefill:   131 * time.Microsecond,
		PerAdmission: 6090 * time.Microsecond,
		Window:       time.Millisecond,
	}
}

// DemoModel is a small and fast server, of about 12 requests/s with 512 prompt and 128 output tokens, whose
// queue grows and drains within minutes under [DemoLoad].
func DemoModel() Model {
	return Model{
		RunningCap:   16,
		TokenBudget:  2048,
		KVTokens:     16_384,
		Base:         6 * time.Millisecond,
		PerDecode:    200 * time.Microsecond,
		PerPrefill:   20 * time.Microsecond,
		PerAdmission: time.Millisecond,
		Window:       time.Millisecond,
	}
}

func (m Model) stepTime(decoding, prefillTokens, admitted int) time.Duration {
	return m.Base + time.Duration(decoding)*m.PerDecode + time.Duration(prefillTokens)*m.PerPrefill +
		time.Duration(admitted)*m.PerAdmission
}
