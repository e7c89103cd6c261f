package prober

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// epoch is a full minute, so that a phase is the time after it.
var epoch = time.Unix(1_800_000_000, 0)

func TestPhaseDependsOnNamesOnly(t *testing.T) {
	interval := 10 * time.Second
	first := Phase("qwen", "chat", 1, interval)
	if again := Phase("qwen", "chat", 1, interval); again != first {
		t.Errorf("phases %v and %v of the same names", first, again)
	}
	// Written down: the phase must be the same after a restart and after an upgrade.
	if want := 2030026850 * time.Nanosecond; first != want {
		t.Errorf("phase %v, want %v", first, want)
	}
	for name, other := range map[string]time.Duration{
		"another target":   Phase("qwen2", "chat", 1, interval),
		"another workload": Phase("qwen", "chat2", 1, interval),
		"another replica":  Phase("qwen", "chat", 2, interval),
		"a moved letter":   Phase("qwenc", "hat", 1, interval),
	} {
		if other == first {
			t.Errorf("%s has the same phase", name)
		}
	}
}

// e18 (google/cloudprober#212, tailscale/tailscale#6003): starts are spread over the interval.
func TestPhasesAreSpread(t *testing.T) {
	interval := 10 * time.Second
	for _, c := range []struct {
		name string
		n    int
		get  func(i int) time.Duration
		most int // in one window of 100 ms
	}{
		{"ten targets", 10, func(i int) time.Duration { return Phase(fmt.Sprintf("llm-%d", i), "chat-512-128", 0, interval) }, 2},
		{"twenty replicas", 20, func(i int) time.Duration { return Phase("llm", "chat-512-128", uint64(i), interval) }, 3},
		{"a thousand targets", 1000, func(i int) time.Duration {
			return Phase(fmt.Sprintf("http://10.0.0.%d:8000", i), "chat", 0, interval)
		}, 30},
	} {
		var phases []time.Duration
		for i := range c.n {
			p := c.get(i)
			if p < 0 || p >= interval {
				t.Errorf("%s: phase %v outside the interval", c.name, p)
			}
			phases = append(phases, p)
		}
		slices.Sort(phases)
		for i, p := range phases {
			n := 1
			for i+n < len(phases) && phases[i+n]-p < 100*time.Millisecond {
				n++
			}
			if n > c.most {
				t.Errorf("%s: %d start within 100 ms", c.name, n)
			}
		}
		// The tenths of the interval are about equally full.
		if c.n >= 1000 {
			var tenths [10]int
			for _, p := range phases {
				tenths[p/(interval/10)]++
			}
			if slices.Min(tenths[:]) < c.n/20 || slices.Max(tenths[:]) > c.n/5 {
				t.Errorf("%s: %v in the tenths of the interval", c.name, tenths)
			}
		}
	}
}

func TestConstantSchedule(t *testing.T) {
	const interval, phase = 10 * time.Second, 3 * time.Second
	for _, c := range []struct {
		name   string
		asked  []time.Duration // since the epoch
		due    []time.Duration
		missed []int
	}{
		{"the first is within one interval", seconds(0), seconds(3), []int{0}},
		{"right after its phase", seconds(3.5), seconds(13), []int{0}},
		{"at its phase: the next", seconds(3), seconds(13), []int{0}},
		{"asked at each slot", seconds(0, 3, 13, 23), seconds(3, 13, 23, 33), []int{0, 0, 0, 0}},
		{"late, but without drift", seconds(0, 3.4, 13.9, 24.2), seconds(3, 13, 23, 33), []int{0, 0, 0, 0}},
		{"slots slept through are missed, not caught up", seconds(0, 3, 46, 53), seconds(3, 13, 53, 63), []int{0, 0, 3, 0}},
		{"a timer that fires early by the wall clock does not use a slot twice", seconds(0, 2.999, 12.9999), seconds(3, 13, 23), []int{0, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			schedule := NewSchedule(Constant, interval, phase, nil)
			for i, asked := range c.asked {
				due, missed := schedule.Next(epoch.Add(asked))
				if due.Sub(epoch) != c.due[i] || missed != c.missed[i] {
					t.Errorf("asked at %v: due at %v with %d missed, want %v with %d", asked, due.Sub(epoch), missed, c.due[i], c.missed[i])
				}
			}
		})
	}
}

// seconds are times.
func seconds(values ...float64) []time.Duration {
	list := make([]time.Duration, len(values))
	for i, v := range values {
		list[i] = time.Duration(v * float64(time.Second))
	}
	return list
}

func TestPoissonSchedule(t *testing.T) {
	const interval, n = 10 * time.Second, 10_000
	run := func(seed uint64) (gaps []float64) {
		schedule := NewSchedule(Poisson, interval, 0, rand.New(rand.NewPCG(seed, seed)))
		now := epoch
		for range n {
			due, missed := schedule.Next(now)
			if !due.After(now) || missed != 0 {
				t.Fatalf("due %v after %v, %d missed", due, now, missed)
			}
			gaps = append(gaps, due.Sub(now).Seconds())
			now = due
		}
		return gaps
	}
	gaps := run(1)
	var mean, above float64
	for _, g := range gaps {
		mean += g / n
		if g > interval.Seconds() {
			above += 1. / n
		}
	}
	// Of exponential gaps, 1/e are longer than their mean. The bounds are four standard errors wide.
	if math.Abs(mean-10) > 0.4 {
		t.Errorf("mean gap %.2f s, want 10", mean)
	}
	if math.Abs(above-1/math.E) > 0.02 {
		t.Errorf("%.3f of the gaps are longer than the mean, want %.3f", above, 1/math.E)
	}
	if !slices.Equal(gaps, run(1)) {
		t.Error("the same seed gives another schedule")
	}
	if slices.Equal(gaps, run(2)) {
		t.Error("another seed gives the same schedule")
	}
}

// What a sleeping prober did not send is counted: sent and missed slots together come at the asked rate.
func TestPoissonScheduleCountsWhatItMissed(t *testing.T) {
	schedule := NewSchedule(Poisson, time.Second, 0, rand.New(rand.NewPCG(1, 1)))
	now, slots := epoch, 0
	for range 100 {
		due, missed := schedule.Next(now)
		slots += 1 + missed
		now = due.Add(20 * time.Second)
	}
	if elapsed := now.Sub(epoch).Seconds(); math.Abs(float64(slots)/elapsed-1) > 0.1 {
		t.Errorf("%d slots in %.0f s", slots, elapsed)
	}
}
