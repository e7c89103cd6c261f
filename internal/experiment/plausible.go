package experiment

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Numbers of stored files have passed through other hands. They come in here: what is not finite, negative where that
// means nothing, or larger than anything that can be measured is refused, so that no figure is made of it.

// The bounds of what can be measured.
const (
	mostTokens  = 1 << 24 // of a request; no model has so long a context
	mostSeconds = 1e8     // three years
	mostCount   = 1 << 40
	mostLevels  = 10_000
	mostRate    = 1e9 // a second
	// clockSlack is by how much two clocks may disagree: the kernel stamps what arrives, the process what it sends.
	clockSlack = time.Millisecond
)

// quantity is a number by its name in the file, and its bounds.
type quantity struct {
	name             string
	value, low, high float64
}

func (q quantity) err() error {
	if q.value >= q.low && q.value <= q.high { // not so of NaN
		return nil
	}
	return fmt.Errorf("%s is %g, not from %g to %g", q.name, q.value, q.low, q.high)
}

func quantities(all ...quantity) error {
	for _, q := range all {
		if err := q.err(); err != nil {
			return err
		}
	}
	return nil
}

// moment is a time by its name in the file. Zero: it was not reached.
type moment struct {
	name string
	at   time.Time
}

// inTime refuses times that run backwards, or that no clock has shown.
func inTime(all ...moment) error {
	var before moment
	for _, m := range all {
		switch {
		case m.at.IsZero():
			continue
		case m.at.Year() < 1970 || m.at.Year() > 2200:
			return fmt.Errorf("%s is in the year %d", m.name, m.at.Year())
		case !before.at.IsZero() && before.at.Sub(m.at) > clockSlack:
			return fmt.Errorf("%s is %s before %s", m.name, before.at.Sub(m.at), before.name)
		}
		before = m
	}
	return nil
}

// plausible refuses a request that cannot have been measured.
func (r *Request) plausible() error {
	if r.Scheduled.IsZero() || r.Started.IsZero() || r.Ended.IsZero() {
		return fmt.Errorf("it has no time of scheduled, started or ended")
	}
	if r.OK() && !r.Warmup && (r.Sent.IsZero() || r.FirstToken.IsZero() || r.LastToken.IsZero()) {
		return fmt.Errorf("it succeeded without a time of sent, first_token or last_token")
	}
	for _, order := range [][]moment{
		{
			{"started", r.Started},
			{"connected", r.Connected},
			{"sent", r.Sent},
			{"first_token", r.FirstToken},
			{"last_token", r.LastToken},
			{"ended", r.Ended},
		},
		{{"started", r.Started}, {"headers", r.Headers}, {"ended", r.Ended}},
		{{"scheduled", r.Scheduled}},
	} {
		if err := inTime(order...); err != nil {
			return err
		}
	}
	if err := r.plausibleNumbers(); err != nil {
		return err
	}
	// Such a text is cut where it is measured.
	r.Error = strings.ToValidUTF8(r.Error[:min(len(r.Error), MaxError)], "")
	return nil
}

func (r *Request) plausibleNumbers() error {
	took := r.Ended.Sub(r.Started).Seconds()
	zero := func(seconds *float64) float64 {
		if seconds == nil {
			return 0
		}
		return *seconds
	}
	err := quantities(
		quantity{"http_status", float64(r.Status), 0, 999},
		quantity{"first_tokens", float64(r.FirstTokens), 0, mostTokens},
		quantity{"output_tokens", float64(r.OutputTokens), 0, mostTokens},
		quantity{"prompt_tokens", float64(r.PromptTokens), -1, mostTokens},
		quantity{"cached_prompt_tokens", float64(r.CachedTokens), -1, mostTokens},
		quantity{"server_queue_seconds", zero(r.ServerQueue), 0, mostSeconds},
		quantity{"server_prefill_seconds", zero(r.ServerPrefill), 0, mostSeconds},
		quantity{"started - scheduled", r.Started.Sub(r.Scheduled).Seconds(), -mostSeconds, mostSeconds},
		quantity{"ended - started", took, -clockSlack.Seconds(), mostSeconds},
	)
	for _, gap := range r.Gaps {
		if err == nil {
			err = quantity{"a gap", gap, 0, took + clockSlack.Seconds()}.err()
		}
	}
	for token, early := range r.Early {
		if err == nil {
			err = quantities(
				quantity{"a token of early_seconds", float64(token), 0, float64(len(r.Gaps))},
				quantity{"a time of early_seconds", early, 0, took + clockSlack.Seconds()},
			)
		}
	}
	if err == nil {
		err = quantity{"sent_late_seconds", r.SentLate, 0, took + clockSlack.Seconds()}.err()
	}
	return err
}

