package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A results directory may have been made by somebody else, or lie where others can write. So nothing in it is
// followed: what is written replaces a name and never the file that a link of this name leads to, and what is read is
// a regular file.

// ErrExists is the error of a results directory that holds something already.
var ErrExists = errors.New("it exists already and is not empty; results are never overwritten")

// MakeDir makes a results directory, or takes an empty one. The error is [ErrExists] if there is something in it.
func MakeDir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("making the results directory: %w", err)
	}
	err := os.Mkdir(dir, 0o755)
	if !errors.Is(err, os.ErrExist) {
		if err != nil {
			return fmt.Errorf("making the results directory: %w", err)
		}
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("looking into the results directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("results directory %s: %w", dir, ErrExists)
	}
	return nil
}

// maxSameName bounds the results directories that one name and one second can have.
const maxSameName = 1000

// MakeFreeDir makes a directory below out, named after the run and its time, that was not there.
func MakeFreeDir(out, name string, at time.Time) (dir string, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("making the results directory: %w", err)
	}
	base := filepath.Join(out, name+"-"+at.Format("20060102-150405"))
	dir = base
	for n := 2; n <= maxSameName; n++ {
		if err = os.Mkdir(dir, 0o755); !errors.Is(err, os.ErrExist) {
			break
		}
		dir = fmt.Sprintf("%s-%d", base, n)
	}
	if err != nil {
		return "", fmt.Errorf("making the results directory: %w", err)
	}
	return dir, nil
}

// within does something in a results directory. The error names the directory.
func within(dir string, do func(root *os.Root) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return inDir(dir, do(root))
}

// inDir names the directory in an error about a file of it.
func inDir(dir string, err error) error {
	var of *fs.PathError
	if errors.As(err, &of) && !filepath.IsAbs(of.Path) && filepath.Dir(of.Path) == "." {
		return &fs.PathError{Op: of.Op, Path: filepath.Join(dir, of.Path), Err: of.Err}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// WriteFile writes a whole file into a results directory. One that was there before stays until the new one is whole.
// A link of that name is replaced; the file that it leads to is not touched.
func WriteFile(dir, name string, data []byte) error { return replace(dir, name, data, createFile) }

func replace(dir, name string, data []byte, create func(dir *os.Root, name string) (file, error)) error {
	part := name + ".part"
	err := within(dir, func(root *os.Root) error {
		err := writeAll(root, part, data, create)
		if err == nil {
			err = root.Rename(part, name)
		}
		if err != nil {
			_ = root.Remove(part) // it may not even be there
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("writing the results: %w", err)
	}
	return nil
}

func writeAll(dir *os.Root, name string, data []byte, create func(dir *os.Root, name string) (file, error)) error {
	f, err := create(dir, name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// createFile makes a file anew. What an earlier process left there when it was killed, or a link that somebody else
// put there, is removed first.
func createFile(dir *os.Root, name string) (file, error) {
	if err := dir.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

// openFile opens a regular file to be read. Anything else is an error: a link may lead anywhere, and a pipe or a
// device may never end.
func openFile(dir *os.Root, name string) (*os.File, error) {
	listed, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !listed.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fmt.Errorf("%s, not a regular file", kindOf(listed.Mode()))}
	}
	// It may have become a pipe since, and opening a pipe waits for its other end.
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(listed, opened) {
		err = &fs.PathError{Op: "open", Path: name, Err: errors.New("it was replaced meanwhile")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// kindOf names what is in the place of a regular file.
func kindOf(mode fs.FileMode) string {
	for _, kind := range []struct {
		is   fs.FileMode
		name string
	}{
		{fs.ModeSymlink, "a symbolic link"},
		{fs.ModeDir, "a directory"},
		{fs.ModeNamedPipe, "a named pipe"},
		{fs.ModeSocket, "a socket"},
		{fs.ModeDevice, "a device"},
	} {
		if mode&kind.is != 0 {
			return kind.name
		}
	}
	return "something else"
}
