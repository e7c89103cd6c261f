package main

import (
	"fmt"
	"hash/fnv"
	"os"
	"time"

	"github.com/go-kit/log"
	"github.com/prometheus/common/version"

	"github.com/llm-prober/llm_prober/collector"
	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/relay"
	"github.com/llm-prober/llm_prober/internal/web"
	"github.com/llm-prober/llm_prober/internal/wire"
	"github.com/llm-prober/llm_prober/prober"
)

// relayConfig is a target as the relay takes it.
func relayConfig(t config.Target, u *runningTarget, o prober.Options) (relay.Config, error) {
	c, err := wire.Relay(t, o.Dial)
	c.Registerer, c.ConstLabels, c.Logger = u.metrics.Registerer(), u.metrics.Labels(), log.With(o.Logger, "target", t.Name)
	c.UserAgent, c.OnRestart = o.UserAgent, u.runner.WarmUp
	return c, err
}

// shown is a target as the status page takes it.
func shown(cfg *config.Config, u *runningTarget) web.Target {
	limit := web.DefaultSilenceLimit
	for _, s := range wire.SLOs(cfg.SLOs, u.target) {
		if s.Indicator == collector.IndicatorTTFT {
			limit = max(limit, s.Threshold)
		}
	}
	shown := web.Target{Target: &u.probed, Labels: u.target.Labels, Group: u.target.Group, SilenceLimit: limit}
	for _, v := range u.metrics.Verdicts() {
		shown.SLOs = append(shown.SLOs, web.SLO{
			Workload: v.Workload, Name: v.Name, Indicator: string(v.Indicator),
			Threshold: v.Threshold, Objective: v.Objective, Events: v.Events, Bad: v.Bad,
		})
	}
	return shown
}

// serverOf is what the relay knows of a server, as the status page takes it.
func serverOf(u *runningTarget) (s web.Server, known bool) {
	if u.relay == nil {
		return s, false
	}
	last := u.relay.Last()
	s = web.Server{
		Up: last.Up, Error: last.Err, Engine: string(last.EngineType), Version: last.Version,
		Running: last.Running, Waiting: last.Waiting, KVCache: last.KVUsage,
		Healthy: web.Unhealthy, LastScrape: last.SampledAt, LastChange: last.LastChange,
	}
	if last.Healthy {
		s.Healthy = web.Healthy
	}
	return s, !last.SampledAt.IsZero() || last.Err != ""
}

// userAgent names us to servers, so that their operators can tell probes from users.
func userAgent() string { return "llm_prober/" + buildVersion() }

func buildVersion() string {
	if version.Version == "" {
		return "devel" // not built by the Makefile
	}
	return version.Version
}

// replicaSeed tells replicas apart, the same way after every restart.
func replicaSeed(addresses []string) uint64 {
	host, err := os.Hostname()
	if err != nil {
		host = fmt.Sprint(time.Now().UnixNano()) // a phase of its own matters more than the same one
	}
	h := fnv.New64a()
	fmt.Fprint(h, host, addresses)
	return h.Sum64()
}
