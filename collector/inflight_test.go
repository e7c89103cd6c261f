package collector

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/prober"
)

// unanswered is how long no probe has got a token.
func unanswered(t *testing.T, target *Target) float64 {
	t.Helper()
	return short(t, target)["llm_probe_unanswered_seconds"]
}

func ages(t *testing.T, target *Target) [3]float64 {
	t.Helper()
	all := short(t, target)
	return [3]float64{all["llm_probe_in_flight"], all["llm_probe_oldest_in_flight_seconds"], all["llm_probe_silence_seconds"]}
}

func TestAgeAndSilence(t *testing.T) {
	type moment struct {
		at   time.Duration
		do   func(*stage)
		want [3]float64 // in flight, oldest, silence
	}
	tests := []struct {
		name    string
		warmup  bool
		moments []moment
	}{
		{name: "a healthy long answer is old, never silent", moments: []moment{
			{0, send, [3]float64{1, 0, 0}},
			{sec, token, [3]float64{1, 1, 0}},
			{2 * sec, stream(100, 250*ms), [3]float64{1, 27, 0}},
			{27100 * ms, nil, [3]float64{1, 27.1, 0.1}},
			{28 * sec, good, [3]float64{0, 0, 0}},
		}},
		{name: "a hang while connecting", moments: []moment{
			{7 * sec, nil, [3]float64{1, 7, 7}},
			{60 * sec, fail(prober.ReasonTimeout), [3]float64{0, 0, 0}},
		}},
		{name: "before the first token the silence counts from the start", moments: []moment{
			{3 * sec, send, [3]float64{1, 3, 3}},
			{10 * sec, nil, [3]float64{1, 10, 10}},
		}},
		{name: "a hang in mid stream", moments: []moment{
			{0, send, [3]float64{1, 0, 0}},
			{sec, stream(10, 100*ms), [3]float64{1, 2, 0}},
			{12 * sec, nil, [3]float64{1, 12, 10}},
			{13 * sec, token, [3]float64{1, 13, 0}},
		}},
		{name: "a token that was read late ended the silence when it came", moments: []moment{
			{10 * sec, stamped(9 * sec), [3]float64{1, 10, 1}},
		}},
		{name: "a hang in warm-up", warmup: true, moments: []moment{
			{9 * sec, nil, [3]float64{1, 9, 9}},
		}},
		{name: "abandoned", moments: []moment{
			{9 * sec, abandon, [3]float64{0, 0, 0}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := chat(128)
				target := chatTarget(w)
				s := begin(target, w, tt.warmup)
				for _, m := range tt.moments {
					s.until(m.at)
					if m.do != nil {
						m.do(s)
					}
					if d := cmp.Diff(m.want, ages(t, target)); d != "" {
						t.Errorf("%v after the start: in flight, oldest, silence (-want +got):\n%s", m.at, d)
					}
				}
			})
		})
	}
}

// The oldest probe need not be the one that has been silent for longest.
func TestOldestAndMostSilentDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(128)
		target := chatTarget(w)
		old := begin(target, w, false)
		old.until(4 * sec)
		silent := begin(target, w, false)
		old.until(10 * sec)
		token(old)
		if d := cmp.Diff([3]float64{2, 10, 6}, ages(t, target)); d != "" {
			t.Errorf("in flight, oldest, silence (-want +got):\n%s", d)
		}
		good(old)
		if d := cmp.Diff([3]float64{1, 6, 6}, ages(t, target)); d != "" {
			t.Errorf("without the old one (-want +got):\n%s", d)
		}
		good(silent)
	})
}

