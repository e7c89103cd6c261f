package main

import (
	"archive/tar"
	"bytes"
	stdcmp "cmp"
	"compress/gzip"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/blakesmith/ar"
	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/sassoftware/go-rpmutils"
)

var update = flag.Bool("update", false, "write testdata/contents.txt anew")

// fake packs programs that are none, so that nothing is compiled.
func fake(t *testing.T) (folder string) {
	t.Helper()
	binaries := t.TempDir()
	for _, p := range platforms {
		folder := p.folder(binaries)
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if err := os.WriteFile(filepath.Join(folder, program), []byte(program+" for "+p.arch), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	out := t.TempDir()
	c := commit{version: "1.2.3-rc.1", revision: strings.Repeat("ab", 20), at: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if err := pack(c, binaries, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// onePlatform gives all platforms the same name.
var onePlatform = strings.NewReplacer("darwin", "linux", "arm64", "amd64", "aarch64", "x86_64")

// Every file that users get, with its mode and owner: testdata/contents.txt is to be read when it changes.
func TestContents(t *testing.T) {
	t.Chdir("..")
	out := fake(t)
	sums := read(t, filepath.Join(out, "sha256sums.txt"))
	if again := read(t, filepath.Join(fake(t), "sha256sums.txt")); again != sums {
		t.Errorf("the same programs packed twice:\n%s\n%s", sums, again)
	}
	lists := map[string]string{} // by name; all platforms have the same
	for line := range strings.Lines(sums) {
		file := strings.Fields(line)[1]
		list, err := contents(filepath.Join(out, file))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name, text := onePlatform.Replace(file), strings.Join(list, "\n\t")
		if !strings.HasSuffix(file, ".image.tar") { // it has all platforms
			text = onePlatform.Replace(text)
		}
		if before, ok := lists[name]; ok && before != text {
			t.Errorf("%s differs from that of another platform:\n%s", file, cmp.Diff(before, text))
		}
		lists[name] = text
	}
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		fmt.Fprintf(&got, "%s\n\t%s\n", name, lists[name])
	}
	golden := filepath.Join("packaging", "testdata", "contents.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(read(t, golden), got.String()); d != "" {
		t.Errorf("%s differs; go test -update writes it anew (-want +got):\n%s", golden, d)
	}
}

// What the unit names is in the packages.
func TestUnit(t *testing.T) {
	packed := read(t, filepath.Join("testdata", "contents.txt"))
	unit := read(t, filepath.Join("files", "llm_prober.service"))
	for _, key := range []string{"User", "Group", "EnvironmentFile", "ExecStart"} {
		value := regexp.MustCompile(`(?m)^` + key + `=(.*)$`).FindStringSubmatch(unit)
		if value == nil {
			t.Fatalf("the unit has no %s", key)
		}
		for _, word := range strings.Fields(value[1]) {
			word = strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-config.file=")
			if word != "$ARGS" && !strings.Contains(packed, word) {
				t.Errorf("%s: no package has %s", key, word)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	at := time.Date(2026, 1, 2, 23, 0, 0, 0, time.UTC)
	for described, want := range map[string]string{
		"v1.2.3":                       "1.2.3",
		"v1.2.3-rc.1":                  "1.2.3-rc.1",
		"v1.2.3.dirty":                 "1.2.3+dirty",
		"v1.2.3-5-g0123456789ab":       "1.2.3+5.g0123456789ab",
		"v1.2.3-rc.1-5-g0123456789ab":  "1.2.3-rc.1+5.g0123456789ab",
		"v1.2.3-5-g0123456789ab.dirty": "1.2.3+5.g0123456789ab.dirty",
		"0123456789ab":                 "0.0.0-20260102230000.g0123456789ab",
		"0123456789ab.dirty":           "0.0.0-20260102230000.g0123456789ab.dirty",
	} {
		if got := versionOf(described, at); got != want {
			t.Errorf("git describe says %s: %s, want %s", described, got, want)
		}
	}
}

// contents lists a file of the release: a line each for what is in it, and for what it says of itself.
func contents(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch filepath.Ext(file) {
	case ".gz":
		return listGzip(f)
	case ".deb":
		return listDeb(f)
	case ".rpm":
		return listRPM(f)
	case ".tar":
		return listImage(f)
	}
	return nil, fmt.Errorf("an unknown kind of file")
}

func listDeb(r io.Reader) (list []string, err error) {
	for members := ar.NewReader(r); ; {
		h, err := members.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, h.Name)
		if strings.HasSuffix(strings.TrimRight(h.Name, "/"), ".tar.gz") {
			files, err := listGzip(members)
			if err != nil {
				return nil, err
			}
			list = append(list, files...)
		}
	}
}

func listRPM(r io.Reader) (list []string, err error) {
	p, err := rpmutils.ReadRpm(r)
	if err != nil {
		return nil, err
	}
	for _, tag := range []int{rpmutils.NAME, rpmutils.VERSION, rpmutils.RELEASE, rpmutils.ARCH, rpmutils.BUILDHOST} {
		text, err := p.Header.GetString(tag)
		if err != nil {
			return nil, err
		}
		list = append(list, text)
	}
	files, err := p.Header.GetFiles()
	for _, f := range files {
		line := fmt.Sprintf("%06o %s/%s %s", f.Mode(), f.UserName(), f.GroupName(), f.Name())
		if f.Flags()&rpmutils.RPMFILE_CONFIG != 0 {
			line += " (config)"
		}
		list = append(list, line)
	}
	return list, err
}

func listImage(r io.Reader) (list []string, err error) {
	folder, err := os.MkdirTemp("", "llm_prober-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	err = eachFile(r, func(h *tar.Header, content io.Reader) error {
		file := filepath.Join(folder, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		return os.WriteFile(file, data, 0o644)
	})
	if err != nil {
		return nil, err
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, err
	}
	top, err := root.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, named := range top.Manifests {
		for _, key := range slices.Sorted(maps.Keys(named.Annotations)) {
			list = append(list, key+"="+named.Annotations[key])
		}
		index, err := root.ImageIndex(named.Digest)
		if err != nil {
			return nil, err
		}
		m, err := index.IndexManifest()
		if err != nil {
			return nil, err
		}
		for _, of := range m.Manifests {
			image, err := index.Image(of.Digest)
			if err != nil {
				return nil, err
			}
			files, err := listOneImage(image)
			if err != nil {
				return nil, err
			}
			list = append(list, of.Platform.String())
			list = append(list, files...)
		}
	}
	return list, nil
}

func listOneImage(image v1.Image) (list []string, err error) {
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	list = append(list, fmt.Sprintf("%s/%s, user %s, %q %q", config.OS, config.Architecture, config.Config.User, config.Config.Entrypoint, config.Config.Cmd))
	for _, key := range slices.Sorted(maps.Keys(config.Config.Labels)) {
		list = append(list, key+"="+config.Config.Labels[key])
	}
	content := mutate.Extract(image)
	defer content.Close()
	files, err := listTar(content)
	return append(list, files...), err
}

func listGzip(r io.Reader) ([]string, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return listTar(z)
}

// listTar lists the files of an archive, with the content of those that tell of a package. An owner without a name is
// root.
func listTar(r io.Reader) (list []string, err error) {
	err = eachFile(r, func(h *tar.Header, content io.Reader) error {
		list = append(list, fmt.Sprintf("%04o %s/%s %s", h.Mode, stdcmp.Or(h.Uname, "root"), stdcmp.Or(h.Gname, "root"), h.Name))
		if h.Name == "./control" || h.Name == "./conffiles" {
			var text bytes.Buffer
			if _, err := text.ReadFrom(content); err != nil {
				return err
			}
			for line := range strings.Lines(text.String()) {
				if !strings.HasPrefix(line, "Installed-Size: ") { // any change of a dashboard changes it
					list = append(list, strings.TrimRight(line, "\n"))
				}
			}
		}
		return nil
	})
	return list, err
}

func eachFile(r io.Reader, do func(*tar.Header, io.Reader) error) error {
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := do(h, t); err != nil {
			return err
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
