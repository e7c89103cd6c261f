package web

import (
	"fmt"
	"time"

	"github.com/llm-prober/llm_prober/internal/humanize"
	"github.com/llm-prober/llm_prober/internal/scrub"
)

// SLO is an objective for one workload of a target, and the verdicts given on its probes since the prober started.
type SLO struct {
	Workload  string
	Name      string
	Indicator string        // ttft, duration, success, itl_max or itl_p95
	Threshold time.Duration // 0: the indicator has none
	Objective float64       // share of good events that is promised, between 0 and 1
	Events    int
	Bad       int
}

// budgetLeft is the share of the error budget of the events so far that is not spent; negative if the objective is
// not held. It is unknown without events.
func (s SLO) budgetLeft() (left float64, known bool) {
	if s.Events == 0 || s.Objective >= 1 {
		return 0, false
	}
	return 1 - float64(s.Bad)/(float64(s.Events)*(1-s.Objective)), true
}

// sloRow is an SLO on a card.
type sloRow struct {
	Name, Rule, Good, Left string
	Broken                 bool
}

func newSLORow(s SLO) sloRow {
	row := sloRow{Name: scrub.Text(s.Name, maxName), Rule: fmt.Sprintf("%s for %s", scrub.Text(s.Indicator, maxWord), humanize.Share(s.Objective)), Good: "no verdict yet"}
	if s.Threshold > 0 {
		row.Rule = fmt.Sprintf("%s within %s for %s", scrub.Text(s.Indicator, maxWord), humanize.Chosen(s.Threshold.Seconds()), humanize.Share(s.Objective))
	}
	left, known := s.budgetLeft()
	if !known {
		return row
	}
	row.Good = fmt.Sprintf("%s of %s", humanize.Share(1-float64(s.Bad)/float64(s.Events)), humanize.Count(s.Events, "probe"))
	row.Broken = left < 0
	row.Left = "budget overdrawn"
	if !row.Broken {
		row.Left = humanize.Share(left) + " of the budget left"
	}
	return row
}
