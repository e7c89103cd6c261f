package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/sweep"
)

// measure runs an experiment on a server and returns the exit code.
func measure(ctx context.Context, e *config.Experiment, out results, stdout, stderr io.Writer) int {
	plan, err := planOf(e)
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	progress := newProgress(stderr, out.quiet, plan)
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
	o, code := begin(e, out, cancel, stdout, stderr)
	if code != exitOK {
		return code
	}
	progress.watch(runner)
	run := runner.Run(ctx, sweep.Watchers{o.store, progress})
	progress.stop()
	return o.finish(run)
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
