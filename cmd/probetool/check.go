package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/config"
)

// check is the command check-config.
type check struct {
	command string
	files   []string
}

func checkCommand(app *kingpin.Application) *check {
	c := &check{}
	cmd := app.Command("check-config", "Check configuration files and print every error in them. Exits with 2 if there is one.")
	cmd.Arg("file", "Configuration file.").Required().StringsVar(&c.files)
	c.command = cmd.FullCommand()
	return c
}

func (c *check) run(stdout, stderr io.Writer) int {
	code := exitOK
	for _, file := range c.files {
		cfg, err := config.Load(file)
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				fmt.Fprintln(stderr, strings.TrimSuffix(line, "\n"))
			}
			code = exitUsage
			continue
		}
		for _, w := range cfg.Warnings() {
			fmt.Fprintln(stdout, "warning:", w)
		}
		fmt.Fprintf(stdout, "%s: valid; %s\n", file, describe(cfg))
	}
	return code
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
	return fmt.Sprintf("%d targets, %d probed workloads, %d SLOs; %.0f requests and %.3g tokens an hour", len(cfg.Targets), plans, len(cfg.SLOs), requests, tokens)
}
