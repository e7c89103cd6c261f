package report

import (
	"slices"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// namer names a level by what tells it from the other levels of its run.
type namer func(experiment.Level) string

// namesOf is the shortest namer for some levels.
func namesOf(levels []experiment.LevelSummary) namer {
	for _, name := range []namer{experiment.Level.Load, experiment.Level.Shape} {
		var seen []string
		for i := range levels {
			n := name(levels[i].Level)
			if slices.Contains(seen, n) {
				break
			}
			seen = append(seen, n)
		}
		if len(seen) == len(levels) && len(levels) > 1 {
			return name
		}
	}
	return experiment.Level.String
}
