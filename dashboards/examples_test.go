package dashboards_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestExamples holds the files under examples/ that start Grafana against each other: every folder that a container
// is given exists, and Grafana looks for the dashboards where they are put.
func TestExamples(t *testing.T) {
	const folder = "../examples"
	var compose struct {
		Services map[string]struct {
			Volumes     []string
			Environment map[string]string
			Ports       []string
		}
		Volumes map[string]any
	}
	decode(t, filepath.Join(folder, "compose.yaml"), &compose)
	var at string // where Grafana's container has the dashboards
	for name, service := range compose.Services {
		for _, volume := range service.Volumes {
			parts := strings.Split(volume, ":")
			if _, named := compose.Volumes[parts[0]]; named {
				continue
			}
			if _, err := os.Stat(filepath.Join(folder, parts[0])); err != nil {
				t.Errorf("the service %s mounts what is not there: %v", name, err)
			}
			if len(parts) != 3 || parts[2] != "ro" {
				t.Errorf("the service %s may write to %s", name, parts[0])
			}
			if name == "grafana" && parts[0] == "../dashboards" {
				at = parts[1]
			}
		}
	}

	var dashboards struct {
		Providers []struct{ Options struct{ Path string } }
	}
	decode(t, filepath.Join(folder, "grafana/provisioning/dashboards/llm_prober.yml"), &dashboards)
	if got := dashboards.Providers[0].Options.Path; got != at {
		t.Errorf("Grafana reads dashboards in %q, they are in %q", got, at)
	}
	if got, want := compose.Services["grafana"].Environment["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"], at+"/fleet.json"; got != want {
		t.Errorf("Grafana opens %q, want %q", got, want)
	}

	var sources struct {
		Datasources []struct{ Type, URL string }
	}
	decode(t, filepath.Join(folder, "grafana/provisioning/datasources/prometheus.yml"), &sources)
	if got := sources.Datasources[0]; got.Type != "prometheus" || got.URL != "http://127.0.0.1:9090" {
		t.Errorf("the data source is %+v", got)
	}
	if ports := compose.Services["prober"].Ports; !slices.Contains(ports, "127.0.0.1:9090:9090") {
		t.Errorf("the network that all share shows %v, not the port of the data source", ports)
	}
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
