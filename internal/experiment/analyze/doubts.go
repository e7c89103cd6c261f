package analyze

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/prober"
)

// The kinds of doubts: reasons not to trust a level.
const (
	KindFailures       = "failures"          // requests failed, at least one in 1000
	KindMissed         = "missed"            // requests were due and not sent, at the bound on an open loop
	KindPromptTokens   = "prompt_tokens"     // a prompt was not as long as asked
	KindOutputTokens   = "output_tokens"     // an answer was not as long as asked
	KindCachedTokens   = "cached_tokens"     // part of a prompt was cached, so its prefill was cheaper
	KindSuspect        = "suspect"           // successes are suspect for another reason
	KindClientLate     = "client_late"       // the client read tokens too late for over 1 % of the figures
	KindStartDelay     = "start_delay"       // the client sent requests later than they were due
	KindClientBusy     = "client_busy"       // the client used nearly all of its processors
	KindNotFull        = "not_full"          // fewer requests in flight than the closed loop's level
	KindWarmingUp      = "warming_up"        // the first third was slower than the last
	KindSlowingDown    = "slowing_down"      // a closed loop's last third was slower than the first
	KindTooFewRequests = "too_few_requests"  // too few for an upper bound of the p95
	KindCut            = "cut"               // the level ended before its time
	KindNothing        = "nothing_succeeded" // there is no figure at all
)

// The kinds of notes: findings that do not make the figures wrong.
const (
	KindSaturated   = "saturated"     // an open loop's queue was still growing, so latency depends on how long it ran
	KindFewFailures = "few_failures"  // requests failed, fewer than one in 1000
	KindNoP99       = "no_p99"        // too few requests for an upper bound of the p99
	KindFewWaves    = "few_waves"     // requests enough, but few that ran one after another: intervals are wide or missing
	KindFirstWave   = "first_wave"    // a closed loop's start is so large a part that it may be the p95 of TTFT
	KindKVCacheFull = "kv_cache_full" // the server's KV cache was full
	KindPreemptions = "preemptions"   // the server interrupted running requests to free cache
	KindOtherLoad   = "other_load"    // others used the server too
)

// The bounds of the checks.
const (
	maxFailed     = 0.001 // of the requests: too few to move a p99
	maxLate       = 0.01  // of the figures, or of the requests as suspects of the same kind
	maxStartDelay = 10 * time.Millisecond
	maxBusy       = 0.8  // of the processors the client may use
	minFull       = 0.95 // of the level, in flight
	maxWave       = 0.05 // of the requests: the slowest of a p95
	minDrift      = 0.05 // of a latency between the thirds of a level; less is not worth a word
	fullCache     = 0.95
	otherTokens   = 0.05 // of the tokens, generated for others
	idle          = 0.05 // requests that others keep in flight, in the mean
)

// check looks for one kind of trouble in a level. It finds nothing (""), or says what it found and what to do.
type check struct {
	kind string
	note bool
	find func(v *view, l *experiment.LevelSummary, run *experiment.Run) string
}

// checks are in the order in which results should be looked at: does the figure exist, is it of the asked work, was
// the client able to measure it, was the server settled, and are there enough of it.
func checks() []check {
	return []check{
		{KindCut, false, findCut},
		{KindNothing, false, findNothing},
		{KindFailures, false, findFailures},
		{KindFewFailures, true, findFewFailures},
		{KindMissed, false, findMissed},
		{KindPromptTokens, false, findPromptTokens},
		{KindOutputTokens, false, findOutputTokens},
		{KindCachedTokens, false, findCachedTokens},
		{KindSuspect, false, findSuspects},
		{KindClientLate, false, findClientLate},
		{KindStartDelay, false, findStartDelay},
		{KindClientBusy, false, findClientBusy},
		{KindNotFull, false, findNotFull},
		{KindWarmingUp, false, findWarmingUp},
		{KindSlowingDown, false, findSlowingDown},
		{KindTooFewRequests, false, findTooFew},
		{KindSaturated, true, findSaturated},
		{KindNoP99, true, findNoP99},
		{KindFewWaves, true, findFewWaves},
		{KindFirstWave, true, findFirstWave},
		{KindKVCacheFull, true, findKVCacheFull},
		{KindPreemptions, true, findPreemptions},
		{KindOtherLoad, true, findOtherLoad},
	}
}

// doubt makes every check.
func (v *view) doubt(l *experiment.LevelSummary, run *experiment.Run) (doubts, notes []experiment.Doubt) {
	for _, c := range checks() {
		text := c.find(v, l, run)
		switch {
		case text == "":
		case c.note:
			notes = append(notes, experiment.Doubt{Kind: c.kind, Text: text})
		default:
			doubts = append(doubts, experiment.Doubt{Kind: c.kind, Text: text})
		}
	}
	return doubts, notes
}

