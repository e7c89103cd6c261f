package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"

	promconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v3"
)

// namedFile is a file that a target or a service discovery reads while it runs, and where it is named.
type namedFile struct {
	at   Problem
	path string
}

// Warnings returns what is legal but probably not what was meant, one line each, with its place in the file
// where it has one. Files that the configuration names are looked at now, because they may come and go
// while it holds.
func (c *Config) Warnings() []string {
	var out []string
	for _, p := range c.doubts {
		out = append(out, p.String())
	}
	for _, p := range c.fileDoubts() {
		out = append(out, p.String())
	}
	return out
}

// filesOf notes the files that n of key, an HTTP client or service discoveries, names, relative to dir: each value whose key says so.
func (d *decoder) filesOf(n *yaml.Node, key, dir string) {
	each(n, key, func(key string, _, n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Value != "" && (strings.HasSuffix(key, "_file") || strings.Contains(key, ".files[")) {
			d.files = append(d.files, namedFile{d.place(n, key), promconfig.JoinDir(dir, n.Value)})
		}
	})
}

// fileDoubts says of each file that is named what is wrong with it now, once.
func (c *Config) fileDoubts() (doubts Errors) {
	seen := make(map[string]bool)
	for _, f := range c.files {
		if seen[f.path] {
			continue
		}
		seen[f.path] = true
		if msg := fileDoubt(f.at.Key, f.path); msg != "" {
			f.at.Msg = msg
			doubts = append(doubts, f.at)
		}
	}
	return doubts
}

// maxSecret bounds what is read of a file that is named, in bytes. A bundle of authorities may be longer; its first
// certificate is not.
const maxSecret = 64 << 10

// fileDoubt says what is wrong with the file that a key names; empty: nothing. Its content is not repeated.
func fileDoubt(key, path string) string {
	if strings.Contains(key, ".file_sd_configs[") {
		if found, err := filepath.Glob(path); err != nil || len(found) == 0 {
			return path + " matches no file: the group finds nothing there until there is one"
		}
		return ""
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return path + " is not a regular file: it is read for each request, and opening it may wait for ever"
	}
	data, err := head(path)
	pem := strings.HasSuffix(key, "ca_file") || strings.HasSuffix(key, "cert_file") || strings.HasSuffix(key, "key_file")
	text := bytes.TrimSpace(data)
	switch {
	case err != nil && strings.Contains(key, "_sd_configs["):
		return fmt.Sprintf("%v; until the file is there, the group finds nothing new", err)
	case strings.HasSuffix(key, ".kubeconfig_file"):
		return ""
	case err != nil && pem:
		return fmt.Sprintf("%v; until the file is there, probes of the target fail as tls", err)
	case err != nil:
		return fmt.Sprintf("%v; until the file is there, probes of the target fail as auth", err)
	case len(text) == 0:
		return path + " is empty"
	case marked(data):
		return path + " begins with a byte order mark, which would be sent: save it as UTF-8 without one"
	case pem && !bytes.Contains(data, []byte("-----BEGIN ")):
		return path + " holds no PEM block"
	case pem:
	case len(data) > maxSecret:
		return fmt.Sprintf("%s is larger than %d KiB: is it the right file?", path, maxSecret>>10)
	case bytes.ContainsAny(text, "\r\n"):
		return path + " has several lines, and is used whole: a header has one line"
	case bytes.ContainsFunc(text, unicode.IsControl):
		return path + " has control characters: a header has none"
	case strings.HasSuffix(key, "authorization.credentials_file") && bytes.HasPrefix(bytes.ToLower(text), []byte("bearer ")):
		return path + ` begins with "Bearer ", which is added anyway: it holds the key alone`
	}
	return ""
}

// marked reports a byte order mark of UTF-8 or UTF-16.
func marked(data []byte) bool {
	for _, mark := range []string{"\xEF\xBB\xBF", "\xFE\xFF", "\xFF\xFE"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return true
		}
	}
	return false
}

// head reads the beginning of a file, more than maxSecret of it if there is more. An empty file is an error.
func head(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a pipe since it was looked at
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	var perr *fs.PathError
	switch {
	case errors.As(err, &perr):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}
