//go:build unix

package experiment

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file of a results directory is written without touching what its name, or that of its unfinished form, leads to.
func TestWriteFileFollowsNothing(t *testing.T) {
	const theirs = "theirs"
	for _, place := range []string{"report.html", "report.html.part"} {
		for _, c := range []struct {
			name string
			put  func(user, at string) error
			err  string // "" if the name is replaced
		}{
			{"nothing", func(_, _ string) error { return nil }, ""},
			{"a file", func(_, at string) error { return os.WriteFile(at, []byte("old"), 0o644) }, ""},
			{"a link", os.Symlink, ""},
			{"a link beside it", func(_, at string) error {
				return errors.Join(os.WriteFile(filepath.Join(filepath.Dir(at), "beside"), []byte(theirs), 0o644), os.Symlink("beside", at))
			}, ""},
			{"a hard link", os.Link, ""},
			{"a link to nothing", func(_, at string) error { return os.Symlink("nowhere", at) }, ""},
			{"a loop", func(_, at string) error { return os.Symlink(filepath.Base(at), at) }, ""},
			{"a pipe", func(_, at string) error { return syscall.Mkfifo(at, 0o600) }, ""},
			{"a link to a device", func(_, at string) error { return os.Symlink("/dev/null", at) }, ""},
			{"a full directory", func(_, at string) error { return os.MkdirAll(filepath.Join(at, "x"), 0o755) }, place + ": "},
		} {
			t.Run(place+" is "+c.name, func(t *testing.T) {
				dir, user := t.TempDir(), filepath.Join(t.TempDir(), "user")
				if err := errors.Join(os.WriteFile(user, []byte(theirs), 0o600), c.put(user, filepath.Join(dir, place))); err != nil {
					t.Fatal(err)
				}
				err := WriteFile(dir, "report.html", []byte("new"))
				if c.err != "" {
					if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "report.html")) && !strings.Contains(err.Error(), dir+": ") {
						t.Errorf("error %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(filepath.Join(dir, "report.html")); string(got) != "new" {
					t.Errorf("report.html is %q (%v)", got, err)
				}
				for _, file := range []string{user, filepath.Join(dir, "beside")} {
					if got, err := os.ReadFile(file); string(got) != theirs && !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s is %q (%v)", file, got, err)
					}
				}
				if _, err := os.Lstat(filepath.Join(dir, "report.html.part")); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("report.html.part: %v", err)
				}
			})
		}
	}
}

// Only regular files of a results directory are read: a link may lead anywhere, a pipe never ends.
func TestReadFollowsNothing(t *testing.T) {
	for _, file := range []string{RunFile, RequestsFile, QueueFile} {
		for _, c := range []struct {
			name string
			put  func(moved, at string) error
			err  string
		}{
			{"a link", os.Symlink, "a symbolic link, not a regular file"},
			{"a loop", func(_, at string) error { return os.Symlink(at, at) }, "a symbolic link, not a regular file"},
			{"a directory", func(_, at string) error { return os.Mkdir(at, 0o755) }, "a directory, not a regular file"},
			{"a pipe", func(_, at string) error { return syscall.Mkfifo(at, 0o600) }, "a named pipe, not a regular file"},
		} {
			t.Run(file+" is "+c.name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "run")
				keepAll(mustStore(t, dir), storedRun())
				at, moved := filepath.Join(dir, file), filepath.Join(t.TempDir(), "moved")
				if err := errors.Join(os.Rename(at, moved), c.put(moved, at)); err != nil {
					t.Fatal(err)
				}
				if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), at) || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want the path and %q", err, c.err)
				}
			})
		}
	}
}
