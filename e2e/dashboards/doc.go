// Package dashboards evaluates the expressions of the committed dashboards in a real Prometheus: its tests let one
// scrape probers of simulated servers, and its command record keeps what the panels would show, for pictures.
//
// Prometheus is what e2e/tools.sh builds.
package dashboards
