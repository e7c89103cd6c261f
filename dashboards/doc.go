// Package dashboards describes the Grafana dashboards of llm_prober. The JSON files beside it are written by
//
//	go run ./generate
//
// and committed, so that nobody needs Go to use them. A test holds them against this code.
//
// There are four: fleet.json (one row a target), target.json (what is slow and where the time goes), slo.json (error
// budgets) and prober.json (does the instrument measure itself well). All work with classic and with native
// histograms, with any Prometheus data source, and with Prometheus 2.53 and later.
package dashboards
