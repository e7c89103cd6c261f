package prober

import "time"

// floodGuard keeps a server that sends faster than any model writes from taking the processor from the readers of
// others. After each burst the reader sleeps for as long as the burst took, and longer once more has come than any
// answer has. It must sleep: while a goroutine is ready to run, Go looks for data on other connections only every 10 ms.
// What came meanwhile waits in the kernel, which stamps it.
type floodGuard struct {
	since time.Time // when the burst began
	burst int       // bytes of it
	total int       // bytes of all
}

const (
	floodBurst = 32 << 10              // bytes: the work on them takes some 0.5 ms
	floodTime  = 10 * time.Millisecond // in which no model writes so much
	longAnswer = 4 << 20               // bytes: 8,192 tokens of 500
	floodRest  = 4                     // times the time of a burst, beyond longAnswer
)

// pace is called before each read.
func (g *floodGuard) pace() {
	if g.burst < floodBurst {
		return
	}
	if took := time.Since(g.since); took < floodTime {
		if g.total > longAnswer {
			took *= floodRest
		}
		time.Sleep(took)
	}
	g.burst = 0
}

// note is called after each read.
func (g *floodGuard) note(n int) {
	if g.burst == 0 {
		g.since = time.Now()
	}
	g.burst += n
	g.total += n
}
