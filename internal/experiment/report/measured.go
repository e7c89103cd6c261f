package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/llm-prober/llm_prober/internal/chart"
	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// measured is what was measured, how, and what the words mean.
type measured struct {
	Server, Plan, Client []fact
	Health               chart.Table
	Definitions          []fact
}

type fact struct{ Name, Text string }

// facts collects what is known; what is empty is left out.
type facts []fact

func (f *facts) add(name, text string) {
	if text = clean(text); text != "" {
		*f = append(*f, fact{clean(name), text})
	}
}

func newMeasured(run *experiment.Run, levels []experiment.LevelSummary) measured {
	return measured{
		Server: serverFacts(&run.Facts), Plan: planFacts(&run.Plan), Client: clientFacts(&run.Facts),
		Health: health(levels), Definitions: definitions(),
	}
}

func serverFacts(f *experiment.Facts) facts {
	var all facts
	all.add("model of a server, on virtual time", f.Virtual)
	if f.URL != "" {
		all.add("address", cleanURL(f.URL))
	}
	all.add("engine", strings.TrimSpace(f.Engine+" "+f.Version))
	all.add("model", f.Model)
	if f.MaxContext > 0 {
		all.add("longest context", humanize.Count(f.MaxContext, "token"))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Server)) {
		all.add(name, f.Server[name])
	}
	if b := f.Before; b != nil {
		all.add("load before the run", fmt.Sprintf("%s output tok/s and %s prompt tok/s, %s running, %s waiting (mean over %s s)",
			humanize.Number(b.OutputTokensPerSecond), humanize.Number(b.PromptTokensPerSecond), humanize.Number(b.Running), humanize.Number(b.Waiting), humanize.Number(b.Seconds)))
	}
	return all
}

func planFacts(p *experiment.Plan) facts {
	var all facts
	all.add("name", p.Name)
	var levels []string
	for _, l := range p.Levels {
		text := l.String()
		if l.Arrival != "" && !l.Closed() {
			text += " (" + string(l.Arrival) + ")"
		}
		var ends []string
		if l.Requests > 0 {
			ends = append(ends, humanize.Count(l.Requests, "request"))
		}
		if l.Duration > 0 {
			ends = append(ends, span(l.Duration))
		}
		if len(ends) > 0 {
			text += " for " + strings.Join(ends, " or ")
		}
		levels = append(levels, text)
	}
	for i, l := range levels {
		all.add("level "+strconv.Itoa(i+1), l)
	}
	all.add("warm-up before each level", humanize.Count(p.Warmup, "request"))
	all.add("timeout of a request", span(p.Timeout))
	all.add("longest silence in an answer", span(p.StallTimeout))
	all.add("longest wait for the queue to drain", span(p.Settle))
	all.add("seed of Poisson arrivals", strconv.FormatUint(p.Seed, 10))
	for _, o := range p.SLOs {
		all.add("objective", objective(o))
	}
	return all
}

func span(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return humanize.Setting(d)
}

func clientFacts(f *experiment.Facts) facts {
	var all facts
	all.add("measured by", f.Tool)
	all.add("on", f.Host)
	if !f.Began.IsZero() && f.Virtual == "" {
		all.add("began", f.Began.UTC().Format(time.RFC3339))
	}
	if !f.Ended.IsZero() && f.Virtual == "" {
		all.add("ended", f.Ended.UTC().Format(time.RFC3339))
	}
	return all
}

// health is how the client fared at each level.
func health(levels []experiment.LevelSummary) chart.Table {
	name := namesOf(levels)
	t := chart.Table{Head: []string{"level", "CPU time", "memory", "start delay p99", "longest read delay", "TTFTs withheld", "gaps withheld", "kernel time stamps", "processors", "load average"}}
	for i := range levels {
		c := levels[i].Client
		if c == (experiment.Client{}) {
			continue
		}
		stamps := "no"
		if c.KernelStamps {
			stamps = "yes"
		}
		t.Rows = append(t.Rows, chart.Row{Name: name(levels[i].Level), Cells: []chart.Cell{
			{Value: humanize.Number(c.CPUSeconds) + " s"},
			{Value: humanize.Bytes(c.MaxRSSBytes)},
			{Value: humanize.Seconds(c.StartDelayP99)},
			{Value: humanize.Seconds(c.ReadDelayMax)},
			{Value: humanize.Share(c.LateTTFTRatio)},
			{Value: humanize.Share(c.LateGapsRatio)},
			{Value: stamps},
			{Value: strconv.Itoa(c.GoMaxProcs)},
			{Value: humanize.Number(c.LoadAverage)},
		}})
	}
	return t
}

// definitions says in short what docs/definitions.md says at length.
func definitions() []fact {
	return []fact{
		{"TTFT (seconds)", "Time to first token: from the first byte of the request written on the ready connection to the arrival of the first event that carries a token. Queueing and prefill are in it, connecting is not."},
		{"TTFT from schedule (seconds)", "The same, but from when the request was due: of a closed loop when the answer before it ended. It also counts connecting and whatever held the request back."},
		{"ITL (seconds)", "Inter-token latency: the gap between neighbouring token events, a sample a gap, over all answers of a level. Its p95 is about slow gaps, not slow answers."},
		{"TPOT (seconds)", "Time per output token: of one answer, the time from the first to the last token event over the tokens after the first event."},
		{"Duration (seconds)", "From the first byte of the request to the last token event."},
		{"Output tokens per second", "Over the whole level: tokens of all answers from the first request sent to the last token, start and end included. While full: only from when the load was reached and settled to when the last request was sent."},
		{"Goodput (requests per second)", "Requests that by themselves held every objective."},
		{"p50, p95, p99", "Half, 95 % and 99 % of the samples are no higher. The interval behind a figure holds the true one with 95 % confidence; ≥ means that the samples are too few for an upper bound."},
		{"Failed", "No HTTP 200, no token, no end of the stream, or an error in it. A failed request is in no latency; for an objective it counts as slower than any bound."},
		{"Operating point", "The highest load that holds every objective, together with all loads below it. The knee is the load from which on twice the load brings less than 10 % more throughput."},
		{"Running, waiting", "Requests that the server works on and those in its queue, by its own gauges, once a second."},
		{"Drain (seconds)", "From the last request sent to the last answer's end."},
	}
}
