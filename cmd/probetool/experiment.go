package main

import (
	"cmp"

	"github.com/go-kit/log"
	"github.com/prometheus/common/version"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/load"

	"github.com/llm-prober/llm_prober/internal/wire"
	"github.com/llm-prober/llm_prober/prober"
)

// planOf is an experiment as package experiment takes it. The error is about an objective.
func planOf(e *config.Experiment) (experiment.Plan, error) {
	p := experiment.Plan{
		Name: e.Name, Warmup: e.Warmup, Timeout: e.Timeout, StallTimeout: e.StallTimeout, Settle: e.Settle, Seed: uint64(e.Seed),
	}
	for _, l := range e.Levels {
		p.Levels = append(p.Levels, experiment.Level{
			Concurrency: l.Concurrency, Rate: l.Rate, Arrival: prober.Arrival(l.Arrival), MaxInFlight: l.MaxInFlight,
			PromptTokens: l.PromptTokens, OutputTokens: l.OutputTokens, Requests: l.Requests, Duration: l.Duration,
		})
	}
	var err error
	p.SLOs, err = experiment.ParseObjectives(e.SLOs)
	return p, err
}

// rules are those of a plan that package experiment knows; virtual: no server is asked; from: a target of a configuration.
func rules(virtual bool, from *config.Choice) config.ExperimentRules {
	return config.ExperimentRules{Virtual: virtual, From: from, Objective: func(text string) error {
		_, err := experiment.ParseObjective(text)
		return err
	}}
}

// serverOf is the target of an experiment as package experiment takes it. The error is about an address.
func serverOf(e *config.Experiment, logger log.Logger) (load.Server, error) {
	target := wire.Target(*e.Target)
	s := load.Server{
		Target: target, Workload: target.Plans[0].Workload,
		Tool: "probetool " + buildVersion(), UserAgent: userAgent(), Logger: logger, Dial: prober.DefaultDial,
	}
	if e.Target.MetricsURL == "" {
		return s, nil
	}
	var err error
	s.Relay, err = wire.Relay(*e.Target, s.Dial)
	s.Relay.UserAgent = s.UserAgent
	return s, err
}

// userAgent names us to servers, so that their operators can tell us from users.
func userAgent() string { return "llm_prober/" + buildVersion() }

func buildVersion() string { return cmp.Or(version.Version, "devel") }
