package analyze

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// at is a time of the run below, in seconds after its start.
func at(seconds float64) time.Time { return epoch.Add(time.Duration(seconds * float64(time.Second))) }

// answered is a request of three tokens that was sent and got its tokens at some seconds.
func answered(sent, first, second, third float64) experiment.Request {
	return experiment.Request{Result: prober.Result{
		Probe:     &prober.Probe{Scheduled: at(sent - 0.1), Started: at(sent)},
		Connected: at(sent), Sent: at(sent), Headers: at(first), FirstToken: at(first), LastToken: at(third), Ended: at(third), Gaps: []time.Duration{seconds(second - first), seconds(third - second)}, FirstTokens: 1, OutputTokens: 3, PromptTokens: 5, CachedTokens: -1,
	}}
}

// byHand is a closed loop of two, in which six requests succeed:
//
//	slot one  0 ─ 4 ─ 8 ─ 12
//	slot two  0 ─ 4 ─ 8 ─ 12
//
// and one of the last fails at 14.
func byHand() *experiment.Run {
	run := &experiment.Run{
		Plan: experiment.Plan{
			Levels: []experiment.Level{{Concurrency: 2, PromptTokens: 5, OutputTokens: 3, Requests: 7}},
			SLOs:   []experiment.Objective{{Indicator: experiment.TTFT, Quantile: 0.5, Threshold: 1500 * time.Millisecond}, {Indicator: experiment.ITL, Quantile: 0.95, Threshold: time.Second}},
		},
		Requests: []experiment.Request{
			answered(0, 1, 2.5, 4), answered(0, 2, 3, 4),
			answered(4, 5, 6, 8), answered(4, 5.5, 6.5, 8),
			answered(8, 9, 10, 12), answered(8, 10, 11, 12),
			{Result: prober.Result{
				Probe: &prober.Probe{Started: at(12)},
				Sent:  at(12), Ended: at(14), Reason: "timeout", PromptTokens: -1, CachedTokens: -1,
			}},
			{Result: prober.Result{
				Probe: &prober.Probe{Started: at(-5), Warmup: true},
				Sent:  at(-5), FirstToken: at(-1), LastToken: at(-1), Ended: at(-1), OutputTokens: 1000,
			}},
		},
		Levels: []experiment.LevelRun{{Start: at(0), End: at(14), Empty: at(15), Client: experiment.Client{GoMaxProcs: 2}}},
	}
	for i, waiting := range []float64{9, 0, 1, 3, math.NaN(), 2, 9} {
		run.Queue = append(run.Queue, experiment.QueueSample{At: at(3*float64(i) - 1), Running: float64(i), Waiting: waiting})
	}
	return run
}

