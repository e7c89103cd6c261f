package goldenfile

import (
	"os"
	"path/filepath"
	"testing"
)

// recorder notes that a test failed instead of failing.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, step := range []struct {
		got    string
		update bool
		kept   string
		fails  bool
	}{
		{"first", true, "first", false},
		{"first", false, "first", false},
		{"second", false, "first", true},
		{"second", true, "second", false},
		{"", false, "second", true},
	} {
		r := &recorder{TB: t}
		Check(r, file, step.got, step.update)
		kept, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if r.failed != step.fails || string(kept) != step.kept {
			t.Errorf("%+v: failed %v, and the file holds %q", step, r.failed, kept)
		}
	}
}
