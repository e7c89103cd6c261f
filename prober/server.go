package prober

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// server is what is known about the server behind a target: its model, how its prompts get their length, which
// fields it refuses. It is found out by the first probe that needs it, and again when it may have changed.
//
// What it is asked for that, its list of models and its tokenizer, are courtesies: they take a bounded time, and where
// they fail a probe goes out with what is known. Only a target without a model needs the list.
type server struct {
	client *client
	logger log.Logger
	asking chan struct{} // held while the server is asked, so that probes that start together ask once; not else

	mu       sync.Mutex
	model    string
	aliases  []string // other names of the model; replaced, never changed: requests keep it
	maxLen   int      // prompt and output together; 0: unknown
	asked    bool
	unlisted time.Time // when a list that could not be read is asked for again; zero: it was read
	relist   backoff   // of asking for it sooner, because probes fail
	noWay    error     // why no connection came about for the list; nil: one did
	fits     map[string]*fit
	unfit    map[string]unfit // workloads that cannot run here
	fields   fields
	told     map[string]bool // what was told once
	untold   []tale          // told with the next success: with a failure they would only say that the server is down
}

// tale is a line about a courtesy that failed.
type tale struct {
	key  string
	line []any
}

const (
	// callLimit bounds one request around a probe, and searchLimit all that it takes to find how prompts get their
	// length. Neither takes more than its share of the probe's time, a quarter.
	callLimit     = 3 * time.Second
	searchLimit   = 10 * time.Second
	courtesyShare = 4
	// relistPause is when a list of models that could not be read is asked for again.
	relistPause = 10 * time.Minute
	// retryPause is when a courtesy that failed is asked for again because probes fail; later pauses are longer.
	retryPause = 10 * time.Second
)

// backoff spaces attempts that fail: each pause is twice as long as the one before, up to 10 minutes.
type backoff struct {
	pause time.Duration
	next  time.Time
}

// failed begins the next pause; first is the length of the first one.
func (b *backoff) failed(now time.Time, first time.Duration) {
	b.pause = min(max(first, 2*b.pause), relistPause)
	b.next = now.Add(b.pause)
}

// due reports whether the pause is over.
func (b *backoff) due(now time.Time) bool { return !now.Before(b.next) }

// courtesy bounds what is asked around a probe.
func courtesy(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/courtesyShare)
	}
	return context.WithTimeoutCause(ctx, limit, errTimeout)
}

// unfitRecheck is when a workload that the server cannot run is looked at again.
const unfitRecheck = 5 * time.Minute

// unfit is why a workload cannot run here, and when to look again.
type unfit struct {
	why   string
	until time.Time
}

// unfitError: the workload asks what this server cannot give. That is a mistake in the configuration and no
// outage: the workload is not sent.
type unfitError struct {
	err   error
	known bool // it has been told before
}

func (e *unfitError) Error() string { return e.err.Error() }
func (e *unfitError) Unwrap() error { return e.err }

func newServer(c *client, logger log.Logger) *server {
	return &server{
		client: c, logger: logger, asking: make(chan struct{}, 1),
		fits: map[string]*fit{}, unfit: map[string]unfit{}, fields: newFields(), told: map[string]bool{},
	}
}

// forget makes the next probe ask the server again: it may be another one now.
func (s *server) forget() {
	s.client.tails.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.model, s.aliases, s.maxLen, s.unlisted, s.noWay, s.relist = false, "", nil, 0, time.Time{}, nil, backoff{}
	clear(s.fits)
	clear(s.unfit)
	clear(s.told)
	s.untold = nil
	s.fields = newFields()
}

// served is the model that the server was found to serve.
func (s *server) served() Model {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Model{Name: s.model, MaxLen: s.maxLen}
}

// runs reports whether the workload can run here as far as is known.
func (s *server) runs(w *Workload) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	unfit, found := s.unfit[w.Name]
	return !found || time.Now().After(unfit.until)
}

// requestSpec is what requests of a workload are made of on one server. It is a copy, so that a request is made, which
// takes a millisecond for a long prompt, while nobody waits for it.
type requestSpec struct {
	workload *Workload
	model    string
	aliases  []string
	fit      fit
	omission
}

// request makes a request whose prompt is new.
func (r requestSpec) request(salt string) (request, error) {
	req, err := r.workload.build(r.model, r.fit.draw(newRandom()), salt, r.dropped)
	if err != nil {
		return request{}, &failure{ReasonInternal, err}
	}
	req.model, req.aliases, req.words, req.from = r.model, r.aliases, r.fit.user, r
	return req, nil
}

