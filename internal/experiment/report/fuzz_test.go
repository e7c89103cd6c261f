//go:build unix

package report

import (
	"bytes"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/internal/cputest"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/prober"
)

// FuzzReport gives a report the worst of runs: figures that are humanize.Unknown, infinite, negative or huge, levels that were
// cut or never begun, indices that lead nowhere, times that are zero or run backwards. It must write a page that is
// well-formed, and draw within its charts.
func FuzzReport(f *testing.F) {
	for seed := range uint64(80) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		g := wild{rand.New(rand.NewPCG(seed, 1))}
		run, summary := g.run(), g.summary()
		var b bytes.Buffer
		size := 1000*(len(run.Levels)+len(summary.Levels)) + 100*(len(run.Requests)+len(run.Queue)) // what they take in files
		cputest.Linear(t, size, func() {
			if err := Render(&b, run, summary); err != nil {
				t.Fatal(err)
			}
		})
		page := b.String()
		parse(t, page)
		for _, nonsense := range []string{"NaN", "Inf", "ZgotmplZ"} {
			if body := page[strings.Index(page, "<body>"):]; strings.Contains(body, nonsense) {
				at := strings.Index(body, nonsense)
				t.Errorf("%s in …%s…", nonsense, body[max(0, at-80):min(len(body), at+40)])
			}
		}
		within(t, page)
	})
}

// within checks that every coordinate lies in its chart.
func within(t *testing.T, page string) {
	t.Helper()
	number := regexp.MustCompile(`-?\d+(\.\d+)?`)
	place := regexp.MustCompile(`[ML](-?[\d.]+) (-?[\d.]+)`)
	for _, drawing := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		size := number.FindAllString(regexp.MustCompile(`viewBox="[^"]*"`).FindString(drawing), -1)
		width, height := parseFloat(t, size[2]), parseFloat(t, size[3])
		if height > 700 {
			t.Errorf("a chart is %g high", height)
		}
		for _, at := range place.FindAllStringSubmatch(drawing, -1) {
			if x, y := parseFloat(t, at[1]), parseFloat(t, at[2]); x < -1 || x > width+1 || y < -1 || y > height+1 {
				t.Errorf("a line goes to %g %g, outside of %g×%g", x, y, width, height)
			}
		}
	}
}

func parseFloat(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// wild makes runs and summaries that nobody has measured.
type wild struct{ *rand.Rand }

func (g wild) number() float64 {
	odd := []float64{math.NaN(), math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e-12, 1e15, 1, 0.1}
	if g.IntN(3) == 0 {
		return odd[g.IntN(len(odd))]
	}
	return math.Exp(6 * g.NormFloat64())
}

func (g wild) estimate() experiment.Estimate {
	return experiment.Estimate{Value: experiment.Figure(g.number()), Low: experiment.Figure(g.number()), High: experiment.Figure(g.number())}
}

func (g wild) distribution() experiment.Distribution {
	return experiment.Distribution{Count: g.IntN(3), P50: g.estimate(), P90: g.estimate(), P95: g.estimate(), P99: g.estimate(), Mean: g.estimate()}
}

func (g wild) time() time.Time {
	if g.IntN(6) == 0 {
		return time.Time{}
	}
	return began().Add(time.Duration((g.Float64() - 0.2) * 300 * float64(time.Second)))
}

func (g wild) level() experiment.Level {
	l := experiment.Level{PromptTokens: 1 << g.IntN(14), OutputTokens: 1 << g.IntN(4), Requests: g.IntN(3)}
	if g.IntN(2) == 0 {
		l.Concurrency = 1 << g.IntN(9)
	} else {
		l.Rate, l.Arrival = []float64{0, 0.001, 2, 4, 1e9}[g.IntN(5)], prober.Poisson
	}
	if g.IntN(2) == 0 {
		l.PromptTokens = 512
	}
	return l
}

func (g wild) run() *experiment.Run {
	run := &experiment.Run{Plan: experiment.Plan{Levels: make([]experiment.Level, g.IntN(6)), SLOs: g.objectives()}, Levels: make([]experiment.LevelRun, g.IntN(6))}
	for i := range run.Plan.Levels {
		run.Plan.Levels[i] = g.level()
	}
	for i := range run.Levels {
		run.Levels[i] = experiment.LevelRun{Start: g.time(), End: g.time(), Empty: g.time(), Cut: []string{"", "interrupted"}[g.IntN(2)]}
	}
	for range g.IntN(60) {
		run.Requests = append(run.Requests, experiment.Request{Level: g.IntN(8) - 1, Result: prober.Result{
			Probe:     &prober.Probe{Warmup: g.IntN(5) == 0, Scheduled: g.time(), Started: g.time()},
			Abandoned: g.IntN(9) == 0, Reason: []prober.Reason{"", "", "timeout"}[g.IntN(3)], Sent: g.time(), FirstToken: g.time(), LastToken: g.time(), Ended: g.time(),
		}})
	}
	for range g.IntN(60) {
		run.Queue = append(run.Queue, experiment.QueueSample{At: g.time(), Level: g.IntN(8) - 1, Running: g.number(), Waiting: g.number()})
	}
	return run
}

func (g wild) objectives() []experiment.Objective {
	all := []experiment.Objective{
		{Indicator: experiment.TTFT, Quantile: 0.95, Threshold: time.Second},
		{Indicator: experiment.TPOT, Quantile: 0.999, Threshold: time.Nanosecond},
		{Indicator: "other", Quantile: -1, Threshold: -time.Hour},
	}
	return all[:g.IntN(len(all)+1)]
}

func (g wild) summary() experiment.Summary {
	var s experiment.Summary
	for range g.IntN(7) {
		l := experiment.LevelSummary{
			Index: g.IntN(8) - 1, Level: g.level(), Requests: g.IntN(100), Failed: g.IntN(2),
			TTFT: g.distribution(), TTFTFromSchedule: g.distribution(), ITL: g.distribution(), TPOT: g.distribution(), Duration: g.distribution(),
			OutputRate: g.estimate(), SteadyRate: g.estimate(), RequestRate: experiment.Figure(g.number()), Goodput: experiment.Figure(g.number()),
			PromptTokens: experiment.Figure(g.number()), CachedTokens: experiment.Figure(g.number()), PeakRunning: experiment.Figure(g.number()), Drain: experiment.Figure(g.number()),
			Client: experiment.Client{CPUSeconds: g.number(), LateGapsRatio: g.number(), MaxRSSBytes: int64(g.IntN(3) - 1)},
		}
		for _, o := range g.objectives() {
			l.Verdicts = append(l.Verdicts, experiment.Verdict{Objective: o, Estimate: g.estimate(), Held: g.IntN(2) == 0})
		}
		if g.IntN(3) == 0 {
			l.Doubts = []experiment.Doubt{{Kind: analyze.KindCut, Text: "cut"}}
		}
		s.Levels = append(s.Levels, l)
	}
	for range g.IntN(6) {
		o := experiment.Operating{Best: g.IntN(9) - 2, Knee: g.IntN(9) - 2, Peak: g.estimate(), Bracketed: g.IntN(2) == 0}
		for range g.IntN(4) {
			o.Levels = append(o.Levels, g.IntN(9)-1)
		}
		if g.IntN(2) == 0 {
			o.Objectives = []string{"ttft_p95=1s"}
		}
		if g.IntN(2) == 0 {
			o.Headroom = &experiment.Headroom{Used: experiment.Figure(g.number())}
		}
		s.Operating = append(s.Operating, o)
	}
	return s
}
