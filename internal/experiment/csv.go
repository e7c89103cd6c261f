package experiment

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteCSV writes a summary as CSV: a row of column names, then one row a level. Units are seconds, tokens and
// requests; what is not known is empty. Columns may be added at the end, none changes.
func WriteCSV(w io.Writer, s *Summary) error {
	out := csv.NewWriter(w)
	header := true
	for i := range s.Levels {
		var names, values []string
		for _, cell := range s.Levels[i].cells() {
			names, values = append(names, cell.column), append(values, cell.value)
		}
		if header {
			out.Write(names)
			header = false
		}
		out.Write(values)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("writing the summary as CSV: %w", err)
	}
	return nil
}

// cell is a value under its column's name.
type cell struct{ column, value string }

func (l *LevelSummary) cells() []cell {
	cells := []cell{
		{"level", strconv.Itoa(l.Index)},
		{"concurrency", blankZero(float64(l.Level.Concurrency))},
		{"rate_per_second", blankZero(l.Level.Rate)},
		{"arrival", string(l.Level.Arrival)},
		{"prompt_tokens", strconv.Itoa(l.Level.PromptTokens)},
		{"output_tokens", strconv.Itoa(l.Level.OutputTokens)},
		{"requests", strconv.Itoa(l.Requests)},
		{"failed", strconv.Itoa(l.Failed)},
		{"missed", strconv.Itoa(l.Missed)},
		figure("prompt_tokens_mean", l.PromptTokens),
		figure("output_tokens_mean", l.OutputTokens),
		figure("cached_prompt_tokens_mean", l.CachedTokens),
		figure("requests_per_second", l.RequestRate),
		figure("goodput_requests_per_second", l.Goodput),
	}
	cells = append(cells, estimate("output_tokens_per_second", l.OutputRate)...)
	cells = append(cells, estimate("steady_output_tokens_per_second", l.SteadyRate)...)
	for _, d := range []struct {
		name         string
		distribution Distribution
	}{
		{"ttft", l.TTFT}, {"ttft_from_schedule", l.TTFTFromSchedule}, {"itl", l.ITL}, {"tpot", l.TPOT}, {"duration", l.Duration},
	} {
		cells = append(cells, d.distribution.cells(d.name)...)
	}
	return append(cells,
		figure("in_flight_mean", l.InFlight),
		figure("peak_running", l.PeakRunning),
		figure("peak_waiting", l.PeakWaiting),
		figure("drain_seconds", l.Drain),
		cell{"doubts", kinds(l.Doubts)},
		cell{"notes", kinds(l.Notes)},
	)
}

func (d Distribution) cells(name string) []cell {
	cells := []cell{{name + "_count", strconv.Itoa(d.Count)}}
	for _, e := range []struct {
		name  string
		value Estimate
	}{{"mean", d.Mean}, {"p50", d.P50}, {"p90", d.P90}, {"p95", d.P95}, {"p99", d.P99}} {
		cells = append(cells, estimate(name+"_"+e.name+"_seconds", e.value)...)
	}
	return append(cells, figure(name+"_min_seconds", d.Min), figure(name+"_max_seconds", d.Max))
}

func estimate(column string, e Estimate) []cell {
	return []cell{figure(column, e.Value), figure(column+"_low", e.Low), figure(column+"_high", e.High)}
}

func figure(column string, f Figure) cell {
	if !f.Known() || math.IsInf(float64(f), 0) {
		return cell{column, ""}
	}
	return cell{column, strconv.FormatFloat(float64(f), 'g', 9, 64)}
}

// blankZero is a load that a level of the other kind does not have.
func blankZero(x float64) string {
	if x == 0 {
		return ""
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

func kinds(doubts []Doubt) string {
	var list []string
	for _, d := range doubts {
		list = append(list, d.Kind)
	}
	return strings.Join(list, ";")
}
