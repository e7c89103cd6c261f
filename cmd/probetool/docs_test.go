package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/sweep.md names every command and flag of sweep and simulate, and no other.
func TestDocsHaveEveryFlag(t *testing.T) {
	data, err := os.ReadFile("../../docs/sweep.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(data)
	app, commands := newApp(&strings.Builder{})
	var flags []string
	for _, parent := range app.Model().Commands {
		if parent.Name != "sweep" && parent.Name != "simulate" {
			continue
		}
		for _, cmd := range parent.Commands {
			if name := parent.Name + " " + cmd.Name; !strings.Contains(docs, "`"+name+"`") {
				t.Errorf("docs/sweep.md lacks the command %s", name)
			}
			for _, f := range cmd.Flags {
				flags = append(flags, f.Name)
				if !strings.Contains(docs, "`--"+f.Name+"`") {
					t.Errorf("docs/sweep.md lacks --%s of %s %s", f.Name, parent.Name, cmd.Name)
				}
			}
		}
	}
	for _, m := range regexp.MustCompile("`--([a-z-]+)`").FindAllStringSubmatch(docs, -1) {
		if m[1] != "help" && !slices.Contains(flags, m[1]) {
			t.Errorf("docs/sweep.md has --%s, which no command has", m[1])
		}
	}
	for _, m := range regexp.MustCompile("`((?:sweep|simulate) [a-z-]+)`").FindAllStringSubmatch(docs, -1) {
		if commands[m[1]] == nil {
			t.Errorf("docs/sweep.md has the command %s, which there is not", m[1])
		}
	}
}
