package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/load"

	"github.com/llm-prober/llm_prober/prober"
)

// measure runs an experiment on a server and returns the exit code.
func measure(ctx context.Context, e *config.Experiment, out results, search *analyze.Search, stdout, stderr io.Writer) int {
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
	server.Watch = prober.NewWatch()
	defer server.Watch.Close()
	runner, err := load.NewRunner(plan, server)
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	progress.watch(runner)
	return perform(ctx, runner, progress, plan, e, out, search, stdout, stderr)
}

// loader runs levels one by one, on a server ([load.Runner]) or on a model ([model.Simulator]).
type loader interface {
	Begin(ctx context.Context, w experiment.Watcher)
	Level(ctx context.Context, l experiment.Level) (went experiment.LevelRun, more bool)
	Note(text string)
	Seen() *experiment.Run
	Finish() *experiment.Run
}

// perform runs a plan or a search, keeps it, and makes of it all that can be made. Of a search, the plan's one level is
// where it begins, and what was run becomes the plan.
func perform(ctx context.Context, l loader, progress *progress, plan experiment.Plan, e *config.Experiment, out results, search *analyze.Search, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer progress.stop()
	p, code := begin(e, out, cancel, stdout, stderr)
	if code != exitOK {
		return code
	}
	next := inOrder(plan.Levels)
	if search != nil {
		search.From, progress.levels = plan.Levels[0], 0
		next = searching(search, l, out.quiet)
	}
	l.Begin(ctx, experiment.Watchers{p.store, progress})
	keepsResults(ctx)
	for level, more := next(); more; level, more = next() {
		if _, more := l.Level(ctx, level); !more {
			p.interrupted = ctx.Err() != nil && p.broken == nil
			break
		}
	}
	run := l.Finish()
	progress.stop()
	if search != nil {
		p.replan(e, run)
	}
	return p.finish(run)
}

// inOrder gives levels one after another.
func inOrder(levels []experiment.Level) func() (experiment.Level, bool) {
	return func() (l experiment.Level, more bool) {
		if len(levels) == 0 {
			return l, false
		}
		l, levels = levels[0], levels[1:]
		return l, true
	}
}

// searching gives the levels that a search asks for after what has been seen.
func searching(s *analyze.Search, l loader, quiet bool) func() (experiment.Level, bool) {
	return func() (experiment.Level, bool) {
		step := s.Next(analyze.Summarize(l.Seen()).Levels)
		text := fmt.Sprintf("next %s: %s", step.Level.Load(), step.Why)
		if step.Done {
			text = "the search is done: " + step.Why
		}
		if !quiet {
			l.Note(text)
		}
		return step.Level, !step.Done
	}
}

// product is what becomes of a run, whether it was measured or simulated: results, table, report, exit code.
type product struct {
	store          *experiment.Store
	stdout, stderr io.Writer
	quiet          bool
	broken         error // an error of storing, or of making what is made of a run
	interrupted    bool  // before all levels were run
}

// begin makes the results directory. If it cannot, it says so and returns the exit code.
func begin(e *config.Experiment, out results, cancel context.CancelCauseFunc, stdout, stderr io.Writer) (*product, int) {
	p := &product{stdout: stdout, stderr: stderr, quiet: out.quiet}
	plan, err := e.YAML()
	if err != nil {
		return nil, unmade(stderr, err)
	}
	dir, err := out.folder(e.Name)
	if err != nil {
		return nil, unmade(stderr, err)
	}
	p.store, err = experiment.NewStore(dir, plan, func(err error) {
		p.fails(fmt.Errorf("%w: the run ends here", err))
		cancel(&experiment.Stop{Why: "results could not be stored", Err: err})
	})
	if err != nil {
		return nil, unmade(stderr, err)
	}
	if !out.quiet {
		tell(stderr, "results go to %s", p.store.Dir()+string(os.PathSeparator))
	}
	return p, exitOK
}

// replan stores what was run as the plan.
func (p *product) replan(e *config.Experiment, run *experiment.Run) {
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
		err = p.store.Write(experiment.PlanFile, plan)
	}
	p.fails(err)
}