// has reports whether a level has a doubt or note of a kind.
func has(l *experiment.LevelSummary, kind string) bool {
	is := func(d experiment.Doubt) bool { return d.Kind == kind }
	return slices.ContainsFunc(l.Doubts, is) || slices.ContainsFunc(l.Notes, is)
}

func findCut(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if v.run.Cut == "" {
		return ""
	}
	return fmt.Sprintf("cut short (%s) after %s: measure it again", v.run.Cut, humanize.Count(l.Requests, "request"))
}

func findNothing(_ *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if l.Requests > l.Failed {
		return ""
	}
	return "no request succeeded, so there are no figures"
}

func failures(l *experiment.LevelSummary) string {
	return fmt.Sprintf("%d of %s failed (%s)", l.Failed, humanize.Count(l.Requests, "request"), humanize.Tally(l.Reasons))
}

func findFailures(_ *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if l.Failed == 0 || float64(l.Failed) < maxFailed*float64(l.Requests) {
		return ""
	}
	return failures(l) + ": latencies are of those that survived; find the cause first"
}

func findFewFailures(_ *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if l.Failed == 0 || findFailures(nil, l, nil) != "" {
		return ""
	}
	return failures(l) + ": too few to move a percentile"
}

func findMissed(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if l.Missed == 0 {
		return ""
	}
	return fmt.Sprintf("%s due and not sent, since %d were in flight: the load was below %s; raise the bound or lower the rate",
		humanize.Count(l.Missed, "request"), v.level.MaxInFlight, v.level.Load())
}

// lengths says how a count of tokens was off.
func lengths(v *view, of string, asked int, tokens func(*request) int32) string {
	off, low, high := 0, math.MaxInt, 0
	for _, r := range v.ok {
		if n := int(tokens(r)); n >= 0 && n != asked {
			off, low, high = off+1, min(low, n), max(high, n)
		}
	}
	if off == 0 {
		return ""
	}
	had := fmt.Sprint(low)
	if low != high {
		had = fmt.Sprintf("%d to %d", low, high)
	}
	return fmt.Sprintf("%d of %s had %s %s tokens, not %d", off, humanize.Count(len(v.ok), "success"), had, of, asked)
}

func findPromptTokens(v *view, _ *experiment.LevelSummary, _ *experiment.Run) string {
	text := lengths(v, "prompt", v.level.PromptTokens, func(r *request) int32 { return r.promptTokens })
	if text == "" {
		return ""
	}
	return text + ": the server did other work than asked; check the model and its chat template"
}

func findOutputTokens(v *view, _ *experiment.LevelSummary, _ *experiment.Run) string {
	text := lengths(v, "output", v.level.OutputTokens, func(r *request) int32 { return r.outputTokens })
	if text == "" {
		return ""
	}
	return text + ": throughput and duration are of other work than asked; check that the server obeys ignore_eos and min_tokens"
}

func findCachedTokens(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	cached := 0
	for _, r := range v.ok {
		if r.cachedTokens > 0 {
			cached++
		}
	}
	if cached == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %s found part of the prompt cached (%s tokens in the mean): TTFT is too low; switch prefix caching off, or another seed",
		cached, humanize.Count(len(v.ok), "success"), humanize.Number(float64(l.CachedTokens)))
}

// suspicions are the reasons to doubt a success that no other check is about.
const suspicions = prober.SuspectCoalesced | prober.SuspectUsageMismatch | prober.SuspectNoDone | prober.SuspectContentType |
	prober.SuspectFieldRefused | prober.SuspectDegenerate | prober.SuspectOtherModel | prober.SuspectFinishReason

