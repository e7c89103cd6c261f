//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// figuresFile holds what was made of a run, in the run's own directory.
const figuresFile = "figures.json"

// once does a run and keeps its figures, or takes those of a run that was done before.
func once[F any](o options, c client, l load, round int, do func(dir string) (F, error)) (figures F, err error) {
	name := strings.NewReplacer(" ", "-", "=", "", "/", "-").Replace(fmt.Sprintf("%s %s %d", l.name(), c.Name, round+1))
	dir := filepath.Join(o.dir, name)
	if data, err := os.ReadFile(filepath.Join(dir, figuresFile)); err == nil {
		return figures, json.Unmarshal(data, &figures)
	}
	if err := os.RemoveAll(dir); err != nil { // what an interrupted run has left
		return figures, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return figures, err
	}
	fmt.Fprintf(os.Stderr, "%s, %s, round %d\n", l.name(), c.Name, round+1)
	if figures, err = do(dir); err != nil {
		return figures, fmt.Errorf("%s, %s: %w", l.name(), c.Name, err)
	}
	data, err := json.MarshalIndent(figures, "", " ")
	if err != nil {
		return figures, fmt.Errorf("%s, %s: %w", l.name(), c.Name, err)
	}
	return figures, os.WriteFile(filepath.Join(dir, figuresFile), data, 0o644)
}
