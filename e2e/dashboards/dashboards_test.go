package dashboards

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/programs"
	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// What the variables stand for in the test: windows that a run of two minutes fills.
func testValues() Values { return All("1m", "8s", "2m") }

// empty are the queries that have to be empty in the run, and why.
func empty() map[string]string {
	return map[string]string{
		"target/TTFT, percentiles/C":           "a p99 needs 1000 probes in the window",
		"target/ITL, percentiles/C":            "a p99 needs 1000 probes in the window",
		"prober/Metrics that a server lacks/A": "the simulated servers lack none",
	}
}

// TestDashboards plays two minutes of a server's life in front of a real Prometheus and wants an answer from every
// query of every dashboard: with native histograms alone, and with classic ones alone.
func TestDashboards(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	from := time.Now()
	calm := s.play(t)
	to := time.Now()
	all, err := Read("../../dashboards")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("names", func(t *testing.T) { testNames(t, s.page, all) })
	for name, prometheus := range map[string]Prometheus{"native": s.native, "classic": s.classic} {
		t.Run(name, func(t *testing.T) {
			t.Run("histograms", func(t *testing.T) { testKind(t, prometheus, name == "classic", to) })
			for _, d := range all {
				testAnswers(t, prometheus, d, from, to)
			}
			t.Run("p99", func(t *testing.T) { testP99(t, prometheus, all, to) })
			t.Run("values", func(t *testing.T) { testMeaning(t, prometheus, all, calm, to) })
			t.Run("exemplars", func(t *testing.T) { testExemplars(t, prometheus, all, from, to) })
		})
	}
}

// play makes happen what the panels are for: failures, a wrong shape, a crash, and a new version. It returns the time
// just before.
func (s *stage) play(t *testing.T) (calm time.Time) {
	full, plain := s.full.now.Load(), s.plain.now.Load()
	programs.Pause(t, 20*time.Second)
	calm = time.Now()
	during(t, full, vllmsim.Fault{Name: vllmsim.Status, Value: "503"}, 5*time.Second)
	during(t, full, vllmsim.Fault{Name: vllmsim.WrongPrompt}, 4*time.Second)
	during(t, plain, vllmsim.Fault{Name: vllmsim.Crash, Value: "1s"}, 8*time.Second)
	programs.Pause(t, 25*time.Second)
	// After more than a minute with the old version, which is how long a change counts as new.
	s.plain.replace(t, plainServer("0.32.0"))
	programs.Pause(t, 45*time.Second)
	return calm
}

func during(t *testing.T, sim *vllmsim.Server, fault vllmsim.Fault, d time.Duration) {
	t.Helper()
	if err := sim.SetFault(fault); err != nil {
		t.Fatal(err)
	}
	programs.Pause(t, d)
	sim.ClearFault(fault.Name)
}

// testNames holds that the prober's own page has every metric that is named anywhere.
func testNames(t *testing.T, page string, all []Dashboard) {
	response, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(\w+)[{ ]`).FindAllStringSubmatch(string(text), -1) {
		exists[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) histogram$`).FindAllStringSubmatch(string(text), -1) {
		exists[m[1]] = true
	}
	name := regexp.MustCompile(`[\w:]+`)
	for _, d := range all {
		for _, expr := range d.expressions() {
			for _, word := range name.FindAllString(expr, -1) {
				ours := strings.HasPrefix(word, "llm_") || strings.HasPrefix(word, "process_") || strings.HasPrefix(word, "go_")
				if ours && !exists[word] {
					t.Errorf("%s names %s, which the page does not have", d.File, word)
				}
			}
		}
	}
}

// expressions are all of a dashboard's: of panels, annotations and variables.
func (d Dashboard) expressions() (all []string) {
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, target.Expr)
		}
	}
	for _, a := range d.Annotations.List {
		all = append(all, a.Expr)
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			all = append(all, v.Query)
		}
	}
	return all
}

