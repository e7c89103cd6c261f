package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// results say where results go and how much is told meanwhile.
type results struct {
	out, dir, name string
	quiet          bool
}

// defaultOut is where results directories are made.
const defaultOut = "llm_prober-results"

func (r *results) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("out", "Folder in which the results directory NAME-DATE-TIME is made.").Default(defaultOut).StringVar(&r.out)
	cmd.Flag("dir", "The results directory itself, instead; it must not exist or be empty.").PlaceHolder("DIR").StringVar(&r.dir)
	cmd.Flag("name", "Name of the run; that of the experiment if omitted.").PlaceHolder("NAME").StringVar(&r.name)
	cmd.Flag("quiet", "Print the table, and beside it only what is wrong.").Short('q').BoolVar(&r.quiet)
}

// folder is the results directory of a run that begins now. It is there, and empty.
func (r *results) folder(name string) (string, error) {
	if r.dir == "" {
		return experiment.MakeFreeDir(r.out, name, time.Now())
	}
	dir := filepath.Clean(r.dir)
	return dir, experiment.MakeDir(dir)
}

// unmade tells why there is no results directory, and returns the exit code.
func unmade(stderr io.Writer, err error) int {
	tell(stderr, "%v", err)
	if errors.Is(err, experiment.ErrExists) {
		return exitUsage
	}
	return exitFailed
}

// tell writes a line for the user.
func tell(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "probetool: "+format+"\n", args...)
}

// tellLeft tells which lines of a results directory were left out: the first few, and how many more.
func tellLeft(stderr io.Writer, dir string, left *experiment.LeftOut) {
	if left.None() {
		return
	}
	for _, l := range left.Lines {
		tell(stderr, "left out: %s", filepath.Join(dir, l.String()))
	}
	if more := left.Count - len(left.Lines); more > 0 {
		tell(stderr, "left out: %d more lines of %s", more, dir)
	}
}

// frugalBytes is what a command that only reads results should keep to: beyond it, memory is given back at the cost of
// time.
const frugalBytes = 240 << 20

// frugal keeps the process to frugalBytes where it can, until the returned function is called. What GOMEMLIMIT says
// comes first. A command that measures has no such limit, for collecting garbage would make it late.
func frugal() (restore func()) {
	before := debug.SetMemoryLimit(-1)
	if before == math.MaxInt64 {
		debug.SetMemoryLimit(frugalBytes)
	}
	return func() { debug.SetMemoryLimit(before) }
}
