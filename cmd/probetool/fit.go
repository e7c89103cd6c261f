package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/model"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// fit is the command simulate fit.
type fit struct {
	dir    string
	asJSON bool
}

func fitCommand(simulateCmd *kingpin.CmdClause) (string, command) {
	f := &fit{}
	cmd := simulateCmd.Command("fit", "Find the model's parameters from a run on a real server, print them with their errors and as flags of simulate, and hold what the model predicts against what was measured.")
	cmd.Arg("dir", "Results directory of the run.").Required().StringVar(&f.dir)
	cmd.Flag("json", "Print it as JSON.").BoolVar(&f.asJSON)
	return cmd.FullCommand(), f.run
}

func (f *fit) run(_ context.Context, stdout, stderr io.Writer) int {
	run, err := experiment.Read(f.dir)
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	tellLeft(stderr, f.dir, run.Left)
	found, err := model.FitModel(run, analyze.Summarize)
	if err != nil {
		tell(stderr, "fitting a model to %s: %v", f.dir, err)
		return exitFailed
	}
	predictions, err := found.Predict(run, analyze.Summarize)
	if err != nil {
		tell(stderr, "predicting %s: %v", f.dir, err)
		return exitFailed
	}
	if f.asJSON {
		return printJSON(stdout, stderr, struct {
			*model.Fit
			Predictions []model.Prediction `json:"predictions"`
		}{found, predictions})
	}
	printParameters(stdout, found)
	printPredictions(stdout, predictions)
	fmt.Fprintf(stdout, "probetool simulate … %s\n", strings.Join(asFlags(found), " "))
	return exitOK
}

// printJSON prints a value as JSON and returns the exit code.
func printJSON(stdout, stderr io.Writer, v any) int {
	data, err := indented(v)
	if err == nil {
		_, err = stdout.Write(data)
	}
	if err != nil {
		tell(stderr, "printing JSON: %v", err)
		return exitFailed
	}
	return exitOK
}

func printParameters(w io.Writer, f *model.Fit) {
	fmt.Fprintf(w, "%d engine steps were told apart, and %d of them serve the fit; a step takes %s in the mean, and the model is off by %s.\n\n",
		f.Steps, f.Used, humanize.Seconds(f.Step), humanize.Seconds(f.Residual))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "parameter\tvalue\terror\t")
	for _, p := range f.Parameters {
		value, spread := parameter(p.Value, p.Unit), "" // limits have no error
		if p.Error.Known() {
			spread = "± " + parameter(float64(p.Error), p.Unit)
		}
		switch {
		case !p.Known():
			value = humanize.Unknown
		case p.Name == "async":
			value = yesOrNo(p.Value == 1)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", p.Name, value, spread, p.Note)
	}
	t.Flush()
	for _, note := range f.Notes {
		fmt.Fprintf(w, "- %s\n", note)
	}
	fmt.Fprintln(w)
}

// parameter writes a parameter with its unit, which may be seconds for each of something.
func parameter(v float64, unit string) string {
	if of, ok := strings.CutPrefix(unit, "s"); ok && (of == "" || of[0] == '/') {
		return humanize.Seconds(v) + of
	}
	return strings.TrimSpace(humanize.Number(v) + " " + unit)
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func printPredictions(w io.Writer, all []model.Prediction) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "level, measured and predicted\tTTFT p50\tTTFT p95\tITL p50\tITL p95\toutput tok/s")
	for _, p := range all {
		cells := []string{p.Level.String()}
		for _, pair := range []model.Pair{p.TTFT50, p.TTFT95, p.ITL50, p.ITL95} {
			cells = append(cells, beside(pair, humanize.Seconds))
		}
		cells = append(cells, beside(p.Rate, humanize.Number))
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	t.Flush()
	fmt.Fprintln(w)
}

// beside writes a measured figure, a predicted one, and how far off that is.
func beside(p model.Pair, write func(float64) string) string {
	if !p.Measured.Known() || !p.Predicted.Known() {
		return humanize.Unknown
	}
	return fmt.Sprintf("%s %s (%+.0f %%)", write(float64(p.Measured)), write(float64(p.Predicted)), 100*(p.Ratio()-1))
}

// asFlags are the flags of simulate that make it use the fitted model.
func asFlags(f *model.Fit) []string {
	m := f.Model
	flags := []string{
		fmt.Sprintf("--running-cap=%d", m.RunningCap), fmt.Sprintf("--token-budget=%d", m.TokenBudget), fmt.Sprintf("--kv-tokens=%d", m.KVTokens),
	}
	for _, d := range []struct {
		flag string
		is   time.Duration
	}{
		{"base", m.Base},
		{"per-decode", m.PerDecode},
		{"per-context", m.PerContext},
		{"per-prefill", m.PerPrefill},
		{"per-admission", m.PerAdmission},
		{"per-intake", m.PerIntake},
		{"window", m.Window},
		{"turnaround", f.Turnaround},
	} {
		flags = append(flags, fmt.Sprintf("--%s=%s", d.flag, d.is))
	}
	if m.Async {
		return append(flags, "--async")
	}
	return append(flags, "--no-async")
}