// testKind holds that the run tests what it says: one kind of histogram is there, the other is not.
func testKind(t *testing.T, p Prometheus, classic bool, at time.Time) {
	for metric, want := range map[string]bool{"llm_probe_time_to_first_token_seconds": !classic, "llm_probe_time_to_first_token_seconds_bucket": classic} {
		series, err := p.Instant(t.Context(), metric, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(series) > 0; got != want {
			t.Errorf("%s is there: %v, want %v", metric, got, want)
		}
	}
}

func testAnswers(t *testing.T, p Prometheus, d Dashboard, from, to time.Time) {
	const step = 2 * time.Second
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			name := d.File + "/" + panel.Title + "/" + target.RefID
			t.Run(name, func(t *testing.T) {
				series, err := p.evaluate(t.Context(), target, testValues(), from, to, step)
				if err != nil {
					t.Fatal(err)
				}
				reason, wantNone := empty()[name]
				switch n := answered(series); {
				case n == 0 && !wantNone:
					t.Errorf("no data from\n%s", testValues().Fill(target.Expr))
				case n > 0 && wantNone:
					t.Errorf("%d points, although %s", n, reason)
				}
			})
		}
	}
	for _, a := range d.Annotations.List {
		t.Run(d.File+"/"+a.Name, func(t *testing.T) {
			series, err := p.Range(t.Context(), testValues().Fill(a.Expr), from, to, step)
			if err != nil {
				t.Fatal(err)
			}
			if answered(series) == 0 {
				t.Errorf("no event from\n%s", testValues().Fill(a.Expr))
			}
		})
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		t.Run(d.File+"/$"+v.Name, func(t *testing.T) {
			selector, label := labelValues(v.Query)
			values, err := p.LabelValues(t.Context(), testValues().Fill(selector), label)
			if err != nil {
				t.Fatal(err)
			}
			if len(values) == 0 {
				t.Errorf("%s has no values", v.Query)
			}
		})
	}
}

// labelValues takes label_values(selector, label) apart.
func labelValues(query string) (selector, label string) {
	inner := strings.TrimSuffix(strings.TrimPrefix(query, "label_values("), ")")
	cut := strings.LastIndex(inner, ", ")
	// A selector with an empty list of matchers is fine for Prometheus too.
	return inner[:cut], inner[cut+2:]
}

// answered counts the points that are numbers.
func answered(series []Series) (n int) {
	for _, s := range series {
		n += len(s.Histograms)
		for _, p := range s.Points {
			if !math.IsNaN(p.Value) {
				n++
			}
		}
	}
	return n
}

// testP99 holds that only the number of probes keeps the p99 from being shown.
func testP99(t *testing.T, p Prometheus, all []Dashboard, at time.Time) {
	for _, panel := range []string{"TTFT, percentiles", "ITL, percentiles"} {
		target := find(t, all, "target/"+panel+"/C")
		expr := strings.Replace(target.Expr, ">= 1000", ">= 10", 1)
		series, err := p.Instant(t.Context(), testValues().Fill(expr), at)
		if err != nil {
			t.Fatal(err)
		}
		if len(series) != 2 {
			t.Errorf("%s with a lower floor: %d series, want one for each of two targets", panel, len(series))
		}
	}
}

func find(t *testing.T, all []Dashboard, name string) Target {
	t.Helper()
	for _, d := range all {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				if d.File+"/"+p.Title+"/"+target.RefID == name {
					return target
				}
			}
		}
	}
	t.Fatalf("no query %s", name)
	return Target{}
}

// testMeaning holds the answers whose values are known against them.
func testMeaning(t *testing.T, p Prometheus, all []Dashboard, calm, at time.Time) {
	for _, test := range []struct {
		name, series string // "target" or "target slo"
		low, high    float64
	}{
		{"fleet/Targets/A", "", 2, 2},
		{"fleet/Targets, the worst first/A", "full", 0, 2.99},
		{"fleet/Targets, the worst first/J", "full", 80, 130},
		{"target/Tokens of a probe/A", "full", 512, 512},
		{"target/Tokens of a probe/B", "plain", 64, 64},
		{"target/TTFT, percentiles/D", "full ttft-fast", 1, 1},
		{"target/ITL, percentiles/D", "plain itl-smooth", 0.1, 0.1},
		{"target/Where TTFT goes/C", "full", 0, 0.05},
		{"target/Where TTFT goes/D", "plain", 0, 0.05},
		{"target/Speed of one stream/A", "plain", 50, 300},
		{"target/Running and waiting/A", "full", 0, 16},
		{"slo/Where each SLO stands/A", "full availability", 0.995, 0.995},
		{"slo/Where each SLO stands/B", "full ttft-fast", 1, 1},
		{"slo/Where each SLO stands/H", "plain ttft-fast", 0.9, 1},
		{"prober/Scraped/A", "", 1, 1},
		{"prober/Certificates/A", "plain", 3600, math.Inf(1)},
	} {
		t.Run(test.name, func(t *testing.T) {
			when := at
			if strings.Contains(test.name, "Tokens of a probe") { // which failures blur
				when = calm
			}
			series, err := p.Instant(t.Context(), testValues().Fill(find(t, all, test.name).Expr), when)
			if err != nil {
				t.Fatal(err)
			}
			value, ok := pick(series, test.series)
			if !ok || value < test.low || value > test.high {
				t.Errorf("%q is %v (there: %v), want between %v and %v", test.series, value, ok, test.low, test.high)
			}
		})
	}
	t.Run("speeds", func(t *testing.T) { testSpeeds(t, p, all, at) })
	t.Run("parts add up", func(t *testing.T) { testParts(t, p, all, at) })
}

