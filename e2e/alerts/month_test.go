package alerts

import (
	"bufio"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/dashboards"
	"github.com/llm-prober/llm_prober/e2e/programs"
)

// A month of probes every 15 s, scraped every 15 s.
const (
	monthInterval = 15 * time.Second
	monthDays     = 30
	monthProbes   = monthDays * 24 * int(time.Hour/monthInterval)
)

// monthStart is a fixed time, so that every run sees the same. The first three days fill the longest window.
func monthStart() time.Time { return time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC) }

// server decides which probes of a month are bad.
type server struct {
	name      string
	objective float64
	bad       []bool
}

// chance makes a share of all probes bad, each by itself.
func (s *server) chance(random *rand.Rand, share float64) {
	for i := range s.bad {
		s.bad[i] = s.bad[i] || random.Float64() < share
	}
}

// bursts makes one to most probes in a row bad, so many times a day on average.
func (s *server) bursts(random *rand.Rand, aDay float64, most int) {
	for range int(aDay * monthDays) {
		at := random.IntN(len(s.bad) - most)
		for range 1 + random.IntN(most) {
			s.bad[at] = true
			at++
		}
	}
}

// from makes the share of the probes of a stretch of time bad.
func (s *server) from(random *rand.Rand, at, length time.Duration, share float64) {
	for i := range int(length / monthInterval) {
		s.bad[int(at/monthInterval)+i] = random.Float64() < share
	}
}

func (s *server) share() float64 {
	n := 0
	for _, bad := range s.bad {
		if bad {
			n++
		}
	}
	return float64(n) / float64(len(s.bad))
}

func monthServers() []*server {
	random := rand.New(rand.NewPCG(1, 2))
	var all []*server
	add := func(name string, objective float64) *server {
		s := &server{name: name, objective: objective, bad: make([]bool, monthProbes)}
		all = append(all, s)
		return s
	}
	for _, objective := range []float64{0.99, 0.995} {
		s := add(fmt.Sprint("normal-", objective), objective)
		s.chance(random, 0.005)
		s.bursts(random, 4, 4)
	}
	s := add("chance-only", 0.99)
	s.chance(random, 0.005)
	// What must not go unnoticed: an outage, an hour with every third probe bad, two days at 4 %.
	s = add("troubled", 0.99)
	s.chance(random, 0.002)
	s.from(random, 5*24*time.Hour, 20*time.Minute, 1)
	s.from(random, 10*24*time.Hour, time.Hour, 0.33)
	s.from(random, 15*24*time.Hour, 48*time.Hour, 0.04)
	return all
}

// TestMonth evaluates the alerts that probes alone can raise over a month of simulated probes in a real Prometheus.
func TestMonth(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	folder := t.TempDir()
	servers := monthServers()
	writeMonth(t, filepath.Join(folder, "month.txt"), servers)
	programs.Run(t, folder, programs.Tool(t, "promtool"), "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=744h", "month.txt", "data")
	p := dashboards.Prometheus(programs.Prometheus(t, folder, "global: {}\n", "--storage.tsdb.retention.time=10y", "--query.timeout=20m"))

	got := map[string]map[string]int{}
	for _, s := range servers {
		got[s.name] = map[string]int{}
		t.Logf("%s: objective %v, %.2f %% bad", s.name, s.objective, 100*s.share())
	}
	records := recordExprs(t)
	for _, r := range readRules(t, alertsFile) {
		if r.Alert != "LLMErrorBudgetBurn" && r.Alert != "LLMServerOutage" && r.Alert != "LLMServerPartialHang" {
			continue
		}
		for target, fired := range firings(t, p, r, inline(r.Expr, records)) {
			got[target][strings.TrimPrefix(r.row(), "LLM")] = len(fired)
			t.Logf("%s: %s (%s) fired %d times: %v", target, r.row(), r.Labels["severity"], len(fired), fired)
		}
	}
	want := map[string]map[string]int{
		"normal-0.99":  {},
		"normal-0.995": {"ErrorBudgetBurn3d": 6}, // 0.70 % of 0.5 % allowed: rightly, most of the month
		"chance-only":  {},
		"troubled":     {"ServerOutage": 1, "ServerPartialHang": 1, "ErrorBudgetBurn1h": 2, "ErrorBudgetBurn1d": 1, "ErrorBudgetBurn3d": 1},
	}
	for name := range want {
		if !maps.Equal(got[name], want[name]) {
			t.Errorf("%s: %v, want %v", name, got[name], want[name])
		}
	}
}