// plausible refuses a sample that no server can have shown. NaN is what it did not show.
func (s *QueueSample) plausible(levels int) error {
	if err := inTime(moment{"time", s.At}); err != nil {
		return err
	}
	if err := (quantity{"level", float64(s.Level), 0, float64(levels - 1)}).err(); err != nil {
		return err
	}
	for i, v := range s.values() {
		if !math.IsNaN(*v) {
			if err := (quantity{queueColumns()[3+i], *v, 0, 1e18}).err(); err != nil {
				return err
			}
		}
	}
	return nil
}

// plausible refuses a run.json that no run has written.
func (j *runJSON) plausible() error {
	if len(j.Levels) > len(j.Plan.Levels) || len(j.Plan.Levels) > mostLevels {
		return fmt.Errorf("%d levels were begun of the plan's %d; it has at most %d", len(j.Levels), len(j.Plan.Levels), mostLevels)
	}
	for i, l := range j.Plan.Levels {
		if err := l.plausible(); err != nil {
			return fmt.Errorf("level %d of the plan: %w", i, err)
		}
	}
	for i, l := range j.Levels {
		if err := l.plausible(); err != nil {
			return fmt.Errorf("level %d: %w", i, err)
		}
	}
	b := j.Facts.Before
	if b == nil {
		b = &Load{}
	}
	p := &j.Plan
	return quantities(
		quantity{"warmup", float64(p.Warmup), 0, mostCount},
		quantity{"timeout_seconds", p.Timeout.Seconds(), 0, mostSeconds},
		quantity{"stall_timeout_seconds", p.StallTimeout.Seconds(), 0, mostSeconds},
		quantity{"settle_seconds", p.Settle.Seconds(), 0, mostSeconds},
		quantity{"max_model_len", float64(j.Facts.MaxContext), 0, mostCount},
		quantity{"load_before.seconds", b.Seconds, 0, mostSeconds},
		quantity{"load_before.running", b.Running, 0, mostCount},
		quantity{"load_before.waiting", b.Waiting, 0, mostCount},
		quantity{"load_before.output_tokens_per_second", b.OutputTokensPerSecond, 0, mostCount},
		quantity{"load_before.prompt_tokens_per_second", b.PromptTokensPerSecond, 0, mostCount},
	)
}

func (l Level) plausible() error {
	return quantities(
		quantity{"concurrency", float64(l.Concurrency), 0, mostCount},
		quantity{"rate", l.Rate, 0, mostRate},
		quantity{"max_in_flight", float64(l.MaxInFlight), 0, mostCount},
		quantity{"prompt_tokens", float64(l.PromptTokens), 0, mostTokens},
		quantity{"output_tokens", float64(l.OutputTokens), 0, mostTokens},
		quantity{"requests", float64(l.Requests), 0, mostCount},
		quantity{"duration_seconds", l.Duration.Seconds(), 0, mostSeconds},
	)
}

func (l *LevelRun) plausible() error {
	for _, m := range []moment{{"start", l.Start}, {"end", l.End}, {"empty", l.Empty}} {
		if err := inTime(m); err != nil {
			return err
		}
	}
	c := &l.Client
	return quantities(
		quantity{"missed", float64(l.Missed), 0, mostCount},
		quantity{"cpu_seconds", c.CPUSeconds, 0, mostCount},
		quantity{"max_rss_bytes", float64(c.MaxRSSBytes), 0, math.MaxInt64},
		quantity{"start_delay_p99_seconds", c.StartDelayP99, -mostSeconds, mostSeconds},
		quantity{"read_delay_max_seconds", c.ReadDelayMax, 0, mostSeconds},
		quantity{"late_ttft_ratio", c.LateTTFTRatio, 0, 1},
		quantity{"late_gaps_ratio", c.LateGapsRatio, 0, 1},
		quantity{"gomaxprocs", float64(c.GoMaxProcs), 0, mostCount},
		quantity{"load_average", c.LoadAverage, 0, mostCount},
	)
}
