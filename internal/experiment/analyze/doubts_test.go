package analyze

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
)

// sound is a run of one level of which nothing is to be doubted.
func sound(l experiment.Level) *experiment.Run {
	run := server{ttft: noisy(0.1), gap: noisy(0.02)}.run(experiment.Plan{Levels: []experiment.Level{l}})
	end := run.Levels[0].End
	for at := epoch; !at.After(end.Add(time.Second)); at = at.Add(time.Second) {
		run.Queue = append(run.Queue, experiment.QueueSample{At: at, Running: 4, KVUsage: 0.3, GenerationTokens: math.NaN(), Preemptions: math.NaN()})
	}
	return run
}

var (
	closedLevel = experiment.Level{Concurrency: 4, PromptTokens: 64, OutputTokens: 16, Requests: 1600}
	openLevel   = experiment.Level{Rate: 20, PromptTokens: 64, OutputTokens: 16, Requests: 3200}
)

func each(run *experiment.Run, change func(i int, r *experiment.Request)) {
	for i := range run.Requests {
		change(i, &run.Requests[i])
	}
}

// slower makes the first tokens of some requests late.
func slower(r *experiment.Request, by time.Duration) {
	r.FirstToken, r.LastToken, r.Ended = r.FirstToken.Add(by), r.LastToken.Add(by), r.Ended.Add(by)
}