// writeMonth writes what a prober of the servers would have exposed: every bad probe a failed one.
func writeMonth(t *testing.T, path string, servers []*server) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w := bufio.NewWriter(file)
	family := func(name, kind, suffix, labels string, value func(s *server) func(probe int) float64) {
		fmt.Fprintf(w, "# TYPE %s %s\n", name, kind)
		for _, s := range servers {
			at := value(s)
			for i := range s.bad {
				fmt.Fprintf(w, "%s%s{job=\"p\",instance=\"a\",target=%q,workload=\"w\"%s} %v %d\n",
					name, suffix, s.name, labels, at(i), monthStart().Add(time.Duration(i)*monthInterval).Unix())
			}
		}
	}
	constant := func(of func(s *server) float64) func(*server) func(int) float64 {
		return func(s *server) func(int) float64 { return func(int) float64 { return of(s) } }
	}
	slo := `,slo="s"`
	family("llm_probe_interval_seconds", "gauge", "", "", constant(func(*server) float64 { return monthInterval.Seconds() }))
	family("llm_probe_slo_objective_ratio", "gauge", "", slo, constant(func(s *server) float64 { return s.objective }))
	family("llm_probe_slo_events", "counter", "_total", slo, func(*server) func(int) float64 { return func(i int) float64 { return float64(i) } })
	family("llm_probe_slo_bad_events", "counter", "_total", slo, func(s *server) func(int) float64 {
		n := 0.0
		return func(i int) float64 {
			if s.bad[i] {
				n++
			}
			return n
		}
	})
	family("llm_probe_consecutive_failures", "gauge", "", "", func(s *server) func(int) float64 {
		n := 0.0
		return func(i int) float64 {
			if n++; !s.bad[i] {
				n = 0
			}
			return n
		}
	})
	family("llm_probe_last_success_timestamp_seconds", "gauge", "", "", constant(func(*server) float64 { return 0 }))
	family("llm_probe_requests", "counter", "_total", "", func(*server) func(int) float64 { return func(i int) float64 { return float64(i) } })
	// Every bad probe is lost, the worst for LLMServerPartialHang.
	family("llm_probe_request_failures", "counter", "_total", `,reason="timeout"`, func(s *server) func(int) float64 {
		n := 0.0
		return func(i int) float64 {
			if s.bad[i] {
				n++
			}
			return n
		}
	})
	fmt.Fprintln(w, "# EOF")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

func recordExprs(t *testing.T) map[string]string {
	t.Helper()
	exprs := map[string]string{}
	for _, r := range readRules(t, recordsFile) {
		exprs[r.Record] = r.Expr
		if before, _, itself := strings.Cut(r.Expr, "last_over_time("+r.Record); itself {
			exprs[r.Record] = strings.TrimSuffix(strings.TrimSpace(before), "or") // its own past, which there is none of here
		}
	}
	return exprs
}

var recordName = regexp.MustCompile(`\b(target\w*:\w+:\w+)( offset \w+)?`)

// inline puts what a record is in the place of its name, so that an expression can be evaluated over the past. An
// offset is that of the ranges that the record reads.
func inline(expr string, records map[string]string) string {
	for recordName.MatchString(expr) {
		expr = recordName.ReplaceAllStringFunc(expr, func(match string) string {
			parts := recordName.FindStringSubmatch(match)
			return "(" + strings.ReplaceAll(records[parts[1]], "]", "]"+parts[2]) + ")"
		})
	}
	return expr
}

// firing is when an alert began to fire, and for how long it did.
type firing struct{ at, length time.Duration }

func (f firing) String() string {
	return fmt.Sprintf("day %.1f for %v", f.at.Hours()/24, f.length.Round(time.Minute))
}

// firings evaluates an alert's expression over the month as the rule manager would, and tells when it fired, by
// target. Minutes are fine enough for windows of hours; an outage is as short as the scrapes allow.
func firings(t *testing.T, p dashboards.Prometheus, r rule, expr string) map[string][]firing {
	t.Helper()
	step := time.Minute
	if r.Alert == "LLMServerOutage" {
		step = monthInterval
	}
	wait, err := promDuration(r.For)
	if err != nil {
		t.Fatal(err)
	}
	keep, err := promDuration(r.KeepFiringFor)
	if err != nil {
		t.Fatal(err)
	}
	times := map[string][]time.Duration{} // when the expression was true
	month := monthDays * 24 * time.Hour
	for from := time.Duration(0); from < month; from += 10000 * step {
		to := min(from+9999*step, month)
		series, err := p.Range(t.Context(), expr, monthStart().Add(from), monthStart().Add(to), step)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range series {
			for _, point := range s.Points {
				times[s.Metric["target"]] = append(times[s.Metric["target"]], time.Unix(int64(point.Time), 0).Sub(monthStart()))
			}
		}
	}
	all := map[string][]firing{}
	for target, true_ := range times {
		slices.Sort(true_)
		if fired := fire(true_, step, wait, keep); len(fired) > 0 {
			all[target] = fired
		}
	}
	return all
}

// fire turns the times at which an expression was true into the stretches in which its alert fired.
func fire(times []time.Duration, step, wait, keep time.Duration) (fired []firing) {
	for i := 0; i < len(times); {
		end := i // the last of a run without a gap, or with one that keep_firing_for bridges once it fires
		active, firesAt := times[i], time.Duration(-1)
		for ; end < len(times); end++ {
			if end > i {
				gap := times[end] - times[end-1]
				if gap > step && (firesAt < 0 || gap > step+keep) {
					break
				}
			}
			if firesAt < 0 && times[end]-active >= wait {
				firesAt = times[end]
			}
		}
		if firesAt >= 0 {
			fired = append(fired, firing{firesAt, times[end-1] + step + keep - firesAt})
		}
		i = end
	}
	return fired
}

func TestFire(t *testing.T) {
	minutes := func(list ...int) (times []time.Duration) {
		for _, m := range list {
			times = append(times, time.Duration(m)*time.Minute)
		}
		return times
	}
	for name, test := range map[string]struct {
		times []time.Duration
		want  []firing
	}{
		"too short":            {minutes(1, 2, 10, 11), nil},
		"long enough":          {minutes(1, 2, 3), []firing{{3 * time.Minute, 6 * time.Minute}}},
		"a gap while pending":  {minutes(1, 2, 4, 5), nil},
		"a gap that is filled": {minutes(1, 2, 3, 8, 9), []firing{{3 * time.Minute, 12 * time.Minute}}},
		"twice":                {minutes(1, 2, 3, 20, 21, 22), []firing{{3 * time.Minute, 6 * time.Minute}, {22 * time.Minute, 6 * time.Minute}}},
	} {
		if got := fire(test.times, time.Minute, 2*time.Minute, 5*time.Minute); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
