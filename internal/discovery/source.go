package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

const (
	// startAgain is when a source that could not start is started again: a file of its client may have come.
	startAgain = 30 * time.Second
	// freshError is the time within which an answer does not mend an error: the discovery of several files tells of
	// each by itself.
	freshError = time.Second
)

// source is one service discovery of a group. What can change is guarded by the finder's mutex.
type source struct {
	finder  *Finder
	group   string
	index   int // in its group
	config  discovery.Config
	secrets scrub.Secrets

	state    Source
	known    bool            // what it finds stands in the configuration
	since    time.Time       // its start
	replaces bool            // it stands where another one has found something
	settled  time.Time       // until when it only adds
	told     []labels.Labels // by itself, the last; nil: nothing yet
	found    []labels.Labels // what counts
	more     int             // found beyond those
}

// newSource makes a source in the place of before, which may be nil.
func newSource(f *Finder, group string, index int, c discovery.Config, before *source) *source {
	s := &source{finder: f, group: group, index: index, config: c, state: Source{Mechanism: c.Name()}, since: time.Now()}
	switch c := c.(type) {
	case discovery.StaticConfig:
		s.known, s.state.Answered = true, s.since
		s.found, s.more = labelSets(c, s.secrets.Hide)
		return s
	case *http.SDConfig:
		s.secrets.Client(&c.HTTPClientConfig)
		if u, err := url.Parse(c.URL); err == nil { // it was checked
			s.secrets.URL(u)
		}
	case *kubernetes.SDConfig:
		s.secrets.Client(&c.HTTPClientConfig)
		s.secrets.URL(c.APIServer.URL)
	}
	if before != nil {
		s.replaces, s.found, s.more = len(before.found) > 0, before.found, before.more
	}
	return s
}

// take takes what the manager has for this source, if it was asked now, and reports whether anything has changed.
func (s *source) take(now time.Time, groups []*targetgroup.Group, asked bool) bool {
	switch {
	case s.known:
		return false
	case s.state.Answered.IsZero(): // what the manager has is nobody's word
		if silent := s.state.Err == "" && now.Sub(s.since) > silence; !silent || len(s.found) == 0 {
			return false
		}
		s.found, s.more = nil, 0
		return true
	}
	if asked {
		s.told, s.more = labelSets(groups, s.secrets.Hide)
	}
	if s.told == nil {
		return false
	}
	next := s.told
	if now.Before(s.settled) {
		next = slices.Concat(s.found, s.told)
		slices.SortFunc(next, labels.Compare)
		next = slices.CompactFunc(next, labels.Equal)
	}
	if slices.EqualFunc(s.found, next, labels.Equal) {
		return false
	}
	s.found = next
	return true
}

// answered notes that the source has told what there is.
func (s *source) answered() {
	f, now := s.finder, time.Now()
	f.mu.Lock()
	first, well := s.state.Answered.IsZero(), now.Sub(s.state.ErrAt) >= freshError
	if first && s.replaces {
		s.settled = now.Add(settleTime)
	}
	s.state.Answered = now
	f.mu.Unlock()
	if first {
		f.tell()
	}
	if well {
		s.mended()
	}
}

// mended notes that there is no error any more.
func (s *source) mended() {
	f := s.finder
	f.mu.Lock()
	was := s.state.Err
	s.state.Err, s.state.ErrAt = "", time.Time{}
	f.mu.Unlock()
	if was != "" {
		f.logger.Info("service discovery answers again", "group", s.group, "discovery", s.state.Mechanism)
		f.tell()
	}
}

// failed notes an error, and reports whether it is another one than before.
func (s *source) failed(text string) bool {
	text = s.secrets.Text(text, maxReason)
	f := s.finder
	f.mu.Lock()
	another := s.state.Err != text
	s.state.Err, s.state.ErrAt = text, time.Now()
	f.mu.Unlock()
	if another {
		f.tell()
	}
	return another
}

// watched is the configuration of a source for Prometheus' manager, which goes on with what runs if the configuration is
// deeply equal to the one before. Two with the same set and Config have the same source, so that what source points to
// is never compared.
type watched struct {
	set string
	discovery.Config
	source *source
}

// NewDiscoverer implements [discovery.Config].
func (w watched) NewDiscoverer(o discovery.DiscovererOptions) (discovery.Discoverer, error) {
	return discoverer{w, o}, nil
}

// discoverer runs the discovery of a source and notes what it tells. What cannot start is started again.
type discoverer struct {
	watched
	options discovery.DiscovererOptions
}

// Run implements [discovery.Discoverer].
func (d discoverer) Run(ctx context.Context, up chan<- []*targetgroup.Group) {
	if !d.source.finder.begin() {
		return
	}
	defer d.source.finder.running.Done()
	ctx = d.source.secrets.Trace(ctx)
	options := d.options
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	options.Logger = slog.New(noted{options.Logger.Handler(), d.source})
	for {
		err := d.discover(ctx, options, up)
		if ctx.Err() != nil {
			return
		}
		options.Logger.Error("service discovery does not run and is started again", "err", err, "after", startAgain)
		select {
		case <-time.After(startAgain):
		case <-ctx.Done():
			return
		}
	}
}

// discover runs the discovery until ctx is done or it ends by itself.
func (d discoverer) discover(ctx context.Context, o discovery.DiscovererOptions, up chan<- []*targetgroup.Group) error {
	inner, err := d.Config.NewDiscoverer(o)
	if err != nil {
		return err
	}
	found, ended := make(chan []*targetgroup.Group), make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				ended <- fmt.Errorf("panic: %v", p)
			}
		}()
		inner.Run(ctx, found)
		ended <- errors.New("it has ended by itself")
	}()
	for {
		select {
		case groups, more := <-found:
			if !more { // the static one has told all
				<-ctx.Done()
				<-ended
				return nil
			}
			d.source.answered()
			select {
			case up <- groups:
			case <-ctx.Done():
			}
		case err := <-ended:
			return err
		}
	}
}

// noted is the log of a source: errors are noted, each is logged once, and no secret is logged.
type noted struct {
	slog.Handler
	source *source
}

// Handle implements [slog.Handler].
func (h noted) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" || a.Key == "error" {
			text += ": " + a.Value.String()
		}
		if k := a.Value.Kind(); k == slog.KindString || k == slog.KindAny {
			a.Value = slog.StringValue(h.source.secrets.Text(a.Value.String(), maxReason))
		}
		clean.AddAttrs(a)
		return true
	})
	if r.Level >= slog.LevelError && !h.source.failed(text) {
		return nil
	}
	return h.Handler.Handle(ctx, clean)
}

// WithAttrs implements [slog.Handler].
func (h noted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noted{h.Handler.WithAttrs(attrs), h.source}
}

// WithGroup implements [slog.Handler].
func (h noted) WithGroup(name string) slog.Handler {
	return noted{h.Handler.WithGroup(name), h.source}
}

// clientOptions bound what an HTTP service discovery may answer.
func clientOptions(dial promconfig.DialContextFunc) []promconfig.HTTPClientOption {
	return []promconfig.HTTPClientOption{promconfig.WithDialContextFunc(boundedDial(dial)), promconfig.WithKeepAlivesDisabled()}
}
