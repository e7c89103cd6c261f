package main

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/llm-prober/llm_prober/internal/sweep"
)

// finish makes of a run all that can be made of it, and returns the exit code.
func (o *product) finish(run *sweep.Run) int {
	summary := sweep.Summarize(run)
	if err := sweep.WriteTable(o.stdout, &summary); err != nil {
		tell(o.stderr, "printing the table: %v", err)
	}
	o.derive(run, &summary)
	return o.verdict(run, &summary)
}

// derive writes the files that are made of the others.
func (o *product) derive(run *sweep.Run, summary *sweep.Summary) {
	for _, file := range []struct {
		name string
		make func() ([]byte, error)
	}{
		{sweep.SummaryFile, func() ([]byte, error) { return indented(summary) }},
	} {
		data, err := file.make()
		if err == nil {
			err = o.store.Write(file.name, data)
		}
		if err != nil && o.broken == nil {
			o.broken = err
			tell(o.stderr, "%v", err)
		}
	}
}

func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return out.Bytes(), err
}

// verdict tells what is wrong with the run, and returns the exit code.
func (o *product) verdict(run *sweep.Run, summary *sweep.Summary) int {
	interrupted := slices.ContainsFunc(run.Levels, func(l sweep.LevelRun) bool { return l.Cut == "interrupted" })
	switch {
	case o.broken != nil:
		return exitFailed
	case interrupted:
		return exitInterrupted
	}
	code := exitOK
	for _, l := range summary.Levels {
		if len(l.Doubts) > 0 {
			code = exitFailed
		}
	}
	return code
}
