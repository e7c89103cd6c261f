package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/discovery"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// check is the command check-config.
type check struct {
	command  string
	files    []string
	connect  bool
	discover bool
	target   string
}

func checkCommand(app *kingpin.Application) *check {
	c := &check{}
	cmd := app.Command("check-config", "Check configuration files and print every error in them. Exits with 2 if there is one, and with 1 if a target that was tried failed, a discovery did not answer, or a member cannot be probed.")
	cmd.Arg("file", "Configuration file.").Required().StringsVar(&c.files)
	cmd.Flag("connect", "Try what the files say: send each target one probe of each of its workloads.").BoolVar(&c.connect)
	cmd.Flag("discover", "Find the members of target groups once, and say what becomes of each and why. With --connect those that would be probed are tried too.").BoolVar(&c.discover)
	cmd.Flag("target", "Try this target alone.").PlaceHolder("NAME").StringVar(&c.target)
	c.command = cmd.FullCommand()
	return c
}

func (c *check) run(ctx context.Context, stdout, stderr io.Writer) int {
	if c.target != "" && !c.connect {
		fmt.Fprintln(stderr, "--target: names the one to try: give --connect too")
		return exitUsage
	}
	code := exitOK
	for _, file := range c.files {
		cfg, err := config.Load(file)
		if err != nil {
			fmt.Fprintln(stderr, err)
			code = exitUsage
			continue
		}
		for _, w := range cfg.Warnings() {
			fmt.Fprintln(stdout, "warning:", w)
		}
		fmt.Fprintf(stdout, "%s: valid; %s\n", file, describe(cfg))
		var found []*config.Target
		if c.discover {
			groups, ok := discover(ctx, cfg, stdout)
			if found = discovery.Targets(groups); !ok {
				code = max(code, exitFailed)
			}
		}
		if c.connect {
			code = max(code, c.try(ctx, cfg, found, stdout, stderr))
		}
	}
	if ctx.Err() != nil {
		return exitInterrupted
	}
	return code
}

// try sends probes to the targets of a configuration that is valid, and to those that were found, and returns the exit
// code.
func (c *check) try(ctx context.Context, cfg *config.Config, found []*config.Target, stdout, stderr io.Writer) int {
	targets := slices.Concat(cfg.Targets, found)
	if c.target != "" {
		chosen, err := cfg.Choose(c.target, "")
		if err != nil {
			fmt.Fprintln(stderr, err)
			return exitUsage
		}
		targets = []*config.Target{chosen.Target}
	}
	if !tryTargets(ctx, targets, stdout) {
		return exitFailed
	}
	return exitOK
}

// describe tells what a configuration will do, and what that costs the servers.
func describe(cfg *config.Config) string {
	plans := 0
	var requests, tokens float64 // an hour
	for _, t := range cfg.Targets {
		for _, p := range t.Plans {
			plans++
			perHour := 3600 / p.Interval.Seconds()
			requests += perHour
			tokens += perHour * float64(p.Workload.PromptTokens+p.Workload.OutputTokens)
		}
	}
	return fmt.Sprintf("%s, %s, %s; %s requests and %s tokens an hour", humanize.Count(len(cfg.Targets), "target"), humanize.Count(plans, "probed workload"),
		humanize.Count(len(cfg.SLOs), "SLO"), humanize.Number(requests), humanize.Number(tokens))
}
