package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-kit/log"
	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/load"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// progress tells a person what a run is doing. On a terminal that is a line that moves; elsewhere a line at a
// level's start and one at its end. Failures are told as they happen.
type progress struct {
	w      io.Writer
	levels int // 0: nobody knows yet
	quiet  bool
	tty    bool

	once  sync.Once
	ended chan struct{}
	done  sync.WaitGroup

	mu     sync.Mutex
	runner *load.Runner
	bar    *progressbar.ProgressBar // nil: none is shown
	level  *liveLevel               // nil before the first
	tokens int                      // at the last look
	looked time.Time
	rate   float64 // tokens a second between the last two looks
}

var _ experiment.Watcher = (*progress)(nil)

func newProgress(w io.Writer, quiet bool, levels int) *progress {
	p := &progress{w: w, levels: levels, quiet: quiet, ended: make(chan struct{})}
	if f, ok := w.(*os.File); ok && !quiet {
		p.tty = term.IsTerminal(int(f.Fd()))
	}
	return p
}

// watch begins to follow a runner.
func (p *progress) watch(r *load.Runner) {
	p.runner = r
	if !p.tty {
		return
	}
	p.done.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				p.draw()
			case <-p.ended:
				return
			}
		}
	})
}

// stop ends the line that moves. It may be called again.
func (p *progress) stop() {
	p.once.Do(func() { close(p.ended) })
	p.done.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// line writes a line that stays.
func (p *progress) line(format string, args ...any) {
	p.clear()
	tell(p.w, format, args...)
}

// clear takes the line that moves away, until it is drawn again.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear() // a terminal that cannot be written to shows nothing either
	}
}

// Began implements [experiment.Watcher].
func (p *progress) Began(run *experiment.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := run.Facts
	if server := strings.TrimSpace(f.Engine + " " + f.Version); server != "" && !p.quiet {
		p.line("%s is %s", f.URL, server)
	}
}

// LevelBegan implements [experiment.Watcher].
func (p *progress) LevelBegan(index int, run *experiment.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := run.Plan.Levels[index]
	p.level = &liveLevel{Level: l, index: index, of: p.levels}
	if p.quiet {
		return
	}
	if !p.tty {
		p.line("%s: %s", p.level.title(), p.level.limits())
		return
	}
	p.bar = progressbar.NewOptions(1000, progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(12), progressbar.OptionThrottle(0),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionSetRenderBlankState(false),
		progressbar.OptionClearOnFinish())
}

// Entered implements [experiment.Watcher].
func (p *progress) Entered(_ int, phase experiment.Phase, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level.phase = phase
	if phase == experiment.Loading {
		p.level.start = time.Now()
	}
}

// Ended implements [experiment.Watcher].
func (p *progress) Ended(r *experiment.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level.note(r)
	if !r.OK() && !r.Abandoned && p.level.failed <= toldFailures {
		what := "request"
		if r.Warmup {
			what = "warm-up request"
		}
		p.line("%s, %s: %s %s failed (%s): %s", r.Ended.Local().Format("15:04:05"), p.level.Load(), what, r.RequestID, r.Reason, r.Err)
		if p.level.failed == toldFailures {
			p.line("%s: further failures are counted", p.level.Load())
		}
	}
}

// toldFailures is how many failures of a level are told one by one.
const toldFailures = 5

// Sampled implements [experiment.Watcher].
func (p *progress) Sampled(s experiment.QueueSample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.level.running, p.level.waiting = s.Running, s.Waiting
}

// LevelEnded implements [experiment.Watcher].
func (p *progress) LevelEnded(index int, run *experiment.Run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, went := p.level, run.Levels[index]
	p.clear()
	p.bar = nil
	if l.failed > toldFailures {
		var counts []string
		for _, reason := range slices.Sorted(maps.Keys(l.reasons)) {
			counts = append(counts, fmt.Sprintf("%d %s", l.reasons[reason], reason))
		}
		p.line("%s: %d requests failed: %s", l.Load(), l.failed, strings.Join(counts, ", "))
	}
	if went.Cut != "" {
		p.line("%s: cut short: %s", l.title(), went.Cut)
	}
	if !p.quiet && went.End.After(went.Start) {
		p.line("%s: %s", l.title(), l.result(went.End.Sub(went.Start)))
	}
}

// Finished implements [experiment.Watcher].
func (p *progress) Finished(*experiment.Run) {}

// Noted implements [experiment.Watcher].
func (p *progress) Noted(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line("%s", text)
}

// draw draws the line that moves.
func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	now, tokens := time.Now(), p.runner.Tokens()
	if since := now.Sub(p.looked); since > 0 {
		p.rate = float64(tokens-p.tokens) / since.Seconds()
		p.tokens, p.looked = tokens, now
	}
	part, text := p.level.state(now)
	p.bar.Describe(fmt.Sprintf("%s: %s, %d in flight, %s, %s tok/s", p.level.short(), text, p.runner.InFlight(), p.level.latency(), humanize.Number(p.rate)))
	_ = p.bar.Set(max(1, int(999*part))) // never full: that would end the line
}

// logger tells what the prober finds out about the server. Failures and doubts are left out: they are told anyway.
func (p *progress) logger() log.Logger {
	return log.LoggerFunc(func(keyvals ...any) error {
		said := map[string]any{}
		for i := 0; i+1 < len(keyvals); i += 2 {
			said[fmt.Sprint(keyvals[i])] = keyvals[i+1]
		}
		lvl, msg := fmt.Sprint(said["level"]), fmt.Sprint(said["msg"])
		if lvl != "warn" && lvl != "error" || msg == "probe failed" || msg == "probe is suspect" {
			return nil
		}
		text := msg
		for _, key := range []string{"workload", "reason", "field", "hint", "err"} {
			if v, ok := said[key]; ok {
				text += fmt.Sprintf("; %s: %v", key, v)
			}
		}
		p.Noted(text)
		return nil
	})
}
