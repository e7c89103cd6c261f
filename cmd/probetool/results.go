package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/sweep"
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

// folder is the results directory of a run that begins now.
func (r *results) folder(name string) string {
	if r.dir != "" {
		return filepath.Clean(r.dir)
	}
	return sweep.FreeDir(r.out, name, time.Now())
}

// tell writes a line for the user.
func tell(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "probetool: "+format+"\n", args...)
}
