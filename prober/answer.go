package prober

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

const (
	// longOutputFactor is how many times the asked length an answer may have before it is cut.
	longOutputFactor = 2
	// maxFinish is how many characters of a finish_reason are kept; the longest known is "content_filter".
	maxFinish = 40
	// minDegenerate is how many characters an answer must have before "one character only" means anything.
	minDegenerate = 10
)

// answer interprets the events of one stream. It decides which of them carry tokens, and writes what it learns
// into the result; it does not know where the events come from.
type answer struct {
	res   *Result
	want  *Workload
	scrub func(string) string // takes secrets out of a server's words

	chunk    chunk
	terminal bool // a finish_reason or [DONE] came
	done     bool // [DONE] came
	reasoned bool // a token event was reasoning
	answered bool // a token event was not
	tokens   int  // token events

	// A server that counts (continuous usage, token ids) tells which events carry tokens.
	continuous bool // usage comes along with choices, not only at the end
	counted    int  // tokens so far by that count
	usage      int  // the last completion_tokens, -1 if none came

	only     []byte // the answer's first character
	repeated int    // how often it came
	varied   bool   // another came
}

func newAnswer(res *Result, scrub func(string) string) *answer {
	res.PromptTokens, res.CachedTokens = -1, -1
	return &answer{res: res, want: res.Workload, scrub: scrub, usage: -1}
}

// take interprets one event. token tells that it carries tokens.
func (a *answer) take(e sseEvent) (token bool, err error) {
	data := bytes.TrimSpace(e.data)
	switch {
	case string(data) == "[DONE]":
		a.terminal, a.done = true, true
		return false, nil
	case string(e.name) == "error":
		return false, a.serverError(data)
	case len(data) == 0:
		return false, nil
	}
	c := &a.chunk
	if err := c.decode(data); err != nil {
		if len(e.name) > 0 {
			return false, nil // an annotation of the server's own, such as Dynamo's request_id
		}
		return false, err
	}
	if c.err != nil {
		return false, a.serverError(c.err)
	}
	token = a.carriesToken(c)
	a.note(c)
	return token, nil
}

// serverError is the failure of an error that came inside a stream.
func (a *answer) serverError(raw []byte) error {
	raw = []byte(a.scrub(string(raw)))
	wrapped, err := json.Marshal(map[string]json.RawMessage{"error": raw})
	if err != nil {
		wrapped = raw
	}
	return failf(ReasonServerError, "the server reported inside the stream: %s", errorMessage(wrapped))
}

// carriesToken applies the definition of a token event. A count that the server sends along decides where there
// is one; else text does, and after the first text an empty delta too, for vLLM sends one for a token that
// decodes to nothing.
func (a *answer) carriesToken(c *chunk) bool {
	if !c.hasChoice {
		return false
	}
	payload := len(c.content) > 0 || len(c.reasoning) > 0 || c.tools
	final := len(c.finish) > 0
	if c.hasUsage && c.completionTokens >= 0 && !final {
		a.continuous = true
	}
	switch {
	case c.tokenIDs >= 0:
		a.counted += c.tokenIDs
		return c.tokenIDs > 0
	case c.hasUsage && a.continuous && c.completionTokens > a.counted:
		a.counted = c.completionTokens
		return true
	case c.hasUsage && a.continuous && a.counted > 0:
		return false
	case payload:
		return true
	default:
		return a.tokens > 0 && c.hasDelta && !c.role && !final
	}
}

// note takes everything from a chunk but its time.
func (a *answer) note(c *chunk) {
	res := a.res
	if len(c.finish) > 0 {
		a.terminal = true
		res.FinishReason = clip(a.scrub(unescape(c.finish)), maxFinish)
	}
	if c.promptTokens >= 0 {
		res.PromptTokens = c.promptTokens
	}
	if c.completionTokens >= 0 {
		a.usage = c.completionTokens
	}
	if c.cachedTokens >= 0 {
		res.CachedTokens = c.cachedTokens
	}
	if len(c.model) > 0 && string(c.model) != res.Model && unescape(c.model) != res.Model {
		res.Suspect |= SuspectOtherModel
	}
	if c.metrics != nil {
		res.Server = serverTimings(c.metrics)
	}
	a.lookForVariety(c.content)
	a.lookForVariety(c.reasoning)
}

