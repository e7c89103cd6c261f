package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// keyDoc is what the reference says of one key.
type keyDoc struct {
	key, kind, def string
	required       bool
}

// docs returns what the reference says of each key of a section.
func docs(s *schema, section any) (out []keyDoc) {
	v := Defaults()
	switch p := section.(type) {
	case *Global:
		*p = v.Global
	case defaulter:
		p.setDefaults(&v)
	}
	value := reflect.ValueOf(section).Elem()
	for _, f := range s.shape(value.Type()).fields {
		k := keyDoc{f.key, f.doc, f.def, f.required}
		if f.kind != "" {
			k.kind = s.kinds[f.kind].doc
			if n := s.write(value.FieldByIndex(f.index), &f); f.def == "" && !f.required && !f.omitEmpty && n.Kind == yaml.ScalarNode {
				k.def = n.Value
			}
		}
		out = append(out, k)
	}
	return out
}

// docLine is how the reference writes a key: [ interval: <duration> | default = 15s ].
var docLine = regexp.MustCompile(`^(\[ )?([a-z_0-9]+): (.*?)(?: \| default = (.*?))?( \])?(?: +# .*)?$`)

// readReference returns the keys that a reference gives for each of its sections.
func readReference(t *testing.T, file string) (string, map[string][]keyDoc) {
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
	_, documented := readReference(t, "configuration.md")
	headings := map[string]string{"the top level": "The file", "workloads": "workload", "targets": "target", "target_groups": "target_group", "slos": "slo"}
	code := newSchema(false)
	for _, s := range code.sections() {
		t.Run(s.name, func(t *testing.T) {
			heading := s.name
			if h, ok := headings[s.name]; ok {
				heading = h
			}
			want, got := docs(code, s.typ), documented[heading]
			if s.name == "http_client_config" { // another project's: names only
				for i := range got {
					got[i] = keyDoc{key: got[i].key}
				}
				for _, list := range [][]keyDoc{got, want} {
					slices.SortFunc(list, func(a, b keyDoc) int { return strings.Compare(a.key, b.key) })
				}
			}
			if s.name == "target_groups" { // what it has of a target is told there
				inherited := docs(code, &targetKeys{})
				want = slices.DeleteFunc(want, func(k keyDoc) bool { return slices.Contains(inherited, k) })
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(keyDoc{})); diff != "" {
				t.Errorf("docs/configuration.md (-code +docs):\n%s", diff)
			}
		})
	}
}

func TestSweepReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	_, documented := readReference(t, "sweep.md")
	headings := map[string]string{"the top level": "The plan", "levels": "level"}
	code := newSchema(true)
	for _, s := range code.sections() {
		if s.name == "http_client_config" {
			continue // told in the reference of configurations
		}
		t.Run(s.name, func(t *testing.T) {
			heading := s.name
			if h, ok := headings[s.name]; ok {
				heading = h
			}
			if diff := cmp.Diff(docs(code, s.typ), documented[heading], cmp.AllowUnexported(keyDoc{})); diff != "" {
				t.Errorf("docs/sweep.md (-code +docs):\n%s", diff)
			}
		})
	}
}

func TestReferenceHasEveryListInFull(t *testing.T) {
	text, _ := readReference(t, "configuration.md")
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
	text, _ := readReference(t, "configuration.md")
	_, rest, _ := strings.Cut(text, "The default objectives are\n\n```yml\n")
	block, _, _ := strings.Cut(rest, "```")
	c := mustParse(t, "targets: []\n"+block)
	if diff := cmp.Diff(DefaultSLOs(), c.SLOs); diff != "" {
		t.Errorf("objectives (-code +docs):\n%s", diff)
	}
}
