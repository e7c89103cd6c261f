package main

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kingpin/v2"

	"github.com/llm-prober/llm_prober/internal/config"
)

// fromFile says that a target of a configuration file is asked, with all that the file says of it.
type fromFile struct{ file, target, workload string }

func (f *fromFile) flags(cmd *kingpin.CmdClause) {
	cmd.Flag("config.file", "Ask a target of this configuration file, as the daemon would reach it.").PlaceHolder("FILE").StringVar(&f.file)
	cmd.Flag("target", "Which target of the file; needed if there are several.").PlaceHolder("NAME").StringVar(&f.target)
}

// workloadFlag adds the flag for a workload, from which the request is made.
func (f *fromFile) workloadFlag(cmd *kingpin.CmdClause) {
	cmd.Flag("workload", "Which workload of that target; the first if omitted. Flags hold in place of its keys.").PlaceHolder("NAME").StringVar(&f.workload)
}

// choice is what was chosen; nil if no file is named. ruledOut are values of flags that a file has no room for, by the
// names of the flags. The error is about flags or about the file.
func (f *fromFile) choice(ruledOut map[string]string) (*config.Choice, error) {
	switch without := f.file == ""; {
	case without && f.target != "":
		return nil, errors.New("--target: names one of a configuration file: give --config.file too")
	case without && f.workload != "":
		return nil, errors.New("--workload: names one of a configuration file: give --config.file too")
	case without:
		return nil, nil
	}
	for flag, value := range ruledOut {
		if value != "" {
			return nil, fmt.Errorf("%s: cannot go with --config.file, which says how the server is reached", flag)
		}
	}
	cfg, err := config.Load(f.file)
	if err != nil {
		return nil, err
	}
	return cfg.Choose(f.target, f.workload)
}
