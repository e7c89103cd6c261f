package web

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/prober"
)

const ms = time.Millisecond

func TestFindSlow(t *testing.T) {
	start := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	at := func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
	usual := minute{ttft: 100 * ms, itl: 20 * ms, connect: ms, split: 4, prefill: 90 * ms, outside: 10 * ms}
	change := func(f func(*minute)) minute {
		m := usual
		f(&m)
		return m
	}
	queued := change(func(m *minute) { m.ttft, m.queue = 2100*ms, 2000*ms })
	prefilling := change(func(m *minute) { m.ttft, m.prefill = 400*ms, 390*ms })
	far := change(func(m *minute) { m.ttft, m.outside, m.connect = 400*ms, 310*ms, 301*ms })
	untold := change(func(m *minute) { m.ttft, m.split = 2100*ms, 0 })
	decoding := change(func(m *minute) { m.itl = 40 * ms })
	for _, tc := range []struct {
		name   string
		before int // usual minutes
		last   []minute
		want   []slowPart
	}{
		{"as usual", 20, []minute{usual, usual}, nil},
		{"queue", 20, []minute{usual, queued, queued}, []slowPart{{PartQueue, 2000 * ms, 0, at(21)}}},
		{"prefill", 20, []minute{prefilling}, []slowPart{{PartPrefill, 390 * ms, 90 * ms, at(20)}}},
		{"network", 20, []minute{far}, []slowPart{{PartOutside, 310 * ms, 10 * ms, at(20)}, {PartConnect, 301 * ms, ms, at(20)}}},
		{"server tells nothing", 20, []minute{untold}, []slowPart{{PartTTFT, 2100 * ms, 100 * ms, at(20)}}},
		{"decode", 20, []minute{decoding}, []slowPart{{PartDecode, 40 * ms, 20 * ms, at(20)}}},
		{"over again", 20, []minute{queued, usual, usual}, nil},
		{"since the last change for the worse", 20, []minute{queued, usual, queued}, []slowPart{{PartQueue, 2000 * ms, 0, at(22)}}},
		{"too little is known", 3, []minute{queued}, nil},
		{"above the ratio, below the floor", 20, []minute{change(func(m *minute) { m.ttft, m.itl, m.connect = 149*ms, 24*ms, 40*ms })}, nil},
		{"minutes without a probe are no values", 10, append(make([]minute, 40), queued), []slowPart{{PartQueue, 2000 * ms, 0, at(50)}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var minutes []minute
			for range tc.before {
				minutes = append(minutes, usual)
			}
			minutes = append(minutes, tc.last...)
			for i := range minutes {
				minutes[i].start = at(i)
			}
			got := findSlow(recentProbes{minute: minutes[len(minutes)-1]}, minutes)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(slowPart{})); diff != "" {
				t.Errorf("slow (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMinutes(t *testing.T) {
	start := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	var m lastHour
	add := func(at time.Time, took time.Duration, reason string) {
		m.add(newRecord(ended("x", at.Add(-took), took, prober.Reason(reason))))
	}
	add(start.Add(1*time.Second), 80*ms, "")
	add(start.Add(20*time.Second), 160*ms, "")
	add(start.Add(40*time.Second), 800*ms, "")
	add(start.Add(50*time.Second), 10*ms, "tls")
	add(start.Add(3*time.Minute), 240*ms, "")
	add(start.Add(2*time.Minute), 10*ms, "dns") // late: counted in the minute that is open

	want := []minute{
		{start: start, probes: 3, failures: 1, ttft: 80 * ms, itl: 20 * ms, itlP95: 60 * ms, duration: 160 * ms, speed: 18.75},
		{start: start.Add(3 * time.Minute), probes: 1, failures: 1, ttft: 120 * ms, itl: 30 * ms, itlP95: 90 * ms, duration: 240 * ms, speed: 12.5},
	}
	if diff := cmp.Diff(want, m.last(start.Add(4*time.Minute)), cmp.AllowUnexported(minute{})); diff != "" {
		t.Errorf("minutes (-want +got):\n%s", diff)
	}
	if got := m.last(start.Add(60 * time.Minute)); len(got) != 1 {
		t.Errorf("after an hour %d minutes are left, want 1", len(got))
	}
	if got := m.last(start.Add(63 * time.Minute)); len(got) != 0 {
		t.Errorf("after another three minutes %d are left, want 0", len(got))
	}
	add(start.Add(60*time.Minute), 80*ms, "") // takes the place of the same minute of the hour before
	add(start.Add(61*time.Minute), 80*ms, "")
	if got := m.last(start.Add(61 * time.Minute)); len(got) != 3 || !got[2].start.Equal(start.Add(61*time.Minute)) {
		t.Errorf("minutes = %v", got)
	}
}

func TestRecent(t *testing.T) {
	start := time.Date(2026, 5, 1, 3, 0, 0, 0, time.UTC)
	h := &History{}
	for i := range 30 { // every 15 s, slower and slower
		r := ended("x", start.Add(time.Duration(i)*15*time.Second), time.Duration(i+1)*8*ms, "")
		if i == 28 {
			r.Warmup = true // measures nothing
		}
		h.Ended(r)
	}
	got := recentOf(h.snapshots("t", start)[0].results)
	// The last five that measured: 30, 28, 27, 26, 25 times 8 ms; the first token comes half way.
	if got.probes != 5 || got.ttft != 27*4*ms || got.duration != 27*8*ms {
		t.Errorf("probes, ttft, duration = %d, %s, %s, want 5, 108ms, 216ms", got.probes, got.ttft, got.duration)
	}
	for i := range 40 { // every second: all of the last minute
		h.Ended(ended("x", start.Add(10*time.Minute+time.Duration(i)*time.Second), 8*ms, ""))
	}
	if got := recentOf(h.snapshots("t", start)[0].results); got.probes != 40 || got.ttft != 4*ms {
		t.Errorf("probes, ttft = %d, %s, want 40, 4ms", got.probes, got.ttft)
	}
}
