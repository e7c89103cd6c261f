package main

import (
	"context"
	"fmt"
	"io"

	"github.com/llm-prober/llm_prober/internal/config"
)

// planRun is the command sweep run, or simulate run.
type planRun struct {
	file    string
	from    fromFile // in place of the plan's target
	results results
	model   *modelFlags // nil: a server is measured
}

func (p *planRun) run(ctx context.Context, stdout, stderr io.Writer) int {
	from, err := p.from.choice(nil)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	e, err := config.LoadExperiment(p.file, rules(p.model != nil, from))
	if err == nil && p.results.name != "" {
		e, err = e.Named(p.results.name)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	if p.model != nil {
		return simulated(ctx, e, p.model, p.results, nil, stdout, stderr)
	}
	return measure(ctx, e, p.results, nil, stdout, stderr)
}
