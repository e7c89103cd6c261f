// Package collector turns what probes tell into Prometheus metrics.
//
// A [Target] owns one registry and observes the probes of one server; [Targets] gathers all of them as one. What
// the exporter tells of itself is [Self]. The words used here are those of docs/definitions.md; every metric is
// listed in docs/metrics.md, which a test holds against the code.
//
// The package knows nothing of HTTP streams, configuration files or schedules.
package collector
