package collector

import (
	"bytes"
	"context"
	"time"
)

// relayHealthEvery is how often /health is asked at most where that costs the server a token.
const relayHealthEvery = 15 * time.Second

// watchHealth asks /health at every tick of the relay until ctx is done. It does not wait for a scrape, so that
// a page that does not come says nothing about health.
func (r *Relay) watchHealth(ctx context.Context) {
	var asked time.Time
	r.every(ctx, func() {
		if st := r.state.Load(); st != nil && st.healthCosts && time.Since(asked) < relayHealthEvery {
			return
		}
		asked = time.Now()
		if healthy := r.askHealth(ctx); ctx.Err() == nil {
			r.healthy.Store(&healthy)
		}
	})
}

// askHealth reports whether /health answers 200 in time.
func (r *Relay) askHealth(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	var buf bytes.Buffer
	_, err := relayGet(ctx, r.client, r.healthURL, "*/*", relayMaxJSON, &buf)
	return err == nil
}
