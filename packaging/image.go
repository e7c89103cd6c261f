package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	imageName = "ghcr.io/llm-prober/llm_prober"
	source    = "https://github.com/llm-prober/llm_prober"
	// imageUser is a number: the kubelet cannot tell that a name is not root's. It needs no /etc/passwd.
	imageUser = "65532:65532"
)

// image writes one image for each Linux, as a tar of an OCI layout.
func (r *release) image(binaries string) error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		image, err := r.imageFor(p, p.folder(binaries))
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	folder, err := os.MkdirTemp("", "llm_prober-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	at, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	tag := strings.ReplaceAll(r.version, "+", "-") // which a tag may not have
	err = at.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
		"io.containerd.image.name":          imageName + ":" + tag,
	}))
	if err != nil {
		return err
	}
	entries, err := filesBelow(folder)
	if err != nil {
		return err
	}
	return r.write("llm_prober-"+r.version+".image.tar", func(w io.Writer) error { return writeTar(w, r.at, entries) })
}

// imageFor makes the image of a platform: the programs and the certificates of authorities, and nothing else.
func (r *release) imageFor(p platform, folder string) (v1.Image, error) {
	entries := []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, content: authorities()},
		{name: "bin/", mode: 0o755},
	}
	for _, program := range programs {
		entries = append(entries, entry{name: "bin/" + program, mode: 0o755, file: filepath.Join(folder, program)})
	}
	var content bytes.Buffer
	if err := writeTar(&content, r.at, entries); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: r.at}
	config.History = []v1.History{{Created: v1.Time{Time: r.at}, CreatedBy: source, Comment: r.revision}}
	config.Config = v1.Config{
		User:         imageUser,
		Entrypoint:   []string{"/bin/llm_prober"},
		Cmd:          []string{"--config.file=/etc/llm_prober/llm_prober.yml"},
		ExposedPorts: map[string]struct{}{"9877/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "llm_prober",
			"org.opencontainers.image.source":   source,
			"org.opencontainers.image.version":  r.version,
			"org.opencontainers.image.revision": r.revision,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// authorities are the certificates of Mozilla's list that are trusted without conditions, in PEM.
func authorities() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil { // a PEM file has no place for it
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return b.Bytes()
}

// filesBelow lists the files below a folder, in the order of their names.
func filesBelow(folder string) (entries []entry, err error) {
	err = filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		entries = append(entries, entry{name: filepath.ToSlash(name), file: file, mode: 0o644})
		return err
	})
	return entries, err
}
