package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/quantile"
)

// liveLevel is what is known of a level while it runs.
type liveLevel struct {
	experiment.Level
	index, of int // of: how many there are; 0: nobody knows yet
	phase     experiment.Phase
	start     time.Time

	ended, failed    int
	reasons          map[string]int
	outputTokens     int
	ttft, gaps       recent
	running, waiting float64 // by the server's gauges
}

// recent holds the last values of a latency, in seconds.
type recent struct {
	values []float64
	next   int
}

// recentValues bounds what a live percentile is of.
const recentValues = 2048

func (r *recent) add(v float64) {
	if len(r.values) < recentValues {
		r.values = append(r.values, v)
		return
	}
	r.values[r.next] = v
	r.next = (r.next + 1) % recentValues
}

// p50 writes the median.
func (r *recent) p50() string {
	if len(r.values) == 0 {
		return humanize.Unknown
	}
	return humanize.Seconds(quantile.NearestRank(slices.Sorted(slices.Values(r.values)), 0.5))
}

func (l *liveLevel) note(r *experiment.Request) {
	if !r.OK() && !r.Abandoned {
		l.failed++
		if l.reasons == nil {
			l.reasons = map[string]int{}
		}
		l.reasons[string(r.Reason)]++
	}
	if r.Warmup || r.Abandoned {
		return
	}
	l.ended++
	l.outputTokens += r.OutputTokens
	if ttft, known := r.TTFT(); known {
		l.ttft.add(ttft.Value.Seconds())
	}
	for gap := range r.ITL() {
		l.gaps.add(gap.Value.Seconds())
	}
}

// title names the level among its siblings.
func (l *liveLevel) title() string {
	of := ""
	if l.of > 0 {
		of = fmt.Sprintf(" of %d", l.of)
	}
	return fmt.Sprintf("level %d%s, %s", l.index+1, of, l.Level)
}

// short names it in a line that must fit a terminal.
func (l *liveLevel) short() string {
	if l.of > 0 {
		return fmt.Sprintf("%d/%d %s", l.index+1, l.of, l.Load())
	}
	return fmt.Sprintf("%d %s", l.index+1, l.Load())
}

// limits tells when the level will end.
func (l *liveLevel) limits() string {
	var limits []string
	if l.Requests > 0 {
		limits = append(limits, fmt.Sprintf("%d requests", l.Requests))
	}
	if l.Duration > 0 {
		limits = append(limits, short(l.Duration))
	}
	return strings.Join(limits, " or ")
}

// state tells how far the level has come, as a part of 1 and in words.
func (l *liveLevel) state(now time.Time) (part float64, text string) {
	if l.start.IsZero() {
		return 0, string(l.phase)
	}
	if l.phase == experiment.Settling {
		return 1, fmt.Sprintf("queue drains (%.0f running, %.0f waiting)", l.running, l.waiting)
	}
	elapsed := now.Sub(l.start)
	left := time.Duration(math.MaxInt64)
	if l.Duration > 0 {
		left = l.Duration - elapsed
	}
	if l.Requests > 0 && l.Rate > 0 {
		left = min(left, time.Duration(float64(l.Requests)/l.Rate*float64(time.Second))-elapsed)
	} else if l.Requests > 0 && l.ended > 0 {
		left = min(left, time.Duration(float64(elapsed)*float64(l.Requests-l.ended)/float64(l.ended)))
	}
	if l.phase == experiment.Answering || left <= 0 {
		return 1, "last answers"
	}
	if left == math.MaxInt64 {
		return 0, "begun"
	}
	return elapsed.Seconds() / (elapsed + left).Seconds(), humanize.Span(left.Round(time.Second)) + " left"
}

// latency tells what the last requests were like.
func (l *liveLevel) latency() string {
	text := fmt.Sprintf("p50 TTFT %s, ITL %s", l.ttft.p50(), l.gaps.p50())
	if l.failed > 0 {
		text += fmt.Sprintf(", %d failed", l.failed)
	}
	return text
}

// result tells how the level went.
func (l *liveLevel) result(took time.Duration) string {
	return fmt.Sprintf("%s in %s, %s, %s tok/s", humanize.Count(l.ended, "request"), humanize.Duration(took), l.latency(), humanize.Number(float64(l.outputTokens)/took.Seconds()))
}
