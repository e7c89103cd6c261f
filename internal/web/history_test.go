package web

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/prober"
)

// ended is a result of workload w of target t that began and ended when the arguments say.
func ended(id string, started time.Time, took time.Duration, reason prober.Reason) *prober.Result {
	w := &prober.Workload{Name: "w", PromptTokens: 8, OutputTokens: 3}
	r := &prober.Result{
		Probe:  &prober.Probe{Target: "t", Workload: w, RequestID: id, Scheduled: started, Started: started},
		Reason: reason, DialStart: started, Connected: started, Sent: started, Ended: started.Add(took), PromptTokens: 8,
	}
	if reason != "" {
		r.Err = errors.New("it broke")
		return r
	}
	r.FirstToken, r.LastToken = started.Add(took/2), started.Add(took)
	r.Gaps = []time.Duration{took / 8, took * 3 / 8}
	r.OutputTokens, r.FirstTokens = 3, 1
	return r
}

func ids(records []*record) string {
	var list []string
	for _, rec := range records {
		list = append(list, rec.RequestID)
	}
	return strings.Join(list, " ")
}

func TestFailuresAreKeptLonger(t *testing.T) {
	h := &History{Results: 3, Failures: 2}
	start := time.Now()
	for i, reason := range []prober.Reason{"", "tls", "dns", "", "connect", "", "", ""} {
		h.Ended(ended(fmt.Sprint(i), start.Add(time.Duration(i)*time.Second), time.Millisecond, reason))
	}
	v := h.snapshots("t", start)[0]
	if got, want := ids(v.results), "7 6 5"; got != want {
		t.Errorf("results = %s, want %s", got, want)
	}
	if got, want := ids(v.failures), "4 2"; got != want {
		t.Errorf("failures = %s, want %s", got, want)
	}
	if got, want := ids(v.kept()), "7 6 5 4 2"; got != want {
		t.Errorf("kept = %s, want %s", got, want)
	}
	want := Totals{Ended: 8, Failed: 3, ByReason: map[prober.Reason]int{"tls": 1, "dns": 1, "connect": 1}}
	if diff := cmp.Diff(want, v.totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
}

func TestStateFollowsTheProbes(t *testing.T) {
	start := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	type step struct {
		at     int
		reason prober.Reason
		warmup bool
	}
	success := func(at int) step { return step{at: at} }
	warm := func(at int) step { return step{at: at, warmup: true} }
	failure := func(at int) step { return step{at: at, reason: prober.ReasonTimeout} }
	for _, tc := range []struct {
		name        string
		steps       []step
		state       State
		since       int // seconds after the start; every probe takes one
		consecutive int
	}{
		{"nothing ended", nil, Unknown, 0, 0},
		{"first success", []step{success(0)}, OK, 1, 0},
		{"OK since the first success in a row", []step{failure(0), success(10), success(20)}, OK, 11, 0},
		{"failing since the first failing probe began", []step{success(0), failure(10), failure(20)}, Failing, 10, 2},
		{"never a success", []step{failure(5), failure(15), failure(25)}, Failing, 5, 3},
		{"warming up", []step{warm(0), warm(2)}, WarmingUp, 1, 0},
		{"warm", []step{warm(0), warm(2), success(4)}, OK, 5, 0},
		{"a failure in warm-up is an ordinary failure", []step{warm(0), {at: 2, reason: prober.ReasonTLS, warmup: true}}, Failing, 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newWorkloadHistory()
			for _, st := range tc.steps {
				r := ended("x", at(st.at), time.Second, st.reason)
				r.Warmup = st.warmup
				s.add(newRecord(r), 10, 10)
			}
			if s.state != tc.state || s.consecutive != tc.consecutive {
				t.Errorf("state, consecutive = %s, %d, want %s, %d", s.state, s.consecutive, tc.state, tc.consecutive)
			}
			if tc.state != Unknown && !s.since.Equal(at(tc.since)) {
				t.Errorf("since = %s, want %s", s.since, at(tc.since))
			}
		})
	}
}