// testParts: queue, prefill and the rest are the mean TTFT, and no target has its parts from two sources. The server's
// own means are of all its requests, so that they can be above the probes' mean, and then the rest is 0. A probe that ends during a scrape may be in one
// histogram and not yet in the other, hence the tolerance.
func testParts(t *testing.T, p Prometheus, all []Dashboard, at time.Time) {
	sums, rest := map[string]float64{}, map[string]float64{}
	for _, ref := range []string{"A", "B", "C", "D", "E", "F"} {
		series, err := p.Instant(t.Context(), testValues().Fill(find(t, all, "target/Where TTFT goes/"+ref).Expr), at)
		if err != nil {
			t.Fatal(err)
		}
		want := "full"
		if ref > "C" {
			want = "plain"
		}
		if len(series) != 1 || series[0].Metric["target"] != want {
			t.Errorf("query %s answers for %v, want only %s", ref, series, want)
			continue
		}
		rest[want] = series[0].Points[0].Value
		sums[want] += rest[want]
	}
	for target, sum := range sums {
		mean := fmt.Sprintf(`(histogram_sum(sum (increase(llm_probe_time_to_first_token_seconds{target=%[1]q}[1m]))) / histogram_count(sum (increase(llm_probe_time_to_first_token_seconds{target=%[1]q}[1m]))))
			or sum (increase(llm_probe_time_to_first_token_seconds_sum{target=%[1]q}[1m])) / sum (increase(llm_probe_time_to_first_token_seconds_count{target=%[1]q}[1m]))`, target)
		series, err := p.Instant(t.Context(), mean, at)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := pick(series, "")
		if target == "plain" && rest[target] == 0 {
			want = max(want, sum)
		}
		if !ok || math.Abs(sum-want) > 0.05*want {
			t.Errorf("%s: the parts add up to %v, the mean TTFT is %v", target, sum, want)
		}
	}
}

// testSpeeds: a stream with its wait is slower than without.
func testSpeeds(t *testing.T, p Prometheus, all []Dashboard, at time.Time) {
	streaming, err := p.Instant(t.Context(), testValues().Fill(find(t, all, "target/Speed of one stream/A").Expr), at)
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := p.Instant(t.Context(), testValues().Fill(find(t, all, "target/Speed of one stream/B").Expr), at)
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"full", "plain"} {
		fast, ok := pick(streaming, target)
		slow, ok2 := pick(waiting, target)
		if !ok || !ok2 || slow <= 0 || slow >= fast {
			t.Errorf("%s: %v tok/s while streaming, %v with the wait", target, fast, slow)
		}
	}
}

// pick is the value of the series that is named by its target and SLO.
func pick(series []Series, name string) (float64, bool) {
	for _, s := range series {
		if strings.TrimSpace(s.Metric["target"]+" "+s.Metric["slo"]) == name && len(s.Points) == 1 {
			return s.Points[0].Value, true
		}
	}
	return math.NaN(), false
}

func testExemplars(t *testing.T, p Prometheus, all []Dashboard, from, to time.Time) {
	n, err := p.Exemplars(t.Context(), testValues().Fill(find(t, all, "target/TTFT, percentiles/B").Expr), from, to)
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		t.Error("the p95 of TTFT leads to no request")
	}
}
