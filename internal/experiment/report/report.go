package report

import (
	"bytes"
	"fmt"
	"io"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// FileName is the name of the report in its directory.
const FileName = "report.html"

// Render writes the report of a run as one HTML file that needs no other. Run and summary are not changed.
func Render(w io.Writer, run *experiment.Run, summary experiment.Summary) error {
	p, err := newRunPage(run, &summary)
	if err != nil {
		return fmt.Errorf("preparing the report: %w", err)
	}
	return render(w, "run.html", p)
}

// Write writes the report of a run into a directory that exists: report.html, and each chart as chart-….svg. Files
// of these names are replaced.
func Write(dir string, run *experiment.Run, summary experiment.Summary) error {
	p, err := newRunPage(run, &summary)
	if err != nil {
		return fmt.Errorf("preparing the report: %w", err)
	}
	return write(dir, FileName, "run.html", p, p.Sections)
}

// write writes a page and the charts of its sections.
func write(dir, file, name string, page any, sections []section) error {
	var html bytes.Buffer
	if err := render(&html, name, page); err != nil {
		return fmt.Errorf("rendering the report: %w", err)
	}
	if err := experiment.WriteFile(dir, file, html.Bytes()); err != nil {
		return fmt.Errorf("the report: %w", err)
	}
	for _, s := range sections {
		for _, c := range s.Charts {
			if err := experiment.WriteFile(dir, "chart-"+c.Name+".svg", c.File()); err != nil {
				return fmt.Errorf("a chart of the report: %w", err)
			}
		}
	}
	return nil
}
