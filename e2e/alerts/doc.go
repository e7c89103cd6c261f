// Package alerts holds the shipped rules against promtool, a real Prometheus and a real Alertmanager: their form and
// their unit tests, a simulated month, and faults of simulated servers with all three running. It has tests only.
//
// The tools are what e2e/tools.sh builds.
package alerts
