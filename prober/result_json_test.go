//go:build unix

package prober

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/cputest"
)

// storedResult is a success with every field that a success can have.
func storedResult() *Result {
	at := func(ms float64) time.Time {
		return time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms * float64(time.Millisecond)))
	}
	return &Result{
		Probe: &Probe{
			Target: "t", Workload: &Workload{Name: "w"}, RequestID: "probe-A", Warmup: true, Scheduled: at(0), Started: at(1),
		},
		Suspect: SuspectCachedPrompt | SuspectFinishReason, RemoteAddr: "10.0.0.1:443", Status: 200, CertExpiry: at(1e9), CertNotBefore: at(0),
		DialStart: at(2), Connected: at(3), Sent: at(4), Headers: at(5), FirstToken: at(50), FirstAnswer: at(60), AnswerToken: 1,
		LastToken: at(80.001), Ended: at(90), Gaps: []time.Duration{10 * time.Millisecond, 20001 * time.Microsecond}, FirstTokens: 2,
		ReadDelay: 30 * time.Microsecond, KernelStamps: true, Early: []time.Duration{0, 5 * time.Millisecond, 0}, SentLate: 40 * time.Microsecond,
		Model: "m", FinishReason: "eos", PromptTokens: 512, CachedTokens: 16, OutputTokens: 5, TokenSource: FromUsage,
		Server: &ServerTimings{Queue: time.Millisecond, Prefill: 40 * time.Millisecond},
	}
}

// failedResult has what only a failure has.
func failedResult() *Result {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	return &Result{
		Probe:  &Probe{Workload: &Workload{}, RequestID: "probe-B", Scheduled: at, Started: at},
		Reason: ReasonOverloaded, Err: errors.New("HTTP 503: busy"), Abandoned: true, Body: "busy", Ended: at.Add(time.Second),
		PromptTokens: -1, CachedTokens: -1,
	}
}

// What is written is read back, whole, and each field of a result is written.
func TestResultRoundTrip(t *testing.T) {
	set := map[string]bool{}
	for _, want := range []*Result{storedResult(), failedResult()} {
		data, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got := &Result{}
		if err := json.Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
		sameText := cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error()) })
		if diff := cmp.Diff(want, got, sameText); diff != "" {
			t.Errorf("(-written +read):\n%s", diff)
		}
		for _, v := range []reflect.Value{reflect.ValueOf(*want), reflect.ValueOf(*want.Probe)} {
			for i := range v.NumField() {
				set[v.Type().Field(i).Name] = set[v.Type().Field(i).Name] || !v.Field(i).IsZero()
			}
		}
	}
	for name, is := range set {
		if !is {
			t.Errorf("no result of this test has a %s", name)
		}
	}
}

