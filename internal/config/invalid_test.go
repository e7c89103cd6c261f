package config

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/goldenfile"
)

var update = flag.Bool("update", false, "write the golden files, to be reviewed by hand")

// Each testdata/invalid-RULE.yml breaks one rule; the file .err beside it is what a user reads.
func TestInvalidFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid-*.yml")
	if err != nil || len(files) < 100 {
		t.Fatalf("found %d files, %v", len(files), err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yml"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse("config.yml", data)
			if err == nil {
				t.Fatal("Parse accepts the file")
			}
			got := err.Error() + "\n"
			if strings.Contains(got, "SEC") || strings.Contains(got, "RET") {
				t.Errorf("a secret is shown:\n%s", got)
			}
			golden := strings.TrimSuffix(path, ".yml") + ".err"
			goldenfile.Check(t, golden, got, *update)
		})
	}
}

func TestTenMistakesAreToldAtOnce(t *testing.T) {
	_, err := Load("testdata/invalid-ten-mistakes.yml")
	var problems Errors
	if !errors.As(err, &problems) {
		t.Fatalf("error %T: %v", err, err)
	}
	var lines []int
	for _, p := range problems {
		lines = append(lines, p.Line)
	}
	if diff := cmp.Diff([]int{2, 5, 6, 7, 10, 11, 13, 14, 16, 20}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s\n%v", diff, err)
	}
}

func TestUnreadableFilesNamePathAndReason(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked.yml")
	if err := os.WriteFile(locked, nil, 0); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path string
		is         error
		text       string
	}{
		{"missing", filepath.Join(dir, "nope.yml"), fs.ErrNotExist, "nope.yml: no such file or directory"},
		{"a folder", dir, nil, dir + ": is a directory"},
		{"no permission", locked, fs.ErrPermission, "locked.yml: permission denied"},
		{"too large", "/dev/zero", nil, "/dev/zero is larger than 4 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.path == locked && os.Geteuid() == 0 {
				t.Skip("root may read everything")
			}
			_, err := Load(tt.path)
			if err == nil || !strings.Contains(err.Error(), tt.text) || (tt.is != nil && !errors.Is(err, tt.is)) {
				t.Errorf("Load = %v, want %q", err, tt.text)
			}
		})
	}
}