func TestDoubts(t *testing.T) {
	for _, c := range []struct {
		name   string
		level  experiment.Level
		change func(run *experiment.Run)
		doubts []string // "kind: start of the text"
		notes  []string
	}{
		{name: "sound closed loop", level: closedLevel},
		{name: "sound open loop", level: openLevel},
		{
			name: "cut", level: closedLevel,
			change: func(run *experiment.Run) { run.Levels[0].Cut = "server lost" },
			doubts: []string{"cut: cut short (server lost) after 1600 requests: measure it again"},
		},
		{
			name: "failures", level: closedLevel,
			change: func(run *experiment.Run) {
				fail(run, 3)
				run.Requests[5].Reason = "conn_reset"
			},
			doubts: []string{"failures: 4 of 1600 requests failed (3 timeout, 1 conn_reset): latencies are of those that survived"},
		},
		{
			name: "a failure that does not matter", level: closedLevel,
			change: func(run *experiment.Run) { fail(run, 1) },
			notes:  []string{"few_failures: 1 of 1600 requests failed (1 timeout): too few to move a percentile"},
		},
		{
			name: "abandoned requests are no failures", level: closedLevel,
			change: func(run *experiment.Run) { run.Requests[1599].Abandoned = true },
		},
		{
			name: "missed", level: experiment.Level{Rate: 20, MaxInFlight: 64, PromptTokens: 64, OutputTokens: 16, Requests: 3200},
			change: func(run *experiment.Run) { run.Levels[0].Missed = 7 },
			doubts: []string{"missed: 7 requests due and not sent, since 64 were in flight: the load was below 20/s"},
		},
		{
			name: "prompt length", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i < 10 {
						r.PromptTokens = 60 + i
					}
				})
			},
			doubts: []string{"prompt_tokens: 9 of 1600 successes had 60 to 69 prompt tokens, not 64"},
		},
		{
			name: "prompts that the server does not count", level: closedLevel,
			change: func(run *experiment.Run) { each(run, func(_ int, r *experiment.Request) { r.PromptTokens = -1 }) },
		},
		{
			name: "output length", level: closedLevel,
			change: func(run *experiment.Run) { run.Requests[9].OutputTokens = 1 },
			doubts: []string{"output_tokens: 1 of 1600 successes had 1 output tokens, not 16"},
		},
		{
			name: "cached prompts", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) { r.CachedTokens = 32 * (i % 2) })
			},
			doubts: []string{"cached_tokens: 800 of 1600 successes found part of the prompt cached (16 tokens in the mean)"},
		},
		{
			name: "suspects", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i < 40 {
						r.Suspect = prober.SuspectOtherModel | prober.SuspectPromptLength
					}
					if i < 16 { // 1 %
						r.Suspect |= prober.SuspectNoDone
					}
				})
			},
			doubts: []string{"suspect: of 1600 successes some are suspect (40 other_model)"},
		},
		{
			name: "client late", level: closedLevel,
			change: func(run *experiment.Run) {
				run.Levels[0].Client.LateGapsRatio, run.Levels[0].Client.ReadDelayMax = 0.027, 0.019
				each(run, func(i int, r *experiment.Request) {
					if i%5 == 0 {
						r.Early = make([]time.Duration, len(r.Gaps)+1)
						r.Early[8] = 19 * time.Millisecond
					}
				})
			},
			doubts: []string{"client_late: the client read 0 % of the first tokens and 2.7 % of the others too late (up to 19.0 ms) to know ITL p99"},
		},
		{
			name: "client late for an objective", level: closedLevel,
			change: func(run *experiment.Run) {
				run.Plan.SLOs = []experiment.Objective{{Indicator: experiment.TTFT, Quantile: 0.5, Threshold: 90 * time.Millisecond}}
				each(run, func(_ int, r *experiment.Request) { r.Early = []time.Duration{40 * time.Millisecond} })
			},
			doubts: []string{"client_late: the client read 0 % of the first tokens and 0 % of the others too late (up to 0 s) to know TTFT p50 (59.6 to 99.6 ms)"},
		},
		{
			name: "client late, but the objective is held at any rate", level: closedLevel,
			change: func(run *experiment.Run) {
				run.Plan.SLOs = []experiment.Objective{{Indicator: experiment.TTFT, Quantile: 0.5, Threshold: 200 * time.Millisecond}}
				each(run, func(_ int, r *experiment.Request) { r.Early = []time.Duration{40 * time.Millisecond} })
			},
		},
		{
			name: "client late for what does not matter", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i < 10 {
						r.Early = make([]time.Duration, len(r.Gaps)+1)
						r.Early[3] = 4 * time.Millisecond
					}
				})
			},
		},
		{
			name: "start delay", level: openLevel,
			change: func(run *experiment.Run) { run.Levels[0].Client.StartDelayP99 = 0.012 },
			doubts: []string{"start_delay: the client started requests late (p99 12.0 ms)"},
		},
		{
			name: "client busy", level: closedLevel,
			change: func(run *experiment.Run) {
				run.Levels[0].Client.CPUSeconds = 0.9 * 2 * run.Levels[0].End.Sub(epoch).Seconds()
			},
			doubts: []string{"client_busy: the client used 90 % of its 2 processors"},
		},
		{
			name: "not full", level: closedLevel,
			change: func(run *experiment.Run) {
				// The client waits a tenth of a second before each request.
				each(run, func(_ int, r *experiment.Request) {
					r.Started, r.Sent = r.Started.Add(40*time.Millisecond), r.Sent.Add(40*time.Millisecond)
				})
			},
			doubts: []string{"not_full: 3.60 requests in flight in the mean, not 4: throughput is that of the client"},
		},
		{
			name: "never full", level: experiment.Level{Concurrency: 64, PromptTokens: 64, OutputTokens: 16, Requests: 63},
			doubts: []string{
				"not_full: only 63 requests sent, so that the level of 64 was never reached",
				"too_few_requests: 63 successes: too few for a p95, which needs 72",
			},
		},
		{
			name: "warming up", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i < 600 {
						slower(r, 40*time.Millisecond)
					}
				})
			},
			doubts: []string{"warming_up: median duration of the first third is 442 ms, of the last 400 ms: it was still warming up"},
		},
		{
			name: "only the first wave was slow", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i < 4 {
						slower(r, time.Second)
					}
				})
			},
		},
		{
			name: "warming up, one at a time", level: experiment.Level{Concurrency: 1, PromptTokens: 64, OutputTokens: 16, Requests: 400},
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i < 150 {
						slower(r, 20*time.Millisecond) // less than 5 % of the duration
					}
				})
			},
			doubts: []string{"warming_up: median TTFT of the first third is 122 ms, of the last 102 ms: it was still warming up"},
		},
		{
			name: "in step at first", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i < 600 {
						r.FirstToken = r.FirstToken.Add(40 * time.Millisecond)
					}
				})
			},
		},
		{
			name: "slowing down", level: closedLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) {
					if i >= 1000 {
						slower(r, 40*time.Millisecond)
					}
				})
			},
			doubts: []string{"slowing_down: median duration of the first third is 402 ms, of the last 440 ms: it was slowing down"},
		},
		{
			name: "an open loop slows down for its queue", level: openLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) { slower(r, time.Duration(i)*10*time.Millisecond) })
			},
			notes: []string{"saturated: the queue was still growing (", "few_waves: "},
		},
		{
			name: "an open loop that has filled up", level: openLevel,
			change: func(run *experiment.Run) {
				each(run, func(i int, r *experiment.Request) { slower(r, time.Duration(min(i, 1500))*2*time.Millisecond) })
			},
		},
		{
			name: "too few for a p95", level: experiment.Level{Concurrency: 1, PromptTokens: 64, OutputTokens: 16, Requests: 71},
			doubts: []string{"too_few_requests: 71 successes: too few for a p95, which needs 72; measure longer"},
		},
		{
			name: "too few for a p99", level: experiment.Level{Concurrency: 1, PromptTokens: 64, OutputTokens: 16, Requests: 367},
			notes: []string{"no_p99: fewer than the 368 successes that an upper bound of the p99 needs"},
		},
		{
			name: "few waves", level: experiment.Level{Concurrency: 64, PromptTokens: 64, OutputTokens: 16, Requests: 400},
			change: func(run *experiment.Run) {
				// Every other wave is slow as a whole.
				each(run, func(i int, r *experiment.Request) {
					if i/64%2 == 1 {
						r.FirstToken = r.FirstToken.Add(50 * time.Millisecond)
					}
				})
			},
			notes: []string{
				"few_waves: requests in flight together are alike, so that all are worth fewer than the 72 independent ones",
				"first_wave: the first wave, sent all at once, is over 5 % of the requests, so p95 and p99 of TTFT are partly those of the start: send at least 20 requests for each in flight for a p95 of the load, 100 for a p99, or measure longer",
			},
		},
		{
			name: "a first wave of 5 %", level: experiment.Level{Concurrency: 20, PromptTokens: 64, OutputTokens: 16, Requests: 400},
		},
		{
			name: "a first wave of more", level: experiment.Level{Concurrency: 20, PromptTokens: 64, OutputTokens: 16, Requests: 399},
			notes: []string{"first_wave: "},
		},
		{
			name: "cache full", level: closedLevel,
			change: func(run *experiment.Run) { run.Queue[5].KVUsage = 0.97 },
			notes:  []string{"kv_cache_full: the KV cache was 97 % full"},
		},
		{
			name: "preemptions", level: closedLevel,
			change: func(run *experiment.Run) {
				for i := range run.Queue {
					run.Queue[i].Preemptions = 100 + float64(min(i, 3))
				}
			},
			notes: []string{"preemptions: the server preempted 3 requests"},
		},
		{
			name: "others before", level: closedLevel,
			change: func(run *experiment.Run) {
				run.Facts.Before = &experiment.Load{Running: 1.25, OutputTokensPerSecond: 60}
			},
			notes: []string{"other_load: before the run others kept 1.25 requests in flight (60 output tok/s)"},
		},
		{
			name: "an idle server before", level: closedLevel,
			change: func(run *experiment.Run) { run.Facts.Before = &experiment.Load{Running: 0.02} },
		},
		{
			name: "others during", level: closedLevel,
			change: func(run *experiment.Run) { generate(run, 30000) },
			notes:  []string{"other_load: the server generated 30,000 tokens, 25,600 of them for us"},
		},
		{
			name: "nobody during", level: closedLevel,
			change: func(run *experiment.Run) { generate(run, 25600) },
		},
	} {
		run := sound(c.level)
		if c.change != nil {
			c.change(run)
		}
		l := Summarize(run).Levels[0]
		compareDoubts(t, c.name+": doubts", c.doubts, l.Doubts)
		compareDoubts(t, c.name+": notes", c.notes, l.Notes)
	}
}