func TestSummarizeByHand(t *testing.T) {
	run := byHand()
	l := Summarize(run).Levels[0]
	half := func(e experiment.Estimate) float64 { return float64(e.High-e.Low) / 2 }
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"requests", float64(l.Requests), 7},
		{"failed", float64(l.Failed), 1},
		{"timeouts", float64(l.Reasons["timeout"]), 1},
		{"prompt tokens", float64(l.PromptTokens), 5},
		{"output tokens", float64(l.OutputTokens), 3},
		{"cached tokens", float64(l.CachedTokens), math.NaN()},

		// TTFTs are 1 2 in the first wave and then, in two blocks, 1 1.5 and 1 2.
		{"TTFTs", float64(l.TTFT.Count), 6},
		{"TTFT mean", float64(l.TTFT.Mean.Value), 8.5 / 6},
		// Residuals of the blocks' sums are ∓0.25; neighbours differ. √(2/1·2·0.25²)/4 is the standard error of the four,
		// 4/6 of which that of all has, and 12.706 is Student's t of two blocks.
		{"TTFT mean, half-width", half(l.TTFT.Mean), 12.706204736174694 * 0.5 / 4 * 4 / 6},
		{"TTFT p50", float64(l.TTFT.P50.Value), 1},
		{"TTFT p95", float64(l.TTFT.P95.Value), 2},
		{"TTFT p95, upper bound", float64(l.TTFT.P95.High), math.NaN()},
		{"TTFT min", float64(l.TTFT.Min), 1},
		{"TTFT max", float64(l.TTFT.Max), 2},
		{"TTFT from schedule p50", float64(l.TTFTFromSchedule.P50.Value), 1.1},
		// Gaps are 1.5 1.5, 1 1, 1 2, 1 1.5, 1 2, 1 1.
		{"gaps", float64(l.ITL.Count), 12},
		{"ITL p50", float64(l.ITL.P50.Value), 1},
		{"ITL p90", float64(l.ITL.P90.Value), 2},
		{"ITL mean", float64(l.ITL.Mean.Value), 15.5 / 12},
		{"TPOT p50", float64(l.TPOT.P50.Value), 1.25}, // 1.5 1 1.5 1.25 1.5 1
		{"duration p50", float64(l.Duration.P50.Value), 4},

		{"output rate", float64(l.OutputRate.Value), 18.0 / 12},
		// Full and settled from 4, when the first two had ended, to 12, when the last was sent: two tokens at 4, four to 8,
		// two at 8, four to 12.
		{"steady rate", float64(l.SteadyRate.Value), (2 + 4 + 2 + 4) / 8.0},
		{"request rate", float64(l.RequestRate), 6.0 / 12},
		// TTFTs of at most 1.5 and gaps of at most 1: of the six none, since every request has a gap above 1 or such a TTFT.
		{"goodput", float64(l.Goodput), 0},
		{"in flight", float64(l.InFlight), 2},
		{"drain", float64(l.Drain), 2},
		{"peak running", float64(l.PeakRunning), 5}, // at 14; of the samples at -1 and 17 none
		{"peak waiting", float64(l.PeakWaiting), 3},
	} {
		if diff := cmp.Diff(c.want, c.got, nearly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Ten requests of 4 s, one after another; every other has three tokens, the others two.
func TestSteadyRateInterval(t *testing.T) {
	run := &experiment.Run{Levels: []experiment.LevelRun{{}}}
	for i := range 10 {
		from := float64(4 * i)
		run.Requests = append(run.Requests, answered(from, from+1, from+2, from+4))
	}
	for i := range 5 {
		r := &run.Requests[2*i+1]
		r.Gaps, r.OutputTokens = []time.Duration{3 * time.Second}, 2
	}
	// Full from 4 to 36. Tokens come there at 4, twice each from 5, 13, 21, 29, three times from 9, 17, 25, and of the
	// request sent at 32 two before 36.
	const rate = (1 + 4*2 + 3*3 + 2) / 32.0
	for _, c := range []struct {
		name  string
		level experiment.Level
		half  float64 // of the interval, as a part of the rate
	}{
		// The eight requests between the first and the last, a block each: 2 3 2 3 2 3 2 3 tokens in 4 s each. Residuals
		// are ±0.5; neighbours differ. Student's t of eight blocks is 2.3646.
		{"closed loop", experiment.Level{Concurrency: 1, OutputTokens: 3}, 2.3646242515927844 * math.Sqrt(8.0/7*8*0.25) / 20},
		// Eight windows of 4 s: 2 3 2 3 2 3 2 3 tokens, of which the first belongs to the request before.
		{"open loop", experiment.Level{Rate: 0.25, OutputTokens: 3}, 2.3646242515927844 * math.Sqrt(8.0/7*8*0.25) / 20},
	} {
		run.Plan.Levels = []experiment.Level{c.level}
		want := interval(rate, experiment.Figure(rate*(1-c.half)), experiment.Figure(rate*(1+c.half)))
		if diff := cmp.Diff(want, Summarize(run).Levels[0].SteadyRate, nearly); diff != "" {
			t.Errorf("%s: steady rate (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestSummarizeDoesNotChangeTheRun(t *testing.T) {
	run := byHand()
	Summarize(run)
	if diff := cmp.Diff(byHand(), run, cmpopts.EquateNaNs(), cmp.AllowUnexported(experiment.Request{})); diff != "" {
		t.Errorf("the run after it was summarized (-want +got):\n%s", diff)
	}
}

// What is not known is unknown, whatever is missing, and never 0.
func TestSummarizeNothing(t *testing.T) {
	plan := func() experiment.Plan {
		return experiment.Plan{
			Levels: []experiment.Level{{Concurrency: 2, OutputTokens: 3}, {Rate: 2, OutputTokens: 3}},
			SLOs:   []experiment.Objective{{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second}, {Indicator: experiment.ITL, Quantile: 0.95, Threshold: time.Second}},
		}
	}
	refused := func(level int, from float64) experiment.Request {
		return experiment.Request{Level: level, Result: prober.Result{
			Probe: &prober.Probe{Started: at(from)},
			Ended: at(from + 0.1), Reason: "connect", PromptTokens: -1, CachedTokens: -1,
		}}
	}
	for name, run := range map[string]*experiment.Run{
		"no request":  {Plan: plan(), Levels: []experiment.LevelRun{{}, {}}},
		"one refused": {Plan: plan(), Levels: []experiment.LevelRun{{}, {}}, Requests: []experiment.Request{refused(0, 0), refused(1, 1)}},
		"all refused": {Plan: plan(), Levels: []experiment.LevelRun{{}, {}}, Requests: []experiment.Request{refused(0, 0), refused(0, 0), refused(0, 1), refused(1, 2), refused(1, 2.5), refused(1, 3)}},
		"only warm-up": {Plan: plan(), Levels: []experiment.LevelRun{{}, {}}, Requests: []experiment.Request{{Result: prober.Result{
			Probe: &prober.Probe{Warmup: true, Started: at(0)},
			Ended: at(1),
		}}}},
		"only abandoned": {Plan: plan(), Levels: []experiment.LevelRun{{Cut: "interrupted"}, {}}, Requests: []experiment.Request{{Result: prober.Result{
			Probe:     &prober.Probe{Started: at(0)},
			Abandoned: true, Ended: at(1),
		}}}},
		"no queue": {Plan: plan(), Levels: []experiment.LevelRun{{}, {}}, Queue: []experiment.QueueSample{{At: at(0), Running: math.NaN(), Waiting: math.NaN()}}},
	} {
		for _, l := range Summarize(run).Levels {
			for what, e := range map[string]experiment.Estimate{
				"TTFT mean": l.TTFT.Mean, "TTFT p99": l.TTFT.P99, "ITL p50": l.ITL.P50, "TPOT p95": l.TPOT.P95,
				"duration p50": l.Duration.P50, "output rate": l.OutputRate, "steady rate": l.SteadyRate,
				"counts": {Value: l.PromptTokens, Low: l.OutputTokens, High: l.CachedTokens, Least: nan, Most: nan}, "rates": {Value: l.RequestRate, Low: l.Goodput, High: nan, Least: nan, Most: nan},
				"queue": {Value: l.PeakRunning, Low: l.PeakWaiting, High: nan, Least: nan, Most: nan}, "extremes": {Value: l.TTFT.Min, Low: l.TTFT.Max, High: nan, Least: nan, Most: nan},
			} {
				if diff := cmp.Diff(experiment.Unknown(), e, nearly); diff != "" {
					t.Errorf("%s, %s: %s (-want +got):\n%s", name, l.Level, what, diff)
				}
			}
			if !has(&l, KindNothing) {
				t.Errorf("%s, %s: doubts are %v, not that nothing succeeded", name, l.Level, l.Doubts)
			}
		}
	}
}

// Whatever a run holds, it has a summary, a table and a comparison.
func TestSummarizeAnything(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 3))
		run := anything(random)
		summary := Summarize(run)
		if err := errors.Join(WriteTable(io.Discard, &summary), experiment.WriteCSV(io.Discard, &summary)); err != nil {
			t.Fatal(err)
		}
		comparison := Compare(run, anything(random), run.Plan.SLOs)
		if err := WriteComparison(io.Discard, &comparison); err != nil {
			t.Fatal(err)
		}
		for i, l := range summary.Levels {
			if l.Requests-l.Failed < l.TTFT.Count || l.TTFT.P50.Value > l.TTFT.P99.Value || l.TTFT.P95.Low > l.TTFT.P95.High {
				t.Errorf("seed %d, level %d: %+v", seed, i, l)
			}
		}
		if _, err := json.Marshal(summary); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// anything is a run of requests that have nothing to do with each other, with stamps that are missing or out of order.
func anything(random *rand.Rand) *experiment.Run {
	run := &experiment.Run{Plan: experiment.Plan{SLOs: []experiment.Objective{second, {Indicator: experiment.ITL, Quantile: 0.99, Threshold: time.Millisecond}}}}
	for range random.IntN(4) {
		l := experiment.Level{Concurrency: random.IntN(20), OutputTokens: 3, Requests: random.IntN(3)}
		if l.Concurrency == 0 {
			l.Rate = random.Float64() * 10
		}
		run.Plan.Levels, run.Levels = append(run.Plan.Levels, l), append(run.Levels, experiment.LevelRun{Start: at(random.Float64()), Missed: random.IntN(2)})
	}
	stamp := func() time.Time {
		if random.IntN(10) == 0 {
			return time.Time{}
		}
		return at(float64(random.IntN(100)))
	}
	for range random.IntN(300) {
		r := experiment.Request{Level: random.IntN(5) - 1, Result: prober.Result{
			Probe: &prober.Probe{Scheduled: stamp(), Started: stamp(), Warmup: random.IntN(5) == 0},
			Sent:  stamp(), FirstToken: stamp(), LastToken: stamp(), Ended: stamp(), FirstTokens: random.IntN(3), OutputTokens: random.IntN(5), PromptTokens: random.IntN(3) - 1, CachedTokens: random.IntN(3) - 1, Abandoned: random.IntN(5) == 0,
		}}
		if random.IntN(5) == 0 {
			r.Reason = "timeout"
		}
		for range random.IntN(4) {
			r.Gaps = append(r.Gaps, seconds(random.Float64()))
		}
		run.Requests = append(run.Requests, r)
	}
	for range random.IntN(20) {
		run.Queue = append(run.Queue, experiment.QueueSample{At: stamp(), Level: random.IntN(4), Running: math.NaN(), Waiting: 3, GenerationTokens: random.Float64()})
	}
	return run
}

// A run that was interrupted in its first level has no second.
func TestSummarizeInterrupted(t *testing.T) {
	run := byHand()
	run.Plan.Levels = append(run.Plan.Levels, experiment.Level{Concurrency: 4})
	run.Levels[0].Cut = "interrupted"
	run.Requests[6] = experiment.Request{Result: prober.Result{
		Probe: &prober.Probe{Started: at(12)},
		Sent:  at(12), FirstToken: at(12.5), LastToken: at(12.5), Ended: at(13), OutputTokens: 1, Abandoned: true,
	}}
	summary := Summarize(run)
	if len(summary.Levels) != 1 {
		t.Fatalf("%d levels", len(summary.Levels))
	}
	l := summary.Levels[0]
	if l.Requests != 6 || l.Failed != 0 || float64(l.OutputRate.Value) != 18.0/12 || float64(l.Drain) != 1 {
		t.Errorf("%d requests, %d failed, %v tokens a second, drain %v", l.Requests, l.Failed, l.OutputRate.Value, l.Drain)
	}
	if !has(&l, KindCut) {
		t.Errorf("doubts are %v, not that the level was cut", l.Doubts)
	}
}

// The summary is written and read as JSON without loss, save that what is infinite is unknown.
func TestSummaryJSON(t *testing.T) {
	summary := Summarize(byHand())
	data, err := json.Marshal(summary)
	if err != nil {
		t.Fatal(err)
	}
	var again experiment.Summary
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	summary.Levels[0].Verdicts[1].Estimate.Value = nan // one of seven failed: there is no p95
	if diff := cmp.Diff(summary, again, nearly, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// The largest run of the seeds' kind: nine levels of 2048 requests with 127 gaps.
func BenchmarkSummarize(b *testing.B) {
	s := server{
		ttft: func(n, _ int, r *rand.Rand) float64 { return 0.08 + 0.01*float64(n)*(0.5+r.Float64()) },
		gap:  func(n, _ int, r *rand.Rand) float64 { return 0.02 + 0.0003*float64(n)*r.Float64() },
	}
	run := s.run(experiment.Plan{Levels: steps(2048, 1, 2, 4, 8, 16, 32, 64, 128, 256), SLOs: []experiment.Objective{{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second}, {Indicator: experiment.ITL, Quantile: 0.95, Threshold: time.Second}}})
	for b.Loop() {
		Summarize(run)
	}
}
