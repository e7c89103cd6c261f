package main

import (
	"flag"
	"testing"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
)

var update = flag.Bool("update", false, "write golden files and docs/faults.md anew")

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	goldenfile.Check(t, file, got, *update)
}
