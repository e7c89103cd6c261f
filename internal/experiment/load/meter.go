package load

import (
	"iter"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/prober"
	"gonum.org/v1/gonum/stat"
)

// meter watches the measuring process itself during a level.
type meter struct {
	cpu float64 // seconds used before

	mu        sync.Mutex
	readDelay time.Duration // longest
	answers   int           // with a token
	stamped   int           // of these, those whose times are the kernel's
}

func newMeter() *meter {
	cpu, _ := usage()
	return &meter{cpu: cpu}
}

// note takes what a result says of the client.
func (m *meter) note(res *prober.Result) {
	if res.FirstToken.IsZero() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.readDelay = max(m.readDelay, res.ReadDelay)
	m.answers++
	if res.KernelStamps {
		m.stamped++
	}
}

// client tells how the process fared, given the requests of the level.
func (m *meter) client(requests iter.Seq[*experiment.Request]) experiment.Client {
	m.mu.Lock()
	defer m.mu.Unlock()
	cpu, rss := usage()
	c := experiment.Client{
		CPUSeconds: cpu - m.cpu, MaxRSSBytes: rss, ReadDelayMax: m.readDelay.Seconds(),
		KernelStamps: m.answers > 0 && m.stamped == m.answers, GoMaxProcs: runtime.GOMAXPROCS(0), LoadAverage: loadAverage(),
	}
	var delays []float64
	var answers, lateFirst, gaps, lateGaps int
	for r := range requests {
		delays = append(delays, r.Started.Sub(r.Scheduled).Seconds())
		if ttft, known := r.TTFT(); known {
			answers++
			if !ttft.Sound() {
				lateFirst++
			}
		}
		for gap := range r.ITL() {
			gaps++
			if !gap.Sound() {
				lateGaps++
			}
		}
	}
	if len(delays) > 0 {
		slices.Sort(delays)
		c.StartDelayP99 = stat.Quantile(0.99, stat.Empirical, delays, nil)
	}
	c.LateTTFTRatio, c.LateGapsRatio = share(lateFirst, answers), share(lateGaps, gaps)
	return c
}

func share(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
