package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/experiment/analyze"
	"github.com/llm-prober/llm_prober/internal/experiment/report"
)

// finish makes of a run all that can be made of it, and returns the exit code.
func (p *product) finish(run *experiment.Run) int {
	summary := analyze.Summarize(run)
	if err := analyze.WriteTable(p.stdout, &summary); err != nil {
		p.fails(fmt.Errorf("printing the table: %w", err))
	}
	p.fails(derive(p.store.Dir(), run, &summary))
	if p.broken == nil && !p.quiet {
		tell(p.stderr, "the report is %s", filepath.Join(p.store.Dir(), report.FileName))
	}
	return p.verdict(&summary)
}

// fails tells of an error that makes the run fail, if there is one.
func (p *product) fails(err error) {
	if err != nil {
		p.broken = err
		tell(p.stderr, "%v", err)
	}
}

// derive writes the files of a results directory that are made of the others. It stops at the first that fails: the
// disk is full, mostly.
func derive(dir string, run *experiment.Run, summary *experiment.Summary) error {
	var csv bytes.Buffer
	data, err := indented(summary)
	if err != nil {
		return fmt.Errorf("encoding the summary: %w", err)
	}
	if err := experiment.WriteCSV(&csv, summary); err != nil {
		return err
	}
	for name, data := range map[string][]byte{experiment.SummaryFile: data, experiment.SummaryCSVFile: csv.Bytes()} {
		if err := experiment.WriteFile(dir, name, data); err != nil {
			return err
		}
	}
	return report.Write(dir, run, *summary)
}

func indented(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return out.Bytes(), err
}

// verdict returns the exit code of a run, and says why it is not 0.
func (p *product) verdict(summary *experiment.Summary) int {
	var doubted []string
	for i := range summary.Levels {
		if l := &summary.Levels[i]; len(l.Doubts) > 0 {
			kinds := []string{}
			for _, d := range l.Doubts {
				kinds = append(kinds, d.Kind)
			}
			doubted = append(doubted, fmt.Sprintf("%s (%s)", l.Level, strings.Join(kinds, ", ")))
		}
	}
	switch {
	case p.interrupted:
		tell(p.stderr, "interrupted; what was measured is in %s", p.store.Dir())
		return exitInterrupted
	case p.broken != nil:
		return exitFailed
	case len(doubted) > 0:
		tell(p.stderr, "not to be trusted: %s", strings.Join(doubted, "; "))
		return exitFailed
	}
	return exitOK
}
