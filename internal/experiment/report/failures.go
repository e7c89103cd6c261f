package report

import (
	"strconv"

	"github.com/llm-prober/llm_prober/internal/experiment"
	"github.com/llm-prober/llm_prober/internal/humanize"
)

// maxFailureRows bounds the list of failures. There are about twenty reasons a level.
const maxFailureRows = 100

// failure is the requests of a level that failed for one reason.
type failure struct {
	Level, Reason, Status, After, Error string
	Count                               int
}

// failures lists why requests failed, by level and reason, each with what the first one said.
func failures(run *experiment.Run, levels []experiment.LevelSummary) []failure {
	type kind struct {
		level  int
		reason string
	}
	var all []failure
	at := map[kind]int{}
	name := namesOf(levels)
	for i := range levels {
		l := &levels[i]
		if l.Failed == 0 {
			continue
		}
		for r := range run.Each(l.Index) {
			if r.OK() || r.Abandoned || r.Warmup {
				continue
			}
			k := kind{l.Index, string(r.Reason)}
			if n, is := at[k]; is {
				all[n].Count++
			} else if len(all) < maxFailureRows {
				at[k] = len(all)
				all = append(all, newFailure(run, name(l.Level), r))
			}
		}
	}
	return all
}

// newFailure tells what a request that failed said. It is of a level that was begun.
func newFailure(run *experiment.Run, name string, r *experiment.Request) failure {
	of := level{LevelRun: run.Levels[r.Level]}
	f := failure{
		Level: name, Reason: clean(string(r.Reason)), Status: humanize.Unknown, After: humanize.Seconds(of.since(r.Ended)),
		Count: 1,
	}
	if r.Err != nil {
		f.Error = clean(r.Err.Error())
	}
	if r.Status != 0 {
		f.Status = strconv.Itoa(r.Status)
	}
	return f
}
