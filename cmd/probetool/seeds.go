package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/model"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// seeds is the command simulate seeds.
type seeds struct{ model modelFlags }

func seedsCommand(simulateCmd *kingpin.CmdClause) (string, command) {
	s := &seeds{}
	cmd := simulateCmd.Command("seeds", "Repeat the experiments of the two articles that this tool follows, and print the model's figures beside the published ones. "+
		"Exits with 1 if one is further off than it may be.")
	s.model.flags(cmd, model.SeedTurnaround)
	return cmd.FullCommand(), s.run
}

func (s *seeds) run(ctx context.Context, stdout, stderr io.Writer) int {
	results, err := model.SimulateSeeds(ctx, s.model.virtual(), analyze.Summarize)
	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err != nil:
		tell(stderr, "%v", err)
		return exitUsage
	}
	code := exitOK
	for i := range results {
		r := &results[i]
		fmt.Fprintf(stdout, "%s\n\n", r.Name)
		if err := analyze.WriteTable(stdout, &r.Summary); err != nil {
			tell(stderr, "printing a table: %v", err)
			return exitFailed
		}
		fmt.Fprintln(stdout)
		if off := printSeedRows(stdout, r.Rows); off > 0 {
			tell(stderr, "%s: %d figures are further off than they may be", r.Name, off)
			code = exitFailed
		}
		fmt.Fprintln(stdout)
	}
	return code
}

// printSeedRows prints published figures beside simulated ones, and returns how many are too far off.
func printSeedRows(w io.Writer, rows []model.SeedRow) (off int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "level\tfigure\tpublished\tsimulated\tdifference")
	for _, row := range rows {
		difference := row.Remark
		if row.Tolerance > 0 {
			difference = fmt.Sprintf("%+.1f %%", 100*(row.Ratio()-1))
			if math.Abs(row.Ratio()-1) > row.Tolerance {
				difference += fmt.Sprintf(" (more than %.0f %%)", 100*row.Tolerance)
				off++
			} else if row.Remark != "" {
				difference += "; " + row.Remark
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", row.Level, row.Figure, withUnit(row.Published, row.Unit), withUnit(float64(row.Ours), row.Unit), difference)
	}
	t.Flush()
	return off
}

// withUnit writes a figure and its unit.
func withUnit(v float64, unit string) string {
	if unit == "s" {
		return humanize.Seconds(v)
	}
	return humanize.Number(v) + " " + unit
}
