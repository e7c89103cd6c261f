package prober

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/bound"
	"github.com/llm-prober/llm_prober/internal/scrub"
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
	res     *Result
	want    *Workload
	hide    func(string) string // takes secrets out of a server's words
	aliases []string            // other names of the model

	chunk    chunk
	closing  closing // what the finish_reason says
	done     bool    // [DONE] came
	reasoned bool    // a token event was reasoning
	answered bool    // a token event was not
	tokens   int     // token events
	received int     // bytes of data
	remarks  remarks // what came beside the answer

	// A server that counts (continuous usage, token ids) tells of events without text whether they carry tokens.
	continuous bool // usage comes along with tokens, not only at the end
	counted    int  // tokens so far by that count
	usage      int  // the last completion_tokens, -1 if none came
	reasoning  int  // the last reasoning_tokens, -1 if none came
	impossible bool // a number came that cannot be right

	model    []byte       // the name that was compared last, still escaped
	timings  *vllmTimings // the server's own account, not yet believed
	only     []byte       // the answer's first character
	repeated int          // how often it came
	varied   bool         // another came
}

// newAnswer begins an answer. aliases are names beside that of the request by which the server may call the model.
func newAnswer(res *Result, hide func(string) string, aliases []string) *answer {
	res.PromptTokens, res.CachedTokens = -1, -1
	return &answer{res: res, want: res.Workload, hide: hide, aliases: aliases, usage: -1, reasoning: -1}
}

// ended: nothing but usage and [DONE] is to come.
func (a *answer) ended() bool { return a.closing.complete() || a.done }

// take interprets one event. token tells that it carries tokens. The error is the server's, or that the event is none.
func (a *answer) take(e sseEvent) (token bool, err error) {
	data := bytes.TrimSpace(e.data)
	if string(data) == "[DONE]" && !errorEvent(e.name) {
		a.done = true
		return false, a.beside(e.stray)
	}
	if isChunk, err := a.judge(e, data); !isChunk || err != nil {
		return false, err
	}
	token = a.carriesToken(&a.chunk)
	return token, a.note(&a.chunk)
}

// left interprets the event in whose midst the stream ended, which the standard drops: only an error counts.
func (a *answer) left(e sseEvent) error {
	data := bytes.TrimSpace(e.data)
	if string(data) == "[DONE]" {
		return nil
	}
	_, err := a.judge(e, data)
	if errors.Is(err, errMalformed) {
		a.remark(data)
		return nil
	}
	return err
}

// judge tells errors, chunks and all else apart, in this order. The else is kept.
func (a *answer) judge(e sseEvent, data []byte) (isChunk bool, err error) {
	if errorEvent(e.name) {
		for _, words := range [][]byte{data, e.stray, e.comment} {
			if says(words) {
				return false, a.serverError(words)
			}
		}
		return false, a.serverError(fmt.Appendf(nil, "(an event named %q without words)", e.name))
	}
	if err := a.beside(e.stray); err != nil || len(data) == 0 {
		return false, err
	}
	a.received += len(data)
	c := &a.chunk
	if err := c.decode(data); err != nil {
		if name := string(e.name); name != "" && name != "message" { // the default name is no name
			a.annotation(name, data)
			return false, nil
		}
		return false, fmt.Errorf("%w: %s", err, scrub.Text(a.words(data), maxRemark))
	}
	if c.reportsError() {
		return false, a.serverError(c.errorText())
	}
	if !c.present && !c.othersChoices && !c.hasUsage && c.unknown {
		a.annotation(string(e.name), data)
	} else if c.othersChoices && !c.present {
		a.remark(data)
	}
	return true, nil
}

// beside takes lines of no known field. Servers write errors so ("error: {...}"), and what they meant as data.
func (a *answer) beside(stray []byte) error {
	stray = bytes.TrimSpace(stray)
	if len(stray) == 0 {
		return nil
	}
	if stray[0] == '{' {
		var c chunk
		if c.decode(stray) == nil {
			if c.reportsError() {
				return a.serverError(c.errorText())
			}
			a.remark(stray)
			return nil
		}
	}
	for line := range bytes.Lines(stray) {
		name, value, found := bytes.Cut(line, []byte{':'})
		if value = bytes.TrimSpace(value); found && errorName(name) && says(value) {
			return a.serverError(value)
		}
	}
	a.remark(stray)
	return nil
}

