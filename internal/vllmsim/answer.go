package vllmsim

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// api is what differs between chat and plain completions.
type api interface {
	idPrefix() string
	// limits names the fields that limit the answer: of those given the last one wins.
	limits() []string
	prompt(b *body) ([]int, *apiError)
	// opening is the event before the first text, nil if there is none.
	opening(a *answer) any
	chunk(a *answer, d delta) any
	usage(a *answer) any
	// whole is the answer to a request that does not stream.
	whole(a *answer, d delta) any
}

// answer is one request being answered.
type answer struct {
	cfg     *Config
	api     api
	req     completionRequest
	plan    plan
	id      string
	model   string
	began   int64 // Unix time
	prompt  []int
	created int // prompt tokens that are in the prefix cache from now on
	stream  *Stream
	words   *words
	tokens  int // generated so far
	thought int // of them reasoning
}

// delta is the text of one chunk.
type delta struct {
	reasoning, content       string
	hasReasoning, hasContent bool
	ids                      []int
	first, last              bool
}

func (s *Server) serveCompletion(api api) func(*process, http.ResponseWriter, *http.Request) {
	return func(p *process, w http.ResponseWriter, r *http.Request) {
		ctx, cancel := p.requestContext(r)
		defer cancel()
		faults := s.activeFaults()
		for _, f := range faults {
			if f.answer != nil && f.answer(ctx, w, f.setting) {
				return
			}
		}
		a, refusal := s.newAnswer(p, api, r, faults)
		if refusal != nil {
			refusal.write(w)
			return
		}
		if err := a.submit(ctx, p); err != nil {
			engineDead().write(w)
			return
		}
		if a.req.stream {
			a.serveStream(ctx, w)
		} else {
			a.serveWhole(ctx, w)
		}
	}
}

