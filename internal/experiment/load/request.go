package load

import (
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// clock tells times as the wall clock was set when the run began, whatever becomes of it later.
type clock struct{ began time.Time } // with its monotonic reading

// at converts a time with a monotonic reading, to the microsecond as what is stored; zero stays zero.
func (c clock) at(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return c.began.Add(t.Sub(c.began)).Round(time.Microsecond).UTC()
}

// request makes the record of a request that has ended.
func (c clock) request(level int, res *prober.Result) *experiment.Request {
	r := *res
	r.OnClock(c.began)
	return &experiment.Request{Level: level, Result: experiment.AsStored(r)}
}
