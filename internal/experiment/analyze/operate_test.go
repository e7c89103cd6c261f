package analyze

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// point is a level of a load curve as it was measured, with the objective ttft_p95=1s.
type point struct {
	load           float64 // below 0: an open loop
	p95, low, high float64 // seconds
	rate           float64 // output tokens a second
	doubt          string
	note           string
}

var second = experiment.Objective{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second}

func (p point) summary(index int) experiment.LevelSummary {
	l := experiment.LevelSummary{
		Index: index, Level: experiment.Level{Concurrency: int(p.load), PromptTokens: 512, OutputTokens: 128},
		Requests: 2000, OutputRate: interval(experiment.Figure(p.rate), experiment.Figure(p.rate), experiment.Figure(p.rate)), Goodput: experiment.Figure(p.rate) / 128,
		Verdicts: []experiment.Verdict{{
			Objective: second, Estimate: interval(experiment.Figure(p.p95), experiment.Figure(p.low), experiment.Figure(p.high)), Held: p.p95 <= 1,
			Sure: p.high <= 1 || p.low > 1,
		}},
	}
	if p.load < 0 {
		l.Level.Concurrency, l.Level.Rate = 0, -p.load
	}
	if p.doubt != "" {
		l.Doubts = []experiment.Doubt{{Kind: p.doubt}}
	}
	if p.note != "" {
		l.Notes = []experiment.Doubt{{Kind: p.note}}
	}
	return l
}

func levelsOf(points []point) []experiment.LevelSummary {
	var levels []experiment.LevelSummary
	for i, p := range points {
		levels = append(levels, p.summary(i))
	}
	return levels
}

