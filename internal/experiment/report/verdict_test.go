package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
)

func TestVerdictSaysWhichLoadToRunAt(t *testing.T) {
	levels := []experiment.LevelSummary{{Index: 0, Level: experiment.Level{Concurrency: 16}}, {Index: 1, Level: experiment.Level{Concurrency: 64}}}
	asked := []string{"ttft_p95=1s"}
	tests := []struct {
		name string
		of   experiment.Operating
		want string
	}{
		{"holds for sure, below one that does not", experiment.Operating{Objectives: asked, Best: 0, Sure: true, Bracketed: true, Knee: -1}, "good ✔ Run at c=16"},
		{"holds, not for sure", experiment.Operating{Objectives: asked, Best: 0, Bracketed: true, Knee: -1}, "warn ▲ Run at c=16, but measure longer to be sure"},
		{"the highest holds", experiment.Operating{Objectives: asked, Best: 1, Sure: true, Knee: -1}, "warn ▲ c=64 holds; the ceiling is not known yet"},
		{"the lowest does not hold", experiment.Operating{Objectives: asked, Best: -1, Bracketed: true, Knee: 0}, "bad ✖ No measured load holds the objectives"},
		{"nothing to be trusted", experiment.Operating{Objectives: asked, Best: -1, Knee: 0}, "warn ▲ No load can be judged"},
		{"no objectives, a knee", experiment.Operating{Best: -1, Knee: 1}, "plain ◆ Throughput stops rising at c=64"},
		{"no objectives, no knee", experiment.Operating{Best: -1, Knee: -1}, "plain ◆ Throughput is still rising at the highest load"},
		{"a level that there is not", experiment.Operating{Objectives: asked, Best: 9, Knee: 9, Bracketed: true}, "bad ✖ No measured load holds the objectives"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			class, sign, head := judge(&test.of, levels)
			if got := class + " " + sign + " " + head; got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestVerdictFigures(t *testing.T) {
	summary := &experiment.Summary{
		Levels: []experiment.LevelSummary{
			{
				Index: 0, Level: experiment.Level{Concurrency: 16, PromptTokens: 512, OutputTokens: 128}, OutputRate: experiment.Estimate{Value: 465}, RequestRate: 3.64, Goodput: 3.6,
				Verdicts: []experiment.Verdict{{Objective: experiment.Objective{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second}, Estimate: experiment.Estimate{Value: 0.329}, Held: true}},
			},
			{Index: 1, Level: experiment.Level{Concurrency: 64}},
		},
		Operating: []experiment.Operating{{
			Curve: "closed loop, 512+128", Levels: []int{0, 1}, Objectives: []string{"ttft_p95=1s"}, Best: 0, Sure: true, Bracketed: true, Knee: 1,
			Peak: experiment.Estimate{Value: 890}, Text: "At most 16.", Headroom: &experiment.Headroom{Used: 0.5},
		}},
	}
	got, many := verdicts(summary)
	want := []verdict{{
		Class: "good", Sign: "✔", Head: "Run at c=16", Curve: "closed loop, 512+128", Text: "At most 16.",
		Numbers: []headline{
			{"output tok/s", "465", "52 % of the peak", false},
			{"requests/s", "3.64", "3.60 good", false},
			{"TTFT p95", "329 ms", "≤ 1 s", false},
			{"used today", "50 %", "of these tok/s", false},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" || len(many) > 0 {
		t.Error(diff, many)
	}
}

func TestManyCurvesAreATable(t *testing.T) {
	summary := &experiment.Summary{Levels: []experiment.LevelSummary{{Index: 0, Level: experiment.Level{Concurrency: 16}, OutputRate: experiment.Estimate{Value: 465}, Goodput: nan()}}}
	for range manyCurves {
		summary.Operating = append(summary.Operating, experiment.Operating{Curve: "one", Levels: []int{0, 1}, Objectives: []string{"ttft_p95=1s"}, Best: 0, Knee: -1, Next: "c=23", Peak: experiment.Estimate{Value: 890}})
	}
	few, many := verdicts(summary)
	if len(few) != 0 || len(many) != manyCurves {
		t.Fatalf("%d cards and %d rows", len(few), len(many))
	}
	want := ceiling{Class: "warn", Sign: "▲", Curve: "one", Best: "c=16", Rate: "465", Goodput: "–", Peak: "890", Knee: "–", Next: "c=23"}
	if many[0] != want {
		t.Errorf("%+v, want %+v", many[0], want)
	}
}

func TestChecksAreInTheOrderInWhichTheyMatter(t *testing.T) {
	levels := []experiment.LevelSummary{
		{
			Index: 0, Level: experiment.Level{Concurrency: 1}, Requests: 100, PromptTokens: 512, OutputTokens: 128, CachedTokens: nan(),
			Doubts: []experiment.Doubt{{Kind: analyze.KindTooFewRequests, Text: "too few"}},
		},
		{Index: 1, Level: experiment.Level{Concurrency: 2}, Requests: 900, PromptTokens: 512, OutputTokens: 128, CachedTokens: nan(), Notes: []experiment.Doubt{{Kind: analyze.KindPreemptions, Text: "preempted"}}},
	}
	var got []string
	for _, c := range checks(levels) {
		text := c.Sign + " " + c.Name + ": " + c.Text
		for _, f := range c.Found {
			text += "[" + f.Levels + ": " + f.Text + "]"
		}
		got = append(got, strings.ReplaceAll(text, "\u00a0", " "))
	}
	want := []string{
		"✔ Failures: None of 1000 requests failed.",
		"✔ Token counts: By the server's count prompt + output tokens were, in the mean, 512+128.",
		"? Cached tokens: The server does not say how much of a prompt it had cached.",
		"✔ TTFT and ITL: The server was settled. The client was in time: at most 0 % of the figures of a level withheld since it read late; requests started at most 0 s after they were due (p99).",
		"▲ Throughput: [c=2: preempted]",
		"✖ Percentiles: [c=1: too few]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFindingsOfOneKind(t *testing.T) {
	var levels []experiment.LevelSummary
	for i, text := range []string{"alike", "alike", "a", "b", "c"} {
		levels = append(levels, experiment.LevelSummary{Index: i, Level: experiment.Level{Concurrency: 1 << i}, Doubts: []experiment.Doubt{{Kind: analyze.KindCut, Text: text}}})
	}
	want := []finding{{true, "c=1 · c=2", "alike", nil}, {true, "c=4", "a", nil}}
	if diff := cmp.Diff(want, found(levels[:3], analyze.KindCut, true)); diff != "" {
		t.Error("few:", diff)
	}
	want = []finding{{true, "c=1 · c=2 · c=4 · c=8 · c=16", "alike.", []remark{{"c=1", "alike"}, {"c=2", "alike"}, {"c=4", "a"}, {"c=8", "b"}, {"c=16", "c"}}}}
	if diff := cmp.Diff(want, found(levels, analyze.KindCut, true)); diff != "" {
		t.Error("many:", diff)
	}
}

// Every kind of doubt belongs to a check, so that none is told under "Other" alone.
func TestEveryKindHasItsCheck(t *testing.T) {
	run := modelRun(concurrencyPlan(2, 1))
	summary := analyze.Summarize(run)
	for _, kind := range []string{
		analyze.KindFailures, analyze.KindMissed, analyze.KindPromptTokens, analyze.KindOutputTokens, analyze.KindCachedTokens, analyze.KindSuspect, analyze.KindClientLate,
		analyze.KindStartDelay, analyze.KindClientBusy, analyze.KindNotFull, analyze.KindWarmingUp, analyze.KindSlowingDown, analyze.KindTooFewRequests, analyze.KindCut, analyze.KindNothing,
		analyze.KindSaturated, analyze.KindFewFailures, analyze.KindNoP99, analyze.KindFewWaves, analyze.KindFirstWave, analyze.KindKVCacheFull, analyze.KindPreemptions, analyze.KindOtherLoad,
	} {
		summary.Levels[0].Doubts = []experiment.Doubt{{Kind: kind, Text: "text"}}
		for _, c := range checks(summary.Levels) {
			if c.Name == "Other" {
				t.Errorf("%s has no check", kind)
			}
		}
	}
	summary.Levels[0].Doubts = []experiment.Doubt{{Kind: "new", Text: "text"}}
	if all := checks(summary.Levels); all[len(all)-1].Name != "Other" || all[len(all)-1].Found[0].Text != "text" {
		t.Error("a kind without a check is not told")
	}
}
