package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// headCommit asks git what is checked out.
func headCommit() (c commit, err error) {
	if c.revision, err = output("git", "rev-parse", "HEAD"); err != nil {
		return c, err
	}
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	if epoch == "" {
		if epoch, err = output("git", "show", "--no-patch", "--format=%ct", "HEAD"); err != nil {
			return c, err
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return c, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	c.at = time.Unix(seconds, 0).UTC()
	described, err := output("git", "describe", "--tags", "--match=v[0-9]*", "--always", "--abbrev=12", "--dirty=.dirty")
	c.version = versionOf(described, c.at)
	return c, err
}

// sinceTag is what git describe says of a commit after a tag: the tag, the number of commits, the commit.
var sinceTag = regexp.MustCompile(`^v(.+)-([0-9]+)-(g[0-9a-f]{12}(?:\.dirty)?)$`)

// versionOf turns what git describe says into a version that comes after those before, for packages too: a commit after
// v1.2.3 is 1.2.3+5.gCOMMIT, and one before any tag 0.0.0-TIME.gCOMMIT.
func versionOf(described string, at time.Time) string {
	if m := sinceTag.FindStringSubmatch(described); m != nil {
		return m[1] + "+" + m[2] + "." + m[3]
	}
	if tag, ok := strings.CutPrefix(described, "v"); ok {
		return strings.Replace(tag, ".dirty", "+dirty", 1)
	}
	return "0.0.0-" + at.Format("20060102150405") + ".g" + described
}

// build compiles the programs for a platform, with nothing of the machine in them.
func build(c commit, p platform, folder string) error {
	const pkg = "github.com/prometheus/common/version"
	flags := fmt.Sprintf("-s -w -X %[1]s.Version=%[2]s -X %[1]s.Revision=%[3]s -X %[1]s.Branch=HEAD", pkg, c.version, c.revision)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", folder+string(os.PathSeparator), "./cmd/...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building for %s/%s: %w", p.os, p.arch, err)
	}
	return nil
}

// output runs a program and returns what it prints, without the line's end.
func output(name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", cmd, err)
	}
	return strings.TrimSpace(string(text)), nil
}