func TestOperate(t *testing.T) {
	type found struct {
		Best            int
		Sure, Bracketed bool
		Next            string
		Knee            int
		Text            string
	}
	for _, c := range []struct {
		name   string
		points []point
		today  *experiment.Load
		want   found
	}{
		{
			"a ceiling between two levels",
			[]point{
				{1, 0.1, 0.09, 0.11, 49, "", ""},
				{32, 0.61, 0.58, 0.66, 700, "", ""},
				{64, 1.9, 1.8, 2, 855, "", ""},
				{128, 8.29, 8, 8.5, 890, "", ""},
			},
			&experiment.Load{OutputTokensPerSecond: 175},
			found{1, true, true, "c=45", 2, "At most 32 requests in flight: TTFT p95 610 ms (580 to 660 ms) of 1 s; 5.47 good requests/s; at 64 TTFT p95 is 1.90 s (1.80 to 2.00 s). " +
				"The ceiling lies between c=32 and c=64: measure c=45 next. " +
				"Throughput stops rising at c=64 (855 output tok/s); its peak is 890 output tok/s at c=128. " +
				"Before the run the server gave others 175 output tok/s, 25 % of what it gives at the operating point."},
		},
		{
			"the order of measurement does not matter",
			[]point{{64, 1.9, 1.8, 2, 855, "", ""}, {128, 8.29, 8, 8.5, 850, "", ""}, {60, 0.61, 0.58, 0.66, 853, "", ""}},
			nil,
			found{2, true, true, "", 2, "At most 60 requests in flight: TTFT p95 610 ms (580 to 660 ms) of 1 s; 6.66 good requests/s; at 64 TTFT p95 is 1.90 s (1.80 to 2.00 s). " +
				"Throughput stops rising at c=60 (853 output tok/s); its peak is 855 output tok/s at c=64."},
		},
		{
			"no ceiling",
			[]point{{128, 0.1, 0.09, 0.11, 700, "", ""}, {256, 0.2, 0.19, 0.21, 1300, "", ""}},
			nil,
			found{1, true, false, "c=512", -1, "At most 256 requests in flight: TTFT p95 200 ms (190 to 210 ms) of 1 s; 10.2 good requests/s. " +
				"No ceiling can be named: the highest level measured (c=256) still holds: measure c=512 next. " +
				"Throughput still rises at the highest level: 1300 output tok/s at c=256."},
		},
		{
			"not sure",
			[]point{{2, 0.98, 0.9, 1.1, 100, "", ""}, {3, 1.5, 1.4, nanf, 100, "", ""}},
			nil,
			found{0, false, true, "", 0, "At most 2 requests in flight: TTFT p95 980 ms (900 ms to 1.10 s) of 1 s; 0.781 good requests/s; at 3 TTFT p95 is 1.50 s (at least 1.40 s; too few requests for an upper bound). " +
				"The confidence interval does not exclude that it fails: measure longer to be sure. " +
				"Throughput stops rising at 100 output tok/s at c=2."},
		},
		{
			"nothing holds",
			[]point{{8, 2, 1.9, 2.1, 100, "", ""}},
			&experiment.Load{OutputTokensPerSecond: 175},
			found{-1, false, true, "c=4", -1, "No level holds the objectives: at 8 requests in flight TTFT p95 is 2.00 s (1.90 to 2.10 s). " +
				"The lowest level measured (c=8) does not hold: measure c=4 next."},
		},
		{
			"not even one request",
			[]point{{1, 2, 1.9, 2.1, 100, "", ""}},
			nil,
			found{-1, false, true, "", -1, "No level holds the objectives: at 1 request in flight TTFT p95 is 2.00 s (1.90 to 2.10 s). No load is lower than one request in flight."},
		},
		{
			"a level that holds above one that does not is not counted",
			[]point{{1, 0.1, 0.1, 0.1, 50, "", ""}, {2, 1.5, 1.4, 1.6, 90, "", ""}, {4, 0.5, 0.4, 0.6, 170, "", ""}},
			nil,
			found{0, true, true, "", -1, "At most 1 request in flight: TTFT p95 100 ms (100 to 100 ms) of 1 s; 0.391 good requests/s; at 2 TTFT p95 is 1.50 s (1.40 to 1.60 s). " +
				"Throughput still rises at the highest level: 170 output tok/s at c=4."},
		},
		{
			"a level that is not to be trusted does not decide",
			[]point{{1, 0.1, 0.1, 0.1, 50, "too_few_requests", ""}, {2, 0.1, 0.1, 0.1, 90, "", ""}, {4, 1.5, 1.4, 1.6, 170, "client_late", ""}},
			nil,
			found{1, true, false, "c=4", -1, "At most 2 requests in flight: TTFT p95 100 ms (100 to 100 ms) of 1 s; 0.703 good requests/s. c=4 does not decide (client late): measure c=4 next. " +
				"Throughput still rises at the highest level: 170 output tok/s at c=4."},
		},
		{
			"unless a second measurement can be",
			[]point{{2, 0.1, 0.1, 0.1, 90, "", ""}, {4, 0.5, 0.4, 0.6, 170, "client_late", ""}, {4, 1.5, 1.4, 1.6, 170, "", ""}},
			nil,
			found{0, true, true, "c=3", -1, "At most 2 requests in flight: TTFT p95 100 ms (100 to 100 ms) of 1 s; 0.703 good requests/s; at 4 TTFT p95 is 1.50 s (1.40 to 1.60 s). " +
				"The ceiling lies between c=2 and c=4: measure c=3 next. Throughput still rises at the highest level: 170 output tok/s at c=4."},
		},
		{
			"a queue that grows holds nothing",
			[]point{{-4, 0.1, 0.1, 0.1, 500, "", ""}, {-8, 0.7, 0.6, 0.8, 850, "", "saturated"}},
			nil,
			found{0, true, true, "5.66/s", -1, "At most 4 requests/s: TTFT p95 100 ms (100 to 100 ms) of 1 s; 3.91 good requests/s; at 8/s the queue grows as long as requests come. " +
				"The ceiling lies between 4/s and 8/s: measure 5.66/s next. Throughput still rises at the highest level: 850 output tok/s at 8/s."},
		},
		{
			"nothing to judge",
			[]point{{4, nanf, nanf, nanf, nanf, "", ""}},
			nil,
			found{-1, false, false, "c=4", -1, "No level can be judged. c=4 does not decide (ttft_p95 unknown): measure c=4 next."},
		},
	} {
		points := operate(levelsOf(c.points), []experiment.Objective{second}, c.today)
		if len(points) != 1 {
			t.Fatalf("%s: %d curves", c.name, len(points))
		}
		o := points[0]
		if diff := cmp.Diff(c.want, found{o.Best, o.Sure, o.Bracketed, o.Next, o.Knee, o.Text}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

var nanf = float64(nan)

// What a server fails counts against it, and so does what was due and not sent.
func TestOperateFailures(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*experiment.Run)
		best   int
		text   string
	}{
		{"none", func(*experiment.Run) {}, 1, ""},
		{
			"more than the p95 allows", func(run *experiment.Run) {
				for i := range 40 {
					run.Requests[400+10*i].Reason = "overloaded"
				}
			}, 0, "at 4 too many were not served for the TTFT p95: 40 of 400 requests failed (40 overloaded).",
		},
		{
			"all", func(run *experiment.Run) {
				for i := range 400 {
					run.Requests[400+i].Reason = "connect"
				}
			}, 0, "at 4 no request succeeds.",
		},
	} {
		run := server{ttft: noisy(0.1), gap: noisy(0.02)}.run(experiment.Plan{Levels: steps(400, 2, 4), SLOs: []experiment.Objective{second}})
		c.change(run)
		o := Summarize(run).Operating[0]
		if o.Best != c.best || !strings.Contains(o.Text, c.text) {
			t.Errorf("%s: best is %d, not %d: %s", c.name, o.Best, c.best, o.Text)
		}
	}
}

// Every shape and kind of load is a curve of its own.
func TestCurves(t *testing.T) {
	levels := []experiment.LevelSummary{
		{Index: 0, Level: experiment.Level{Concurrency: 4, PromptTokens: 128, OutputTokens: 128}},
		{Index: 1, Level: experiment.Level{Concurrency: 4, PromptTokens: 512, OutputTokens: 128}},
		{Index: 2, Level: experiment.Level{Rate: 8, Arrival: "poisson", PromptTokens: 512, OutputTokens: 128}},
		{Index: 3, Level: experiment.Level{Rate: 8, Arrival: "constant", PromptTokens: 512, OutputTokens: 128, MaxInFlight: 9}},
		{Index: 4, Level: experiment.Level{Rate: 2, Arrival: "poisson", PromptTokens: 512, OutputTokens: 128}},
		{Index: 5, Level: experiment.Level{Concurrency: 1, PromptTokens: 128, OutputTokens: 128, Requests: 7}},
	}
	got := make(map[string][]int)
	for _, o := range operate(levels, nil, nil) {
		got[o.Curve] = o.Levels
	}
	want := map[string][]int{
		"closed loop, 128+128":                                       {5, 0},
		"closed loop, 512+128":                                       {1},
		"open loop, poisson arrivals, 512+128":                       {4, 2},
		"open loop, constant arrivals, at most 9 in flight, 512+128": {3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("curves (-want +got):\n%s", diff)
	}
}

// The seeds' closed loop: throughput stops rising at 64, as they say.
func TestKnee(t *testing.T) {
	for _, c := range []struct {
		name  string
		rates map[int]float64
		want  int // concurrency; 0: none
	}{
		{"the seeds'", map[int]float64{1: 49, 2: 95, 4: 160, 8: 290, 16: 450, 32: 640, 64: 855, 128: 890, 256: 877}, 64},
		{"still rising", map[int]float64{1: 49, 2: 95, 4: 160}, 0},
		{"one level", map[int]float64{1: 49}, 0},
		{"a step of less than double", map[int]float64{48: 800, 64: 840, 96: 850}, 64}, // 5 % for 0.4 doublings
		{"a dip", map[int]float64{1: 100, 2: 90, 4: 180, 8: 185}, 4},
		{"falling", map[int]float64{1: 100, 2: 90, 4: 80}, 1},
		{"an unknown level", map[int]float64{1: 100, 2: nanf, 4: 101}, 1},
	} {
		var points []point
		for load, rate := range c.rates {
			points = append(points, point{load: float64(load), rate: rate})
		}
		got := 0
		if knee := curves(levelsOf(points))[0].knee(); knee != nil {
			got = knee.Level.Concurrency
		}
		if got != c.want {
			t.Errorf("%s: throughput stops rising at %d, not %d", c.name, got, c.want)
		}
	}
}
