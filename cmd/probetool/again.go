package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/report"
)

// again is the command sweep report: what a run was made into, made again of what it stored.
type again struct {
	dir  string
	slos []string
}

func reportCommand(sweepCmd *kingpin.CmdClause) (string, command) {
	a := &again{}
	cmd := sweepCmd.Command("report", "Make summary, table and report of a results directory again, also of a run that was interrupted.")
	cmd.Arg("dir", "Results directory.").Required().StringVar(&a.dir)
	cmd.Flag("slo", "Objective instead of those of the run, as ttft_p95=1s. Repeatable.").PlaceHolder("OBJECTIVE").StringsVar(&a.slos)
	return cmd.FullCommand(), a.run
}

func (a *again) run(_ context.Context, stdout, stderr io.Writer) int {
	objectives, err := experiment.ParseObjectives(a.slos)
	if err != nil {
		fmt.Fprintf(stderr, "--slo: %v\n", err)
		return exitUsage
	}
	defer frugal()()
	run, err := experiment.Open(a.dir)
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	defer run.Close()
	if len(objectives) > 0 {
		run.Plan.SLOs = objectives
	}
	summary := analyze.Summarize(run)
	if err := analyze.WriteTable(stdout, &summary); err != nil {
		tell(stderr, "printing the table: %v", err)
		return exitFailed
	}
	tellLeft(stderr, a.dir, run.Left)
	if err := derive(a.dir, run, &summary); err != nil {
		tell(stderr, "%v", err)
		return exitFailed
	}
	tell(stderr, "the report is %s", filepath.Join(a.dir, report.FileName))
	return exitOK
}