// says reports whether there is anything in a text, which may be JSON.
func says(text []byte) bool {
	s := jsonScanner{data: text}
	full := s.filled(anything)
	return !empty(text) && (full || s.bad || s.pos < len(text))
}

// quiet are annotations that tell nothing of a failure: pings, and those of Dynamo.
var quiet = map[string]bool{
	"ping": true, "heartbeat": true, "keepalive": true, "keep-alive": true,
	"request_id": true, "llm_metrics": true, "tool_call_dispatch": true, "reasoning_dispatch": true,
}

func (a *answer) annotation(name string, data []byte) {
	if !quiet[name] {
		a.remark(data)
	}
}

func (a *answer) remark(text []byte) { a.remarks.add(text) }

// serverError is the failure of an error that came inside a stream, told in the server's words. Before the first token
// it may be a refusal: gateways begin to answer before they ask the server behind them.
func (a *answer) serverError(raw []byte) error {
	text := strings.ToValidUTF8(a.words(raw), "\uFFFD")
	a.res.Body = scrub.Text(text, maxBody)
	err := failf(ReasonServerError, "the server reported inside the stream: %s", errorMessage([]byte(text)))
	if a.tokens == 0 {
		return &refusal{err, text}
	}
	return err
}

// words are a server's own, without secrets. No more is looked through than can be shown.
func (a *answer) words(raw []byte) string { return a.hide(string(raw[:min(len(raw), maxErrorBody)])) }

// carriesToken applies the definition of a token event. What was generated is a token, whatever a count says. Of a
// chunk without any, a count that the server sends along decides; else it is one where the text is there and empty,
// after the first token, for vLLM sends "" for a token that decodes to nothing. With the finish_reason and after it,
// there is none without text: there, servers add citations and traces to the delta.
func (a *answer) carriesToken(c *chunk) bool {
	if !c.present {
		return false
	}
	closing := a.closingOf(c)
	counts, grew := a.count(c, closing)
	switch {
	case c.text, c.payload() && closing == unfinished && !a.closing.complete():
		return true
	case a.closing.complete():
		return false
	case counts:
		return grew
	default:
		return a.tokens > 0 && c.blank && !c.role && closing == unfinished
	}
}

// count takes the count that a chunk brings along: of all tokens so far (continuous usage), or its own (token ids).
// A usage that comes with the finish_reason or after it, or with a chunk that has nothing to count after others had no
// usage, is that of the whole answer.
func (a *answer) count(c *chunk, closing closing) (counts, grew bool) {
	usage := -1
	if n, ok := bound.Within(c.completionTokens, a.most()); ok && c.hasUsage {
		usage = n
	}
	begins := c.payload() || a.tokens == 0 && c.blank && !c.role
	if usage > 0 && begins && closing == unfinished && a.closing == unfinished {
		a.continuous = true
	}
	switch {
	case c.tokenIDs >= 0:
		a.counted += c.tokenIDs
		return true, c.tokenIDs > 0
	case usage >= 0 && a.continuous:
		grew = usage > a.counted
		a.counted = max(a.counted, usage)
		return a.counted > 0, grew
	default:
		return false, false
	}
}

// most is how many tokens can have come so far: what was asked, twice, or as many as there are bytes.
func (a *answer) most() int { return max(longOutputFactor*a.want.OutputTokens, a.received) }

// mostPrompt is how many tokens a prompt can have: several for each that was asked, where the words that were found
// with one tokenizer meet another, and what a template or a gateway puts before it.
func (a *answer) mostPrompt() int { return 16*a.want.PromptTokens + 64<<10 }

func (a *answer) closingOf(c *chunk) closing {
	switch {
	case len(c.finish) == 0: // nearly always
		return unfinished
	case len(c.finish) > maxWord: // no word is so long; looking for one would cost too much
		return unknownWord
	}
	return closingOf(unescape(c.finish))
}

