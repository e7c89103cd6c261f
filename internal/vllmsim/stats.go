package vllmsim

import (
	"maps"
	"slices"
	"sort"
	"time"
)

// Stats is what an engine has done since it started. Gauges are those of the last step; histograms per request
// are observed when it finishes, as vLLM does.
type Stats struct {
	Steps int

	Running int
	Waiting int
	KVUsage float64 // 0 to 1

	Preemptions        int // always 0: requests reserve what they may need
	PromptTokens       int // of prefills that ended, cached tokens included
	CachedTokens       int
	GenerationTokens   int
	PrefixCacheQueries int            // prompt tokens of admitted requests
	PrefixCacheHits    int            // cached tokens of admitted requests
	Finished           map[string]int // by finish reason

	TimeToFirstToken Histogram // seconds, from here down to InferenceTime
	InterToken       Histogram
	TimePerOutput    Histogram
	EndToEnd         Histogram
	QueueTime        Histogram
	PrefillTime      Histogram
	DecodeTime       Histogram
	InferenceTime    Histogram

	IterationTokens    Histogram // tokens a step
	RequestPrompt      Histogram // tokens a request, from here down
	RequestGeneration  Histogram
	RequestMaxTokens   Histogram
	RequestKVComputed  Histogram
	RequestN           Histogram
	RequestPreemptions Histogram
}

// Bucket bounds of vLLM 0.32.
var (
	firstTokenBounds = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	gapBounds        = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	latencyBounds    = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	iterationBounds  = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	paramNBounds     = []float64{1, 2, 5, 10, 20}
	preemptionBounds = []float64{1, 2, 3, 4, 5, 10, 20}
)

// tokenBounds is the series 1, 2, 5, 10… up to the longest request.
func tokenBounds(maxModelLen int) []float64 {
	var bounds []float64
	for decade := 1; ; decade *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*decade > maxModelLen {
				return bounds
			}
			bounds = append(bounds, float64(m*decade))
		}
	}
}

// maxTokenBound is larger than any context; the page shows only the bounds up to the server's own.
const maxTokenBound = 5_000_000

func newStats() Stats {
	tokens := tokenBounds(maxTokenBound)
	return Stats{
		Finished:           map[string]int{},
		TimeToFirstToken:   newHistogram(firstTokenBounds),
		InterToken:         newHistogram(gapBounds),
		TimePerOutput:      newHistogram(gapBounds),
		EndToEnd:           newHistogram(latencyBounds),
		QueueTime:          newHistogram(latencyBounds),
		PrefillTime:        newHistogram(latencyBounds),
		DecodeTime:         newHistogram(latencyBounds),
		InferenceTime:      newHistogram(latencyBounds),
		IterationTokens:    newHistogram(iterationBounds),
		RequestPrompt:      newHistogram(tokens),
		RequestGeneration:  newHistogram(tokens),
		RequestMaxTokens:   newHistogram(tokens),
		RequestKVComputed:  newHistogram(tokens),
		RequestN:           newHistogram(paramNBounds),
		RequestPreemptions: newHistogram(preemptionBounds),
	}
}

func (s *Stats) histograms() []*Histogram {
	return []*Histogram{
		&s.TimeToFirstToken, &s.InterToken, &s.TimePerOutput, &s.EndToEnd, &s.QueueTime, &s.PrefillTime,
		&s.DecodeTime, &s.InferenceTime, &s.IterationTokens, &s.RequestPrompt, &s.RequestGeneration,
		&s.RequestMaxTokens, &s.RequestKVComputed, &s.RequestN, &s.RequestPreemptions,
	}
}

func (s Stats) clone() Stats {
	s.Finished = maps.Clone(s.Finished)
	for _, h := range s.histograms() {
		h.Counts = slices.Clone(h.Counts)
	}
	return s
}

func (s *Stats) admit(t *task) {
	s.PrefixCacheQueries += t.PromptTokens
	s.PrefixCacheHits += t.CachedTokens
}

func (s *Stats) firstToken(t *task, now time.Time) {
	s.PromptTokens += t.PromptTokens
	s.CachedTokens += t.CachedTokens
	s.TimeToFirstToken.observe(now.Sub(t.timings.Arrived).Seconds())
}

func (s *Stats) finished(t *task) {
	s.Finished[t.FinishReason]++
	decode := t.timings.Generation().Seconds()
	s.TimePerOutput.observe(decode / float64(max(1, t.generated-1)))
	s.EndToEnd.observe(t.timings.LastToken.Sub(t.timings.Arrived).Seconds())
	s.QueueTime.observe(t.timings.Queue().Seconds())
	s.PrefillTime.observe(t.timings.Prefill().Seconds())
	s.DecodeTime.observe(decode)
	s.InferenceTime.observe(t.timings.LastToken.Sub(t.timings.Scheduled).Seconds())
	s.RequestPrompt.observe(float64(t.PromptTokens))
	s.RequestGeneration.observe(float64(t.generated))
	s.RequestMaxTokens.observe(float64(t.MaxTokens))
	s.RequestKVComputed.observe(float64(t.PromptTokens - t.CachedTokens))
	s.RequestN.observe(1)
	s.RequestPreemptions.observe(0)
}

// Histogram is a Prometheus histogram with fixed bounds.
type Histogram struct {
	Bounds []float64
	Counts []int // by bucket, not cumulative; one more than bounds
	Sum    float64
	Count  int
}

func newHistogram(bounds []float64) Histogram {
	return Histogram{Bounds: bounds, Counts: make([]int, len(bounds)+1)}
}

func (h *Histogram) observe(v float64) {
	h.Counts[sort.SearchFloat64s(h.Bounds, v)]++
	h.Sum += v
	h.Count++
}
