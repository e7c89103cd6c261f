package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/sweep"
)

// measure runs an experiment on a server and returns the exit code. With a search, the plan's one level is where it
// begins, and what was measured becomes the plan.
func measure(ctx context.Context, e *config.Experiment, out results, search *sweep.Search, stdout, stderr io.Writer) int {
	plan, err := planOf(e)
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	progress := newProgress(stderr, out.quiet, len(plan.Levels))
	server, err := serverOf(e, progress.logger())
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	runner, err := sweep.NewRunner(plan, server)
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p, code := begin(e, out, cancel, stdout, stderr)
	if code != exitOK {
		return code
	}
	watcher := sweep.Watchers{p.store, progress}
	progress.watch(runner)
	var run *sweep.Run
	if search == nil {
		run = runner.Run(ctx, watcher)
	} else {
		search.From, progress.levels = plan.Levels[0], 0
		run = seek(ctx, runner, search, watcher)
		p.replan(e, run)
	}
	progress.stop()
	return p.finish(run)
}

// product is what becomes of a run, whether it was measured or simulated: results, table, report, exit code.
type product struct {
	store          *sweep.Store
	stdout, stderr io.Writer
	quiet          bool
	broken         error // the first error of storing
}

// begin makes the results directory. If it cannot, it says so and returns the exit code.
func begin(e *config.Experiment, out results, cancel context.CancelCauseFunc, stdout, stderr io.Writer) (*product, int) {
	o := &product{stdout: stdout, stderr: stderr, quiet: out.quiet}
	plan, err := e.YAML()
	if err == nil {
		o.store, err = out.store(e.Name, plan, func(err error) {
			o.broken = err
			tell(stderr, "%v: the run ends here", err)
			cancel(&sweep.Stop{Why: "results could not be stored", Err: err})
		})
	}
	switch {
	case errors.Is(err, sweep.ErrExists):
		tell(stderr, "%v", err)
		return nil, exitUsage
	case err != nil:
		tell(stderr, "%v", err)
		return nil, exitFailed
	}
	if !out.quiet {
		tell(stderr, "results go to %s", o.store.Dir()+string(os.PathSeparator))
	}
	return o, exitOK
}

// replan stores what was run as the plan.
func (p *product) replan(e *config.Experiment, run *sweep.Run) {
	ran := *e
	ran.Levels = nil
	for _, l := range run.Plan.Levels {
		ran.Levels = append(ran.Levels, config.ExperimentLevel{
			Concurrency: l.Concurrency, Rate: l.Rate, Arrival: string(l.Arrival), MaxInFlight: l.MaxInFlight,
			PromptTokens: l.PromptTokens, OutputTokens: l.OutputTokens, Requests: l.Requests, Duration: l.Duration,
		})
	}
	plan, err := ran.YAML()
	if err == nil {
		err = p.store.Write(sweep.PlanFile, plan)
	}
	p.fails(err)
}
