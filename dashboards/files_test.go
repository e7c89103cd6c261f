package dashboards_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/dashboards"
)

// TestFilesAreInStep holds the committed files against the code that writes them.
func TestFilesAreInStep(t *testing.T) {
	files, err := dashboards.Files()
	if err != nil {
		t.Fatal(err)
	}
	committed, err := filepath.Glob("*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) != len(files) {
		t.Errorf("committed are %v, written are %d files", committed, len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not what the code writes; go run ./generate (-code +file):\n%s", name, diff)
		}
	}
}

// The parts of a dashboard's JSON that the tests look at, decoded without the library that wrote them.
type (
	board struct {
		file string
		raw  []byte

		UID           string
		Title         string
		Description   string
		Tags          []string
		Editable      *bool
		SchemaVersion int
		Panels        []panel
		Links         []struct {
			Type                  string
			Tags                  []string
			IncludeVars, KeepTime bool
		}
		Templating  struct{ List []variable }
		Annotations struct{ List []annotation }
	}
	panel struct {
		ID          int
		Type        string
		Title       string
		Description string
		Datasource  *datasource
		GridPos     struct{ X, Y, W, H int }
		Targets     []target
		FieldConfig struct {
			Defaults  struct{ Unit string }
			Overrides []struct {
				Matcher    struct{ ID, Options string }
				Properties []struct{ ID string }
			}
		}
		Transformations []struct {
			ID      string
			Options struct{ RenameByName, ExcludeByName map[string]any }
		}
	}
	target struct {
		RefID        string
		Expr         string
		LegendFormat string
		Format       string
		Instant      bool
		Datasource   *datasource
	}
	variable struct {
		Name, Type, Label, Query, Definition, AllValue string
		IncludeAll, Multi                              bool
		Refresh                                        int
		Datasource                                     *datasource
		Options                                        []struct {
			Value    string
			Selected bool
		}
	}
	annotation struct {
		Name, Expr, TextFormat string
		Datasource             *datasource
	}
	datasource struct{ Type, UID string }
)

// boards reads the committed files.
func boards(t *testing.T) []board {
	t.Helper()
	paths, err := filepath.Glob("*.json")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no dashboards here: %v", err)
	}
	var all []board
	for _, path := range paths {
		b := board{file: path}
		if b.raw, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b.raw, &b); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, b)
	}
	return all
}

// charts are the panels that are no headings.
func (b board) charts() []panel {
	var all []panel
	for _, p := range b.Panels {
		if p.Type != "row" {
			all = append(all, p)
		}
	}
	return all
}
