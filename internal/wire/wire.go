// Package wire translates a configuration for those who act on it. The configuration, the prober and the
// collector know nothing of each other.
package wire

import (
	"fmt"
	"net/url"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/histogram"
	"github.com/llm-prober/llm_prober/internal/relay"
	"github.com/llm-prober/llm_prober/prober"
)

// Target is a target as the prober takes it.
func Target(t config.Target) prober.Target {
	p := prober.Target{
		Name: t.Name, URL: t.URL, APIPath: t.APIPath, Host: t.Host, Model: t.Model, Warmup: t.Warmup,
		IPFamily: prober.IPFamily(t.IPFamily), HTTP: t.HTTPClientConfig,
	}
	for _, plan := range t.Plans {
		w := plan.Workload
		p.Plans = append(p.Plans, prober.Plan{
			Workload: prober.Workload{
				Name: w.Name, API: prober.API(w.API), PromptTokens: w.PromptTokens, OutputTokens: w.OutputTokens,
				Seed: w.Seed, Temperature: w.Temperature,
				MaxTokensField: w.MaxTokensField, DropFields: w.DropFields, ExtraBody: w.ExtraBody,
			},
			Interval: plan.Interval, Arrival: prober.Arrival(plan.Arrival),
			Timeout: plan.Timeout, StallTimeout: plan.StallTimeout, MaxInFlight: plan.MaxInFlight,
		})
	}
	return p
}

// Relay is a target as the relay takes it: its addresses and how it is reached. The error is about an address.
func Relay(t config.Target, dial prober.DialFunc) (relay.Config, error) {
	c := relay.Config{
		URL: t.URL, APIPath: t.APIPath, Host: t.Host, Engine: relay.Engine(t.Engine), Model: t.Model, Interval: t.RelayInterval, Histograms: histogram.Kind(t.Histograms),
		HTTP: t.HTTPClientConfig, Dial: prober.IPFamily(t.IPFamily).Dial(dial),
	}
	var err error // what nobody named, the relay asks for only where it knows the engine
	if t.HealthNamed {
		if c.HealthURL, err = url.Parse(t.HealthURL); err != nil {
			return c, fmt.Errorf("health_url: %w", err)
		}
	}
	if t.MetricsNamed {
		if c.MetricsURL, err = url.Parse(t.MetricsURL); err != nil {
			return c, fmt.Errorf("metrics_url: %w", err)
		}
	}
	return c, nil
}

// Workloads lists a target's workloads as the collector takes them.
func Workloads(t *prober.Target) []collector.WorkloadConfig {
	workloads := make([]collector.WorkloadConfig, len(t.Plans))
	for i := range t.Plans {
		workloads[i] = collector.WorkloadConfig{Workload: &t.Plans[i].Workload, Interval: t.Plans[i].Interval, Model: t.Model}
	}
	return workloads
}

// SLOs lists the SLOs of a configuration that cover a target, as the collector takes them.
func SLOs(all []config.SLO, t config.Target) []collector.SLO {
	var slos []collector.SLO
	for _, s := range all {
		var covered []string
		for _, plan := range t.Plans {
			if s.Covers(&t, plan.Workload.Name) {
				covered = append(covered, plan.Workload.Name)
			}
		}
		if covered != nil {
			slos = append(slos, collector.SLO{
				Name: s.Name, Indicator: collector.Indicator(s.Indicator),
				Threshold: s.Threshold, Objective: s.Objective, Workloads: covered,
			})
		}
	}
	return slos
}