// note takes everything from a chunk but its time. The error is a finish_reason that says that the server gave up.
func (a *answer) note(c *chunk) error {
	a.noteCounts(c)
	a.noteModel(c.model)
	if c.metrics != nil {
		a.timings = decodeTimings(c.metrics)
	}
	if c.answers && len(c.content) == 0 {
		a.varied = true
	}
	a.lookForVariety(c.content)
	a.lookForVariety(c.reasoning)
	closing := a.closingOf(c)
	if closing == unfinished {
		return nil
	}
	a.res.FinishReason = scrub.Text(a.hide(unescape(c.finish)), maxFinish)
	if closing == broken {
		return failf(ReasonServerError, "the server gave up: finish_reason %q", a.res.FinishReason)
	}
	if !a.closing.complete() {
		a.closing = closing
	}
	return nil
}

// noteCounts takes the counts of usage. Gateways send the prompt's in one chunk and the answer's in another, with a 0
// for what they do not know, so that a 0 overwrites nothing.
func (a *answer) noteCounts(c *chunk) {
	if !c.hasUsage {
		return
	}
	a.impossible = a.impossible || c.badCount
	for _, count := range []struct {
		n, most int
		to      *int
	}{
		{c.promptTokens, a.mostPrompt(), &a.res.PromptTokens},
		{c.cachedTokens, a.mostPrompt(), &a.res.CachedTokens},
		{c.completionTokens, a.most(), &a.usage},
		{c.reasoningTokens, a.most(), &a.reasoning},
	} {
		n, ok := bound.Within(count.n, count.most)
		switch {
		case count.n < 0: // absent
		case !ok:
			a.impossible = true
		case n > 0 || *count.to < 0:
			*count.to = n
		}
	}
}

// noteModel compares the model that answers with the one that was asked.
func (a *answer) noteModel(name []byte) {
	if len(name) == 0 || bytes.Equal(name, a.model) {
		return
	}
	a.model = append(a.model[:0], name...)
	answered := unescape(name)
	same := func(asked string) bool { return sameModel(asked, answered) }
	if !same(a.res.Model) && !slices.ContainsFunc(a.aliases, same) {
		a.res.Suspect |= SuspectOtherModel
	}
}

// vllmTimings is vLLM's account of one request, in milliseconds.
type vllmTimings struct {
	Prefill *float64 `json:"time_to_first_token_ms"` // from being scheduled on: the queue is not in it
	Queue   *float64 `json:"queue_time_ms"`
}

// decodeTimings decodes vLLM's per-request metrics; nil if they are not what vLLM sends.
func decodeTimings(raw []byte) *vllmTimings {
	m := &vllmTimings{}
	if err := json.Unmarshal(raw, m); err != nil || m.Prefill == nil || m.Queue == nil {
		return nil
	}
	return m
}

// believeTimings takes over the server's account if its parts, together, are not longer than what the probe itself
// measured from the request to the first token.
func (a *answer) believeTimings() {
	if a.timings == nil || a.res.FirstToken.IsZero() {
		return
	}
	most := float64(a.res.FirstToken.Sub(a.res.Sent)+SoundError) / float64(time.Millisecond)
	queue, queued := bound.Within(*a.timings.Queue, most)
	prefill, filled := bound.Within(*a.timings.Prefill, most-queue)
	if !queued || !filled {
		a.impossible = true
		return
	}
	millis := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	a.res.Server = &ServerTimings{Queue: millis(queue), Prefill: millis(prefill)}
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
	case c.answers:
		if a.reasoned && !a.answered {
			res.FirstAnswer, res.AnswerToken = at, a.tokens-1
		}
		a.answered = true
	case c.reasons:
		a.reasoned = true
	}
}

// tooLong: the answer has reached the length at which it is cut.
func (a *answer) tooLong() bool {
	return max(a.tokens, a.counted) >= longOutputFactor*a.want.OutputTokens && !a.ended()
}

