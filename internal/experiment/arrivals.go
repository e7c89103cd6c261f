package experiment

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/llm-prober/llm_prober/prober"
)

// Arrivals lists when the requests of an open loop are due, counted from the level's start. The first is due at 0,
// then come gaps of 1/Rate, or exponential ones with that mean. The same seed gives the same times on every machine;
// levels differ. A request that is missed at the bound on those in flight is one of them.
func (p Plan) Arrivals(level int) iter.Seq[time.Duration] {
	l := p.Levels[level]
	random := rand.New(rand.NewPCG(p.Seed, uint64(level)))
	return func(yield func(time.Duration) bool) {
		at := 0.0 // seconds
		for n := 0; l.Requests == 0 || n < l.Requests; n++ {
			due := time.Duration(at * float64(time.Second))
			if l.Duration > 0 && due >= l.Duration || !yield(due) {
				return
			}
			if l.Arrival == prober.Poisson {
				at += random.ExpFloat64() / l.Rate
			} else {
				at = float64(n+1) / l.Rate // no sum: rounding would add up
			}
		}
	}
}

// FillEvery is the time between the first requests of two places of a closed loop: nobody can send all at once, and
// who tries measures how long it takes.
const FillEvery = 500 * time.Microsecond

const (
	shortestPause = 100 * time.Millisecond
	longestPause  = 5 * time.Second
)

// PauseAfter is how long a place in a closed loop stays empty after so many failures in a row: a server that fails
// at once would otherwise be asked as fast as we can.
func PauseAfter(failures int) time.Duration {
	return min(longestPause, shortestPause<<min(failures-1, 10))
}
