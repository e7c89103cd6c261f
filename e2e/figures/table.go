package figures

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Table is a Markdown table.
type Table struct{ strings.Builder }

// Header writes the first row.
func (t *Table) Header(cells ...string) {
	t.Row(cells...)
	t.Row(slices.Repeat([]string{"---"}, len(cells))...)
}

// Row writes one more.
func (t *Table) Row(cells ...string) {
	t.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

// Insert replaces what stands in a document between <!-- name --> and the next <!-- end -->.
func Insert(file, name, text string) error {
	document, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	begin, end := []byte("<!-- "+name+" -->\n"), []byte("<!-- end -->")
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