// The form itself: what is exact has no bounds, what is not known is absent.
func TestResultForm(t *testing.T) {
	exact := storedResult()
	exact.Early, exact.SentLate, exact.Server, exact.KernelStamps = []time.Duration{0, 400, 0}, 300, nil, false
	exact.Warmup, exact.Suspect, exact.CertExpiry, exact.CertNotBefore, exact.FirstAnswer, exact.AnswerToken = false, 0, time.Time{}, time.Time{}, time.Time{}, 0
	for _, c := range []struct {
		name   string
		result *Result
		want   string
	}{
		{"exact", exact, `{"target":"t","workload":"w","request_id":"probe-A","success":true,"http_status":200,"remote_address":"10.0.0.1:443","model":"m",` +
			`"scheduled":"2026-11-29T12:00:00Z","started":"2026-11-29T12:00:00.001Z","dial_start":"2026-11-29T12:00:00.002Z","connected":"2026-11-29T12:00:00.003Z",` +
			`"sent":"2026-11-29T12:00:00.004Z","headers":"2026-11-29T12:00:00.005Z","first_token":"2026-11-29T12:00:00.05Z","last_token":"2026-11-29T12:00:00.080001Z",` +
			`"ended":"2026-11-29T12:00:00.09Z","gaps_seconds":[0.01,0.020001],"start_delay_seconds":0.001,"connect_seconds":0.001,"ttft_seconds":0.046,` +
			`"tpot_seconds":0.01,"duration_seconds":0.076001,"prompt_tokens":512,"cached_prompt_tokens":16,"output_tokens":5,"first_tokens":2,` +
			`"token_source":"usage","finish_reason":"eos"}`},
		{"failed", failedResult(), `{"request_id":"probe-B","success":false,"reason":"overloaded","error":"HTTP 503: busy","abandoned":true,"body":"busy",` +
			`"scheduled":"2026-11-29T12:00:00Z","started":"2026-11-29T12:00:00Z","ended":"2026-11-29T12:00:01Z","start_delay_seconds":0,"output_tokens":0}`},
	} {
		data, err := json.Marshal(c.result)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, string(data)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A result has the same latencies, with the same bounds, after it was written and read, also where the wall clock was
// set in between.
func TestResultLatenciesSurvive(t *testing.T) {
	near := func(a, b time.Duration) bool { return (a - b).Abs() <= 2*time.Microsecond }
	if err := quick.Check(func(seed uint64) bool {
		random := rand.New(rand.NewPCG(seed, 0))
		some := func() time.Duration { return time.Duration(random.Int64N(int64(time.Second))) }
		began := time.Now() // with a monotonic reading
		r := storedResult()
		r.Scheduled, r.Started, r.Warmup, r.Suspect = began, began, false, 0
		r.DialStart, r.Connected = began.Add(time.Millisecond), began.Add(2*time.Millisecond)
		r.Sent = r.Connected.Add(time.Millisecond)
		r.Headers, r.FirstToken = r.Sent, r.Sent.Add(some())
		r.Gaps, r.LastToken, r.Early, r.OutputTokens = nil, r.FirstToken, []time.Duration{some() % time.Millisecond}, 100
		for range random.IntN(20) {
			gap := some()
			r.Gaps, r.LastToken, r.Early = append(r.Gaps, gap), r.LastToken.Add(gap), append(r.Early, gap/time.Duration(1+random.IntN(3)))
		}
		r.FirstAnswer, r.Ended, r.SentLate = r.FirstToken, r.LastToken.Add(some()), some()/1000
		r.AnswerToken = 0
		data, err := json.Marshal(r)
		got := &Result{}
		if err = errors.Join(err, json.Unmarshal(data, got)); err != nil {
			t.Error(err)
			return false
		}
		for _, latency := range []func(*Result) (Latency, bool){(*Result).TTFT, (*Result).TTFA, (*Result).TPOT, (*Result).Duration} {
			a, known := latency(r)
			b, read := latency(got)
			if known != read || !near(a.Value, b.Value) || !near(a.Least, b.Least) || !near(a.Most, b.Most) {
				t.Errorf("%v, %v was read as %v, %v from %s", a, known, b, read, data)
			}
		}
		for i := range r.Gaps {
			if a, b := r.Gap(i), got.Gap(i); !near(a.Value, b.Value) || !near(a.Least, b.Least) || !near(a.Most, b.Most) {
				t.Errorf("gap %d: %v was read as %v from %s", i, a, b, data)
			}
		}
		return !t.Failed()
	}, nil); err != nil {
		t.Error(err)
	}
}

// A file that passed through other hands is refused where it says what cannot have been measured.
func TestResultRefused(t *testing.T) {
	r := storedResult()
	r.Warmup = false
	good, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"", "", ""},
		{`"prompt_tokens":512`, `"prompt_tokens":-1`, ""}, // as it was written before: not known
		{`"prompt_tokens":512`, `"prompt_tokens":-2`, "prompt_tokens is -2, not from -1 to"},
		{`"output_tokens":5`, `"output_tokens":-5`, "output_tokens is -5, not from 0 to"},
		{`"output_tokens":5`, `"output_tokens":5.5`, "cannot unmarshal number 5.5"},
		{`"first_tokens":2`, `"first_tokens":99999999`, "first_tokens is 9.9999999e+07"},
		{`"answer_token":1`, `"answer_token":3`, "answer_token is 3, not from 0 to 2"},
		{`"http_status":200`, `"http_status":2000`, "http_status is 2000, not from 0 to 999"},
		{"[0.01,", "[null,-1,", "a gap is -1, not from 0 to"},
		{"[0.01,", "[1e300,", "a gap is 1e+300, not from 0 to"},
		{"[0.01,", "[1e400,", "cannot unmarshal number 1e400"},
		{`{"1":0.005}`, `{"3":0.005}`, "a token of early_seconds is 3, not from 0 to 2"},
		{`{"1":0.005}`, `{"-1":0.005}`, "a token of early_seconds is -1, not from 0 to 2"},
		{`{"1":0.005}`, `{"1":5}`, "a time of early_seconds is 5, not from 0 to"},
		{`"sent_late_seconds":0.00004`, `"sent_late_seconds":-1`, "sent_late_seconds is -1, not from 0 to"},
		{`"read_delay_seconds":0.00003`, `"read_delay_seconds":1e9`, "read_delay_seconds is 1e+09, not from 0 to 1e+08"},
		{`"server_queue_seconds":0.001`, `"server_queue_seconds":-1`, "server_queue_seconds is -1, not from 0 to 1e+08"},
		{`"sent":"2026-11-29T12:00:00.004Z",`, "", "it succeeded without a time of sent, first_token or last_token"},
		{`"sent":"2026-11-29T12:00:00.004Z"`, `"sent":"2026-11-29T12:00:01Z"`, "first_token is 950ms before sent"},
		{`"ended":"2026-11-29T12:00:00.09Z"`, `"ended":"9999-11-29T12:00:00.09Z"`, "ended is in the year 9999"},
		{`"started":"2026-11-29T12:00:00.001Z",`, "", "it has no time of scheduled, started or ended"},
		{`"cached_prompt",`, `"wrong",`, `suspect has "wrong", which is no reason to doubt`},
	} {
		text := strings.Replace(string(good), c.old, c.new, 1)
		if c.old != "" && text == string(good) {
			t.Fatalf("%s is not in %s", c.old, good)
		}
		got := ""
		if err := json.Unmarshal([]byte(text), &Result{}); err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: the error is %q, not %q", c.new, got, c.want)
		}
	}
}