// known returns the spec of a workload's requests; ok is false where the server must be asked first.
func (s *server) known(w *Workload) (r requestSpec, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fits[w.Name]
	_, unfit := s.unfit[w.Name]
	if !s.asked || s.model == "" || f == nil || f.due() || unfit || s.tooLong(w) {
		return r, false
	}
	return requestSpec{w, s.model, s.aliases, *f, s.fields.next(w, time.Now())}, true
}

// learnt returns the spec of a workload's requests, and asks the server for what is not known of it. The error has a reason
// (failure), or is an unfitError.
func (s *server) learnt(ctx context.Context, w *Workload) (requestSpec, error) {
	if r, ok := s.known(w); ok {
		return r, nil
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return requestSpec{}, classify(ctx, phaseRequest, ctx.Err())
	}
	for { // what was learnt may be forgotten at any time
		if r, ok := s.known(w); ok {
			return r, nil
		}
		if err := s.ask(ctx, w); err != nil {
			return requestSpec{}, err
		}
	}
}

// ask finds out what is not known yet. Only one probe of a target does so at a time.
func (s *server) ask(ctx context.Context, w *Workload) error {
	s.mu.Lock()
	asked, before := s.asked, s.fits[w.Name]
	fitted := before != nil && !before.due()
	s.mu.Unlock()
	if !asked {
		if err := s.askModel(ctx); err != nil {
			return err
		}
	}
	err := s.checkLength(w)
	var f *fit
	if err == nil && !fitted {
		if f, err = s.findFit(ctx, w, before); err == nil {
			err = s.checkLength(w) // the tokenizer may have told the limit that /v1/models did not
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := (*unfitError)(nil); errors.As(err, &e) {
		e.known = s.unfit[w.Name].why == e.Error()
		s.unfit[w.Name] = unfit{e.Error(), time.Now().Add(unfitRecheck)}
		s.asked = false
	}
	if err == nil {
		delete(s.unfit, w.Name)
		if f != nil {
			s.fits[w.Name] = f
		}
	}
	return err
}

// askModel reads /v1/models: which model to ask for, and how long a request may be. Where the model is known, no
// answer is an answer too.
func (s *server) askModel(ctx context.Context) error {
	s.mu.Lock()
	model := cmp.Or(s.client.target.Model, s.model)
	s.mu.Unlock()
	asking, cancel := ctx, context.CancelFunc(func() {})
	if model != "" {
		asking, cancel = courtesy(ctx, callLimit)
	}
	defer cancel()
	list, status, err := s.models(asking)
	switch {
	case ctx.Err() != nil:
		return classify(ctx, phaseRequest, ctx.Err())
	case err != nil && model == "":
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.noWay = true, nil
	if err != nil {
		if f := (*failure)(nil); status == 0 && errors.As(err, &f) && unconnected[f.reason] {
			s.noWay = err
		}
		s.model, s.unlisted = model, time.Now().Add(relistPause)
		s.relist.failed(time.Now(), retryPause)
		s.tellLater("models", "msg", "the list of models cannot be read, so it is not known how long a request may be (max_model_len)", "err", err)
		return nil
	}
	s.unlisted, s.relist = time.Time{}, backoff{}
	s.useModels(list)
	return nil
}

// models reads the server's list. An empty one fails where it has to name the model.
func (s *server) models(ctx context.Context) (list []listedModel, status int, err error) {
	path := s.client.target.endpoint("/models")
	var raw json.RawMessage
	if status, err = s.client.call(ctx, http.MethodGet, path, nil, &raw); err != nil {
		return nil, status, err
	}
	if list, err = parseModels(raw); err != nil {
		return nil, status, failf(ReasonMalformed, "GET %s: %w", path, err)
	}
	if len(list) == 0 && s.client.target.Model == "" {
		return nil, status, failf(ReasonModelNotFound, "GET %s lists no model; set the target's model", path)
	}
	return list, status, nil
}

// unconnected are the failures of a request without an answer that a connection of its own would have too.
var unconnected = map[Reason]bool{ReasonDNS: true, ReasonConnect: true, ReasonTLS: true, ReasonAuth: true}

// unreachable is why nothing could be asked, because no connection came about; nil if it did.
func (s *server) unreachable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noWay
}

// useModels needs the lock.
func (s *server) useModels(list []listedModel) {
	before := s.model
	if s.model = s.client.target.Model; s.model == "" {
		s.model = s.client.secrets.Hide(list[0].id)
	}
	if s.model != before {
		clear(s.fits) // another tokenizer
	}
	s.maxLen, s.aliases = contextOf(list, s.model), aliasesOf(list, s.model)
}

// refresh asks for a list of models again that could not be read. It is called while no probe waits for it.
func (s *server) refresh(ctx context.Context) {
	s.mu.Lock()
	due := s.asked && !s.unlisted.IsZero() && time.Now().After(s.unlisted)
	s.mu.Unlock()
	if !due {
		return
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
		_ = s.askModel(ctx) // the next time is set already
	default: // a probe asks
	}
}

// tellLater keeps a line until a probe has succeeded. It needs the lock.
func (s *server) tellLater(key string, line ...any) {
	if !s.told[key] {
		s.untold = append(s.untold, tale{key, line})
	}
}

// findFit finds how prompts of the workload get their length: exactly where the server can count tokens, else by a
// guess that usage will correct, or has corrected (before).
func (s *server) findFit(ctx context.Context, w *Workload, before *fit) (*fit, error) {
	asking, cancel := courtesy(ctx, searchLimit)
	defer cancel()
	f, err := (*fit)(nil), s.unreachable()
	if err == nil {
		f, err = findFit(asking, w, s.counter(w), newRandom())
	}
	unfit := (*unfitError)(nil)
	switch {
	case err == nil:
		level.Debug(s.logger).Log("msg", "prompts have their exact length", "workload", w.Name, "words", f.user, "system_words", f.system)
		return f, nil
	case ctx.Err() != nil:
		return nil, classify(ctx, phaseRequest, ctx.Err())
	case errors.As(err, &unfit):
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tellLater("length of "+w.Name, "msg", "prompt length is corrected by the server's usage instead of its tokenizer", "workload", w.Name, "err", err)
	f = guess(w)
	if before != nil {
		*f = *before
		f.again = false
	}
	f.retry.failed(time.Now(), retryPause)
	return f, nil
}

// checkLength finds a workload that is longer than the model's context.
func (s *server) checkLength(w *Workload) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tooLong(w) {
		return &unfitError{err: fmt.Errorf("prompt_tokens %d and output_tokens %d are %d together; model %q takes at most %d (max_model_len)",
			w.PromptTokens, w.OutputTokens, w.PromptTokens+w.OutputTokens, s.model, s.maxLen)}
	}
	return nil
}

// tooLong needs the lock.
func (s *server) tooLong(w *Workload) bool {
	return s.maxLen > 0 && w.PromptTokens+w.OutputTokens > s.maxLen
}

// maxTemplate is how many tokens a chat template may add. The longest with a system prompt of its own have about
// 3,000.
const maxTemplate = 8 << 10

// counter counts tokens with the server's /tokenize endpoint.
func (s *server) counter(w *Workload) counter {
	return func(ctx context.Context, p prompt, bare bool) (int, error) {
		s.mu.Lock()
		in := map[string]any{"model": s.model}
		s.mu.Unlock()
		most := len(p.system) + len(p.user) + maxTemplate // no token is shorter than a byte
		switch {
		case bare:
			in["prompt"], in["add_special_tokens"] = p.user, false
		case w.API == Completions:
			in["prompt"] = p.text()
		default:
			in["messages"] = p.messages()
			if kwargs, ok := w.ExtraBody["chat_template_kwargs"]; ok {
				in["chat_template_kwargs"] = kwargs
			}
		}
		var out struct {
			Count  json.RawMessage
			MaxLen json.RawMessage `json:"max_model_len"`
		}
		ctx, cancel := context.WithTimeoutCause(ctx, callLimit, errTimeout)
		defer cancel()
		if _, err := s.client.call(ctx, http.MethodPost, "/tokenize", in, &out); err != nil {
			return 0, fmt.Errorf("%w: %w", errNoTokenizer, err)
		}
		count, ok := wholeNumber(out.Count, most)
		if !ok {
			return 0, fmt.Errorf("%w: POST /tokenize counts %s tokens in %d bytes", errNoTokenizer, scrub.Text(cmp.Or(string(out.Count), "no"), 20), len(p.system)+len(p.user))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.maxLen == 0 {
			s.maxLen, _ = wholeNumber(out.MaxLen, maxContext)
		}
		return count, nil
	}
}

// mayRefuse are the failures that may be about a field. A bad_request is about the request, so that it is sent once more
// whatever the words; the others (a 500 with "unexpected keyword argument", a 501, an error before the first token of a stream)
// are about a field only where they name it.
var mayRefuse = map[Reason]bool{ReasonBadRequest: true, ReasonHTTPStatus: true, ReasonServerError: true}

// again returns what a request that failed is to be made of once more, nil if it is not. advice is what the
// configuration could do about a refusal.
func (s *server) again(req request, err error) (r *requestSpec, advice string) {
	var f *failure
	var refused *refusal
	if !errors.As(err, &f) || !mayRefuse[f.reason] || !errors.As(err, &refused) {
		return nil, ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	more, ok, advice := s.fields.again(req.from.workload, req.from.omission, refused.body, f.reason == ReasonBadRequest, time.Now())
	if !ok {
		return nil, advice
	}
	again := req.from
	again.omission = more
	return &again, advice
}

// refusedAnyway: a request was refused that had left out fields.
func (s *server) refusedAnyway() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fields.refusedAnyway(time.Now())
}

// accepted learns from a request that has succeeded which fields the server takes. why is the refusal that made it
// leave some out.
func (s *server) accepted(req request, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	restored, left := s.fields.accepted(req.from.workload, req.from.omission, time.Now())
	if len(restored) > 0 {
		level.Info(s.logger).Log("msg", "the server takes fields again that it had refused", "workload", req.from.workload.Name, "fields", strings.Join(restored, ","))
	}
	if len(left) > 0 && req.from.unnamed {
		s.tellOnce("unnamed", "msg", "the server refuses what the prober adds to requests, sending without it; the next probes find out which field it is",
			"workload", req.from.workload.Name, "fields", strings.Join(left, ","), "err", why)
		return
	}
	for _, field := range left {
		line := []any{"msg", "the server refuses a field, sending without it", "workload", req.from.workload.Name, "field", field}
		if len(left) == 1 {
			line = append(line, "err", why)
		}
		s.tellOnce("field "+field, line...)
	}
}

// tellOnce needs the lock.
func (s *server) tellOnce(key string, line ...any) {
	if !s.told[key] {
		s.told[key] = true
		level.Warn(s.logger).Log(line...)
	}
}

// patient are the failures that say nothing about whether the server was there: what it did not tell is not asked
// again because of them.
var patient = map[Reason]bool{ReasonAuth: true, ReasonRateLimited: true, ReasonInternal: true}

// learn draws conclusions from a result. A failure that another server would explain makes the next probe ask again,
// and any that may have come of what made a courtesy fail makes it ask for that. A success shows that the courtesy
// alone had failed: now that is told.
func (s *server) learn(r *Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Abandoned:
		return
	case r.OK():
		s.fields.refusals = 0
		for _, t := range s.untold {
			if !s.told[t.key] {
				s.told[t.key] = true
				level.Info(s.logger).Log(t.line...)
			}
		}
		s.untold = nil
		if s.noWay != nil { // there is one now
			s.asked, s.noWay = false, nil
			s.askTokenizer(r.Workload)
		}
		return
	}
	switch r.Reason {
	case ReasonDNS, ReasonConnect, ReasonModelNotFound, ReasonBadRequest:
		s.asked = false
	}
	if r.Reason == ReasonBadRequest {
		s.fields.refused()
	}
	if patient[r.Reason] {
		return
	}
	s.untold = nil
	if !s.unlisted.IsZero() && s.relist.due(time.Now()) {
		s.asked = false
	}
	s.askTokenizer(r.Workload)
}

// askTokenizer makes a probe ask for the length of prompts, once it is time, if it was only guessed. It needs the lock.
func (s *server) askTokenizer(w *Workload) {
	if f := s.fits[w.Name]; f != nil && !f.exact {
		f.again = true
	}
}

// correct learns from the server's own count how many words make a prompt as long as asked. words is how many the
// request had: others may have been sent and counted since.
func (s *server) correct(r *Result, words int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fits[r.Workload.Name]
	if f == nil || r.PromptTokens <= 0 || f.lost {
		return
	}
	if f.correct(words, r.PromptTokens, r.Workload.PromptTokens); f.lost {
		level.Warn(s.logger).Log("msg", "the server's count of prompt tokens does not follow the prompt, whose length is not corrected any more",
			"workload", r.Workload.Name, "words", words, "prompt_tokens", r.PromptTokens)
	}
}
