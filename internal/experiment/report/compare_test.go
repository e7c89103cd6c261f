package report

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
)

// slower is the same run on a server whose every token takes that much longer.
func slower(plan experiment.Plan, by float64) *experiment.Run {
	run := modelRun(plan)
	run.Facts.Server = map[string]string{"block_size": "16", "prefix_caching": "on"}
	for i := range run.Requests {
		r := &run.Requests[i]
		r.FirstToken = r.Sent.Add(time.Duration(by * float64(r.FirstToken.Sub(r.Sent))))
		last := r.FirstToken
		for j := range r.Gaps {
			r.Gaps[j] = time.Duration(by * float64(r.Gaps[j]))
			last = last.Add(r.Gaps[j])
		}
		r.LastToken = last
		r.Ended = last
	}
	return run
}

func comparison(t *testing.T, a, b *experiment.Run) string {
	t.Helper()
	var page bytes.Buffer
	if err := RenderComparison(&page, a, b, analyze.Compare(a, b, a.Plan.SLOs)); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

func TestComparisonSaysWhichIsBetter(t *testing.T) {
	plan := concurrencyPlan(60, 4, 8)
	tests := []struct {
		name string
		a, b *experiment.Run
		want string
	}{
		{"a slower B", modelRun(plan), slower(plan, 1.5), "B is worse"},
		{"a faster B", slower(plan, 1.5), modelRun(plan), "B is better"},
		{"a B too slow for the objectives", modelRun(plan), slower(plan, 10), "✖ B holds the objectives at no load, A up to c=8 at least"},
		{"a B fast enough for the objectives", slower(plan, 10), modelRun(plan), "✔ B holds the objectives up to c=8 at least, A at no load"},
		{"the same twice", modelRun(plan), modelRun(plan), "No difference shown"},
		{"nothing in common", modelRun(plan), modelRun(ratePlan(4, 2)), "there is nothing to compare"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			page := comparison(t, test.a, test.b)
			doc := parse(t, page)
			if !strings.Contains(doc.text, test.want) {
				t.Errorf("does not say %q", test.want)
			}
			if strings.Contains(page, "NaN") || strings.Contains(page, "secret") {
				t.Error("tells NaN or a secret")
			}
			for _, link := range doc.links {
				if !strings.Contains(page, `id="`+strings.TrimPrefix(link, "#")+`"`) {
					t.Errorf("%q leads nowhere", link)
				}
			}
		})
	}
}

func TestComparisonDrawsALineOfEachRun(t *testing.T) {
	plan := concurrencyPlan(20, 1, 4)
	a, b := modelRun(plan), slower(plan, 2)
	c := analyze.Compare(a, b, nil)
	sections := comparedSections(&c)
	if len(sections) != 1 {
		t.Fatalf("%d sections, want 1", len(sections))
	}
	var got []string
	for _, ch := range sections[0].Charts {
		names := ch.Title + ":"
		for _, l := range ch.Panels[0].Lines {
			names += " " + l.Name + "=" + l.Class
		}
		got = append(got, names)
	}
	want := []string{
		"B over A: the same=asked output tok/s=rate1 TTFT p95=ttft2 ITL p95=itl2",
		"Output tokens per second: A=c1 B=c2", "Time to first token, p50: A=c1 B=c2", "Time to first token, p95: A=c1 B=c2",
		"Inter-token latency, p50: A=c1 B=c2", "Inter-token latency, p95: A=c1 B=c2", "TTFT against throughput, p95: A=c1 B=c2",
		"ITL against throughput, p95: A=c1 B=c2", "Request duration, p50: A=c1 B=c2", "Request duration, p95: A=c1 B=c2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	ttft := sections[0].Charts[2].Panels[0].Lines
	if ratio := ttft[1].Points[0].Y / ttft[0].Points[0].Y; !near(ratio, 2) {
		t.Errorf("TTFT of B is %g times that of A, want 2", ratio)
	}
	if q := sections[0].Charts[0].Panels[0].Lines[2].Points[1]; q.X != 4 || !near(q.Y, 2) {
		t.Errorf("TTFT p95 of B over that of A is %g at %g, want 2 at 4", q.Y, q.X)
	}
}

func TestRatioCell(t *testing.T) {
	m := analyze.MetricComparison{
		Metric: "ttft_p95", Change: analyze.Better,
		A: experiment.Estimate{Value: 1.2}, B: experiment.Estimate{Value: 0.9}, Ratio: experiment.Estimate{Value: 0.75, Low: 0.7, High: nan()},
	}
	got := newRatioCell(&m)
	want := ratioCell{"good", "✔", "0.750×", "≥ 0.700", "1.20 s → 900 ms"}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