// requestContext ends with the request or with the process, whichever is first.
func (p *process) requestContext(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(p.ctx, func() { cancel(context.Cause(p.ctx)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// newAnswer accepts a request, or refuses it.
func (s *Server) newAnswer(p *process, api api, r *http.Request, faults []activeFault) (*answer, *apiError) {
	b, refusal := readBody(r)
	if refusal != nil {
		return nil, refusal
	}
	for _, f := range faults {
		if f.refuse != nil {
			if refusal := f.refuse(b, f.setting); refusal != nil {
				return nil, refusal
			}
		}
	}
	req, prompt, refusal := s.check(p, api, b)
	if refusal != nil {
		return nil, refusal
	}
	a := &answer{
		cfg: &s.cfg, api: api, req: req, prompt: prompt, began: time.Now().Unix(),
		id:    api.idPrefix() + cmp.Or(r.Header.Get("X-Request-Id"), req.requestID, s.hex(16)),
		model: cmp.Or(req.model, s.cfg.Models[0]),
		words: newWords(s.cfg.Seed, prompt, s.cfg.EmptyTokens),
		plan:  newPlan(min(req.maxTokens, s.cfg.MaxModelLen-len(prompt))), // vLLM, too, cuts at the end of the context
	}
	if p.cache != nil {
		a.plan.cached, a.created = p.cache.use(req.cacheSalt, prompt)
	}
	for _, f := range faults {
		if f.plan != nil {
			f.plan(a, f.setting)
		}
	}
	return a, nil
}

// check finds fault with a request in the order in which vLLM does.
func (s *Server) check(p *process, api api, b *body) (completionRequest, []int, *apiError) {
	req, refusal := b.completion(api.limits())
	if refusal != nil {
		return req, nil, refusal
	}
	if !s.hasModel(req.model) {
		return req, nil, modelNotFound(req.model, s.cfg.Models)
	}
	if p.engine.Err() != nil {
		return req, nil, engineDead()
	}
	prompt, refusal := api.prompt(b)
	if refusal != nil {
		return req, nil, refusal
	}
	if refusal := req.limit(len(prompt), s.cfg.MaxModelLen); refusal != nil {
		return req, nil, refusal
	}
	if limit := s.cfg.MaxNumQueuedReqs; limit > 0 && p.engine.Queued() >= limit {
		p.http.rejected()
		return req, nil, queueFull()
	}
	return req, prompt, nil
}

func (a *answer) submit(ctx context.Context, p *process) (err error) {
	a.stream, err = p.engine.Submit(ctx, Request{
		PromptTokens: len(a.prompt),
		OutputTokens: a.plan.outputTokens,
		CachedTokens: a.plan.cached,
		MaxTokens:    min(a.req.maxTokens, a.cfg.MaxModelLen-len(a.prompt)), // where the answer is cut
		FinishReason: a.plan.finish,
	})
	return err
}

func (a *answer) serveStream(ctx context.Context, w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.plan.contentType)
	out := &sse{ctx: ctx, w: w, conn: http.NewResponseController(w), drip: a.plan.drip, burst: a.plan.burst}
	out.open() // at once: vLLM sends its headers before it queues the request
	switch err := a.generate(ctx, out); {
	case err == nil && !a.plan.noDone:
		out.send([]byte("[DONE]"))
	case errors.Is(err, ErrEngineDead):
		out.fail(engineDead())
	case errors.Is(err, ErrClosed): // the process is gone, and its connections with it
		panic(http.ErrAbortHandler)
	}
	out.flush()
}

// errCut: a fault ended the answer.
var errCut = errors.New("cut")

// generate sends all events but [DONE].
func (a *answer) generate(ctx context.Context, out *sse) error {
	var pending delta
	for last := false; !last; {
		e, err := a.next(ctx, out)
		if err != nil {
			return err
		}
		if a.plan.cut != nil && a.tokens == a.plan.cutAfter {
			out.flush()
			a.plan.cut(out)
			return errCut
		}
		if a.tokens == 0 {
			if err := out.sendJSON(a.api.opening(a)); err != nil {
				return err
			}
		}
		a.add(&pending, e)
		last = e.Last
		if e.Token > 1 && !last && len(pending.ids) < a.req.streamInterval {
			continue
		}
		if err := out.sendJSON(a.api.chunk(a, pending)); err != nil {
			return err
		}
		pending = delta{}
	}
	if a.includeUsage() {
		return out.sendJSON(a.api.usage(a))
	}
	return nil
}

// next waits for a token, with comments meanwhile if the server was told to send them.
func (a *answer) next(ctx context.Context, out *sse) (Event, error) {
	if a.cfg.KeepAliveInterval == 0 {
		return a.stream.Next(ctx)
	}
	for {
		wait, cancel := context.WithTimeout(ctx, a.cfg.KeepAliveInterval)
		e, err := a.stream.Next(wait)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return e, err
		}
		if err := out.write([]byte(": keep-alive\n\n")); err != nil {
			return e, err
		}
	}
}

// add appends the text of one token.
func (a *answer) add(d *delta, e Event) {
	a.tokens++
	word, id := a.words.next()
	switch {
	case a.plan.mute:
		word = ""
	case a.plan.degenerate:
		word, id = "!", tokenID("!")
	}
	d.ids = append(d.ids, id)
	d.first = d.first || e.Token == 1
	d.last = e.Last
	if a.reasons() {
		a.thought++
		d.reasoning += word
		d.hasReasoning = true
	} else {
		d.content += word
		d.hasContent = true
	}
}

// reasons tells whether the token just added is reasoning.
func (a *answer) reasons() bool {
	_, chat := a.api.(chatAPI)
	return chat && a.cfg.ReasoningParser && (a.cfg.ReasoningTokens == 0 || a.tokens <= a.cfg.ReasoningTokens)
}

func (a *answer) serveWhole(ctx context.Context, w http.ResponseWriter) {
	var all delta
	for !all.last {
		e, err := a.stream.Next(ctx)
		switch {
		case err == nil:
			a.add(&all, e)
		case errors.Is(err, ErrEngineDead):
			engineDead().write(w)
			return
		default:
			panic(http.ErrAbortHandler)
		}
	}
	writeJSON(w, http.StatusOK, a.api.whole(a, all))
}

// words makes up text. The same prompt always has the same answer.
type words struct {
	random *rand.Rand
	empty  float64
}

// vocabulary are the words of answers; each is one token.
var vocabulary = strings.Fields(`the of and to in is for it was on are as with they be at this from have or one had by but not what all
	when your can there use an which she do how their if will up other about out many then them so some her
	would make like him into has look two go see`)

func newWords(seed uint64, prompt []int, empty float64) *words {
	h := fnv.New64a()
	for _, id := range prompt {
		binary.Write(h, binary.LittleEndian, int32(id))
	}
	return &words{random: rand.New(rand.NewPCG(seed, h.Sum64())), empty: empty}
}

func (w *words) next() (word string, id int) {
	word = " " + vocabulary[w.random.IntN(len(vocabulary))]
	id = tokenID(word)
	if w.random.Float64() < w.empty {
		word = ""
	}
	return word, id
}
