package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Warnings returns what is legal but probably not what was meant, one line each, with its place in the file
// where it has one. Files that the configuration names are looked at now, because they may come and go
// while it holds.
func (c *Config) Warnings() []string {
	var out []string
	for _, p := range c.doubts {
		out = append(out, p.String())
	}
	for _, file := range c.files() {
		if err := readable(file.path); err != nil {
			out = append(out, fmt.Sprintf("target %q: %s: %v", file.target, file.key, err))
		}
	}
	return out
}

// namedFile is a file that a target reads while it runs.
type namedFile struct{ target, key, path string }

// files returns the files named by the targets' HTTP clients; a file that several name comes once.
func (c *Config) files() []namedFile {
	var list []namedFile
	seen := make(map[string]bool)
	for _, t := range c.Targets {
		var n yaml.Node
		if err := n.Encode(t.HTTPClientConfig); err != nil {
			continue // nothing that Parse made fails to encode, see the tests of Redacted
		}
		walkFiles(&n, "", func(key, path string) {
			if !seen[path] {
				seen[path] = true
				list = append(list, namedFile{t.Name, key, path})
			}
		})
	}
	return list
}

// walkFiles calls found for each value below n whose key says that it is the name of a file.
func walkFiles(n *yaml.Node, path string, found func(key, path string)) {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		key, val := join(path, n.Content[i].Value), n.Content[i+1]
		switch {
		case strings.HasSuffix(key, "_file") && val.Value != "":
			found(key, val.Value)
		case strings.HasSuffix(key, ".files"):
			for _, item := range val.Content {
				found(key, item.Value)
			}
		default:
			walkFiles(val, key, found)
		}
	}
}

// readable returns why the file at path cannot be read, or nil.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Read(make([]byte, 1)); err != nil {
		var perr *fs.PathError
		if errors.As(err, &perr) {
			return err
		}
		return fmt.Errorf("%s is empty", path)
	}
	return nil
}
