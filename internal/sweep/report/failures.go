package report

import (
	"strconv"

	"github.com/llm-prober/llm_prober/internal/sweep"
)

// maxFailureRows bounds the list of failures. There are about twenty reasons a level.
const maxFailureRows = 100

// failure is the requests of a level that failed for one reason.
type failure struct {
	Level, Reason, Status, After, Error string
	Count                               int
}

// failures lists why requests failed, by level and reason, each with what the first one said.
func failures(run *sweep.Run, levels []sweep.LevelSummary) []failure {
	type kind struct {
		level  int
		reason string
	}
	var all []failure
	at := map[kind]int{}
	name := namesOf(levels)
	for i := range run.Requests {
		r := &run.Requests[i]
		l := find(levels, r.Level)
		if r.OK() || r.Abandoned || r.Warmup || l == nil {
			continue
		}
		k := kind{r.Level, string(r.Reason)}
		if n, is := at[k]; is {
			all[n].Count++
			continue
		}
		if len(all) == maxFailureRows {
			continue
		}
		at[k] = len(all)
		f := failure{Level: name(l.Level), Reason: clean(k.reason), Status: unknown, After: unknown, Error: clean(r.Error), Count: 1}
		if r.Status != 0 {
			f.Status = strconv.Itoa(r.Status)
		}
		if r.Level >= 0 && r.Level < len(run.Levels) {
			of := level{LevelRun: run.Levels[r.Level]}
			f.After = formatSeconds(of.since(r.Ended))
		}
		all = append(all, f)
	}
	return all
}
