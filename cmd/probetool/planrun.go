package main

import (
	"context"
	"fmt"
	"io"

	"github.com/llm-prober/llm_prober/internal/config"
)

// planRun is the command sweep run.
type planRun struct {
	file    string
	results results
}

func (p *planRun) run(ctx context.Context, stdout, stderr io.Writer) int {
	e, err := config.LoadExperiment(p.file, rules())
	if err != nil {
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	if p.results.name != "" {
		if e, err = e.Named(p.results.name); err != nil {
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
	}
	return measure(ctx, e, p.results, nil, stdout, stderr)
}
