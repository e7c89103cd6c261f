package vllmsim

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
)

// Model says how long an engine step takes and how much fits into one. One step decodes one token of every
// running request and prefills as many prompt tokens as the budget leaves.
type Model struct {
	RunningCap  int // requests that run at once; the others wait
	TokenBudget int // tokens of one step, decoding and prefill together
	KVTokens    int // size of the KV cache in tokens

	// A step takes Base + PerDecode·decoding requests + PerContext·their tokens in the KV cache + PerPrefill·prefill
	// tokens + PerAdmission·new requests.
	Base         time.Duration
	PerDecode    time.Duration
	PerContext   time.Duration // reading one token's keys and values
	PerPrefill   time.Duration
	PerAdmission time.Duration

	// PerIntake is what the API server takes for one prompt token, parsing and tokenizing, before the scheduler
	// knows of the request. It delays the request, not the step.
	PerIntake time.Duration

	// Window is how long after a step began a request may still join it. It makes requests that arrive together
	// run together, as they do behind a real API server. It does not lengthen the step.
	Window time.Duration

	// Async composes a step when the one before it begins, as vLLM's --async-scheduling does (its default on a
	// GPU): the GPU never waits for the scheduler, but a request joins the step after the next at the earliest.
	Async bool
}

// Work is what one engine step does.
type Work struct {
	Decoding int // requests that decode one token each
	Context  int // tokens that those have in the KV cache together
	Prefill  int // prompt tokens
	Admitted int // requests whose first step it is
}

// DefaultModel is Qwen3.5-4B on one A10 under vLLM 0.27, fitted to published measurements of that pair
// (512 prompt and 128 output tokens: 49 tokens/s alone, 890 tokens/s at 128 requests). PerContext is what reading
// the 32 KiB that its eight attention layers keep of a token takes at the 600 GB/s of the card.
func DefaultModel() Model {
	return Model{
		RunningCap:   109,
		TokenBudget:  2048,
		KVTokens:     90_112,
		Base:         19700 * time.Microsecond,
		PerDecode:    320 * time.Microsecond,
		PerContext:   55 * time.Nanosecond,
		PerPrefill:   127 * time.Microsecond,
		PerAdmission: 7300 * time.Microsecond,
		PerIntake:    4900 * time.Nanosecond,
		Window:       time.Millisecond,
		Async:        true,
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

// StepTime is how long a step takes.
func (m Model) StepTime(w Work) time.Duration {
	return m.Base +
		time.Duration(w.Decoding)*m.PerDecode + time.Duration(w.Context)*m.PerContext +
		time.Duration(w.Prefill)*m.PerPrefill + time.Duration(w.Admitted)*m.PerAdmission
}

// Validate tells what keeps the model from running a request.
func (m Model) Validate() error {
	var problems []error
	need := func(ok bool, format string, value any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, value))
		}
	}
	need(m.RunningCap > 0, "running cap %d: must be at least 1", m.RunningCap)
	need(m.TokenBudget > 0, "token budget %d: must be at least 1", m.TokenBudget)
	need(m.KVTokens >= blockSize, "KV cache of %d tokens: must hold at least one block of 16", m.KVTokens)
	for _, d := range []time.Duration{m.Base, m.PerDecode, m.PerContext, m.PerPrefill, m.PerAdmission, m.PerIntake, m.Window} {
		need(d >= 0, "cost %v: must not be negative", d)
	}
	return errors.Join(problems...)
}

// Fits refuses a request that the KV cache could not hold even if it ran alone. vLLM never starts one: it refuses to
// begin with a longest context that does not fit into the cache, and to take a request above that context.
func (m Model) Fits(promptTokens, outputTokens int) error {
	if need := promptTokens + outputTokens; (need+blockSize-1)/blockSize > m.KVTokens/blockSize {
		return fmt.Errorf("a request of %d prompt and %d output tokens needs %d tokens of KV cache, which has %d", promptTokens, outputTokens, need, m.KVTokens)
	}
	return nil
}

// String tells the model in one line.
func (m Model) String() string {
	parts := []string{fmt.Sprintf("at most %d running, %d tokens a step, KV cache of %d tokens; a step takes %s", m.RunningCap, m.TokenBudget, m.KVTokens, humanize.Chosen(m.Base.Seconds()))}
	for _, cost := range []struct {
		each time.Duration
		of   string
	}{
		{m.PerDecode, "request that decodes"},
		{m.PerContext, "token of their context"},
		{m.PerPrefill, "prefill token"},
		{m.PerAdmission, "new request"},
	} {
		if cost.each > 0 {
			parts = append(parts, fmt.Sprintf("%s per %s", humanize.Chosen(cost.each.Seconds()), cost.of))
		}
	}
	text := strings.Join(parts, ", ")
	if m.PerIntake > 0 {
		text += fmt.Sprintf("; intake %s per prompt token", humanize.Chosen(m.PerIntake.Seconds()))
	}
	if m.Async {
		text += "; asynchronous scheduling"
	}
	return text
}
