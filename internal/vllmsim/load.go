package vllmsim

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// Load is traffic of other users: an open loop with random arrivals whose rate breathes.
type Load struct {
	Rate         float64       // requests a second, on average
	Swing        float64       // by how much the rate rises and falls, requests a second
	Period       time.Duration // of one breath; it begins with the rate rising from its average
	PromptTokens int
	OutputTokens int
	Seed         uint64
}

// DemoLoad overloads [DemoModel] for about half a minute in every three, so that a queue grows and drains.
func DemoLoad() Load {
	return Load{Rate: 7, Swing: 6.5, Period: 3 * time.Minute, PromptTokens: 512, OutputTokens: 128}
}

// RunLoad sends the load straight to the scheduler, past HTTP, until ctx is done. It lives through restarts.
func (s *Server) RunLoad(ctx context.Context, l Load) {
	random := rand.New(rand.NewPCG(l.Seed, 0x6c6f6164))
	start := time.Now()
	for at := start; ; {
		rate := max(l.Rate/100, l.Rate+l.Swing*math.Sin(2*math.Pi*at.Sub(start).Seconds()/l.Period.Seconds()))
		at = at.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		if sleep(ctx, time.Until(at)) != nil {
			return
		}
		// Nobody reads the tokens, and a dead engine takes no requests: neither matters here.
		s.Engine().Submit(ctx, Request{PromptTokens: l.PromptTokens, OutputTokens: l.OutputTokens})
	}
}
