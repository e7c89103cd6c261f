// Package goldenfile holds what a test has got against a file that was looked at when it was written.
package goldenfile

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Check fails the test, and shows what differs, unless the file holds just what was got. With update, which tests take
// from their flag of that name, it writes the file first.
func Check(t testing.TB, file, got string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs; go test -run %s -update writes it anew (-want +got):\n%s", file, t.Name(), diff)
	}
}