// A hang grows until a token comes, whatever becomes of the probes meanwhile. A probe that is lost alone does not count
// once a later one got a token.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(128)
		target := chatTarget(w)
		holds := func(what string, want float64) {
			t.Helper()
			if got := unanswered(t, target); got != want {
				t.Errorf("%s: %v s without an answer, want %v", what, got, want)
			}
		}
		holds("no probe yet", 0)
		lost := begin(target, w, false)
		lost.until(15 * sec)
		holds("one waits", 15)
		other := begin(target, w, false)
		lost.until(16 * sec)
		token(other)
		lost.until(17 * sec)
		holds("a later one got a token", 1)
		good(other)
		holds("only the one that is lost is left", 0)
		lost.until(60 * sec)
		fail(prober.ReasonTimeout)(lost)
		holds("it failed, and was overtaken", 0)

		first := begin(target, w, false)
		first.until(60 * sec)
		fail(prober.ReasonTimeout)(first)
		time.Sleep(240 * sec)
		holds("nothing is in flight, but the last one got nothing", 300)
		refused := begin(target, w, false)
		fail(prober.ReasonConnect)(refused)
		holds("a refusal is no token", 300)
		warm := begin(target, w, true)
		warm.until(20 * sec)
		holds("a warm-up probe waits", 320)
		abandon(warm)
		back := begin(target, w, false)
		token(back)
		holds("a token came", 0)
		back.until(5 * sec)
		fail(prober.ReasonStalled)(back)
		time.Sleep(5 * sec)
		holds("a stall counts from the last token", 10)
		token(begin(target, w, false))
		ours := begin(target, w, false)
		fail(prober.ReasonInternal)(ours)
		time.Sleep(5 * sec)
		holds("a fault of the prober is no silence; the other probe is in mid stream", 5)
		abandoned := begin(target, w, false)
		token(abandoned)
		abandon(abandoned)
		holds("an abandoned probe is nobody's fault", 0)
	})
}

// The timer of a verdict does not outlive its probe: nothing is armed once the probe has ended. (A timer that
// fires for a probe that is gone would find no flight; the bubble of synctest would wait for it.)
func TestTimerEndsWithTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(128)
		target := chatTarget(w, SLO{Name: "smooth", Indicator: IndicatorITLMax, Threshold: time.Hour})
		s := begin(target, w, false)
		token(s)
		f := target.workloads["chat"].inFlight.flights[s.result.Probe]
		if want := time.Now().Add(time.Hour); !f.armed.Equal(want) {
			t.Errorf("the timer is armed for %v, want %v", f.armed, want)
		}
		good(s)
		if f.timer.Stop() {
			t.Error("the timer was still running")
		}
	})
}

// A timer that had fired when the probe ended finds that it is gone.
func TestTimerThatLostTheRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(128)
		target := chatTarget(w, SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: sec})
		l := target.workloads["chat"].inFlight
		s := begin(target, w, false)
		f := l.flights[s.result.Probe]
		abandon(s)
		time.Sleep(2 * sec)
		l.due(f)
		if got := counted(t, target, "fast"); got != "0/0" {
			t.Errorf("%s events are bad, want 0/0: the probe was abandoned before the threshold", got)
		}
	})
}

// A timer that fires before its time, as after a step of a clock that has no monotonic reading, is set again.
func TestTimerThatFiresEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := chat(128)
		target := chatTarget(w, SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: sec})
		l := target.workloads["chat"].inFlight
		s := begin(target, w, false)
		f := l.flights[s.result.Probe]
		f.timer.Stop()
		l.due(f)
		if got := counted(t, target, "fast"); got != "0/0" {
			t.Errorf("before the threshold: %s, want 0/0", got)
		}
		s.until(1100 * ms)
		if got := counted(t, target, "fast"); got != "1/1" {
			t.Errorf("100 ms after the threshold: %s, want 1/1", got)
		}
		abandon(s)
	})
}

// A timer that fires long after its time tells that the whole process was stopped. What came meanwhile is read first,
// and judged by its stamps.
func TestTimerThatFiresLate(t *testing.T) {
	for _, c := range []struct {
		name string
		came time.Duration // when the first token had come; 0: none had
		want string
	}{
		{"in time", 900 * ms, "0/1"},
		{"too late", 1100 * ms, "1/1"},
		{"never", 0, "1/1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := chat(128)
				target := chatTarget(w, SLO{Name: "fast", Indicator: IndicatorTTFT, Threshold: sec})
				l := target.workloads["chat"].inFlight
				s := begin(target, w, false)
				send(s)
				f := l.flights[s.result.Probe]
				f.timer.Stop()
				s.until(8 * sec)
				l.due(f)
				if got := counted(t, target, "fast"); got != "0/0" {
					t.Errorf("before anything could be read: %s, want 0/0", got)
				}
				s.until(8*sec + 50*ms)
				if c.came > 0 {
					stamped(c.came)(s)
				}
				s.until(8*sec + 100*ms)
				if got := counted(t, target, "fast"); c.came == 0 && got != c.want {
					t.Errorf("once all could be read: %s, want %s", got, c.want)
				}
				good(s)
				if got := counted(t, target, "fast"); got != c.want {
					t.Errorf("at the end: %s, want %s", got, c.want)
				}
			})
		})
	}
}