// generate makes the server's counter of tokens rise by so many.
func generate(run *experiment.Run, tokens float64) {
	for i := range run.Queue {
		run.Queue[i].GenerationTokens = 1e6 + tokens*float64(i)/float64(len(run.Queue)-1)
	}
}

func compareDoubts(t *testing.T, name string, want []string, doubts []experiment.Doubt) {
	t.Helper()
	var got []string
	for i, d := range doubts {
		text := d.Kind + ": " + d.Text
		if i < len(want) && strings.HasPrefix(text, want[i]) {
			text = want[i]
		}
		got = append(got, text)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// docs/definitions.md lists every check, in the order in which they are made.
func TestKindsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/definitions.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n### Doubts and notes\n")
	section, _, _ = strings.Cut(section, "\n### ")
	var documented, made []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(cells[1], " `") {
			for kind := range strings.SplitSeq(cells[1], ",") {
				documented = append(documented, strings.Trim(kind, " `")+": "+strings.TrimSpace(cells[2]))
			}
		}
	}
	for _, c := range checks() {
		sort := "doubt"
		if c.note {
			sort = "note"
		}
		made = append(made, c.kind+": "+sort)
	}
	if diff := cmp.Diff(documented, made); diff != "" {
		t.Errorf("checks (-documented +made):\n%s", diff)
	}
}

// Levels with nothing wrong are hardly ever doubted: of 100 not one in twenty.
func TestDoubtsByChance(t *testing.T) {
	doubted := 0
	for seed := range uint64(100) {
		s := server{
			ttft: func(n, _ int, random *rand.Rand) float64 { return 0.1 * random.ExpFloat64() },
			gap:  noisy(0.02),
		}
		l := closedLevel
		if seed%2 == 1 {
			l = openLevel
		}
		l.Requests = 400
		summary := Summarize(s.run(experiment.Plan{Seed: seed, Levels: []experiment.Level{l}}))
		if len(summary.Levels[0].Doubts) > 0 || has(&summary.Levels[0], KindSaturated) {
			doubted++
		}
	}
	t.Logf("%d of 100", doubted)
	if doubted > 5 {
		t.Errorf("%d of 100 levels with nothing wrong are doubted", doubted)
	}
}
