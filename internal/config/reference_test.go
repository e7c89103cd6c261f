package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docLine is how the reference writes a key: [ interval: <duration> | default = 15s ].
var docLine = regexp.MustCompile(`^(\[ )?([a-z_0-9]+): (.*?)(?: \| default = (.*?))?( \])?(?: +# .*)?$`)

// documented returns the keys that a reference gives for each of its sections.
func documented(t *testing.T, file string) (string, map[string][]keyDoc) {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + file)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]keyDoc)
	section, inside := "", false
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "## "), strings.HasPrefix(line, "### "):
			section = strings.Trim(line, "#` <>")
		case strings.HasPrefix(line, "```"):
			inside = line == "```yml"
		case inside:
			if m := docLine.FindStringSubmatch(line); m != nil && m[3] != "" {
				out[section] = append(out[section], keyDoc{m[2], m[3], m[4], m[1] == ""})
			}
		}
	}
	return string(data), out
}

func TestReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	_, docs := documented(t, "configuration.md")
	headings := map[string]string{"the top level": "The file", "workloads": "workload", "targets": "target", "slos": "slo"}
	for _, s := range newSchema(false).sections() {
		t.Run(s.name, func(t *testing.T) {
			heading := s.name
			if h, ok := headings[s.name]; ok {
				heading = h
			}
			got := docs[heading]
			if s.name == "http_client_config" { // another project's: names only
				for i := range got {
					got[i] = keyDoc{key: got[i].key}
				}
				for _, list := range [][]keyDoc{got, s.keys} {
					slices.SortFunc(list, func(a, b keyDoc) int { return strings.Compare(a.key, b.key) })
				}
			}
			if diff := cmp.Diff(s.keys, got, cmp.AllowUnexported(keyDoc{})); diff != "" {
				t.Errorf("docs/configuration.md (-code +docs):\n%s", diff)
			}
		})
	}
}

func TestSweepReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	_, docs := documented(t, "sweep.md")
	headings := map[string]string{"the top level": "The plan", "levels": "level"}
	for _, s := range newSchema(true).sections() {
		if s.name == "http_client_config" {
			continue // told in the reference of configurations
		}
		t.Run(s.name, func(t *testing.T) {
			heading := s.name
			if h, ok := headings[s.name]; ok {
				heading = h
			}
			if diff := cmp.Diff(s.keys, docs[heading], cmp.AllowUnexported(keyDoc{})); diff != "" {
				t.Errorf("docs/sweep.md (-code +docs):\n%s", diff)
			}
		})
	}
}

func TestReferenceHasEveryListInFull(t *testing.T) {
	text, _ := documented(t, "configuration.md")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\n# ", " "), "`", "")
	for name, list := range map[string][]string{
		"DroppableFields": DroppableFields(), "OwnedFields": OwnedFields(), "ReservedLabels": ReservedLabels(),
	} {
		if want := strings.Join(list, ", "); !strings.Contains(text, want) {
			t.Errorf("docs/configuration.md lacks %s in its order: %s", name, want)
		}
	}
}

func TestReferenceHasTheDefaultObjectives(t *testing.T) {
	text, _ := documented(t, "configuration.md")
	_, rest, _ := strings.Cut(text, "The default objectives are\n\n```yml\n")
	block, _, _ := strings.Cut(rest, "```")
	c := mustParse(t, "targets: []\n"+block)
	if diff := cmp.Diff(DefaultSLOs(), c.SLOs); diff != "" {
		t.Errorf("objectives (-code +docs):\n%s", diff)
	}
}
