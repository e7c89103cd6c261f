package relay

import (
	"context"
	"errors"
	"time"

	"github.com/go-kit/log/level"

	"github.com/llm-prober/llm_prober/internal/scrub"
)

// healthEvery is how often /health is asked at most where that costs the server a token.
const healthEvery = 15 * time.Second

// watchHealth asks /health at every tick of the relay until ctx is done. It does not wait for a scrape, so that
// a page that does not come says nothing about health; but unless the user named the page, nothing is asked while
// the engine is not known.
func (r *Relay) watchHealth(ctx context.Context) {
	named := r.cfg.HealthURL != nil
	var asked time.Time
	r.every(ctx, func() {
		if !named && !r.awaitEngine(ctx) {
			return
		}
		if st := r.state.Load(); st != nil && st.healthCosts && time.Since(asked) < healthEvery {
			return
		}
		asked = time.Now()
		err := r.guard(func() error { return r.askHealth(ctx) })
		var failure *scrapeError
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &failure) && failure.reason == reasonInternal:
			level.Debug(r.log.logger).Log("msg", "the server's health could not be asked", "err", scrub.Text(err.Error(), maxErr))
		case named || r.engine.known.Load():
			healthy := err == nil
			r.healthy.Store(&healthy)
		}
	})
}

// awaitEngine waits until the engine is known for the first time, and reports whether it is.
func (r *Relay) awaitEngine(ctx context.Context) (known bool) {
	select {
	case <-r.engine.first:
		return r.engine.known.Load()
	case <-ctx.Done():
		return false
	}
}

// askHealth asks /health. Well is a server that answers 200 in time, whatever else it says.
func (r *Relay) askHealth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	resp, err := r.health.open(ctx, r.healthURL, "*/*")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	defer context.AfterFunc(ctx, func() { _ = resp.Body.Close() })()
	drain(resp)
	return checkStatus(resp)
}
