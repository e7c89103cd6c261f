//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// table is a Markdown table.
type table struct{ strings.Builder }

func (t *table) header(cells ...string) {
	t.row(cells...)
	t.row(slices.Repeat([]string{"---"}, len(cells))...)
}

func (t *table) row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// insert replaces what stands between the markers of one part of a document.
func insert(file, name, text string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	begin, end := []byte("<!-- compare:"+name+" -->\n"), []byte("<!-- end -->")
	head, rest, found := bytes.Cut(document, begin)
	if !found {
		return fmt.Errorf("%s has no marker %q", file, begin)
	}
	_, tail, found := bytes.Cut(rest, end)
	if !found {
		return fmt.Errorf("%s: no %q after %q", file, end, begin)
	}
	document = slices.Concat(head, begin, []byte(strings.TrimSpace(text)+"\n"), end, tail)
	if err := os.WriteFile(file, document, 0o644); err != nil {
		return fmt.Errorf("writing the document: %w", err)
	}
	return nil
}
