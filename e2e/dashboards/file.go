package dashboards

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Dashboard is what one committed file holds, as far as expressions go.
type Dashboard struct {
	File        string                      `json:"file"` // its name without .json
	Title       string                      `json:"title"`
	Panels      []Panel                     `json:"panels"`
	Annotations struct{ List []Annotation } `json:"annotations"`
	Templating  struct{ List []Variable }   `json:"templating"`
}

// Panel is one panel, or a row's heading if its Type is "row".
type Panel struct {
	Title   string   `json:"title"`
	Type    string   `json:"type"`
	Targets []Target `json:"targets"`
	// Raw is the whole panel as it is in the file.
	Raw json.RawMessage `json:"-"`
}

// Target is one query of a panel.
type Target struct {
	RefID   string `json:"refId"`
	Expr    string `json:"expr"`
	Legend  string `json:"legendFormat"`
	Instant bool   `json:"instant"`
}

// Annotation is one query of events.
type Annotation struct {
	Name  string `json:"name"`
	Color string `json:"iconColor"`
	Expr  string `json:"expr"`
	// UseValueForTime tells that a value is the time of the event, in milliseconds.
	UseValueForTime bool `json:"useValueForTime"`
}

// Variable is one variable of a dashboard.
type Variable struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Query is an expression for a variable of the type query, a list of values for a custom one.
	Query string `json:"query"`
}

// UnmarshalJSON keeps the panel's text beside its decoded parts.
func (p *Panel) UnmarshalJSON(text []byte) error {
	type plain Panel
	if err := json.Unmarshal(text, (*plain)(p)); err != nil {
		return err
	}
	p.Raw = append(p.Raw[:0], text...)
	return nil
}

// Read reads every dashboard of a folder, in the order of their names.
func Read(folder string) ([]Dashboard, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no dashboards in %s", folder)
	}
	var all []Dashboard
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		d := Dashboard{}
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		d.File = strings.TrimSuffix(filepath.Base(path), ".json")
		all = append(all, d)
	}
	return all, nil
}

// Values are what the variables of a dashboard stand for, by name without the dollar sign.
type Values map[string]string

// All is what Grafana puts for variables of which everything is chosen, with the three windows given.
func All(window, rateInterval, timeRange string) Values {
	v := Values{"window": window, "__rate_interval": rateInterval, "__range": timeRange}
	for _, name := range []string{"job", "instance", "target", "workload", "slo"} {
		v[name] = ".+"
	}
	return v
}

// Fill puts the values into an expression, as Grafana does before it asks Prometheus.
func (v Values) Fill(expr string) string {
	return os.Expand(expr, func(name string) string {
		if value, ok := v[name]; ok {
			return value
		}
		return "$" + name
	})
}