// finish judges the answer once the stream has ended, cut tells whether by us. err is why it ended, nil for a
// clean end. A failure tells what came beside the answer: it may be why.
func (a *answer) finish(cut bool, err error) error {
	a.countTokens()
	a.believeTimings()
	if a.impossible {
		a.res.Suspect |= SuspectUsageMismatch
	}
	if cut {
		a.res.Suspect |= SuspectLongOutput
	} else if err = a.completeness(err); err != nil {
		if words := a.remarks.text(a.hide); words != "" {
			err = wrapWords(err, words)
			a.res.Body = cmp.Or(a.res.Body, scrub.Text(words, maxBody))
		}
		return err
	}
	a.judgeShape()
	return nil
}

// wrapWords adds a server's words to a failure.
func wrapWords(err error, words string) error {
	return fmt.Errorf("%w; beside the answer the stream held: %s", err, scrub.Text(words, maxMessage))
}

// completeness is the one place that decides whether an answer is complete: the server says so with a finish_reason,
// or with [DONE] and a count of all the tokens that were asked for. A word that nobody knows is good enough if all
// tokens are there. What was never called complete failed.
func (a *answer) completeness(err error) error {
	res, asked := a.res, a.want.OutputTokens
	var f *failure
	told := a.closing != unfinished || a.done
	all := res.TokenSource == FromUsage && res.OutputTokens >= asked
	switch {
	case errors.As(err, &f) && f.reason == ReasonServerError:
		return err // whatever it said before
	case told && a.tokens == 0:
		return failf(ReasonEmptyOutput, "the stream ended (finish_reason %q) without a token; usage says %d", res.FinishReason, a.usage)
	case a.closing.complete():
	case a.closing == unknownWord && (all || max(a.tokens, a.counted) >= asked):
		res.Suspect |= SuspectFinishReason
	case a.done && all:
	case err != nil:
		return err
	case a.closing == unknownWord:
		return failf(ReasonTruncated, "the stream ended with finish_reason %q, which does not say that the answer is complete, after %d of %d tokens", res.FinishReason, res.OutputTokens, asked)
	case a.done:
		return failf(ReasonTruncated, "the stream ended with [DONE] but without finish_reason, after %d of %d tokens", res.OutputTokens, asked)
	default:
		return failf(ReasonTruncated, "the stream ended without finish_reason or [DONE]")
	}
	if !a.done {
		res.Suspect |= SuspectNoDone
	}
	return nil
}

// countTokens chooses the count of output tokens: usage, unless it is absent, says 0 of a stream with tokens, or
// claims tokens that never came.
func (a *answer) countTokens() {
	res := a.res
	hidden := a.neverStreamed()
	res.OutputTokens, res.TokenSource = a.usage, FromUsage
	if a.usage <= 0 || a.tokens == 0 {
		res.OutputTokens, res.TokenSource = max(a.tokens, a.counted), FromChunks
	}
	if a.usage >= 0 && (a.usage < a.tokens || a.counted > 0 && a.usage != a.counted && a.usage != a.counted+hidden) {
		res.Suspect |= SuspectUsageMismatch
	}
	if res.FirstTokens <= hidden { // else the count that came with the first event has them
		res.FirstTokens += hidden
	}
	if res.PromptTokens >= 0 && res.CachedTokens > res.PromptTokens {
		res.CachedTokens, a.impossible = -1, true
	}
}

// neverStreamed is how many of the tokens in usage were reasoning that the server kept to itself: none if it streamed
// reasoning, or if the others were fewer than the events, so that usage must count them apart.
func (a *answer) neverStreamed() int {
	if a.reasoning <= 0 || a.reasoned || a.tokens == 0 || a.usage-a.reasoning < a.tokens {
		return 0
	}
	return a.reasoning
}

// judgeShape doubts a success whose shape is not what was asked.
func (a *answer) judgeShape() {
	res := a.res
	// Token events are fewer than tokens where an event carries several, so without usage only the server's own
	// word, such as "stop", says that an answer is short.
	short := res.OutputTokens < a.want.OutputTokens && (res.TokenSource == FromUsage || a.closing == stopped)
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
		b.Add(r.Gaps[i], r.Gap(i).Most)
	}
	return b.Coalesced()
}
