//go:build unix

package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever the file: no panic; what is refused is refused with lines inside the file; what is accepted can be
// shown and, shown, is accepted again.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(secrets))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := boundedParse(t, data)
		if err != nil {
			checkRefusal(t, err)
			return
		}
		c.Warnings()
		page, err := c.Redacted()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("config.yml", page)
		if err != nil {
			t.Fatalf("the page is refused: %v\n%s", err, page)
		}
		if len(again.Targets) != len(c.Targets) || !cmp.Equal(again.SLOs, c.SLOs, comparer) {
			t.Errorf("the page is another configuration:\n%s", page)
		}
	})
}

// checkRefusal holds an error to what is told of a file: each problem is one line with its place.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var problems Errors
	if !errors.As(err, &problems) || len(problems) == 0 {
		t.Fatalf("%T: %v", err, err)
	}
	for _, p := range problems {
		if p.Line < 1 || p.Msg == "" || strings.ContainsAny(p.String(), "\n\r") {
			t.Errorf("%+v", p)
		}
	}
}