// Whatever a stored line is: no panic, work in proportion to its length, and what is read can be written and, where it
// is within its bounds to the microsecond, is read again as it was.
func FuzzResult(f *testing.F) {
	for _, r := range []*Result{storedResult(), failedResult()} {
		data, err := json.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add([]byte(strings.Replace(string(data), "[0.01,", "["+strings.Repeat("0.01,", 500), 1)))
		f.Add([]byte(strings.Replace(string(data), `"cached_prompt"`, strings.Repeat(`"cached_prompt",`, 500)+`"no_done"`, 1)))
		f.Add([]byte(strings.Replace(string(data), `{"1":0.005`, `{"1":0.005`+strings.Repeat(`,"2":0.001`, 500), 1)))
		f.Add([]byte(strings.Replace(string(data), "busy", strings.Repeat(`\u202e`, 500), 2)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cputest.Linear(t, len(data), func() {
			var first, again Result
			if json.Unmarshal(data, &first) != nil {
				return
			}
			written, err := json.Marshal(&first)
			if err != nil {
				t.Fatal(err)
			}
			if json.Unmarshal(written, &again) != nil {
				return // rounding has moved it past a bound
			}
			if rewritten, err := json.Marshal(&again); err != nil || string(rewritten) != string(written) {
				t.Errorf("%s was written again as %s (%v)", written, rewritten, err)
			}
			for l := range first.ITL() {
				if l.Value < 0 || l.Least > l.Most {
					t.Errorf("a gap of %v in %s", l, data)
				}
			}
		})
	})
}
