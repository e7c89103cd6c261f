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

// compare is the command sweep compare.
type compare struct {
	a, b    string
	slos    []string
	results results
}

func compareCommand(sweepCmd *kingpin.CmdClause) (string, command) {
	c := &compare{}
	cmd := sweepCmd.Command("compare", "Tell what changed from run A to run B, with confidence intervals: did this flag help?")
	cmd.Arg("a", "Results directory of the run before.").Required().StringVar(&c.a)
	cmd.Arg("b", "Results directory of the run after.").Required().StringVar(&c.b)
	cmd.Flag("slo", "Objective that operating points are compared by, as ttft_p95=1s; those of run B if omitted. Repeatable.").PlaceHolder("OBJECTIVE").StringsVar(&c.slos)
	cmd.Flag("out", "Folder in which the directory compare-DATE-TIME is made for the report.").Default(defaultOut).StringVar(&c.results.out)
	cmd.Flag("dir", "That directory itself, instead; it must not exist or be empty.").PlaceHolder("DIR").StringVar(&c.results.dir)
	return cmd.FullCommand(), c.run
}

func (c *compare) run(_ context.Context, stdout, stderr io.Writer) int {
	objectives, err := experiment.ParseObjectives(c.slos)
	if err != nil {
		fmt.Fprintf(stderr, "--slo: %v\n", err)
		return exitUsage
	}
	defer frugal()()
	runs := make([]*experiment.Run, 2)
	for i, dir := range []string{c.a, c.b} {
		if runs[i], err = experiment.Open(dir); err != nil {
			tell(stderr, "%v", err)
			return exitUsage
		}
		defer runs[i].Close()
		runs[i].Plan.Name = filepath.Base(filepath.Clean(dir)) // runs of one plan have one name
	}
	if len(objectives) == 0 {
		objectives = runs[1].Plan.SLOs
	}
	comparison := analyze.Compare(runs[0], runs[1], objectives)
	if err := analyze.WriteComparison(stdout, &comparison); err != nil {
		tell(stderr, "printing the comparison: %v", err)
		return exitFailed
	}
	tellLeft(stderr, c.a, runs[0].Left)
	tellLeft(stderr, c.b, runs[1].Left)
	dir, err := c.results.folder("compare")
	if err != nil {
		return unmade(stderr, err)
	}
	data, err := indented(comparison)
	if err == nil {
		err = experiment.WriteFile(dir, comparisonFile, data)
	}
	if err == nil {
		err = report.WriteComparison(dir, runs[0], runs[1], comparison)
	}
	if err != nil {
		tell(stderr, "%v", err)
		return exitFailed
	}
	tell(stderr, "the report is %s", filepath.Join(dir, report.ComparisonFileName))
	return exitOK
}

// comparisonFile holds a comparison as JSON.
const comparisonFile = "comparison.json"
