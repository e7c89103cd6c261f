// Command packaging builds a release of llm_prober: archives, deb and rpm packages, an image, and their checksums. The
// same commit and the same Go give the same bytes: all times are that of the commit, or SOURCE_DATE_EPOCH.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	out := flag.String("out", "dist", "folder for the release, relative to the repository")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "packaging:", err)
		os.Exit(1)
	}
}

// run is started in this module's folder and works in the repository, which all paths are relative to.
func run(out string) error {
	if err := os.Chdir(".."); err != nil {
		return err
	}
	c, err := headCommit()
	if err != nil {
		return err
	}
	binaries, err := os.MkdirTemp("", "llm_prober-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries)
	for _, p := range platforms {
		if err := build(c, p, p.folder(binaries)); err != nil {
			return err
		}
	}
	return pack(c, binaries, out)
}

// platform is what binaries are built for, in Go's words.
type platform struct{ os, arch string }

var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

// folder of the binaries of a platform.
func (p platform) folder(binaries string) string { return filepath.Join(binaries, p.os+"-"+p.arch) }

// pack makes everything that users get out of the binaries.
func pack(c commit, binaries, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	r := &release{commit: c, out: out}
	for _, p := range platforms {
		if err := r.archive(p, p.folder(binaries)); err != nil {
			return err
		}
		if p.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(format, p.arch, p.folder(binaries)); err != nil {
				return fmt.Errorf("%s for %s: %w", format, p.arch, err)
			}
		}
	}
	if err := r.image(binaries); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	return r.checksums()
}

// release is a folder that fills.
type release struct {
	commit
	out  string
	sums []string // a line a file, as sha256sum writes it
}

// commit is what a release is of.
type commit struct {
	version  string // as Semantic Versioning 2.0 has it
	revision string
	at       time.Time
}

// write makes one file of the release.
func (r *release) write(name string, fill func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(r.out, name))
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if err := fill(io.MultiWriter(f, sum)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.sums = append(r.sums, fmt.Sprintf("%x  %s\n", sum.Sum(nil), name))
	return f.Close()
}

func (r *release) checksums() error {
	slices.SortFunc(r.sums, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(filepath.Join(r.out, "sha256sums.txt"), []byte(strings.Join(r.sums, "")), 0o644)
}
