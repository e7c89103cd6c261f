package analyze

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// WriteComparison writes a comparison for a terminal of 120 columns: what differs, and of each load the figures that
// tell most, with the ratios' intervals.
func WriteComparison(w io.Writer, c *Comparison) error {
	var b strings.Builder
	if len(c.Differences) > 0 {
		rows := [][]string{{"", "A: " + c.A, "B: " + c.B}}
		for _, d := range c.Differences {
			rows = append(rows, []string{d.What, scrub.Text(d.A, maxColumn), scrub.Text(d.B, maxColumn)})
		}
		align(&b, "<<<", rows)
	}
	for _, warning := range c.Warnings {
		wrap(&b, "! ", warning)
	}
	for i := range c.Curves {
		c.Curves[i].write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// maxColumn is how many characters of a value fit into a column.
const maxColumn = 45

// mainMetrics are the metrics of a comparison that its table shows.
func mainMetrics() []string {
	return []string{rateMetric, "ttft_p50", "ttft_p95", "itl_p50", "itl_p95", "duration_p50"}
}

func (c *CurveComparison) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s\n", c.Curve)
	rows := [][]string{{"load", "", "A", "B", "B/A", "95 % interval", ""}}
	for _, l := range c.Levels {
		first := l.Load
		for _, m := range l.Metrics {
			if slices.Contains(mainMetrics(), m.Metric) {
				rows = append(rows, append([]string{first}, m.row()...))
				first = ""
			}
		}
	}
	align(b, "<<>>>><", rows)
	for _, only := range []struct {
		run   string
		loads []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(only.loads) > 0 {
			wrap(b, "- ", fmt.Sprintf("only %s measured %s", only.run, strings.Join(only.loads, ", ")))
		}
	}
	wrap(b, "", c.Text)
}

func (m *MetricComparison) row() []string {
	write := humanize.Seconds
	if m.Metric == rateMetric {
		write = humanize.Number
	}
	return []string{
		caption(m.Metric), write(float64(m.A.Value)), write(float64(m.B.Value)), humanize.Number(float64(m.Ratio.Value)),
		humanize.Range(float64(m.Ratio.Low), float64(m.Ratio.High), humanize.Number), string(m.Change),
	}
}