func findSuspects(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	found := make(map[string]int)
	for _, name := range suspicions.Names() {
		if n := l.Suspects[name]; n > 0 && float64(n) > maxLate*float64(len(v.ok)) {
			found[name] = n
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("of %s some are suspect (%s): docs/definitions.md tells what each means", humanize.Count(len(v.ok), "success"), humanize.Tally(found))
}

// findClientLate finds what late reads leave open: whether an objective is held; without objectives, a figure.
func findClientLate(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	var open []string
	for _, verdict := range l.Verdicts {
		e, threshold := verdict.Estimate, experiment.Figure(verdict.Objective.Threshold.Seconds())
		if e.Least <= threshold && threshold < e.Most {
			open = append(open, inWords(verdict.Objective)+readWithin(e))
		}
	}
	for _, latency := range []struct {
		indicator experiment.Indicator
		experiment.Distribution
	}{{experiment.TTFT, l.TTFT}, {experiment.ITL, l.ITL}} {
		for _, figure := range []struct {
			name string
			experiment.Estimate
		}{{"mean", latency.Mean}, {"p50", latency.P50}, {"p95", latency.P95}, {"p99", latency.P99}} {
			if len(l.Verdicts) == 0 && float64(figure.Most-figure.Least) > max(prober.SoundError.Seconds(), minDrift*float64(figure.Value)) {
				open = append(open, latency.indicator.Title()+" "+figure.name+readWithin(figure.Estimate))
			}
		}
	}
	if len(open) == 0 {
		return ""
	}
	c := v.run.Client
	return fmt.Sprintf("the client read %s of the first tokens and %s of the others too late (up to %s) to know %s; give the client more processors or, on the server's own machine, real-time priority (as root: chrt -r 1 probetool sweep …)",
		humanize.Share(c.LateTTFTRatio), humanize.Share(c.LateGapsRatio), humanize.Seconds(c.ReadDelayMax), strings.Join(open, ", "))
}

// readWithin writes what an estimate is at least and at most, since some tokens were read late.
func readWithin(e experiment.Estimate) string {
	return " (" + humanize.Range(float64(e.Least), float64(e.Most), humanize.Seconds) + ")"
}

func findStartDelay(v *view, _ *experiment.LevelSummary, _ *experiment.Run) string {
	if delay := v.run.Client.StartDelayP99; delay > maxStartDelay.Seconds() {
		return fmt.Sprintf("the client started requests late (p99 %s): the load is not as planned; give the client more processors", humanize.Seconds(delay))
	}
	return ""
}

func findClientBusy(v *view, _ *experiment.LevelSummary, _ *experiment.Run) string {
	c := v.run.Client
	first, last := v.span()
	busy := c.CPUSeconds / (last - first).Seconds() / float64(c.GoMaxProcs)
	if c.GoMaxProcs == 0 || !(busy > maxBusy) {
		return ""
	}
	return fmt.Sprintf("the client used %s of its %s: it may be the bottleneck; give it more", humanize.Share(busy), humanize.Count(c.GoMaxProcs, "processor"))
}

func findNotFull(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if !v.level.Closed() || len(v.ok) == 0 {
		return ""
	}
	if len(v.sent) < v.level.Concurrency {
		return fmt.Sprintf("only %s sent, so that the level of %d was never reached; send more", humanize.Count(len(v.sent), "request"), v.level.Concurrency)
	}
	if !(float64(l.InFlight) < minFull*float64(v.level.Concurrency)) {
		return ""
	}
	return fmt.Sprintf("%s requests in flight in the mean, not %d: throughput is that of the client", humanize.Number(float64(l.InFlight)), v.level.Concurrency)
}

// thirds compares the first third of a level, without the first wave of a closed loop, with the last: it tells the
// figures of the first latency whose medians differ beyond their intervals, the first third being the slower one if
// early is set, else the last. Of a closed loop of several it looks at the duration alone: they start all at once, and
// as they spread, over many waves, time moves from TTFT to ITL or back, while the duration stays that of the load.
func (v *view) thirds(early bool) string {
	latencies := []experiment.Indicator{experiment.TTFT, experiment.TPOT}
	if v.level.Concurrency > 1 {
		latencies = []experiment.Indicator{experiment.Duration}
	}
	_, requests := v.wave()
	n := len(requests) / 3
	for _, indicator := range latencies {
		before := v.measure(nil, requests[:n], indicator).percentile(0.5)
		after := v.measure(nil, requests[len(requests)-n:], indicator).percentile(0.5)
		slow, fast := after, before
		if early {
			slow, fast = before, after
		}
		if slow.Low > fast.High && slow.Value > (1+minDrift)*fast.Value {
			return fmt.Sprintf("median %s of the first third is %s, of the last %s", indicator.Title(),
				humanize.Seconds(float64(before.Value)), humanize.Seconds(float64(after.Value)))
		}
	}
	return ""
}

func findWarmingUp(v *view, _ *experiment.LevelSummary, _ *experiment.Run) string {
	if text := v.thirds(true); text != "" {
		return text + ": it was still warming up; send more warm-up requests, or measure longer"
	}
	return ""
}

func findSlowingDown(v *view, _ *experiment.LevelSummary, _ *experiment.Run) string {
	if text := v.thirds(false); text != "" && v.level.Closed() {
		return text + ": it was slowing down; measure longer, and look for throttling or load of others"
	}
	return ""
}

func findTooFew(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if need := needed(0.95); len(v.ok) > 0 && len(v.ok) < need {
		return fmt.Sprintf("%s: too few for a p95, which needs %d; measure longer", humanize.Count(len(v.ok), "success"), need)
	}
	return ""
}

func findNoP99(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if need := needed(0.99); l.TTFT.P95.High.Known() && len(v.ok) < need {
		return fmt.Sprintf("fewer than the %d successes that an upper bound of the p99 needs", need)
	}
	return ""
}

func findFewWaves(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if len(v.ok) < needed(0.95) || l.TTFT.P95.High.Known() {
		return ""
	}
	return fmt.Sprintf("requests in flight together are alike, so that all are worth fewer than the %d independent ones that an upper bound of the TTFT's p95 needs: measure longer",
		needed(0.95))
}

// findFirstWave says the same words of every level, so that a table has them once.
func findFirstWave(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	first, after := v.wave()
	if v.level.Concurrency < 2 || len(after) == 0 || float64(len(first)) <= maxWave*float64(l.Requests) {
		return ""
	}
	return fmt.Sprintf("the first wave, sent all at once, is over %s of the requests, so p95 and p99 of TTFT are partly those of the start: send at least %.0f requests for each in flight for a p95 of the load, 100 for a p99, or measure longer",
		humanize.Share(maxWave), 1/maxWave)
}

// findSaturated looks for a queue that grows: of the time in which requests were sent, without the first mean
// duration or half of it, each third had more in flight than the one before, by more than Poisson arrivals differ by
// themselves, and all together by three times that.
func findSaturated(v *view, l *experiment.LevelSummary, _ *experiment.Run) string {
	if v.level.Closed() || len(v.sent) < 2 {
		return ""
	}
	start, end := v.sent[0].started, v.sent[len(v.sent)-1].started
	from := start + min(v.meanTime(), (end-start)/2)
	third := (end - from) / 3
	if third <= 0 {
		return ""
	}
	var n [3]float64
	for i := range n {
		n[i] = inFlight(v.sent, from+time.Duration(i)*third, from+time.Duration(i+1)*third)
	}
	if n[1]-n[0] < math.Sqrt(n[0]) || n[2]-n[1] < math.Sqrt(n[1]) || n[2]-n[0] < 3*math.Sqrt(n[0]) {
		return ""
	}
	return fmt.Sprintf("the queue was still growing (%.0f, %.0f, %.0f in flight in the thirds of the run): latencies are those of a run this long, and rise in a longer one",
		n[0], n[1], n[2])
}

func findKVCacheFull(v *view, _ *experiment.LevelSummary, _ *experiment.Run) string {
	if usage := peak(v.queue, func(s experiment.QueueSample) float64 { return s.KVUsage }); usage >= fullCache {
		return fmt.Sprintf("the KV cache was %s full: it, not compute, may bound the requests that run", humanize.Share(float64(usage)))
	}
	return ""
}

func findPreemptions(v *view, _ *experiment.LevelSummary, run *experiment.Run) string {
	if n := v.rise(run, func(s experiment.QueueSample) float64 { return s.Preemptions }); n > 0 {
		return fmt.Sprintf("the server preempted %s: the KV cache is too small for this load", humanize.Count(int(n), "request"))
	}
	return ""
}

func findOtherLoad(v *view, _ *experiment.LevelSummary, run *experiment.Run) string {
	if b := run.Facts.Before; b != nil && b.Running+b.Waiting > idle {
		return fmt.Sprintf("before the run others kept %s requests in flight (%s output tok/s): figures are those of what they left",
			humanize.Number(b.Running+b.Waiting), humanize.Number(b.OutputTokensPerSecond))
	}
	ours := v.generated // warm-up too, since the last sample before the level may be amid it
	all := v.rise(run, func(s experiment.QueueSample) float64 { return s.GenerationTokens })
	// A failed request's tokens are not all known.
	if len(v.ok) < len(v.sent) || !(all > (1+otherTokens)*float64(ours)) {
		return ""
	}
	return fmt.Sprintf("the server generated %s tokens, %s of them for us: others used it too", humanize.Number(all), humanize.Whole(ours))
}

// rise is by how much a counter rose during the level: from the last sample before it, if there is one, to the first
// after it, or the last of the run. NaN: unknown.
func (v *view) rise(run *experiment.Run, counter func(experiment.QueueSample) float64) float64 {
	_, last := v.span()
	end := v.start.Add(last)
	low, high := math.NaN(), math.NaN()
	for _, s := range run.Queue {
		if s.Level > v.index {
			break
		}
		value := counter(s)
		if math.IsNaN(low) || !s.At.After(v.run.Start) {
			low = value
		}
		high = value
		if !s.At.Before(end) {
			break
		}
	}
	return high - low
}
