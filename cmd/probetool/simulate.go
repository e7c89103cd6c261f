package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/model"

	"github.com/llm-prober/llm_prober/internal/vllmsim"
)

// modelFlags are the parameters of a model of a server.
type modelFlags struct {
	vllmsim.Model
	turnaround time.Duration
}

// flags adds the parameters; turnaround is the default of the client's.
func (m *modelFlags) flags(cmd *kingpin.CmdClause, turnaround time.Duration) {
	v := vllmsim.DefaultModel()
	duration := func(name, help string, is time.Duration, into *time.Duration) {
		cmd.Flag(name, help).Default(is.String()).DurationVar(into)
	}
	cmd.Flag("running-cap", "Requests that run at once; the others wait (vLLM's --max-num-seqs, or what its KV cache holds).").Default(fmt.Sprint(v.RunningCap)).IntVar(&m.RunningCap)
	cmd.Flag("token-budget", "Tokens of one step, decoding and prefill together (vLLM's --max-num-batched-tokens).").Default(fmt.Sprint(v.TokenBudget)).IntVar(&m.TokenBudget)
	cmd.Flag("kv-tokens", "Size of the KV cache in tokens.").Default(fmt.Sprint(v.KVTokens)).IntVar(&m.KVTokens)
	duration("base", "Time of a step, whatever is in it.", v.Base, &m.Base)
	duration("per-decode", "Time that a step takes longer for each request that decodes a token.", v.PerDecode, &m.PerDecode)
	duration("per-context", "The same for each token that those requests have in the KV cache.", v.PerContext, &m.PerContext)
	duration("per-prefill", "The same for each prompt token that is prefilled.", v.PerPrefill, &m.PerPrefill)
	duration("per-admission", "The same for each request that is new in the step.", v.PerAdmission, &m.PerAdmission)
	duration("per-intake", "Time from a request's arrival until the scheduler knows of it, for each prompt token.", v.PerIntake, &m.PerIntake)
	duration("window", "How long after a step began a request may still join it.", v.Window, &m.Window)
	cmd.Flag("async", "Compose a step when the one before it begins (vLLM's --async-scheduling).").Default(fmt.Sprint(v.Async)).BoolVar(&m.Async)
	duration("turnaround", "Time that the client needs, in a closed loop, from an answer's end to the next request.", turnaround, &m.turnaround)
}

// virtual is the server that the flags describe.
func (m *modelFlags) virtual() model.Virtual {
	return model.Virtual{Model: m.Model, Turnaround: m.turnaround, Tool: "probetool " + buildVersion()}
}

// simulateCommands adds the command simulate and all below it.
func simulateCommands(app *kingpin.Application) map[string]command {
	simulateCmd := app.Command("simulate", "Run the same experiments on virtual time against a model of a server: what would another limit, cost or mix of requests change? "+
		"Its parameters are, unless said otherwise, those of one A10 with a model of four billion parameters.")
	commands := map[string]command{}
	for _, e := range experiments() {
		f := &sweepFlags{sweepExperiment: e, model: &modelFlags{}}
		cmd := simulateCmd.Command(e.name, e.help)
		f.loadFlags(cmd)
		f.server.virtual()
		cmd.Flag("timeout", "Time for one request.").Default(short(config.DefaultExperiment().Timeout)).DurationVar(&f.server.timeout)
		f.model.flags(cmd, 0)
		f.results.flags(cmd)
		commands[cmd.FullCommand()] = f.run
	}
	run := &planRun{model: &modelFlags{}}
	cmd := simulateCmd.Command("run", "Simulate a plan file; its target is not asked.")
	cmd.Arg("plan", "Plan file; see docs/sweep.md.").Required().StringVar(&run.file)
	run.model.flags(cmd, 0)
	run.results.flags(cmd)
	commands[cmd.FullCommand()] = run.run
	search := func(c *kingpin.CmdClause) (string, command) { return searchCommand(c, &modelFlags{}) }
	for _, add := range []func(*kingpin.CmdClause) (string, command){search, seedsCommand, fitCommand} {
		name, run := add(simulateCmd)
		commands[name] = run
	}
	return commands
}

// simulated runs an experiment on a model and returns the exit code.
func simulated(ctx context.Context, e *config.Experiment, m *modelFlags, out results, search *analyze.Search, stdout, stderr io.Writer) int {
	plan, err := planOf(e)
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	server := m.virtual()
	simulator, err := model.NewSimulator(plan, server)
	if err == nil {
		err = server.Refuses(plan.Levels)
	}
	if err != nil {
		tell(stderr, "%v", err)
		return exitUsage
	}
	progress := newProgress(stderr, out.quiet, len(plan.Levels))
	progress.tty = false // time passes too fast to be watched
	return perform(ctx, simulator, progress, plan, e, out, search, stdout, stderr)
}
