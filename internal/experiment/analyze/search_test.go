package analyze

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// trail runs a search against an oracle, and lists the loads it measured and how it ended.
func trail(s Search, measure func(load float64, times int) point) (loads []string, end string) {
	var levels []experiment.LevelSummary
	times := make(map[float64]int)
	for range 40 {
		step := s.Next(levels)
		if step.Done {
			return loads, step.Why
		}
		x := load(step.Level)
		loads = append(loads, step.Level.Load())
		p := measure(x, times[x])
		times[x]++
		p.load = x
		if !step.Level.Closed() {
			p.load = -x
		}
		levels = append(levels, p.summary(len(levels)))
	}
	return loads, "never"
}

// upTo holds the objective up to a load, and breaks it above.
func upTo(ceiling float64) func(float64, int) point {
	return func(load float64, _ int) point {
		p95 := load / ceiling
		return point{p95: p95, low: p95, high: p95, rate: load}
	}
}

func TestSearch(t *testing.T) {
	closed := experiment.Level{Concurrency: 1, PromptTokens: 512, OutputTokens: 128}
	open := experiment.Level{Rate: 1, PromptTokens: 512, OutputTokens: 128}
	for _, c := range []struct {
		name    string
		search  Search
		measure func(float64, int) point
		loads   string
		end     string
	}{
		{"closed loop", Search{From: closed}, upTo(50), "c=1 c=2 c=4 c=8 c=16 c=32 c=64 c=45 c=54 c=49 c=51", "c=49 holds and c=51 does not"},
		{"from amid", Search{From: experiment.Level{Concurrency: 32, PromptTokens: 512, OutputTokens: 128}}, upTo(50), "c=32 c=64 c=45 c=54 c=49 c=51", "c=49 holds and c=51 does not"},
		{"from above", Search{From: experiment.Level{Concurrency: 256, PromptTokens: 512, OutputTokens: 128}}, upTo(50), "c=256 c=128 c=64 c=32 c=45 c=54 c=49 c=51", "c=49 holds and c=51 does not"},
		{"neighbours", Search{From: closed}, upTo(3.5), "c=1 c=2 c=4 c=3", "c=3 holds and c=4 does not"},
		{"not one", Search{From: experiment.Level{Concurrency: 2, PromptTokens: 512, OutputTokens: 128}}, upTo(0.5), "c=2 c=1", "c=1 does not hold; No load is lower than one request in flight."},
		{"open loop", Search{From: open}, upTo(6.1), "1/s 2/s 4/s 8/s 5.66/s 6.73/s 6.17/s", "5.66/s holds and 6.17/s does not"},
		{"no rate", Search{From: open}, upTo(0.001), "1/s 0.5/s 0.25/s 0.125/s 0.0625/s 0.0312/s 0.0156/s", "even 0.0156/s does not hold"},
		{"a bound", Search{From: closed, Max: 6}, upTo(50), "c=1 c=2 c=4 c=6", "c=6, the highest load to be tried, still holds: no ceiling can be named"},
		{
			"doubted once", Search{From: closed}, func(load float64, times int) point {
				p := upTo(3.5)(load, times)
				if load == 2 && times == 0 {
					p.doubt = KindClientLate
				}
				return p
			}, "c=1 c=2 c=2 c=4 c=3", "c=3 holds and c=4 does not",
		},
		{
			"doubted twice", Search{From: closed}, func(load float64, times int) point {
				p := upTo(3.5)(load, times)
				if load == 2 {
					p.doubt = KindClientLate
				}
				return p
			}, "c=1 c=2 c=2", "c=2 does not decide, measured twice (client late): no ceiling can be named",
		},
	} {
		loads, end := trail(c.search, c.measure)
		if diff := cmp.Diff([]string{c.loads, c.end}, []string{strings.Join(loads, " "), end}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// Wherever the ceiling is, the search ends with it between two loads that are at most 10 % apart or neighbours, in at
// most the levels that doubling and halving take.
func TestSearchAnywhere(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		ceiling := math.Exp(random.Float64() * 6)
		loads, end := trail(Search{From: experiment.Level{Concurrency: 1, PromptTokens: 512, OutputTokens: 128}}, upTo(ceiling))
		var best, failing int
		if _, err := fmt.Sscanf(end, "c=%d holds and c=%d does not", &best, &failing); err != nil {
			t.Fatalf("ceiling %g: %s", ceiling, end)
		}
		if float64(best) > ceiling || float64(failing) <= ceiling || failing > best+1 && float64(failing) > resolution*float64(best) {
			t.Errorf("ceiling %g: %s", ceiling, end)
		}
		if most := int(math.Log2(ceiling)) + 2 + 4; len(loads) > most {
			t.Errorf("ceiling %g took %d levels: %v", ceiling, len(loads), loads)
		}
	}
}

// A level of too few requests is measured again for so long that they suffice.
func TestSearchLonger(t *testing.T) {
	l := point{load: 1, p95: 0.1, low: 0.1, high: 0.1, doubt: KindTooFewRequests}.summary(0)
	l.Level.Requests, l.Level.Duration = 60, 2*time.Minute
	l.Requests, l.Failed = 49, 3
	// 1.25·72/46 = 1.96, that is 2.
	want := Step{Level: l.Level, Why: "c=1 does not decide (too few requests): once more, 2 times as long"}
	want.Level.Requests, want.Level.Duration = 120, 4*time.Minute
	if diff := cmp.Diff(want, Search{From: l.Level}.Next([]experiment.LevelSummary{l})); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}

// The levels that a search asks for are the first one but for their load.
func TestSearchKeepsTheLevel(t *testing.T) {
	from := experiment.Level{Rate: 2, Arrival: "poisson", MaxInFlight: 100, PromptTokens: 512, OutputTokens: 128, Requests: 7}
	measured := point{load: -2, p95: 0.1, low: 0.1, high: 0.1}.summary(0)
	measured.Level = from
	want := from
	want.Rate = 4
	other := point{load: 99, p95: 5, low: 5, high: 5}.summary(1) // of another curve
	if diff := cmp.Diff(Step{Level: want, Why: "No ceiling can be named: the highest level measured (2/s) still holds"},
		Search{From: from}.Next([]experiment.LevelSummary{measured, other})); diff != "" {
		t.Errorf("next (-want +got):\n%s", diff)
	}
}
