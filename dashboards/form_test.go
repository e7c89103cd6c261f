package dashboards_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestBoundToAnyDataSource: a dashboard works under any name of the data source, provisioned or imported by hand.
func TestBoundToAnyDataSource(t *testing.T) {
	for _, b := range boards(t) {
		for _, forbidden := range []string{"__inputs", "__requires", "${DS_"} {
			if strings.Contains(string(b.raw), forbidden) {
				t.Errorf("%s contains %s", b.file, forbidden)
			}
		}
		var whole any
		if err := json.Unmarshal(b.raw, &whole); err != nil {
			t.Fatal(err)
		}
		n := 0
		walk(whole, func(key string, value any) {
			if key != "datasource" {
				return
			}
			n++
			got, _ := value.(map[string]any)
			if got["uid"] != ours.UID || got["type"] != ours.Type {
				t.Errorf("%s: a data source is %v", b.file, value)
			}
		})
		// One each of panels, targets, annotations, and variables that ask.
		want := len(b.Annotations.List) + len(b.charts())
		for _, p := range b.charts() {
			want += len(p.Targets)
		}
		for _, v := range b.Templating.List {
			if v.Type == "query" {
				want++
			}
		}
		if n != want {
			t.Errorf("%s names a data source %d times, want %d", b.file, n, want)
		}
	}
}

// walk calls f for every key of every object in v.
func walk(v any, f func(key string, value any)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			f(key, value)
			walk(value, f)
		}
	case []any:
		for _, value := range v {
			walk(value, f)
		}
	}
}

// TestVariables: they list what our own metrics have, do not depend on an address that changes, and everything can be
// chosen at once.
func TestVariables(t *testing.T) {
	for _, b := range boards(t) {
		for _, v := range b.Templating.List {
			switch v.Type {
			case "query":
				if !strings.HasPrefix(v.Query, "label_values(llm_probe_") {
					t.Errorf("%s: %s lists the values of %s", b.file, v.Name, v.Query)
				}
				if strings.Contains(v.Query, "$instance") {
					t.Errorf("%s: %s depends on the instance: %s", b.file, v.Name, v.Query)
				}
				if !v.IncludeAll || v.AllValue != ".+" {
					t.Errorf("%s: %s has no All", b.file, v.Name)
				}
				if other := regexp.MustCompile(`(\w+)=~?"\$`+v.Name+`\b`).FindAllStringSubmatch(string(b.raw), -1); slices.ContainsFunc(other, func(m []string) bool { return m[1] != v.Name }) {
					t.Errorf("%s: $%s is matched against another label: %v", b.file, v.Name, other)
				}
			case "custom":
				if v.Name != "window" || v.Query != "15m,1h,6h,1d" || len(v.Options) != 4 || v.Options[1].Value != "1h" || !v.Options[1].Selected {
					t.Errorf("%s: the window is %+v", b.file, v)
				}
			}
		}
		if equal := regexp.MustCompile(`\w+=\\"\$\w+`).FindString(string(b.raw)); equal != "" {
			t.Errorf("%s: %s breaks when several are chosen", b.file, equal)
		}
	}
}

// TestForm: what a reader and a provisioner rely on.
func TestForm(t *testing.T) {
	uids := map[string]string{"fleet.json": "llm-prober-fleet", "target.json": "llm-prober-target", "slo.json": "llm-prober-slo", "prober.json": "llm-prober-prober"}
	for _, b := range boards(t) {
		if b.UID != uids[b.file] {
			t.Errorf("%s: its address is %q, want %q", b.file, b.UID, uids[b.file])
		}
		if b.SchemaVersion != 39 {
			t.Errorf("%s: schema %d, want 39, which Grafana 10 can load", b.file, b.SchemaVersion)
		}
		if len(b.Links) != 1 || b.Links[0].Type != "dashboards" || !b.Links[0].IncludeVars || !b.Links[0].KeepTime || !slices.Equal(b.Links[0].Tags, b.Tags) {
			t.Errorf("%s: links are %+v, want one to all of tags %v with variables and time", b.file, b.Links, b.Tags)
		}
		if strings.Contains(string(b.raw), "inControlsMenu") {
			t.Errorf("%s hides links or annotations in a menu", b.file)
		}
		for i, p := range b.Panels {
			if p.ID != i+1 {
				t.Errorf("%s: panel %d has the id %d", b.file, i+1, p.ID)
			}
			if !strings.HasSuffix(p.Title, "?") && p.Type != "row" {
				what, good, _ := strings.Cut(p.Description, "\n\n**Good:** ")
				if len(what) < 20 || good == "" || !strings.HasSuffix(good, ".") {
					t.Errorf("%s, %s: the description does not say what is shown and what is good: %q", b.file, p.Title, p.Description)
				}
			}
		}
		grid(t, b)
	}
}

// grid holds that panels fill every line of 24 columns and do not overlap.
func grid(t *testing.T, b board) {
	t.Helper()
	taken := map[[2]int]string{}
	bottom := 0
	for _, p := range b.Panels {
		g := p.GridPos
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s: %q lies over %q", b.file, p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		bottom = max(bottom, g.Y+g.H)
	}
	if want := 24 * bottom; len(taken) != want {
		t.Errorf("%s: panels cover %d of %d cells", b.file, len(taken), want)
	}
}
