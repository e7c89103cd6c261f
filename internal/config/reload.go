package config

import (
	"crypto/sha256"
	"sync"
)

// File is a configuration file that is read again while the program runs. Its methods may be called at once.
type File struct {
	path string

	mu   sync.Mutex
	seen [sha256.Size]byte // what the last Load found
}

// NewFile names a configuration file and reads nothing.
func NewFile(path string) *File { return &File{path: path} }

// Load is [Load], and notes what it found for Changed.
func (f *File) Load() (*Config, error) {
	data, err := readFile(f.path, "the configuration")
	f.mu.Lock()
	f.seen = found(data, err)
	f.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return Parse(f.path, data)
}

// Changed reports whether Load would find something else than it did the last time: another content, or another reason
// why there is none. Times and sizes of the file do not count, nor does where its symbolic links lead. Files that a
// configuration names do not count either: they are read when a request needs them.
func (f *File) Changed() bool {
	now := found(readFile(f.path, "the configuration"))
	f.mu.Lock()
	defer f.mu.Unlock()
	return now != f.seen
}

// found tells contents and errors apart.
func found(data []byte, err error) [sha256.Size]byte {
	if err != nil {
		return sha256.Sum256([]byte("error\x00" + err.Error()))
	}
	return sha256.Sum256(data) // no configuration holds a zero byte
}