func TestWarmupAndSuspectAreCounted(t *testing.T) {
	h := &History{}
	warm := ended("1", time.Now(), time.Second, "")
	warm.Warmup = true
	suspect := ended("2", time.Now(), time.Second, "")
	suspect.Suspect = prober.SuspectNoDone | prober.SuspectShortOutput
	abandoned := ended("3", time.Now(), time.Second, "")
	abandoned.Abandoned = true
	for _, r := range []*prober.Result{warm, suspect, abandoned} {
		h.Started(r.Probe)
		h.Ended(r)
	}
	h.Missed("t", "w")
	h.Missed("t", "w")
	v := h.snapshots("t", time.Now())[0]
	want := Totals{Ended: 1, Suspect: 1, Warmup: 1, Missed: 2, ByReason: map[prober.Reason]int{}}
	if diff := cmp.Diff(want, v.totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if got := ids(v.results); got != "2 1" {
		t.Errorf("results = %s: an abandoned probe is nobody's", got)
	}
	if n := len(h.inFlight(time.Now())); n != 0 {
		t.Errorf("%d targets in flight, want none", n)
	}
}

func TestAgeAndSilenceOfFlights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &History{}
		w := &prober.Workload{Name: "w"}
		begin := func(id string) *prober.Probe {
			p := &prober.Probe{Target: "t", Workload: w, RequestID: id, Started: time.Now()}
			h.Started(p)
			return p
		}
		streaming := begin("streaming")
		time.Sleep(time.Second)
		h.Sent(streaming, time.Now())
		time.Sleep(2 * time.Second)
		h.Token(streaming, time.Now(), 0) // first token 3 s after the start
		waiting := begin("waiting")
		time.Sleep(4 * time.Second)
		h.Token(streaming, time.Now(), 0)
		time.Sleep(3 * time.Second)

		want := []flightView{
			{Probe: waiting, age: 7 * time.Second, silence: 7 * time.Second},
			{Probe: streaming, age: 10 * time.Second, silence: 3 * time.Second, sent: time.Second, firstToken: 3 * time.Second, tokens: 2},
		}
		if diff := cmp.Diff(want, h.inFlight(time.Now())["t"], cmp.AllowUnexported(flightView{})); diff != "" {
			t.Errorf("in flight, longest silence first (-want +got):\n%s", diff)
		}
		h.Ended(&prober.Result{Probe: waiting, Abandoned: true})
		if got := h.inFlight(time.Now())["t"]; len(got) != 1 || got[0].RequestID != "streaming" {
			t.Errorf("in flight after the end of one = %v", got)
		}
	})
}

func TestTokenAllocatesNothing(t *testing.T) {
	h := &History{}
	p := &prober.Probe{Target: "t", Workload: &prober.Workload{Name: "w"}, Started: time.Now()}
	h.Started(p)
	at := time.Now()
	if n := testing.AllocsPerRun(1000, func() { h.Token(p, at, 0) }); n != 0 {
		t.Errorf("%v allocations a token, want 0", n)
	}
}

func TestForget(t *testing.T) {
	h := &History{}
	h.Ended(ended("1", time.Now(), time.Second, ""))
	h.Forget("t")
	if got := h.snapshots("t", time.Now()); len(got) != 0 {
		t.Errorf("a forgotten target has %d workloads, want 0", len(got))
	}
}

