package analyze

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

func TestQuotient(t *testing.T) {
	for _, c := range []struct {
		name       string
		b, a, want experiment.Estimate
	}{
		{"exact", interval(6, 6, 6), interval(3, 3, 3), interval(2, 2, 2)},
		{"one is exact", interval(6, 3, 12), interval(3, 3, 3), interval(2, 1, 4)},
		{"the other is", interval(6, 6, 6), interval(3, 1, 6), interval(2, 1, 6)},
		// Distances of ln 2 each are √2·ln 2 together.
		{"alike", interval(8, 4, 16), interval(8, 4, 16), interval(1, experiment.Figure(math.Exp2(-math.Sqrt2)), experiment.Figure(math.Exp2(math.Sqrt2)))},
		// Down: ln 2 and ln 3; up: ln 4 and ln 5.
		{
			"lopsided",
			interval(8, 4, 32),
			interval(10, 2, 30),
			interval(0.8, experiment.Figure(0.8/math.Exp(math.Hypot(math.Log(2), math.Log(3)))), experiment.Figure(0.8*math.Exp(math.Hypot(math.Log(4), math.Log(5))))),
		},
		{"no upper bound of B", interval(6, 3, nan), interval(3, 3, 3), interval(2, 1, nan)},
		{"no upper bound of A", interval(6, 6, 6), interval(3, 1.5, nan), interval(2, nan, 4)},
		{"unknown", experiment.Unknown(), interval(3, 3, 3), experiment.Unknown()},
	} {
		if diff := cmp.Diff(c.want, quotient(c.b, c.a), nearly); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// The interval of a quotient holds the true one as often as it says: of the p50 and p95 of two samples of which one is
// 1.3 times the other, independent or hit by shared shocks.
func TestQuotientCovers(t *testing.T) {
	for _, c := range []struct {
		name      string
		values    func(n int, random *rand.Rand) []float64
		inFlight  float64
		quantile  float64
		low, high float64
	}{
		{"p50 of independent", independent, 1, 0.5, 0.95, 0.995},
		{"p95 of independent", independent, 1, 0.95, 0.95, 0.995},
		{"p50 of shared", func(n int, r *rand.Rand) []float64 { return shared(n, 16, r) }, 16, 0.5, 0.93, 0.99},
		{"p95 of shared", func(n int, r *rand.Rand) []float64 { return shared(n, 16, r) }, 16, 0.95, 0.93, 0.99},
	} {
		got := coverage(1.3, func(random *rand.Rand) experiment.Estimate {
			a, b := lognormal(c.values(512, random)), lognormal(c.values(1024, random))
			for i := range b {
				b[i] *= 1.3
			}
			return quotient(inBlocks(b, c.inFlight).percentile(c.quantile), inBlocks(a, c.inFlight).percentile(c.quantile))
		})
		t.Logf("%s: %.3f", c.name, got)
		if got < c.low || got > c.high {
			t.Errorf("%s: intervals cover the truth in %.1f %% of pairs, not in %.0f to %.1f %%", c.name, 100*got, 100*c.low, 100*c.high)
		}
	}
}

func TestChange(t *testing.T) {
	level := func(e experiment.Estimate, doubts ...experiment.Doubt) *experiment.LevelSummary {
		return &experiment.LevelSummary{OutputRate: e, TTFT: experiment.Distribution{P50: e}, Doubts: doubts}
	}
	for _, c := range []struct {
		name          string
		a, b          *experiment.LevelSummary
		rate, latency Change
	}{
		{"more", level(interval(10, 9, 11)), level(interval(20, 18, 22)), Better, Worse},
		{"less", level(interval(20, 18, 22)), level(interval(10, 9, 11)), Worse, Better},
		{"perhaps more", level(interval(10, 9, 11)), level(interval(11, 10, 12)), NoDifference, NoDifference},
		{"more, without a bound above", level(interval(10, 9, 11)), level(interval(20, 18, nan)), Better, Worse},
		{"no bounds", level(interval(10, nan, nan)), level(interval(20, nan, nan)), Undecided, Undecided},
		{"unknown", level(experiment.Unknown()), level(interval(20, 18, 22)), NotComparable, NotComparable},
		{"doubted", level(interval(10, 9, 11)), level(interval(20, 18, 22), experiment.Doubt{Kind: KindFailures}), NotComparable, NotComparable},
	} {
		got := compareLevels(c.a, c.b).Metrics
		if got[0].Change != c.rate || got[1].Change != c.latency {
			t.Errorf("%s: the rate is %s and the latency %s, not %s and %s", c.name, got[0].Change, got[1].Change, c.rate, c.latency)
		}
	}
}

// The peak is what a run has shown, not the highest of its chances.
func TestComparePeak(t *testing.T) {
	levels := func(rates ...experiment.Estimate) *curve {
		c := &curve{}
		for _, rate := range rates {
			c.add(&experiment.LevelSummary{Level: experiment.Level{Concurrency: len(c.levels) + 1}, OutputRate: rate})
		}
		return c
	}
	for _, c := range []struct {
		name   string
		a, b   *curve
		ratio  experiment.Figure
		change Change
	}{
		{"the higher is known less well", levels(interval(900, 880, 920), interval(910, 700, 1200)), levels(interval(450, 440, 460), interval(500, 100, 900)), 0.5, Worse},
		{"at different loads", levels(interval(900, 880, 920), interval(800, 790, 810)), levels(interval(100, 90, 110), interval(900, 880, 920)), 1, NoDifference},
		{"no bounds", levels(interval(900, nan, nan), interval(800, nan, nan)), levels(interval(100, nan, nan), interval(450, nan, nan)), 0.5, Undecided},
		{"only where both measured", levels(interval(900, 880, 920), interval(1800, 1790, 1810)), levels(interval(900, 880, 920)), 1, NoDifference},
		{"nothing known", levels(experiment.Unknown()), levels(experiment.Unknown()), nan, NotComparable},
	} {
		got := compareCurves(c.a, c.b).Peak
		if diff := cmp.Diff(c.ratio, got.Ratio.Value, nearly); diff != "" || got.Change != c.change {
			t.Errorf("%s: %s; ratio (-want +got):\n%s", c.name, got.Change, diff)
		}
	}
}

// pair is two runs of which the second was on a server that is faster under load.
func pair() (a, b *experiment.Run) {
	grows := func(by float64) server {
		return server{
			ttft: func(n, _ int, r *rand.Rand) float64 { return (0.09 + by*float64(n)) * (0.8 + 0.4*r.Float64()) },
			gap:  func(n, _ int, r *rand.Rand) float64 { return 0.02 + by/20*float64(n)*r.Float64() },
		}
	}
	plan := experiment.Plan{Name: "cap-4", Levels: short(steps(1024, 1, 4, 16, 32)), Seed: 1, Timeout: time.Minute}
	a = grows(0.02).run(plan)
	a.Facts = experiment.Facts{Engine: "vllm", Version: "0.27.0", Model: "qwen", Server: map[string]string{"max_num_seqs": "4", "block_size": "16"}}
	plan.Name, plan.Seed = "cap-64", 2
	plan.Levels = short(steps(1024, 1, 4, 16, 64))
	b = grows(0.01).run(plan)
	b.Facts = experiment.Facts{Engine: "vllm", Version: "0.28.0", Model: "qwen", Server: map[string]string{"max_num_seqs": "64", "block_size": "16"}}
	return a, b
}

// short makes the answers of levels short, to be quick.
func short(levels []experiment.Level) []experiment.Level {
	for i := range levels {
		levels[i].OutputTokens = 32
	}
	return levels
}

func TestCompare(t *testing.T) {
	a, b := pair()
	c := Compare(a, b, []experiment.Objective{{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: 550 * time.Millisecond}})
	if diff := cmp.Diff([]Difference{
		{"version", "0.27.0", "0.28.0"},
		{"max_num_seqs", "4", "64"},
		{"seed", "1", "2"},
		{"levels", "512+32: c=1 c=4 c=16 c=32", "512+32: c=1 c=4 c=16 c=64"},
	}, c.Differences); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	if len(c.Curves) != 1 {
		t.Fatalf("%d curves", len(c.Curves))
	}
	curve := c.Curves[0]
	var loads []string
	for _, l := range curve.Levels {
		loads = append(loads, l.Load)
	}
	if diff := cmp.Diff([][]string{{"c=1", "c=4", "c=16"}, {"c=32"}, {"c=64"}}, [][]string{loads, curve.OnlyA, curve.OnlyB}); diff != "" {
		t.Errorf("loads compared, only in A, only in B (-want +got):\n%s", diff)
	}
	if curve.OperatingA.Best != 2 || curve.OperatingB.Best != 2 || !curve.OperatingA.Bracketed {
		t.Errorf("operating points are %d and %d", curve.OperatingA.Best, curve.OperatingB.Best)
	}
	// TTFT at 16 in flight is 0.41 s and 0.25 s in the mean and the median.
	p50 := curve.Levels[2].Metrics[1]
	if p50.Change != Better || math.Abs(float64(p50.Ratio.Value)-0.25/0.41) > 0.02 || p50.Ratio.Low > 0.25/0.41 || p50.Ratio.High < 0.25/0.41 {
		t.Errorf("TTFT p50 at c=16: %+v", p50)
	}
}

// Two runs of the same differ in nothing.
func TestCompareSame(t *testing.T) {
	shown, compared := 0, 0
	for seed := range uint64(10) {
		s := server{ttft: noisy(0.1), gap: noisy(0.02)}
		plan := experiment.Plan{Levels: short(steps(512, 1, 8, 32)), Seed: 2 * seed}
		a := s.run(plan)
		plan.Seed++
		c := Compare(a, s.run(plan), nil)
		for _, l := range c.Curves[0].Levels {
			for _, m := range l.Metrics {
				compared++
				if m.Change != NoDifference && m.Change != Undecided {
					shown++
				}
			}
		}
	}
	t.Logf("%d of %d", shown, compared)
	if shown > compared/20 {
		t.Errorf("%d of %d figures of the same server are said to differ", shown, compared)
	}
}

func TestCompareWarnings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(a, b *experiment.Run)
		want   []string
	}{
		{
			"the same facts", func(a, b *experiment.Run) { b.Facts, b.Plan = a.Facts, a.Plan },
			[]string{"Nothing is known to differ between the two runs: what differs in their figures is how much two runs differ, or a change that the server does not show."},
		},
		{
			"another client", func(a, b *experiment.Run) { a.Facts.Host = "linux/amd64, 2 CPUs" },
			[]string{"The client is not the same (linux/amd64, 2 CPUs and none), and may make a difference of its own."},
		},
		{"other requests", func(a, b *experiment.Run) {
			for i := range b.Plan.Levels {
				b.Plan.Levels[i].PromptTokens = 256
			}
			each(b, func(_ int, r *experiment.Request) { r.PromptTokens = 256 })
		}, []string{"No level is of the same kind and the same prompt and output length in both runs: there is nothing to compare."}},
		{
			"a doubted run", func(a, b *experiment.Run) { fail(b, 9) },
			[]string{"Run B is not to be trusted at c=1, 512+32 (failures)."},
		},
	} {
		a, b := pair()
		c.change(a, b)
		if diff := cmp.Diff(c.want, Compare(a, b, nil).Warnings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}