// serverTimings decodes vLLM's per-request metrics; nil if they are not what vLLM sends.
func serverTimings(raw []byte) *ServerTimings {
	var m struct {
		Prefill *float64 `json:"time_to_first_token_ms"` // from being scheduled on: the queue is not in it
		Queue   *float64 `json:"queue_time_ms"`
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.Prefill == nil || m.Queue == nil || *m.Prefill < 0 || *m.Queue < 0 {
		return nil
	}
	millis := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	return &ServerTimings{Queue: millis(*m.Queue), Prefill: millis(*m.Prefill)}
}

// lookForVariety notes whether the answer so far is one character, over and over.
func (a *answer) lookForVariety(text []byte) {
	if a.varied || len(text) == 0 {
		return
	}
	first, same := sameCharacter(text)
	if a.only == nil {
		a.only = slices.Clone(first)
	}
	if !same || !bytes.Equal(first, a.only) {
		a.varied = true
		return
	}
	a.repeated += len(text) / len(first)
}

// arrived notes the time of the event that take just called a token event. Events come in their order, be their
// stamps a moment out of it.
func (a *answer) arrived(at time.Time) {
	res := a.res
	if at.Before(res.LastToken) {
		at = res.LastToken
	}
	a.tokens++
	if a.tokens == 1 {
		res.FirstToken = at
		res.FirstTokens = max(1, a.counted)
	} else {
		res.Gaps = append(res.Gaps, at.Sub(res.LastToken))
	}
	res.LastToken = at
	switch c := &a.chunk; {
	case len(c.content) > 0 || c.tools:
		if a.reasoned && !a.answered {
			res.FirstAnswer, res.AnswerToken = at, a.tokens-1
		}
		a.answered = true
	case len(c.reasoning) > 0:
		a.reasoned = true
	}
}

// tooLong: the answer has reached the length at which it is cut.
func (a *answer) tooLong() bool {
	return max(a.tokens, a.counted) >= longOutputFactor*a.want.OutputTokens && !a.terminal
}

// finish judges the answer once the stream has ended, cut tells whether by us. err is why it ended, nil for a
// clean end.
func (a *answer) finish(cut bool, err error) error {
	res := a.res
	a.countTokens()
	switch {
	case cut:
		res.Suspect |= SuspectLongOutput
	case a.tokens == 0 && a.terminal:
		return failf(ReasonEmptyOutput, "the stream ended (finish_reason %q) without a token; usage says %d", res.FinishReason, a.usage)
	case !a.terminal && err != nil:
		return err
	case !a.terminal:
		return failf(ReasonTruncated, "the stream ended without finish_reason or [DONE]")
	case !a.done:
		res.Suspect |= SuspectNoDone
	}
	a.judgeShape()
	return nil
}

// countTokens chooses the count of output tokens: usage, unless it is absent, says 0 of a stream with tokens, or
// claims tokens that never came.
func (a *answer) countTokens() {
	res := a.res
	res.OutputTokens, res.TokenSource = a.usage, FromUsage
	if a.usage <= 0 || a.tokens == 0 {
		res.OutputTokens, res.TokenSource = max(a.tokens, a.counted), FromChunks
	}
	if a.usage >= 0 && (a.usage < a.tokens || a.counted > 0 && a.usage != a.counted) {
		res.Suspect |= SuspectUsageMismatch
	}
}

// judgeShape doubts a success whose shape is not what was asked.
func (a *answer) judgeShape() {
	res := a.res
	// Token events are fewer than tokens where an event carries several, so without usage only the server's own
	// word, "stop", says that an answer is short.
	short := res.OutputTokens < a.want.OutputTokens && (res.TokenSource == FromUsage || res.FinishReason == "stop")
	for _, doubt := range []struct {
		holds  bool
		reason Suspect
	}{
		{res.PromptTokens >= 0 && res.PromptTokens != a.want.PromptTokens, SuspectPromptLength},
		{short, SuspectShortOutput},
		{res.OutputTokens > a.want.OutputTokens, SuspectLongOutput},
		{res.CachedTokens > 0, SuspectCachedPrompt},
		{res.coalesced(), SuspectCoalesced},
		{!a.varied && a.repeated >= minDegenerate, SuspectDegenerate},
	} {
		if doubt.holds {
			res.Suspect |= doubt.reason
		}
	}
	if res.doubtful() {
		res.Suspect |= SuspectReaderLate
	}
}

// coalesced tells a stream that a proxy sends on in pieces of its own.
func (r *Result) coalesced() bool {
	var b Bursts
	for i := range r.Gaps {
		b.Add(r.Gap(i).Most)
	}
	return b.Coalesced()
}