func TestOldResultsKeepNeitherGapsNorBody(t *testing.T) {
	h := &History{}
	start := time.Now()
	for i := range 40 {
		r := ended(fmt.Sprint(i), start.Add(time.Duration(i)*time.Second), 80*time.Millisecond, "")
		h.Ended(r)
		f := ended(fmt.Sprint("f", i), start.Add(time.Duration(i)*time.Second), time.Millisecond, prober.ReasonHTTPStatus)
		f.Body = fmt.Sprintf("%d %s", i, strings.Repeat("x", 3000))
		h.Ended(f)
	}
	v := h.snapshots("t", start)[0]
	for i, rec := range v.results {
		if rec.OK() && (len(rec.Gaps) == 2) != (i < youngResults) {
			t.Errorf("result %d has %d gaps", i, len(rec.Gaps))
		}
		if rec.OK() && rec.itlP50 != 10*time.Millisecond {
			t.Errorf("result %d: ITL p50 = %s, want 10ms", i, rec.itlP50)
		}
	}
	for i, rec := range v.failures {
		want := maxBody
		if i >= youngResults {
			want = maxThin
		}
		if got := utf8.RuneCountInString(rec.Body); got != want {
			t.Errorf("failure %d has a body of %d characters, want %d", i, got, want)
		}
	}
	if rec := v.find("f30"); len(rec.Body) < maxBody {
		t.Errorf("a failure that is thin among the results but young among the failures has a body of %d bytes", len(rec.Body))
	}
}

// The worst that servers can do: long answers, long bodies and texts that are never the same twice.
func TestMemoryIsBounded(t *testing.T) {
	const limit = 1 << 20 // bytes of one workload of one target; 360 kB were seen
	h := &History{}
	gaps := make([]time.Duration, 3000)
	long := strings.Repeat("x", 4_000)
	before := heap()
	start := time.Now()
	for i := range 100_000 {
		r := ended(fmt.Sprint("id", i), start.Add(time.Duration(i)*100*time.Millisecond), time.Millisecond, "")
		switch {
		case i < 99_000: // the worst comes last, it would only take time before
		case i%2 == 0:
			r.Reason, r.Err, r.Body = prober.ReasonHTTPStatus, fmt.Errorf("%d %s", i, long), fmt.Sprint(i)+long
		default:
			r.Gaps = gaps
		}
		r.Model = long
		h.Started(r.Probe)
		h.Ended(r)
	}
	used := heap() - before
	t.Logf("%d kB after 100,000 results", used/1000)
	if used > limit {
		t.Errorf("%d bytes after 100,000 results, want at most %d", used, limit)
	}
	v := h.snapshots("t", start.Add(100_000*100*time.Millisecond))[0]
	if v.totals.Ended != 100_000 || len(v.results) != DefaultResults || len(v.failures) != DefaultFailures || len(v.minutes) > hour {
		t.Errorf("ended %d, kept %d results, %d failures, %d minutes", v.totals.Ended, len(v.results), len(v.failures), len(v.minutes))
	}
	runtime.KeepAlive(h)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Meant for -race: probes of many targets run while the page is read.
func TestConcurrentUse(t *testing.T) {
	h := &History{Results: 20, Failures: 10}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					for _, rec := range h.snapshots("t", time.Now()) {
						rec.kept()
						rec.find("3")
						recentOf(rec.results)
					}
					h.inFlight(time.Now())
				}
			}
		})
	}
	for g := range 4 {
		writers.Go(func() {
			for i := range 300 {
				reason := prober.Reason("")
				if i%5 == g {
					reason = prober.ReasonStalled
				}
				r := ended(fmt.Sprint(i), time.Now(), time.Millisecond, reason)
				h.Started(r.Probe)
				h.Sent(r.Probe, time.Now())
				h.Token(r.Probe, time.Now(), 0)
				h.Ended(r)
				h.Missed("t", "w")
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if got := h.snapshots("t", time.Now())[0].totals; got.Ended != 1200 || got.Missed != 1200 {
		t.Errorf("ended, missed = %d, %d, want 1200 each", got.Ended, got.Missed)
	}
}

func BenchmarkToken(b *testing.B) {
	h := &History{}
	p := &prober.Probe{Target: "t", Workload: &prober.Workload{Name: "w"}, Started: time.Now()}
	h.Started(p)
	at := time.Now()
	for b.Loop() {
		h.Token(p, at, 0)
	}
}
