package prober

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/go-kit/log/level"
)

// server is what is known about the server behind a target: its model, how its prompts get their length, which
// fields it refuses. It is found out by the first probe that needs it, and again when it may have changed.
type server struct {
	client *client
	logger log.Logger
	asking chan struct{} // held while the server is asked, so that probes that start together ask once; not else

	mu      sync.Mutex
	model   string
	maxLen  int // prompt and output together; 0: unknown
	asked   bool
	fits    map[string]*fit
	unfit   map[string]unfit // workloads that cannot run here
	dropped map[string]bool  // replaced, never changed: requests keep it
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
		fits: map[string]*fit{}, unfit: map[string]unfit{}, dropped: map[string]bool{},
	}
}

// forget makes the next probe ask the server again: it may be another one now.
func (s *server) forget() {
	s.client.tails.forget()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.model, s.maxLen = false, "", 0
	clear(s.fits)
	clear(s.unfit)
	s.dropped = map[string]bool{}
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

// recipe is what requests of a workload are made of on one server. It is a copy, so that a request is made, which
// takes a millisecond for a long prompt, while nobody waits for it.
type recipe struct {
	workload *Workload
	model    string
	fit      fit
	dropped  map[string]bool
}

// request makes a request whose prompt is new.
func (r *recipe) request(salt string) (request, error) {
	req, err := r.workload.build(r.model, r.fit.draw(newRandom()), salt, r.dropped)
	if err != nil {
		return request{}, &failure{ReasonInternal, err}
	}
	req.model, req.words, req.dropped = r.model, r.fit.user, r.dropped
	return req, nil
}

// known returns the recipe of a workload; ok is false where the server must be asked first.
func (s *server) known(w *Workload) (r recipe, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.fits[w.Name]
	_, unfit := s.unfit[w.Name]
	if !s.asked || s.model == "" || f == nil || unfit || s.tooLong(w) {
		return r, false
	}
	return recipe{w, s.model, *f, s.dropped}, true
}

// learnt returns the recipe of a workload, and asks the server for what is not known of it. The error has a reason
// (failure), or is an unfitError.
func (s *server) learnt(ctx context.Context, w *Workload) (recipe, error) {
	if r, ok := s.known(w); ok {
		return r, nil
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return recipe{}, classify(ctx, phaseRequest, ctx.Err())
	}
	for { // what was learnt may be forgotten at any time
		if r, ok := s.known(w); ok {
			return r, nil
		}
		if err := s.ask(ctx, w); err != nil {
			return recipe{}, err
		}
	}
}

// ask finds out what is not known yet. Only one probe of a target does so at a time.
func (s *server) ask(ctx context.Context, w *Workload) error {
	s.mu.Lock()
	asked, fitted := s.asked, s.fits[w.Name] != nil
	s.mu.Unlock()
	if !asked {
		if err := s.askModel(ctx); err != nil {
			return err
		}
	}
	err := s.checkLength(w)
	var f *fit
	if err == nil && !fitted {
		if f, err = s.findFit(ctx, w); err == nil {
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

// askModel reads /v1/models: which model to ask for, and how long a request may be.
func (s *server) askModel(ctx context.Context) error {
	var list struct {
		Data []struct {
			ID     string `json:"id"`
			MaxLen int    `json:"max_model_len"`
		}
	}
	configured := s.client.target.Model
	status, err := s.client.call(ctx, http.MethodGet, "/v1/models", nil, &list)
	unlisted := status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
	if err != nil && (configured == "" || !unlisted) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.model
	s.model, s.maxLen = configured, 0
	for _, m := range list.Data {
		if s.model == "" {
			s.model = m.ID
		}
		if m.ID == s.model {
			s.maxLen = m.MaxLen
		}
	}
	if s.model == "" {
		return failf(ReasonModelNotFound, "GET /v1/models lists no model; set the target's model")
	}
	if s.model != before {
		clear(s.fits) // another tokenizer
	}
	s.asked = true
	return nil
}

// findFit finds how prompts of the workload get their length: exactly where the server can count tokens, else
// by a guess that usage will correct.
func (s *server) findFit(ctx context.Context, w *Workload) (*fit, error) {
	f, err := findFit(ctx, w, s.counter(w), newRandom())
	if errors.Is(err, errNoTokenizer) {
		level.Info(s.logger).Log("msg", "prompt length is corrected by the server's usage instead of its tokenizer", "workload", w.Name, "err", err)
		return guess(w), nil
	}
	if err != nil {
		return nil, err
	}
	level.Debug(s.logger).Log("msg", "prompts have their exact length", "workload", w.Name, "words", f.user, "system_words", f.system)
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

// counter counts tokens with the server's /tokenize endpoint.
func (s *server) counter(w *Workload) counter {
	return func(ctx context.Context, p prompt, bare bool) (int, error) {
		s.mu.Lock()
		in := map[string]any{"model": s.model}
		s.mu.Unlock()
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
			Count  *int
			MaxLen int `json:"max_model_len"`
		}
		status, err := s.client.call(ctx, http.MethodPost, "/tokenize", in, &out)
		switch {
		case err != nil && status == 0:
			return 0, err // no answer: that is the probe's failure
		case err != nil:
			return 0, fmt.Errorf("%w: %w", errNoTokenizer, err)
		case out.Count == nil:
			return 0, fmt.Errorf("%w: POST /tokenize answers without a count", errNoTokenizer)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.maxLen == 0 {
			s.maxLen = out.MaxLen
		}
		return *out.Count, nil
	}
}

// drop leaves a field out from now on. It reports false if it was left out already.
func (s *server) drop(field string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped[field] {
		return false
	}
	s.dropped = maps.Clone(s.dropped)
	s.dropped[field] = true
	return true
}

// learn draws conclusions from a result: a failure that another server would explain makes the next probe ask
// again.
func (s *server) learn(r *Result) {
	switch r.Reason {
	case ReasonDNS, ReasonConnect, ReasonModelNotFound, ReasonBadRequest:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = false
	}
}

// correct learns from the server's own count how many words make a prompt as long as asked. words is how many the
// request had: others may have been sent and counted since.
func (s *server) correct(r *Result, words int) {
	if r.PromptTokens <= 0 || r.PromptTokens == r.Workload.PromptTokens {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.fits[r.Workload.Name]; f != nil {
		f.user = max(1, words+r.Workload.PromptTokens-r.PromptTokens)
	}
}
