package main

import (
	"io"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// pack writes the package of a format, as nfpm.yaml describes it.
func (r *release) pack(format, arch, folder string) error {
	values := map[string]string{"ARCH": arch, "VERSION": r.version, "BIN": folder}
	config, err := nfpm.ParseFileWithEnvMapping("packaging/nfpm.yaml", func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.at
	info = nfpm.WithDefaults(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	return r.write(packager.ConventionalFileName(info), func(w io.Writer) error { return packager.Package(info, w) })
}
