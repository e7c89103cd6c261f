package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// programs are what is built, and beside is what archives have beside them: the README's links lead to it.
var (
	programs = []string{"llm_prober", "probetool"}
	beside   = []string{"LICENSE", "README.md", "CHANGELOG.md", "examples/llm_prober.yml", "alerts/*.yml", "dashboards/*.json"}
)

// archive writes the tar.gz of a platform.
func (r *release) archive(p platform, folder string) error {
	name := "llm_prober-" + r.version + "." + p.os + "-" + p.arch
	var entries []entry
	for _, program := range programs {
		entries = append(entries, entry{name: path.Join(name, program), file: filepath.Join(folder, program), mode: 0o755})
	}
	for _, pattern := range beside {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, file := range files {
			entries = append(entries, entry{name: path.Join(name, file), file: file, mode: 0o644})
		}
	}
	return r.write(name+".tar.gz", func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		if err := writeTar(z, r.at, entries); err != nil {
			return err
		}
		return z.Close()
	})
}

// entry of a tar archive: a folder if its name ends with a slash; else the content of a file, or the given one.
type entry struct {
	name    string
	mode    int64
	file    string
	content []byte
}

// writeTar writes entries in their order, all by root and of one time.
func writeTar(w io.Writer, at time.Time, entries []entry) error {
	t := tar.NewWriter(w)
	for _, e := range entries {
		content := e.content
		if e.file != "" {
			var err error
			if content, err = os.ReadFile(e.file); err != nil {
				return err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Size: int64(len(content)), ModTime: at}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(content); err != nil {
			return err
		}
	}
	return t.Close()
}
