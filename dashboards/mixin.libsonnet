// The dashboards, alerts and records as a mixin, for those who deploy with jsonnet:
//
//   local llm_prober = import 'github.com/llm-prober/llm_prober/dashboards/mixin.libsonnet';
//
// It imports the files as they are. There is nothing to configure: the job, the data source and the windows are
// variables of the dashboards; objectives and thresholds are read from the prober's own metrics.
{
  grafanaDashboardFolder: 'LLM prober',
  grafanaDashboards+:: {
    'llm-prober-fleet.json': import 'fleet.json',
    'llm-prober-target.json': import 'target.json',
    'llm-prober-slo.json': import 'slo.json',
    'llm-prober-prober.json': import 'prober.json',
  },
  prometheusAlerts+:: std.parseYaml(importstr '../alerts/llm_prober_alerts.yml'),
  prometheusRules+:: std.parseYaml(importstr '../alerts/llm_prober_records.yml'),
}
