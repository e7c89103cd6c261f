package web

import (
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
)

// clock writes a time of day, and the day if it is another one.
func clock(t, now time.Time) string {
	t, now = t.UTC(), now.UTC()
	if t.YearDay() == now.YearDay() && t.Year() == now.Year() {
		return t.Format("15:04:05")
	}
	return t.Format("2006-01-02 15:04:05")
}

// gauge writes a figure of the server's, which may be unknown.
func gauge(v *float64, write func(float64) string) string {
	if v == nil {
		return humanize.Unknown
	}
	return write(*v)
}

// known writes a latency that may be unknown.
func known(d time.Duration, known bool) string {
	if !known {
		return humanize.Unknown
	}
	return humanize.Duration(d)
}

// latency is known for one that is 0 where nothing is known.
func latency(d time.Duration) string { return known(d, d > 0) }

// usually writes a latency as it usually is; nothing if that is not known.
func usually(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return "usually " + humanize.Duration(d)
}
